// SPDX-License-Identifier: Apache-2.0
// A publisher and a subscriber as two threads on one mapping, for ThreadSanitizer.
//
// It proves that two pairs alone order every plain access to the ring (payloads, owner records, padding) against the
// other thread: publish 6 / poll 1 (the length) and poll 4 / recompute 2 (the gate). Publish 4 and 9 (clearing) and the
// types are relaxed atomics, which cannot race by themselves. But they touch bytes that the other thread read as
// payload a lap before; the gate orders these accesses, and this test checks that, too.
// It does not cover fences, which ThreadSanitizer does not model. So the model, join.cpp and lossy.cpp cover join's
// fence, lossy reads and recompute 1. A lossy read races with the publisher by design.
//
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "message.hpp"
#include "one_mapping.hpp"

int main() {
    const std::uint64_t count = 40'000;
    const stress::Folder folder;
    for (const std::uint32_t alignment : {64U, 8U}) {
        flyring::Options options = stress::one_ring(4096);
        options.alignment = alignment;
        flyring::Channel channel = flyring::Channel::create("tsan" + std::to_string(alignment), options);
        if (shared_users != 2) stress::fail("the subscriber's mapping is not the publisher's");
        flyring::Subscriber subscriber = channel.subscriber();
        std::thread publisher([&] {
            flyring::Publisher publisher = channel.publisher("p");
            for (std::uint64_t sequence = 0; sequence < count;) {
                const std::uint64_t published = stress::publish(publisher, sequence);
                sequence += published;
                if (published == 0) stress::pause();
            }
        });
        std::uint64_t next = 0;
        const auto check = [&](const flyring::Message& message) { stress::check(message, next++); };
        while (next < count) {
            if (next % 5 == 0) {
                if (const auto message = subscriber.take()) check(*message);
            } else if (subscriber.poll(check, static_cast<int>(1 + next % 40)) == 0) {
                stress::pause();
            }
        }
        publisher.join();
        std::printf("alignment %u: %llu messages, %lld laps\n", alignment, static_cast<unsigned long long>(count),
                    static_cast<long long>(subscriber.position(0) / channel.capacity()));
    }
    return 0;
}
