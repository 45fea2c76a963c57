// SPDX-License-Identifier: Apache-2.0
// A server, its clients and a thread that answers later, on one mapping, for ThreadSanitizer.
//
// It proves that two pairs order every plain access to a request and to an answer against other threads: publish 6 /
// poll 1 (the length), and poll 8, drain / recompute 2 (the gates). The lock of the server's object orders data that
// the server shares with kept requests, or with a close from another thread. It covers neither fences, which
// ThreadSanitizer does not model, nor deaths. The model covers these.

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "message.hpp"
#include "one_mapping.hpp"

namespace {

constexpr std::uint64_t count = 4'000;  // calls for each client
constexpr int clients = 3;

/// Kept requests that another thread answers.
class Later {
  public:
    void put(flyring::Request request) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            requests_.push_back(std::move(request));
        }
        there_.notify_one();
    }
    void end() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ended_ = true;
        }
        there_.notify_all();
    }
    /// Answers until end(). Waits for many requests, so that a ring is full of requests before the first answer to any
    /// of them. Then only the gate orders the server's reads of a request before its client's next writes there.
    void answer() {
        for (bool ended = false; !ended;) {
            std::vector<flyring::Request> some;
            {
                std::unique_lock<std::mutex> lock(mutex_);
                there_.wait_for(lock, std::chrono::milliseconds(2), [&] { return ended_ || requests_.size() > 50; });
                some.swap(requests_);
                ended = ended_;
            }
            for (; !some.empty(); some.pop_back()) {  // in the opposite order
                some.back().reply(some.back().payload(), some.back().type());
            }
        }
    }

  private:
    std::mutex mutex_;
    std::condition_variable there_;
    std::vector<flyring::Request> requests_;
    bool ended_ = false;
};

std::vector<std::byte> message(std::uint64_t sequence) {
    std::vector<std::byte> bytes(stress::length_of(sequence));
    stress::write(bytes.data(), sequence);
    return bytes;
}

void call(flyring::Channel& channel, bool sleeps) {
    flyring::Client client = channel.client();
    if (sleeps) client.set_spin(std::chrono::nanoseconds(0));
    std::uint64_t answers = 0;
    for (std::uint64_t sequence = 0; sequence < count; ++sequence) {
        const std::vector<std::byte> bytes = message(sequence);
        const std::int32_t type = stress::type_of(sequence);
        if (sequence % 3 == 0) {
            stress::check(client.call(bytes, type), sequence);
            ++answers;
            continue;
        }
        if (sequence % 97 == 1) {
            flyring::Call stream = client.stream(bytes, type, 3);
            std::uint64_t items = 0;
            while (std::optional<flyring::Answer> item = stream.next()) stress::check(*item, items++);
            if (items != sequence % 7) stress::fail("another number of items", sequence % 7, items);
            ++answers;
            continue;
        }
        while (client.outstanding() >= 60) client.poll(std::chrono::milliseconds(10));
        client.start(bytes, type, flyring::forever, [&answers, sequence](flyring::Call& one) {
            stress::check(one.result(), sequence);
            ++answers;
        });
    }
    while (client.outstanding() != 0) client.poll(std::chrono::milliseconds(10));
    if (answers != count) stress::fail("another number of answers", count, answers);
}

}  // namespace

int main() {
    const stress::Folder folder;
    flyring::Options options;
    options.kind = flyring::Kind::service;
    options.clients = clients;
    options.capacity = 4096;
    options.counters = 0;
    flyring::Channel channel = flyring::Channel::create("tsan", options);
    if (shared_users != 2) stress::fail("the readers' mapping is not the writers'");
    Later later;
    std::vector<std::thread> callers;
    flyring::Server server = channel.server();
    server.set_spin(std::chrono::nanoseconds(1000));
    std::thread serves([&] {
        std::uint64_t number = 0;
        server.serve([&](flyring::Request& request) {
            const auto sequence = request.as<std::uint64_t>();
            stress::check(request.message(), sequence);
            if (request.is_stream()) {
                return request.stream([item = std::uint64_t{0}, end = sequence % 7]() mutable {
                    return item == end ? std::nullopt : std::make_optional(message(item++));
                });
            }
            if (sequence / 100 % 2 == 1 || number++ % 5 == 0) return later.put(request.keep());
            request.reply(request.payload(), request.type());
        });
    });
    std::thread answers([&] { later.answer(); });
    for (int i = 0; i < clients; ++i) callers.emplace_back([&, i] { call(channel, i == 0); });
    for (std::thread& caller : callers) caller.join();
    later.end();
    answers.join();
    server.stop();
    serves.join();
    if (server.held().in_hand != 0) stress::fail("something is in hand", 0, server.held().in_hand);
    std::printf("%d clients, %llu calls each\n", clients, static_cast<unsigned long long>(count));
    return 0;
}
