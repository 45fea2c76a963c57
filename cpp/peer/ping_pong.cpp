// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "peer.hpp"

// ping_pong of interop-tests/PEER.md.

namespace peer {

namespace {

/// The payload of a message.
struct Ball {
    std::uint64_t number;
    std::int64_t sent;  // CLOCK_MONOTONIC, ns
};

std::int64_t now() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

[[noreturn]] void mismatch(std::uint64_t number, const char* what) {
    throw Failed({{"error", "mismatch"},
                  {"message", "wrong " + std::string(what) + " of message " + std::to_string(number)},
                  {"sequence", number},
                  {"what", what}});
}

template <typename Subscriber>
Json play(flyring::Publisher& publisher, Subscriber& subscriber, const Json& request) {
    const std::uint64_t count = request.at("count");
    const bool first = request.value("first", false);
    const std::int64_t late_from = request.value("late", std::int64_t{50'000'000});
    const std::chrono::nanoseconds patience = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(request.value("seconds", 60.0)));
    const std::chrono::nanoseconds spin(request.value("spin", std::int64_t{0}));
    publisher.set_spin(spin);
    subscriber.set_spin(spin);

    std::int64_t longest = 0;
    std::uint64_t late = 0;
    const auto send = [&](std::uint64_t number) {
        const Ball ball{number, now()};
        publisher.send({reinterpret_cast<const std::byte*>(&ball), sizeof ball}, 1, patience);
    };
    const auto take = [&](std::uint64_t number) {
        const auto message = subscriber.take(patience);
        const std::int64_t taken = now();
        if (!message) {
            throw Failed({{"error", "timeout"},
                          {"message", "message " + std::to_string(number) + " did not come in time"},
                          {"sequence", number}});
        }
        Ball ball{};
        if (message->size() != sizeof ball) mismatch(number, "length");
        if (message->type() != 1) mismatch(number, "type");
        std::memcpy(&ball, message->data(), sizeof ball);
        if (ball.number != number) mismatch(number, "number");
        longest = std::max(longest, taken - ball.sent);
        late += taken - ball.sent >= late_from ? 1 : 0;
    };

    const std::int64_t start = now();
    for (std::uint64_t number = 0; number < count; ++number) {
        if (first) send(number);
        take(number);
        if (!first) send(number);
    }
    return {
        {"count", count}, {"seconds", static_cast<double>(now() - start) / 1e9}, {"longest", longest}, {"late", late}};
}

}  // namespace

Json ping_pong(flyring::Publisher& publisher, flyring::Subscriber& subscriber, const Json& request) {
    return play(publisher, subscriber, request);
}

Json ping_pong(flyring::Publisher& publisher, flyring::LossySubscriber& subscriber, const Json& request) {
    return play(publisher, subscriber, request);
}

}  // namespace peer
