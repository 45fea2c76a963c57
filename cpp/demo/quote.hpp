// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <flyring/flyring.hpp>
#include <stdexcept>
#include <string>

#include "loop.hpp"

namespace demo {

/// The 32 bytes at the start of each demo message; the rest is filler, byte i being (sequence + i) & 0xff.
struct Quote {
    std::int64_t sequence;
    std::int64_t send_time;
    double price;
    std::int64_t quantity;
};
static_assert(sizeof(Quote) == 32);

constexpr std::int64_t probe = 0;
constexpr std::int64_t the_end = -1;

inline Quote quote(std::int64_t sequence, std::int64_t send_time) noexcept {
    return {sequence, send_time, 100.0 + static_cast<double>(sequence % 1000) / 8.0, sequence * 10};
}

inline std::byte filler(std::int64_t sequence, std::size_t index) noexcept {
    return static_cast<std::byte>(static_cast<std::uint64_t>(sequence) + index);
}

/// One side of the demo channel: its own ring, and the other side's.
template <typename Strategy>
class Side {
  public:
    explicit Side(const Options& options)
        : size_(options.size),
          waiter_(options),
          channel_(flyring::Channel::open_or_create(options.channel, dimensions(options))),
          publisher_(channel_.publisher(options.ping ? "ping" : "pong")),
          subscriber_(channel_.subscriber("", false, {1 - publisher_.ring()})) {}

    /// Publishes `head` and its filler, waiting for room.
    void send(const Quote& head) {
        if (size_ == sizeof head) {
            while (publisher_.offer(flyring::bytes_of(head)) == flyring::back_pressured) waiter_.idle();
            return;
        }
        auto claim = publisher_.claim(size_);
        while (!claim) {
            waiter_.idle();
            claim = publisher_.claim(size_);
        }
        std::memcpy(claim.data(), &head, sizeof head);
        for (std::size_t i = sizeof head; i < size_; ++i) claim.data()[i] = filler(head.sequence, i);
        claim.commit();
    }

    /// Hands each message that is there to `handler`, waiting for at least one.
    template <typename Handler>
    void receive(Handler&& handler) {
        while (subscriber_.poll(handler) == 0) waiter_.idle();
        waiter_.progress();
    }

    template <typename Handler>
    int poll(Handler&& handler) {
        return subscriber_.poll(handler);
    }

    Waiter<Strategy>& waiter() noexcept { return waiter_; }
    flyring::Publisher& publisher() noexcept { return publisher_; }
    std::size_t size() const noexcept { return size_; }

  private:
    static flyring::Options dimensions(const Options& options) {
        flyring::Options made;
        made.kind = flyring::Kind::broadcast;
        made.publishers = 2;
        made.subscribers = 2;
        made.counters = 0;
        made.capacity = options.capacity;
        made.alignment = options.alignment;
        return made;
    }

    std::size_t size_;
    Waiter<Strategy> waiter_;
    flyring::Channel channel_;
    flyring::Publisher publisher_;
    flyring::Subscriber subscriber_;
};

[[noreturn, gnu::cold, gnu::noinline]] inline void wrong(const char* field, std::int64_t sequence) {
    throw std::runtime_error("wrong answer: " + std::string(field) + " of sequence " + std::to_string(sequence));
}

/// Checks every byte of the answer to `sent`, which came back with its quantity negated.
inline void check(const flyring::Message& answer, const Quote& sent, std::size_t size) {
    if (answer.size() != size) wrong("size", sent.sequence);
    const auto got = answer.as<Quote>();
    if (got.sequence != sent.sequence) wrong("sequence", sent.sequence);
    if (got.send_time != sent.send_time) wrong("send_time", sent.sequence);
    if (got.price != sent.price) wrong("price", sent.sequence);
    if (got.quantity != -sent.quantity) wrong("quantity", sent.sequence);
    for (std::size_t i = sizeof sent; i < size; ++i) {
        if (answer.data()[i] != filler(sent.sequence, i)) wrong("filler", sent.sequence);
    }
}

template <typename Strategy>
void connect(Side<Strategy>& side) {
    constexpr std::int64_t probe_interval = 50'000'000;  // ns
    bool answered = false;
    std::int64_t next = 0;
    while (!answered) {
        const std::int64_t now = now_ns();
        if (now >= next) {
            side.send(quote(probe, now));
            next = now + probe_interval;
        }
        if (side.poll([&](const flyring::Message&) { answered = true; }) == 0) side.waiter().idle();
    }
    side.waiter().progress();
}

template <typename Strategy>
Result ping(const Options& options) {
    Side<Strategy> side(options);
    struct Unlink {  // whatever happens; somebody else may have been faster
        const std::string& channel;
        ~Unlink() {
            try {
                flyring::Channel::unlink(channel);
            } catch (const flyring::FlyringError& error) {
                std::fprintf(stderr, "flyring-demo: %s\n", error.what());
            }
        }
    } unlink{options.channel};
    connect(side);
    Result result = measure(options, [&](std::int64_t sequence, std::int64_t send_time, auto clock) {
        const Quote sent = quote(sequence, send_time);
        side.send(sent);
        bool answered = false;
        std::int64_t arrived = 0;
        while (!answered) {
            side.receive([&](const flyring::Message& answer) {
                if (answer.as<Quote>().sequence == probe) return;  // the answer to an older probe
                arrived = clock();
                check(answer, sent, options.size);
                answered = true;
            });
        }
        return arrived;
    });
    side.send(quote(the_end, now_ns()));
    return result;
}

template <typename Strategy>
void pong(const Options& options) {
    Side<Strategy> side(options);
    bool ended = false;
    while (!ended) {
        side.receive([&](const flyring::Message& message) {
            auto head = message.as<Quote>();
            if (head.sequence == the_end) {
                ended = true;
                return;
            }
            head.quantity = -head.quantity;
            if (message.size() == sizeof head) {
                while (side.publisher().offer(flyring::bytes_of(head)) == flyring::back_pressured) side.waiter().idle();
                return;
            }
            auto claim = side.publisher().claim(message.size());
            while (!claim) {
                side.waiter().idle();
                claim = side.publisher().claim(message.size());
            }
            std::memcpy(claim.data(), message.data(), message.size());
            std::memcpy(claim.data(), &head, sizeof head);
            claim.commit();
        });
    }
}

}  // namespace demo
