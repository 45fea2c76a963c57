// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <flyring/flyring.hpp>
#include <stdexcept>
#include <string>

#include "loop.hpp"

// The parts of ping and pong that do not depend on the kind of message.

namespace demo {

/// One side of the demo channel: publishes on its own ring and reads the other side's.
template <typename Strategy>
class Side {
  public:
    explicit Side(const Options& options, const flyring::Schema& schema = {})
        : waiter_(options),
          channel_(flyring::Channel::open_or_create(options.channel, dimensions(options, schema))),
          publisher_(channel_.publisher(options.ping ? "ping" : "pong")),
          subscriber_(channel_.subscriber("", false, {1 - publisher_.ring()})) {
        if constexpr (std::is_same_v<Strategy, Block>) waiter_.strategy().sleep_for(subscriber_);
    }

    /// Hands all available messages to `handler`; waits for at least one.
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

  private:
    static flyring::Options dimensions(const Options& options, const flyring::Schema& schema) {
        flyring::Options made;
        made.use(schema);
        made.kind = flyring::Kind::broadcast;
        made.publishers = 2;
        made.subscribers = 2;
        made.counters = 0;
        made.capacity = options.capacity;
        made.alignment = options.alignment;
        return made;
    }

    Waiter<Strategy> waiter_;
    flyring::Channel channel_;
    flyring::Publisher publisher_;
    flyring::Subscriber subscriber_;
};

/// Removes the channel when ping ends, however it ends. Another process may have removed it already.
struct Unlink {
    const std::string& channel;
    ~Unlink() {
        try {
            flyring::Channel::unlink(channel);
        } catch (const flyring::FlyringError& error) {
            std::fprintf(stderr, "flyring-demo: %s\n", error.what());
        }
    }
};

[[noreturn, gnu::cold, gnu::noinline]] inline void wrong(const char* what, const char* field, std::int64_t sequence) {
    throw std::runtime_error("wrong " + std::string(what) + ": " + field + " of sequence " + std::to_string(sequence));
}

/// Calls send_probe(now) every 50 ms until there is an answer.
template <typename Strategy, typename SendProbe>
void connect(Side<Strategy>& side, SendProbe&& send_probe) {
    constexpr std::int64_t probe_interval = 50'000'000;  // ns
    bool answered = false;
    std::int64_t next = 0;
    while (!answered) {
        const std::int64_t now = now_ns();
        if (now >= next) {
            send_probe(now);
            next = now + probe_interval;
        }
        if (side.poll([&](const flyring::Message&) { answered = true; }) == 0) side.waiter().idle();
    }
    side.waiter().progress();
}

}  // namespace demo
