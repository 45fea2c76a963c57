// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <algorithm>
#include <flyring/flyring.hpp>
#include <optional>
#include <string>

#include "setup.hpp"

// Flyring as its README shows it: one channel, with a publisher and a subscriber for each side.

namespace bench {

class Flyring {
  public:
    explicit Flyring(const Setup& setup) : size_(setup.size), setup_(setup), channel_(open(setup)) {
        // If the ring holds few messages, a publisher fills it before a reader that stands back looks again.
        const std::size_t messages = channel_.capacity() / setup.size;
        batch_ = setup.scenario == Scenario::stream && messages >= 256;
        // 5 us, the default; or the time in which a fast publisher fills the ring, if that is less.
        const std::size_t ns = setup.option("stand-back", std::min(5 * messages, std::size_t{5000}));
        batch_spin_ = flyring::BatchSpinWait(std::chrono::nanoseconds(ns));
        // The driver opens b before a. So in round trips ring 0 is the server's and ring 1 the client's, numbered after
        // the rings of a program that runs beside them.
        const bool streaming = setup.one_way();
        answers_ = !streaming && setup.option("prefetch", std::size_t{1}) != 0;
        if (streaming) limit_ = flyring::layout::DEFAULT_POLL_LIMIT;
        if (!streaming || setup.producer())
            publisher_.emplace(channel_.publisher(setup.producer() ? "a" + std::to_string(setup.number()) : "b"));
        if (!streaming || !setup.producer()) {
            const auto first = static_cast<std::uint32_t>(setup.option("first-ring", std::size_t{0}));
            const std::vector<std::uint32_t> answers{first + (setup.client() ? 0U : 1U)};
            subscriber_.emplace(streaming ? channel_.subscriber() : channel_.subscriber("", false, answers));
        }
    }

    void connect() {}

    template <class Read>
    [[gnu::always_inline]] void receive(Read&& read) {
        if (!answers_) return idle(poll([&](const flyring::Message& message) { read(message.data()); }));
        idle(poll([&](const flyring::Message& message) {
            publisher_->prefetch();
            read(message.data());
        }));
    }

    static std::string version() { return "0.1.0"; }

    /// `--option kind=inbox`, `queue` or `service`; otherwise a broadcast channel.
    static flyring::Channel open(const Setup& setup) {
        const std::string kind = setup.option("kind", std::string("broadcast"));
        flyring::Options options;
        options.kind = kind == "inbox"     ? flyring::Kind::inbox
                       : kind == "queue"   ? flyring::Kind::queue
                       : kind == "service" ? flyring::Kind::service
                                           : flyring::Kind::broadcast;
        // Messages written whole: no more than a cache holds. In place: enough for a reader that stands back.
        const std::size_t messages = setup.whole ? 128 : 512;
        const std::size_t least = setup.scenario == Scenario::stream ? messages * setup.size : 0;  // powers of two
        options.capacity = static_cast<std::uint32_t>(setup.option("capacity", std::max(std::size_t{1} << 20, least)));
        options.alignment = static_cast<std::uint32_t>(setup.option("alignment", std::size_t{64}));
        const std::size_t beside = setup.option("first-ring", std::size_t{0});  // rings of a program that runs beside
        const auto senders =
            static_cast<std::uint32_t>(beside + (setup.one_way() ? setup.option("producers", std::size_t{1}) : 2));
        if (options.kind == flyring::Kind::queue) {
            options.producers = senders;
            options.workers = static_cast<std::uint32_t>(setup.option("workers", std::size_t{1}));
        } else if (options.kind == flyring::Kind::service) {
            options.clients = 1;
        } else {
            options.publishers = senders;
        }
        if (options.kind == flyring::Kind::broadcast) {
            options.subscribers = static_cast<std::uint32_t>(
                beside + std::max(std::size_t{2}, setup.option("consumers", std::size_t{2})));
        }
        options.wake = setup.option("wake", std::size_t{1}) != 0;
        options.counters = 0;
        return flyring::Channel::open_or_create(setup.path("channel.ring"), options);
    }

  protected:
    template <class Handler>
    [[gnu::always_inline]] int poll(Handler&& handler) {
        return subscriber_->poll(handler, limit_);
    }

    [[gnu::always_inline]] void idle(int handed) {
        if (batch_) {
            batch_spin_.idle(handed);
        } else {
            spin_.idle(handed);
        }
    }

    std::size_t size_;
    bool batch_ = false;
    const Setup& setup_;
    int limit_ = 1;         // in round trips: a second look would fetch the line that the other side writes next
    bool answers_ = false;  // a side that receives a message sends one next, so it prefetches
    flyring::SpinWait spin_;
    flyring::BatchSpinWait batch_spin_;
    flyring::Channel channel_;
    std::optional<flyring::Publisher> publisher_;
    std::optional<flyring::Subscriber> subscriber_;
};

/// Clock: reads the wall clock for each message, as a journal does.
template <bool Clock>
class FlyringClaiming : public Flyring {
  public:
    using Flyring::Flyring;

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        if constexpr (Clock) {
            timespec now{};
            clock_gettime(CLOCK_REALTIME, &now);
            asm volatile("" : : "r"(now.tv_sec * 1'000'000'000 + now.tv_nsec));
        }
        for (;;) {
            if (flyring::Claim claim = publisher_->try_claim(size_)) {
                write(claim.data());
                claim.commit();
                return;
            }
        }
    }
};

using FlyringClaim = FlyringClaiming<false>;

class FlyringOffer : public Flyring {
  public:
    explicit FlyringOffer(const Setup& setup) : Flyring(setup), message_(setup.size) {}

    template <class Write>
    [[gnu::always_inline]] void send(Write&& write) {
        write(message_.data());
        while (publisher_->offer({message_.data(), size_}) == flyring::back_pressured) {
        }
    }

  private:
    std::vector<std::byte> message_;
};

}  // namespace bench
