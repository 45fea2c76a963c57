// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <flyring/flyring.hpp>

// Wait strategies of a caller's loop.

namespace {

using clock_type = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds stand_back = microseconds(2000);

/// How long one look in vain takes.
nanoseconds look(flyring::BatchSpinWait& wait) {
    const auto start = clock_type::now();
    wait.idle(0);
    return clock_type::now() - start;
}

/// The first one after a poll of so many messages.
nanoseconds after_run_of(flyring::BatchSpinWait& wait, int messages) {
    wait.idle(messages);
    return look(wait);
}

/// The shortest of many: a thread may always lose its core.
nanoseconds shortest(flyring::BatchSpinWait& wait, int messages) {
    nanoseconds found = nanoseconds::max();
    for (int i = 0; i < 50; ++i) found = std::min(found, after_run_of(wait, messages));
    return found;
}

TEST(Idle, batch_spin_stands_back_as_long_as_it_is_told_after_a_run_and_not_after_a_few_messages) {
    flyring::BatchSpinWait wait(stand_back);
    for (int i = 0; i < 3; ++i) EXPECT_GE(after_run_of(wait, 4), stand_back);
    EXPECT_LT(shortest(wait, 3), stand_back / 2);
}

TEST(Idle, batch_spin_stands_back_once_per_run) {
    flyring::BatchSpinWait wait(stand_back);
    nanoseconds found = nanoseconds::max();
    for (int i = 0; i < 20; ++i) {
        EXPECT_GE(after_run_of(wait, 256), stand_back);
        found = std::min(found, look(wait));
    }
    EXPECT_LT(found, stand_back / 2);
}

TEST(Idle, batch_spin_forgets_a_run_when_it_is_reset) {
    flyring::BatchSpinWait wait(stand_back);
    nanoseconds found = nanoseconds::max();
    for (int i = 0; i < 50; ++i) {
        wait.idle(256);
        wait.reset();
        found = std::min(found, look(wait));
    }
    EXPECT_LT(found, stand_back / 2);
}

TEST(Idle, batch_spin_stands_back_for_five_microseconds_unless_it_is_told) {
    flyring::BatchSpinWait wait;
    const nanoseconds found = shortest(wait, 256);
    EXPECT_GE(found, microseconds(5));
    EXPECT_LT(found, microseconds(1000));
}

TEST(Idle, batch_spin_takes_a_time_above_zero_only) {
    for (const nanoseconds time : {nanoseconds(0), nanoseconds(-1), nanoseconds::min()}) {
        try {
            flyring::BatchSpinWait wait(time);
            FAIL() << time.count();
        } catch (const flyring::InvalidArgument& refused) {
            EXPECT_EQ(refused.argument(), "stand_back");
        }
    }
}

}  // namespace
