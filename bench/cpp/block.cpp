// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <atomic>
#include <flyring/flyring.hpp>
#include <thread>

#include "contenders.hpp"
#include "flyring.hpp"
#include "harness.hpp"
#include "support.hpp"

namespace bench {
namespace {

/// Flyring with verbs that wait without spinning first: set_spin(0). `--option spin=MICROSECONDS`: with spinning.
class FlyringBlock : public Flyring {
  public:
    explicit FlyringBlock(const Setup& setup) : Flyring(setup) {
        if (!setup.block) cannot(setup, "it sleeps (--wait block); flyring-claim spins");
        if (setup.size != 32) cannot(setup, "32 bytes only");
        const std::chrono::microseconds spin(setup.option("spin", std::size_t{0}));
        if (publisher_) publisher_->set_spin(spin);
        if (subscriber_) subscriber_->set_spin(spin);
    }

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        flyring::Claim claim = publisher_->claim(size_);
        write(claim.data());
        claim.commit();
    }

    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        subscriber_->poll(
            [&](const flyring::Message& message) {
                if (answers_) publisher_->prefetch();
                read(message.data());
            },
            limit_, flyring::forever);
    }
};

constexpr long nap_ns = 1'000'000;

void nap() {
    const timespec time{0, nap_ns};
    nanosleep(&time, nullptr);
}

/// A reader that sleeps on its own ring of the measured channel, as `--option sleeper` says. quiet: its ring is idle.
/// woken: a thread of this process publishes every millisecond. cap: the ring's publisher does not wake, so the reader
/// looks every millisecond. nap: no Flyring, only a thread that sleeps a millisecond at a time. Runs until the end of
/// standard input.
void beside(const Setup& setup) {
    const std::string how = setup.option("sleeper", std::string("quiet"));
    std::atomic<bool> ended{false};
    std::atomic<std::uint64_t> rounds{0};
    std::vector<std::thread> threads;
    std::optional<flyring::Channel> channel, silent;
    std::optional<flyring::Publisher> publisher;
    std::optional<flyring::Subscriber> subscriber;
    if (how == "nap") {
        threads.emplace_back([&] {
            while (!ended) {
                nap();
                ++rounds;
            }
        });
    } else if (how == "quiet" || how == "woken" || how == "cap") {
        channel.emplace(Flyring::open(setup));
        if (how == "cap") {
            flyring::OpenOptions opting_out;
            opting_out.wake = false;
            silent.emplace(flyring::Channel::open(setup.path("channel.ring"), opting_out));
        }
        publisher.emplace((silent ? *silent : *channel).publisher("beside"));
        subscriber.emplace(channel->subscriber("", false, std::vector<std::uint32_t>{publisher->ring()}));
        subscriber->set_spin(std::chrono::nanoseconds::zero());
        threads.emplace_back([&] {
            while (!ended) {
                subscriber->poll([&](const flyring::Message&) { ++rounds; }, 256, std::chrono::milliseconds(100));
            }
        });
        if (how == "woken") {
            threads.emplace_back([&] {
                const std::uint64_t message = 0;
                while (!ended) {
                    nap();
                    publisher->offer({reinterpret_cast<const std::byte*>(&message), sizeof message});
                }
            });
        }
    } else {
        throw std::runtime_error("--option sleeper is quiet, woken, cap or nap, not " + how);
    }
    std::printf("{\"opened\": true}\n");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
    }
    ended = true;
    for (std::thread& thread : threads) thread.join();
    if (rounds == 0 && (how == "nap" || how == "woken")) throw std::runtime_error("the sleeper was never woken");
}

}  // namespace

void run_flyring_block(const Setup& setup) {
    if (!setup.whole) cannot(setup, "every byte is written and compared");
    Runner<FlyringBlock, 32, true>(setup).run();
}

void run_beside(const Setup& setup) {
    beside(setup);
}

}  // namespace bench
