// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <limits>
#include <string>

#include "flyring/detail/layout.hpp"
#include "flyring/detail/memory.hpp"
#include "flyring/detail/system.hpp"
#include "flyring/errors.hpp"

// Sleeping until there is a message or room, and waking the sleepers (spec/channel.md 6.16).

namespace flyring::detail {

/// The two words of one direction: data (readers wait for messages) or room (publishers wait for space).
struct WaitingWords {
    std::uint32_t* sequence = nullptr;
    std::uint32_t* asleep = nullptr;  // a mask: waiting_bit of each ring that a sleeper waits for
};

inline constexpr std::uint32_t all_rings = 0xFFFFFFFF;

/// The bit of a ring in `asleep`.
inline std::uint32_t waiting_bit(std::uint32_t ring) noexcept {
    return std::uint32_t{1} << (ring % 32);
}

/// Wakes all sleepers on `sequence` whose mask shares a bit with `bits`.
inline void wake_sleepers(std::uint32_t* sequence, std::uint32_t bits) noexcept {
    (void)::syscall(SYS_futex, sequence, FUTEX_WAKE_BITSET, std::numeric_limits<std::int32_t>::max(), nullptr, nullptr,
                    bits);
}

/// Wakes one of the workers that sleep on `jobs`.
inline void wake_one_sleeper(std::uint32_t* sequence) noexcept {
    (void)::syscall(SYS_futex, sequence, FUTEX_WAKE_BITSET, 1, nullptr, nullptr, layout::JOBS_BIT);
}

/// Wakes all sleepers of one direction, and leaves the bits alone (6.16, wake all).
inline void wake_all(const WaitingWords& words) noexcept {
    __atomic_fetch_add(words.sequence, 1, __ATOMIC_RELEASE);  // pairs with sleep 1
    wake_sleepers(words.sequence, all_rings);
}

/// Registers this process for the sleepers' membarrier (6.16, register). False: the kernel refuses, so a sleeper's
/// membarrier does not reach this process. Each new object calls it: a repeated call costs little, and a registration
/// survives a fork but not an exec.
inline bool register_waker() noexcept {
    return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0U, 0) == 0;
}

/// Wakes the sleepers of one direction (6.16, wake). Publishers use it at publish 10, subscribers at poll 6.
class Waker {
  public:
    Waker() noexcept = default;
    /// `wakes` false: this process has opted out of waking.
    Waker(const WaitingWords& words, bool wakes) noexcept : words_(words) {
        if (!wakes) return;
        registered_ = register_waker();
        watched_ = registered_ ? words.asleep : &always;
    }

    /// Whether any sleeper may wait, for any ring; if so, call wake. To be called after the store of a message or a
    /// gate. It costs one load, since every message pays for it; wake looks at the ring's own bit.
    [[gnu::always_inline]] inline bool is_due() const noexcept {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        return FLYRING_UNLIKELY(load_relaxed(watched_) != 0);
    }

    /// Wakes the sleepers that wait for the ring with this bit.
    [[gnu::noinline, gnu::cold]] void wake(std::uint32_t bit) const noexcept {
        if (!registered_) full_fence();
        if ((load_relaxed(words_.asleep) & bit) == 0) return;
        __atomic_fetch_and(words_.asleep, ~bit, __ATOMIC_RELAXED);  // wake 1
        __atomic_fetch_add(words_.sequence, 1, __ATOMIC_RELEASE);   // wake 2; pairs with sleep 1
        wake_sleepers(words_.sequence, bit);                        // wake 3
    }

    /// Wakes one sleeping worker of a queue (spec/queue.md 10, wake one).
    [[gnu::noinline, gnu::cold]] void wake_one() const noexcept {
        if (!registered_) full_fence();
        if ((load_relaxed(words_.asleep) & layout::JOBS_BIT) == 0) return;
        __atomic_fetch_and(words_.asleep, ~layout::JOBS_BIT, __ATOMIC_RELAXED);  // wake one 1
        __atomic_fetch_add(words_.sequence, 1, __ATOMIC_RELEASE);                // wake one 2; pairs with sleep 1
        wake_one_sleeper(words_.sequence);                                       // wake one 3
    }

  private:
    static constexpr std::uint32_t never = 0;
    static constexpr std::uint32_t always = all_rings;

    const std::uint32_t* watched_ = &never;  // `asleep`; `always` if wake must begin with a full fence
    WaitingWords words_{};
    bool registered_ = false;
};

using Nanoseconds = std::chrono::nanoseconds;

/// Throws InvalidArgument for a time-out below 0.
inline void check_timeout(Nanoseconds timeout) {
    if (timeout.count() >= 0) return;
    throw InvalidArgument(
        "timeout", "it is " + std::to_string(timeout.count()) + " ns; 0 does not wait, less than that is no time");
}

/// now + time in ns, capped at the largest value instead of overflowing.
inline std::int64_t later(std::int64_t now, std::int64_t time) noexcept {
    return now + std::min(std::max<std::int64_t>(time, 0), std::numeric_limits<std::int64_t>::max() - now);
}

/// Returns a spin time unless it is below 0: then throws InvalidArgument.
inline Nanoseconds checked_spin(Nanoseconds time) {
    if (time.count() >= 0) return time;
    throw InvalidArgument("spin", "it is " + std::to_string(time.count()) + " ns; it must be 0 (look once) or more");
}

inline constexpr Nanoseconds default_spin{20'000};         // about the cost of a wake-up
inline constexpr std::int64_t spin_turn = 4'000'000;       // ns between two full checks while spinning
inline constexpr std::int64_t data_cap = 100'000'000;      // ns
inline constexpr std::int64_t room_cap = 20'000'000;       // ns
inline constexpr std::int64_t first_room_cap = 4'000'000;  // ns, in the first second of a wait
inline constexpr std::int64_t short_cap = 1'000'000;       // ns

/// Sleep 3: a full fence in every registered process. False: the kernel refuses it; then only this thread had a full
/// fence.
inline bool reach_wakers() noexcept {
    const bool reached = ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0U, 0) == 0;
    if (!reached) full_fence();
    return reached;
}

/// A time in ns as the futex calls take it.
inline timespec time_of(std::int64_t ns) noexcept {
    return {ns / 1'000'000'000, ns % 1'000'000'000};
}

/// One round of a sleep (6.16, sleep 1 to 6). `look()` returns whether there is a reason not to sleep. `cap()` returns
/// the longest sleep in ns. `writable`: the bits can be set.
template <typename Look, typename Cap>
void sleep_once(const WaitingWords& words, std::uint32_t mask, bool writable, std::int64_t deadline, Look&& look,
                Cap&& cap) {
    const std::uint32_t sequence = load_acquire(words.sequence);  // sleep 1; pairs with wake 2
    bool reached = false;
    if (writable) {
        __atomic_fetch_or(words.asleep, mask, __ATOMIC_RELAXED);  // sleep 2
        reached = reach_wakers();                                 // sleep 3
    }
    if (look()) return;                                        // sleep 4
    const std::int64_t longest = reached ? cap() : short_cap;  // sleep 5
    const timespec until = time_of(std::min(deadline, later(clock_ns(CLOCK_MONOTONIC), longest)));
    (void)::syscall(SYS_futex, words.sequence, FUTEX_WAIT_BITSET, sequence, &until, nullptr, mask);  // sleep 6
}

}  // namespace flyring::detail
