// SPDX-License-Identifier: Apache-2.0
#include <ctime>

// Replaces the library's clock and sleep (by the linker's --wrap): time advances with each read of the clock. So no run
// waits, and a publisher that is held back retires the dead after a few offers, the same in every run.

static constexpr long second = 1'000'000'000;  // ns
static long now = second;

extern "C" {
int __real_clock_gettime(clockid_t clock, timespec* time);

int __wrap_clock_gettime(clockid_t clock, timespec* time) {
    if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE) return __real_clock_gettime(clock, time);
    now += 300'000;
    *time = {now / second, now % second};
    return 0;
}

int __wrap_nanosleep(const timespec* duration, timespec*) {
    now += duration->tv_sec * second + duration->tv_nsec;
    return 0;
}
}
