// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstring>
#include <flyring/flyring.hpp>
#include <iostream>
#include <string>

#include "contenders.hpp"
#include "probe.h"

// Two programs of bench/journal.py: the publisher that flyring record listens to, and the subscriber that hears a
// replay, or that publisher.

namespace bench {
namespace {

constexpr std::int64_t late_ns = 1'000'000;

void say_ready() {
    std::printf("{\"opened\": true}\n");
    std::fflush(stdout);
}

/// For each line "RATE COUNT": publishes so many numbers at that rate (0: as fast as it goes). `held`: how often the
/// ring was full.
void publish(const Setup& setup) {
    flyring::Channel channel = flyring::Channel::open(setup.dir);
    flyring::Publisher publisher = channel.publisher("bench");
    say_ready();
    double rate = 0;
    std::int64_t count = 0;
    while (std::cin >> rate >> count) {
        std::int64_t number[4] = {};
        std::int64_t held = 0, latest = 0;
        const std::int64_t start = bench_now();
        for (std::int64_t i = 0; i < count; ++i) {
            if (rate > 0 && i % 16 == 0) {  // a clock read for each message would be what limits the rate
                const auto due = start + static_cast<std::int64_t>(static_cast<double>(i) * 1e9 / rate);
                std::int64_t now = bench_now();
                latest = now - due > latest ? now - due : latest;
                while (now < due) now = bench_now();
            }
            number[0] = i;
            const flyring::Bytes message(reinterpret_cast<const std::byte*>(number), sizeof number);
            if (publisher.offer(message) < 0) {
                ++held;
                publisher.send(message);
            }
        }
        const std::int64_t ns = bench_now() - start;
        std::printf("{\"ns\": %lld, \"held\": %lld, \"latest\": %lld}\n", static_cast<long long>(ns),
                    static_cast<long long>(held), static_cast<long long>(latest));
        std::fflush(stdout);
    }
}

/// For each line "COUNT": receives so many, and compares their numbers.
void receive(const Setup& setup) {
    flyring::Channel channel = flyring::Channel::open(setup.dir);
    flyring::Subscriber subscriber = channel.subscriber("bench");
    say_ready();
    std::int64_t count = 0;
    while (std::cin >> count) {
        std::int64_t next = 0, start = 0;
        while (next < count) {
            subscriber.poll([&](const flyring::Message& message) {
                std::int64_t number = -1;
                if (message.size() == 32) std::memcpy(&number, message.data(), sizeof number);
                if (number != next) throw std::runtime_error("another message than was sent");
                if (next++ == 0) start = bench_now();
            });
        }
        std::printf("{\"ns\": %lld}\n", static_cast<long long>(bench_now() - start));
        std::fflush(stdout);
    }
}

}  // namespace

void run_recorded(const Setup& setup) {
    setup.producer() ? publish(setup) : receive(setup);
}

}  // namespace bench
