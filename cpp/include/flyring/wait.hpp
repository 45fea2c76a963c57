// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "flyring/errors.hpp"

namespace flyring {

/// Tells the processor that this thread spins, so that its sibling gets the shared units.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

// A wait strategy sits in the caller's loop: idle(work) returns at once when work > 0, otherwise it waits as its name
// says.

/// Never gives the core away: the lowest latency, for a core of your own. Looks 32 times without a pause, then with one
/// between two looks: whoever looks all the time from a core that shares no cache fetches the line again and again that
/// the publisher is writing.
class SpinWait {
  public:
    void idle(int work) noexcept {
        if (work > 0) {
            turns_ = 0;
        } else if (turns_ < eager) {
            ++turns_;
        } else {
            cpu_relax();
        }
    }
    void reset() noexcept { turns_ = 0; }

  private:
    static constexpr int eager = 32;
    int turns_ = 0;
};

/// Spins, and after a run of messages (four or more in the last poll) stands back for a while: then the publisher gets
/// ahead undisturbed, and messages come in batches. The highest throughput; a message that comes right behind a run
/// waits so much longer. Longer is faster, up to 10 microseconds, or 40 where cores share no cache, in a ring that is
/// not full before.
class BatchSpinWait {
  public:
    /// Throws InvalidArgument for a time that is not above 0.
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
            cpu_relax();
        } else {
            const auto start = std::chrono::steady_clock::now();
            do {
                for (int i = 0; i < pauses; ++i) cpu_relax();
            } while (std::chrono::steady_clock::now() - start < stand_back_);
            run_ = 0;
        }
    }
    void reset() noexcept { run_ = 0; }

  private:
    static constexpr int long_run = 4;
    static constexpr int pauses = 8;  // between two looks at the clock
    std::chrono::nanoseconds stand_back_;
    int run_ = 0;
};

/// Offers the core to another thread at each idle turn.
class YieldWait {
  public:
    void idle(int work) noexcept {
        if (work <= 0) sched_yield();
    }
    void reset() noexcept {}
};

/// Spins, then yields, then sleeps for twice as long each time: first `min_sleep`, at most `max_sleep`.
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
            cpu_relax();
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

/// Keeps the calling thread on core `core` (0-based). Returns false if the system has no such core for us.
inline bool pin_to_core(int core) noexcept {
    if (core < 0 || core >= CPU_SETSIZE) return false;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(static_cast<unsigned>(core), &cores);
    return sched_setaffinity(0, sizeof cores, &cores) == 0;
}

}  // namespace flyring
