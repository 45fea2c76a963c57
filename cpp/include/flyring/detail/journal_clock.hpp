// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "flyring/detail/environment.hpp"
#include "flyring/detail/system.hpp"

namespace flyring::detail {

/// The wall clock of a writer (spec/journal.md 3.1): ns since 1970. A reading of the system's clock waits for all
/// instructions before it, which takes as long as the rest of an append. So where the kernel itself keeps time by the
/// processor's counter, the system's clock is read once in a millisecond, and between two readings the counter is. A
/// clock that is set takes effect within a millisecond.
class JournalClock {
  public:
    explicit JournalClock(const Environment& environment) : given_(environment.now) {
#if defined(__x86_64__)
        if (!given_ && kernel_uses_counter()) next_ = 0;
#endif
    }

    [[gnu::always_inline]] inline std::int64_t now() noexcept {
#if defined(__x86_64__)
        const std::uint64_t counter = __rdtsc();
        const std::uint64_t since = counter - at_;
        if (__builtin_expect(since < valid_, 1)) {
            return time_ + static_cast<std::int64_t>(since * rate_ >> 32);
        }
#endif
        return read();
    }

  private:
#if defined(__x86_64__)
    static constexpr std::uint64_t again = 1'000'000;        // ns between two readings of the system's clock
    static constexpr std::uint64_t longest = 1'000'000'000;  // ns over which the counter's rate is taken
    static constexpr std::int64_t disturbed = 300;           // ns that a reading takes if it was interrupted

    static bool kernel_uses_counter() noexcept {
        static const bool uses = [] {
            const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
                std::fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re"), &std::fclose);
            char name[16] = {};
            return file && std::fgets(name, sizeof name, file.get()) != nullptr && std::strcmp(name, "tsc\n") == 0;
        }();
        return uses;
    }
#endif

    /// Reads the system's clock, and finds the counter's rate since the last reading.
    [[gnu::noinline]] std::int64_t read() noexcept {
        if (given_) return *given_;
        const std::int64_t time = clock_ns(CLOCK_REALTIME);
#if defined(__x86_64__)
        if (next_ < 0) return time;  // not by the counter
        const std::int64_t steady = clock_ns(CLOCK_MONOTONIC);
        if (steady < next_) return time;
        const std::uint64_t counter = __rdtsc();
        const std::int64_t wall = clock_ns(CLOCK_REALTIME);
        const std::int64_t after = clock_ns(CLOCK_MONOTONIC);
        next_ = after + static_cast<std::int64_t>(again);
        valid_ = 0;
        if (after - steady > disturbed) return wall;  // the thread was interrupted: the next reading tries again
        const auto passed = static_cast<std::uint64_t>(steady - steady_);
        const std::uint64_t counted = counter - at_;
        // Not after a pause, and not if the counter was set. So no product below, or in now(), has more than 64 bits.
        if (steady_ != 0 && passed >= again && passed <= longest && counted > passed / 8 && counted / 16 < passed) {
            rate_ = (passed << 32) / counted;
            valid_ = counted * again / passed;
        }
        at_ = counter;
        steady_ = steady;
        time_ = wall;
        return wall;
#else
        return time;
#endif
    }

#if defined(__x86_64__)
    std::uint64_t at_ = 0;     // the counter at the last reading
    std::uint64_t valid_ = 0;  // counts after it for which time_ and rate_ hold; 0: read the system's clock
    std::uint64_t rate_ = 0;   // ns a count, times 2^32
    std::int64_t time_ = 0;    // of the last reading
    std::int64_t steady_ = 0;  // the same by CLOCK_MONOTONIC, which is never set
    std::int64_t next_ = -1;   // when to read again, by CLOCK_MONOTONIC; -1: the counter is not used
#endif
    std::optional<std::int64_t> given_;
};

}  // namespace flyring::detail
