// SPDX-License-Identifier: Apache-2.0
#include <linux/futex.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdarg>
#include <ctime>

// The library's clock and its sleeps (the linker sends them here, --wrap): time passes only when the clock is read, or
// by a sleep. So no run really waits, and every run is the same: a publisher that is held back retires dead subscribers
// after a few offers.

static constexpr long second = 1'000'000'000;  // ns
static long now = second;

extern "C" {
int __real_clock_gettime(clockid_t clock, timespec* time);
long __real_syscall(long number, ...);

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

/// A futex wait returns at once as timed out, because no other thread could wake it. Reads six arguments of any call.
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...) {
    std::va_list list;
    va_start(list, number);
    long words[6];
    for (long& word : words) word = va_arg(list, long);
    va_end(list);
    if (number == SYS_futex && (words[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) {
        const auto* const until = reinterpret_cast<const timespec*>(words[3]);
        if (const long then = until->tv_sec * second + until->tv_nsec; then > now) now = then;
        errno = ETIMEDOUT;
        return -1;
    }
    return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
}
