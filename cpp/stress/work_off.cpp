// SPDX-License-Identifier: Apache-2.0
// Producers and workers of a queue as threads on one mapping, for ThreadSanitizer.
//
// It proves that two pairs order every plain access to a job, a released one too, against other threads: publish 6 /
// take 1 (the length) and done 5 / room 2b (the gates). The data that a worker shares with its channel is ordered, too.
// It covers neither fences, which ThreadSanitizer does not model, nor deaths. Adopted jobs are copied while they may be
// overwritten, by design. The model covers these.

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "message.hpp"
#include "one_mapping.hpp"

/// A worker may look at the record at gate[0] after another worker has done that job, while a producer writes there.
/// This race is by design: take 3 detects it (spec/queue.md 3).
extern "C" const char* __tsan_default_suppressions() {
    return "race:job_source.hpp\n";
}

namespace {

constexpr std::uint64_t count = 20'000;  // for each producer
constexpr int producers = 2;
constexpr int workers = 3;

std::atomic<std::uint64_t> done{0};

/// Works by `take` and by `poll`, and releases every seventh job at its first attempt. `rarely`: pauses, so that the
/// others go on for some laps. Then only the worker's gate orders its job before a producer's next writes there.
void work(flyring::Channel& channel, std::vector<std::atomic<int>>& seen, bool rarely) {
    flyring::Worker worker = channel.worker();
    const auto handle = [&](flyring::Job& job) {
        const auto sequence = job.as<std::uint64_t>();
        const std::uint64_t ring = job.ring();
        stress::check(job.message(), sequence);
        if (sequence % 7 == 3 && !job.repeat()) {
            job.release();  // if it stays in hand, it comes again, too
            return;
        }
        if (sequence % 2 == 0) job.done();  // otherwise poll, or the caller of take, finishes it
        // Relaxed, so that these counters do not order a job before other threads' accesses.
        seen[ring * count + sequence].fetch_add(1, std::memory_order_relaxed);
        done.fetch_add(1, std::memory_order_relaxed);
    };
    for (int round = 0; done.load(std::memory_order_relaxed) < producers * count; ++round) {
        if (round % 3 == 0) {
            if (std::optional<flyring::Job> job = worker.take()) {
                handle(*job);
                if (*job) job->done();
            }
        } else if (worker.poll(handle, 1 + round % 40, std::chrono::milliseconds(2)) == 0) {
            stress::pause();
        }
        if (rarely) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

}  // namespace

int main() {
    const stress::Folder folder;
    flyring::Options options;
    options.kind = flyring::Kind::queue;
    options.producers = producers;
    options.workers = workers;
    options.capacity = 4096;
    options.counters = 0;
    flyring::Channel channel = flyring::Channel::create("tsan", options);
    if (shared_users != 2) stress::fail("the workers' mapping is not the producers'");
    std::vector<std::atomic<int>> seen(producers * count);
    std::vector<std::thread> threads;
    for (int i = 0; i < workers; ++i) threads.emplace_back([&, i] { work(channel, seen, i == 0); });
    for (int i = 0; i < producers; ++i) {
        threads.emplace_back([&] {
            flyring::Publisher publisher = channel.publisher();
            for (std::uint64_t sequence = 0; sequence < count;) {
                const std::uint64_t published = stress::publish(publisher, sequence);
                sequence += published;
                if (published == 0) stress::pause();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::atomic<int>& times : seen) {
        if (times != 1) stress::fail("a job was not done once", 1, static_cast<std::uint64_t>(times));
    }
    std::printf("%llu jobs\n", static_cast<unsigned long long>(done));
    return 0;
}
