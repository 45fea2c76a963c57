// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "support.hpp"

// What the tests of queue_survivors_test.cpp and queue_hostile_test.cpp share.

namespace queues {

using flyring::Channel;
using flyring::Job;
using flyring::Worker;
using flyring::detail::attempts_beside;
using flyring::detail::ChannelFile;
using flyring::detail::taken_end_beside;
using support::Child;
using support::text;

/// Finishes all available jobs. Returns text and attempts of each.
inline std::string work_off_counting(Worker& worker, int limit = 1) {
    std::string seen;
    while (worker.poll([&](Job& job) { seen += text(job) + std::to_string(job.attempts()) + " "; }, limit) > 0) {
    }
    return seen;
}

class QueueTest : public support::ChannelTest {
  protected:
    /// Starts a process that takes `take` jobs at once and finishes `finish` of them, and kills it in the next one.
    void kill_a_worker(int take, int finish, const std::string& name = "victim") {
        Child child([=](const Child::Ready& ready) {
            Worker worker = Channel::open("c").worker(name);
            int done = 0;
            worker.poll(
                [&](Job&) {
                    if (done++ < finish) return;
                    ready();
                    ::pause();
                },
                take);
            return false;
        });
        child.wait_until_ready();
        child.kill();
    }

    /// Gives slot 1 an owner that leaves without a job, so that the test can forge the slot's words.
    static void leave_slot_1(Channel& channel) {
        Worker worker = channel.worker("left");
        ASSERT_EQ(worker.slot(), 1U);
    }
    static void forge(const ChannelFile& file, std::uint32_t ring, std::int64_t gate, std::int64_t taken_end,
                      std::int32_t attempts) {
        *taken_end_beside(file.ring(ring).gate(1)) = taken_end;
        *attempts_beside(file.ring(ring).gate(1)) = attempts;
        *file.ring(ring).gate(1) = gate;
    }
    /// A worker of slot 2, while slot 1 has no owner.
    static Worker worker_of_slot_2(Channel& channel) {
        Worker first = channel.worker();
        Worker second = channel.worker();
        EXPECT_EQ(second.slot(), 2U);
        return second;
    }
    /// Waits until the worker's next take looks for jobs of dead workers. The clock of this interval may be coarse: 10
    /// ms (spec/queue.md 5).
    static void pause_for_a_look() { std::this_thread::sleep_for(std::chrono::milliseconds(12)); }
};

}  // namespace queues
