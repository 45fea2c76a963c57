// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "faults.hpp"
#include "support.hpp"

// Helpers of the tests of waits (spec/channel.md 6.16).

namespace waits {

using namespace std::chrono_literals;
using flyring::Channel;
using flyring::Message;
using std::chrono::nanoseconds;
using support::broadcast;
using support::bytes;
using support::code_of;
using support::drain;
using support::fill;
using support::refuse;
using support::text;
using clock_type = std::chrono::steady_clock;
namespace layout = flyring::layout;

inline constexpr std::uint64_t data_sequence = 4096 + layout::CONTROL_DATA_SEQUENCE;
inline constexpr std::uint64_t data_asleep = 4096 + layout::CONTROL_DATA_ASLEEP;
inline constexpr std::uint64_t room_sequence = 4096 + layout::CONTROL_ROOM_SEQUENCE;
inline constexpr std::uint64_t room_asleep = 4096 + layout::CONTROL_ROOM_ASLEEP;

/// Longer than any wait that a peer wakes, shorter than one that no peer wakes.
inline constexpr nanoseconds soon = 80ms;
/// A time-out for events that must happen at some time.
inline constexpr nanoseconds long_enough = 20s;

inline const auto nothing = [](const Message&) {};

inline flyring::OpenOptions silent() {
    flyring::OpenOptions options;
    options.wake = false;
    return options;
}

inline nanoseconds time_of(const std::function<void()>& action) {
    const auto start = clock_type::now();
    action();
    return clock_type::now() - start;
}

inline void wait_for(const std::atomic<int>& count, int wanted) {
    const auto start = clock_type::now();
    while (count < wanted && clock_type::now() - start < long_enough) std::this_thread::sleep_for(100us);
    EXPECT_GE(count, wanted);
}

/// The median, because on a busy machine some times are too long.
inline nanoseconds median(std::vector<nanoseconds> times) {
    std::sort(times.begin(), times.end());
    return times.at(times.size() / 2);
}

/// For tests whose channel is "c".
class Test : public support::ChannelTest {
  protected:
    std::uint32_t word(std::uint64_t offset) const { return support::peek<std::uint32_t>(file("c"), offset); }

    /// Waits until a sleeper has set its bits, and a little longer, so that it sleeps.
    void wait_until_asleep(std::uint64_t asleep) const {
        while (word(asleep) == 0) std::this_thread::sleep_for(100us);
        std::this_thread::sleep_for(2ms);
    }

    /// The code of the error that `wait` throws in its own thread if `action` runs while it sleeps, and the time from
    /// the action to the error.
    struct Ended {
        std::string code;
        nanoseconds within;
    };
    Ended ended_by(std::uint64_t asleep, const std::function<void()>& wait, const std::function<void()>& action) const {
        Ended ended;
        clock_type::time_point end;
        std::thread waiter([&] {
            ended.code = code_of(wait);
            end = clock_type::now();
        });
        wait_until_asleep(asleep);
        const auto start = clock_type::now();
        action();
        waiter.join();
        ended.within = end - start;
        return ended;
    }
};

inline bool is_futex(const faults::Call& call, int command) {
    return std::string_view(call.name) == "futex" && call.command == command;
}

/// Counts the system calls by which this thread wakes sleepers.
class WakeCalls {
  public:
    int count() const { return count_; }

  private:
    int count_ = 0;
    faults::Hook hook_{[this](const faults::Call& call) {
        count_ += is_futex(call, FUTEX_WAKE_BITSET) ? 1 : 0;
        return 0;
    }};
};

/// Replaces each sleep of this thread by a call of `instead` with the sleep's number, from 0.
class InsteadOfSleep {
  public:
    explicit InsteadOfSleep(std::function<void(int)> instead) : instead_(std::move(instead)) {}
    int count() const { return count_; }

  private:
    std::function<void(int)> instead_;
    int count_ = 0;
    faults::Hook hook_{[this](const faults::Call& call) {
        if (!is_futex(call, FUTEX_WAIT_BITSET)) return 0;
        instead_(count_++);
        return EINTR;
    }};
};

/// Counts the sleeps of this thread.
class Sleeps {
  public:
    int count() const { return count_; }

  private:
    int count_ = 0;
    faults::Hook hook_{[this](const faults::Call& call) {
        count_ += is_futex(call, FUTEX_WAIT_BITSET) ? 1 : 0;
        return 0;
    }};
};

}  // namespace waits
