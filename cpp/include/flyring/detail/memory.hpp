// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// Access to words that other processes read and write; checks the machine assumptions of spec/channel.md 1.

#if !defined(__linux__)
#error "Flyring needs Linux: open-file-description locks, O_TMPFILE, MAP_POPULATE"
#endif
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the layout is little endian and is accessed in place");
static_assert(__atomic_always_lock_free(8, nullptr), "8-byte loads and stores must be single copies");
static_assert(sizeof(void*) == 8, "positions and mappings need 64-bit addresses");

#define FLYRING_LIKELY(condition) (__builtin_expect(static_cast<long>(condition), 1) != 0)
#define FLYRING_UNLIKELY(condition) (__builtin_expect(static_cast<long>(condition), 0) != 0)
/// Tells the compiler that a condition always holds.
#define FLYRING_ASSUME(condition) ((condition) ? static_cast<void>(0) : __builtin_unreachable())

namespace flyring::detail {

template <typename T>
inline T load_relaxed(const T* word) noexcept {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

template <typename T>
inline T load_acquire(const T* word) noexcept {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

template <typename T>
inline void store_relaxed(T* word, T value) noexcept {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

template <typename T>
inline void store_release(T* word, T value) noexcept {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

inline void release_fence() noexcept {
    __atomic_thread_fence(__ATOMIC_RELEASE);
}
inline void acquire_fence() noexcept {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}
inline void full_fence() noexcept {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/// Keeps the compiler from moving a store in front of earlier ones, so that a killed process leaves its stores in
/// program order.
inline void compiler_fence() noexcept {
    __atomic_signal_fence(__ATOMIC_RELEASE);
}

/// Sum and difference of counts, with wrap-around: in a hostile file a count may be anything.
inline std::int64_t wrapping_add(std::int64_t count, std::int64_t more) noexcept {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(count) + static_cast<std::uint64_t>(more));
}

inline std::int64_t wrapping_subtract(std::int64_t count, std::int64_t less) noexcept {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(count) - static_cast<std::uint64_t>(less));
}

/// Hides the origin of `value` from the compiler.
inline std::int64_t opaque(std::int64_t value) noexcept {
    asm("" : "+r"(value));
    return value;
}

template <typename Word>
[[gnu::always_inline]] inline void copy_word(std::byte* to, const std::byte* from) noexcept {
    Word word;
    std::memcpy(&word, from, sizeof word);
    asm("" : "+r"(word));  // keeps the compiler from combining words into vectors
    std::memcpy(to, &word, sizeof word);
}

/// The most bytes that copy_small copies.
inline constexpr std::size_t small = 64;

/// Copies a small message in words, not in vectors. Its bytes were often written just before, in words; a vector load
/// that spans several pending stores must wait until they leave the store buffer.
[[gnu::always_inline]] inline void copy_small(std::byte* to, const std::byte* from, std::size_t length) noexcept {
    FLYRING_ASSUME(length <= small);
    std::size_t at = 0;
    for (; at + 32 <= length; at += 32) {
        copy_word<std::uint64_t>(to + at, from + at);
        copy_word<std::uint64_t>(to + at + 8, from + at + 8);
        copy_word<std::uint64_t>(to + at + 16, from + at + 16);
        copy_word<std::uint64_t>(to + at + 24, from + at + 24);
    }
    if ((length & 16) != 0) {
        copy_word<std::uint64_t>(to + at, from + at);
        copy_word<std::uint64_t>(to + at + 8, from + at + 8);
        at += 16;
    }
    if ((length & 8) != 0) {
        copy_word<std::uint64_t>(to + at, from + at);
        at += 8;
    }
    if ((length & 7) == 0) return;
    if ((length & 4) != 0) {
        copy_word<std::uint32_t>(to + at, from + at);
        at += 4;
    }
    if ((length & 2) != 0) {
        copy_word<std::uint16_t>(to + at, from + at);
        at += 2;
    }
    if ((length & 1) != 0) to[at] = from[at];
}

/// Fetches a cache line for a write that comes soon.
inline void prefetch_to_write(const void* at) noexcept {
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));  // an intrinsic would need a compiler flag
#else
    __builtin_prefetch(at, 1);
#endif
}

/// Tells the processor that this thread spins, so that its sibling hyper-thread gets the shared units.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

/// The word of type T at `base` + `offset` bytes. The layout keeps every word aligned to its size.
template <typename T>
inline T* word_at(std::byte* base, std::uint64_t offset) noexcept {
    return reinterpret_cast<T*>(base + offset);
}

template <typename T>
inline const T* word_at(const std::byte* base, std::uint64_t offset) noexcept {
    return reinterpret_cast<const T*>(base + offset);
}

/// Reads a T from bytes that need not be aligned.
template <typename T>
inline T get(const std::byte* bytes) noexcept {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

template <typename T>
inline void put(std::byte* bytes, T value) noexcept {
    std::memcpy(bytes, &value, sizeof value);
}

}  // namespace flyring::detail
