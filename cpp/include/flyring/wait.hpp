// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "flyring/detail/memory.hpp"
#include "flyring/errors.hpp"
#include "flyring/wait_set.hpp"

namespace flyring {

// A wait strategy sits in the caller's poll loop. idle(work) gets the result of the poll. It returns at once when
// work > 0. Otherwise it waits in the way that the class describes.

/// Spins and never gives the core away: the lowest latency, for a dedicated core. The first 32 idle turns return at
/// once; later ones execute one pause instruction each. Without the pause, a reader on a core that shares no cache with
/// the publisher would repeatedly fetch the line that the publisher is writing.
class SpinWait {
  public:
    void idle(int work) noexcept {
        if (work > 0) {
            turns_ = 0;
        } else if (turns_ < eager) {
            ++turns_;
        } else {
            detail::cpu_relax();
        }
    }
    void reset() noexcept { turns_ = 0; }

  private:
    static constexpr int eager = 32;
    int turns_ = 0;
};

/// Spins, with a pause instruction at each idle turn. After a run of messages (four or more in the last poll) it stays
/// away from the ring for `stand_back`. Meanwhile the publisher works without cache contention, and messages come in
/// batches. This gives the highest throughput, but a message right behind a run waits up to `stand_back` longer. A
/// longer `stand_back` gives more throughput, up to 10 microseconds (40 where cores share no cache), as long as the
/// ring does not fill up meanwhile.
class BatchSpinWait {
  public:
    /// Throws InvalidArgument if `stand_back` is not above 0.
    explicit BatchSpinWait(std::chrono::nanoseconds stand_back = std::chrono::microseconds(5))
        : stand_back_(stand_back) {
        if (stand_back <= std::chrono::nanoseconds::zero()) {
            throw InvalidArgument("stand_back",
                                  "it is a time above 0, not " + std::to_string(stand_back.count()) + " ns");
        }
    }

    void idle(int work) noexcept {
        if (work > 0) {
            run_ = work;
        } else if (run_ < long_run) {
            detail::cpu_relax();
        } else {
            const auto start = std::chrono::steady_clock::now();
            do {
                for (int i = 0; i < pauses; ++i) detail::cpu_relax();
            } while (std::chrono::steady_clock::now() - start < stand_back_);
            run_ = 0;
        }
    }
    void reset() noexcept { run_ = 0; }

  private:
    static constexpr int long_run = 4;
    static constexpr int pauses = 8;  // between two reads of the clock
    std::chrono::nanoseconds stand_back_;
    int run_ = 0;
};

/// Yields the core to another thread at each idle turn.
class YieldWait {
  public:
    void idle(int work) noexcept {
        if (work <= 0) sched_yield();
    }
    void reset() noexcept {}
};

/// Spins, then yields, then sleeps. The first sleep lasts `min_sleep`; each further one twice as long, up to
/// `max_sleep`.
class BackoffWait {
  public:
    explicit BackoffWait(unsigned spins = 10, unsigned yields = 5,
                         std::chrono::nanoseconds min_sleep = std::chrono::microseconds(1),
                         std::chrono::nanoseconds max_sleep = std::chrono::milliseconds(1)) noexcept
        : spins_(spins), yields_(yields), min_sleep_(min_sleep), max_sleep_(max_sleep), sleep_(min_sleep) {}

    void idle(int work) noexcept {
        if (work > 0) {
            reset();
        } else if (turn_ < spins_) {
            ++turn_;
            detail::cpu_relax();
        } else if (turn_ < spins_ + yields_) {
            ++turn_;
            sched_yield();
        } else {
            std::this_thread::sleep_for(sleep_);
            sleep_ = std::min(2 * sleep_, max_sleep_);
        }
    }

    void reset() noexcept {
        turn_ = 0;
        sleep_ = min_sleep_;
    }

  private:
    unsigned spins_;
    unsigned yields_;
    std::chrono::nanoseconds min_sleep_;
    std::chrono::nanoseconds max_sleep_;
    std::chrono::nanoseconds sleep_;
    unsigned turn_ = 0;
};

/// Sleeps until a member of the wait set is ready; the set must hold what the caller's loop polls. Uses the least CPU.
/// A message that finds the thread asleep is seen 15 to 60 microseconds later than by a spinning thread. The set spins
/// for 20 microseconds before it sleeps.
class BlockWait {
  public:
    /// idle returns after `longest` at the latest, for a loop that has other work too. WaitSet::wake() ends a wait from
    /// any thread. Throws InvalidArgument if `longest` is below 0.
    explicit BlockWait(WaitSet& set, std::chrono::nanoseconds longest = forever) : set_(&set), longest_(longest) {
        detail::check_timeout(longest);
    }

    /// Throws as WaitSet::wait does.
    void idle(int work) {
        if (work <= 0) set_->wait(longest_);
    }
    void reset() noexcept {}

  private:
    WaitSet* set_;
    std::chrono::nanoseconds longest_;
};

}  // namespace flyring
