// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <flyring/flyring.hpp>

#include "side.hpp"

namespace demo {

/// The first 32 bytes of each demo message. The rest is filler: byte i is (sequence + i) & 0xff.
struct Quote {
    std::int64_t sequence;
    std::int64_t send_time;
    double price;
    std::int64_t quantity;
};
static_assert(sizeof(Quote) == 32);

constexpr std::int64_t probe = 0;
constexpr std::int64_t the_end = -1;
/// The sequence of a message whose answer has, as its quantity, when pong received it, in ns of CLOCK_MONOTONIC.
constexpr std::int64_t timed = -2;

inline Quote quote(std::int64_t sequence, std::int64_t send_time) noexcept {
    return {sequence, send_time, 100.0 + static_cast<double>(sequence % 1000) / 8.0, sequence * 10};
}

inline std::byte filler(std::int64_t sequence, std::size_t index) noexcept {
    return static_cast<std::byte>(static_cast<std::uint64_t>(sequence) + index);
}

/// Publishes `head` and its filler, waiting for room.
template <typename Strategy>
void send(Side<Strategy>& side, const Quote& head, std::size_t size) {
    if (size == sizeof head) {
        while (side.publisher().offer(flyring::bytes_of(head)) == flyring::back_pressured) side.waiter().idle();
        return;
    }
    auto claim = side.publisher().try_claim(size);
    while (!claim) {
        side.waiter().idle();
        claim = side.publisher().try_claim(size);
    }
    std::memcpy(claim.data(), &head, sizeof head);
    for (std::size_t i = sizeof head; i < size; ++i) claim.data()[i] = filler(head.sequence, i);
    claim.commit();
}

/// Checks every byte of the answer to `sent`: it equals `sent` with the quantity negated.
inline void check(const flyring::Message& answer, const Quote& sent, std::size_t size) {
    if (answer.size() != size) wrong("answer", "size", sent.sequence);
    const auto got = answer.as<Quote>();
    if (got.sequence != sent.sequence) wrong("answer", "sequence", sent.sequence);
    if (got.send_time != sent.send_time) wrong("answer", "send_time", sent.sequence);
    if (got.price != sent.price) wrong("answer", "price", sent.sequence);
    if (got.quantity != -sent.quantity) wrong("answer", "quantity", sent.sequence);
    for (std::size_t i = sizeof sent; i < size; ++i) {
        if (answer.data()[i] != filler(sent.sequence, i)) wrong("answer", "filler", sent.sequence);
    }
}

template <typename Strategy>
Result ping(const Options& options) {
    Side<Strategy> side(options);
    const Unlink unlink{options.channel};
    connect(side, [&](std::int64_t now) { send(side, quote(probe, now), options.size); });
    Result result = measure(options, [&](std::int64_t sequence, std::int64_t send_time, auto clock) {
        const Quote sent = quote(sequence, send_time);
        send(side, sent, options.size);
        bool answered = false;
        std::int64_t arrived = 0;
        while (!answered) {
            side.receive([&](const flyring::Message& answer) {
                if (answer.as<Quote>().sequence == probe) return;  // the answer to an older probe
                arrived = clock();
                side.publisher().prefetch();  // for the next question
                check(answer, sent, options.size);
                answered = true;
            });
        }
        return arrived;
    });
    send(side, quote(the_end, now_ns()), options.size);
    return result;
}

template <typename Strategy>
void pong(const Options& options) {
    Side<Strategy> side(options);
    bool ended = false;
    while (!ended) {
        side.receive([&](const flyring::Message& message) {
            side.publisher().prefetch();  // for the answer
            auto head = message.as<Quote>();
            if (head.sequence == the_end) {
                ended = true;
                return;
            }
            head.quantity = head.sequence == timed ? now_ns() : -head.quantity;
            if (message.size() == sizeof head) {
                while (side.publisher().offer(flyring::bytes_of(head)) == flyring::back_pressured) side.waiter().idle();
                return;
            }
            auto claim = side.publisher().try_claim(message.size());
            while (!claim) {
                side.waiter().idle();
                claim = side.publisher().try_claim(message.size());
            }
            std::memcpy(claim.data(), message.data(), message.size());
            std::memcpy(claim.data(), &head, sizeof head);
            claim.commit();
        });
    }
}

}  // namespace demo
