// SPDX-License-Identifier: Apache-2.0
// A lossy subscriber behind a publisher that waits for no reader. Every message must be whole and in order, and the
// counts of lost messages must leave no gap: sequence = the first one + messages seen + messages lost. Both seen and
// lost messages must occur. At times the publisher stops: then the subscriber must reach its position, even if it was
// lapped and its place looks empty.

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "message.hpp"

int main(int count, char** arguments) {
    const std::chrono::duration<double> seconds(count > 1 ? std::atof(arguments[1]) : 3);
    const stress::Folder folder;
    flyring::Options options = stress::one_ring(65536);
    options.subscribers = 0;
    flyring::Channel::create("lossy", options);
    std::atomic<bool> stop{false};
    std::atomic<std::int64_t> paused_at{-1};  // the publisher's position while it waits
    std::thread publisher([&] {
        flyring::Channel own = flyring::Channel::open("lossy");
        flyring::Publisher publisher = own.publisher();
        std::uint64_t sequence = 0;
        while (!stop.load(std::memory_order_relaxed)) {
            for (const std::uint64_t end = sequence + stress::mix(sequence) % 3000; sequence < end;) {
                sequence += stress::publish(publisher, sequence);
            }
            paused_at = publisher.position();
            while (paused_at.load() >= 0 && !stop.load(std::memory_order_relaxed)) stress::pause();
        }
    });

    flyring::OpenOptions read_only;
    read_only.read_only = true;
    flyring::Channel channel = flyring::Channel::open("lossy", read_only);
    flyring::LossySubscriber subscriber = channel.lossy_subscriber(flyring::Start::oldest);
    std::uint64_t seen = 0;
    std::uint64_t pauses = 0;
    std::uint64_t peeked = 0;
    std::uint64_t before = 0;  // messages published before the subscriber began
    const auto check = [&](const flyring::Message& message) {
        const auto lost = static_cast<std::uint64_t>(subscriber.lost_messages(0));
        if (seen == 0 && message.size() >= 8) before = message.as<std::uint64_t>() - lost;
        stress::check(message, before + seen + lost);
        ++seen;
    };
    const auto end = std::chrono::steady_clock::now() + seconds;
    while (std::chrono::steady_clock::now() < end) {
        while (pauses % 4 == 3 && paused_at.load() < 0) stress::pause();  // fall behind, on any machine
        if (seen % 3 == 0) {
            if (const auto message = subscriber.peek()) {
                std::byte copy[stress::longest];
                const std::size_t size = std::min(message->size(), sizeof copy);
                const std::int32_t type = message->type();
                const std::int64_t position = message->position();
                std::memcpy(copy, message->data(), size);
                if (subscriber.valid()) {
                    ++peeked;
                    check(flyring::Message(copy, size, type, position, message->sender()));
                }
            }
        }
        subscriber.poll(check, 5);
        const std::int64_t stopped = paused_at.load();
        if (stopped < 0) continue;
        for (int polls = 0; polls < 10'000 && subscriber.position(0) != stopped; ++polls) subscriber.poll(check, 64);
        if (subscriber.position(0) != stopped) {
            stress::fail("the publisher stopped, the subscriber sees nothing and is not there",
                         static_cast<std::uint64_t>(stopped), static_cast<std::uint64_t>(subscriber.position(0)));
        }
        ++pauses;
        paused_at = -1;
    }
    stop = true;
    publisher.join();
    const auto lost = static_cast<std::uint64_t>(subscriber.lost_messages(0));
    std::printf("%llu messages seen (%llu peeked at), %llu lost with %lld bytes, %llu pauses\n",
                static_cast<unsigned long long>(seen), static_cast<unsigned long long>(peeked),
                static_cast<unsigned long long>(lost), static_cast<long long>(subscriber.lost_bytes(0)),
                static_cast<unsigned long long>(pauses));
    if (lost == 0 || seen == 0 || pauses == 0 || peeked == 0) stress::fail("the publisher never lapped, or always");
    return 0;
}
