// SPDX-License-Identifier: Apache-2.0
// Subscribers join and leave as fast as they can while a publisher runs at full speed. Each must see a gapless run of
// whole messages that begins where it joined.
//
// The mutant is a reader that joins at `claimed`. It may find the last lap's bytes there, whole and valid, and delivers
// them as a message: a ghost. (A reader that leaves and joins again may see the last committed message twice, because
// `published` is stored after the commit.)

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "message.hpp"

int main(int count, char** arguments) {
    const std::chrono::duration<double> seconds(count > 1 ? std::atof(arguments[1]) : 3);
    const stress::Folder folder;
    flyring::Channel channel = flyring::Channel::create("join", stress::one_ring(4096));
    std::atomic<bool> stop{false};
    std::thread publisher([&] {
        flyring::Channel own = flyring::Channel::open("join");
        flyring::Publisher publisher = own.publisher();
        for (std::uint64_t sequence = 0; !stop.load(std::memory_order_relaxed);) {
            sequence += stress::publish(publisher, sequence);
        }
    });

    std::uint64_t joins = 0;
    std::uint64_t messages = 0;
    std::uint64_t empty = 0;
    std::uint64_t ghosts = 0;
    std::uint64_t newest = 0;  // the newest message seen so far
    constexpr std::uint64_t enough = 1000;
    const auto begin = std::chrono::steady_clock::now();
    const auto lasts = [&](double times) { return std::chrono::steady_clock::now() - begin < times * seconds; };
    while (lasts(1) || ((joins < enough || messages < enough) && lasts(10))) {  // longer where others use the cores
        flyring::Subscriber subscriber = channel.subscriber();
        ++joins;
        const std::int64_t joined = subscriber.position(0);
        std::uint64_t next = 0;
        std::uint64_t seen = 0;
        bool ghost = false;
        const auto check = [&](const flyring::Message& message) {
            const bool whole = stress::what_is_wrong(message) == nullptr;
            const auto sequence = whole ? message.as<std::uint64_t>() : 0;
            const bool gap = seen != 0 && sequence != next;
            const bool old = sequence + stress::most_at_once < newest;
            ghost = ghost || !whole || gap || old || message.position() < joined;
            ++seen;
            next = sequence + 1;
            newest = std::max(newest, next);
        };
        try {
            for (int polls = 0; polls < 20 && !ghost; ++polls) subscriber.poll(check, 8);
        } catch (const flyring::CorruptRing&) {
            ghost = true;
        }
        ghosts += ghost ? 1 : 0;
        messages += seen;
        empty += seen == 0 ? 1 : 0;
    }
    stop = true;
    publisher.join();
    std::printf("%llu joins (%llu saw nothing), %llu messages, %llu ghosts\n", static_cast<unsigned long long>(joins),
                static_cast<unsigned long long>(empty), static_cast<unsigned long long>(messages),
                static_cast<unsigned long long>(ghosts));
    if (joins < enough || messages < enough) {
        stress::fail("too little happened", enough, std::min(joins, messages));
    }
    if (ghosts != 0) stress::fail("ghosts", 0, ghosts);
    return 0;
}
