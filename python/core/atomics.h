/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic access to mapped memory, and checks that the machine supports it. */
#ifndef FLYRING_ATOMICS_H
#define FLYRING_ATOMICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if ATOMIC_LLONG_LOCK_FREE != 2 || ATOMIC_INT_LOCK_FREE != 2
#error "Flyring needs lock-free 4- and 8-byte atomics"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Flyring's files are little endian and so must be the machine"
#endif

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define COLD __attribute__((noinline, cold)) /* for rarely called functions, so that their callers stay short */

/* `at` must be naturally aligned; the layout guarantees that. */
#define ATOMIC32(at) ((_Atomic int32_t *)(void *)(at))
#define ATOMIC64(at) ((_Atomic int64_t *)(void *)(at))
#define LOAD32_RELAXED(at) atomic_load_explicit(ATOMIC32(at), memory_order_relaxed)
#define LOAD32_ACQUIRE(at) atomic_load_explicit(ATOMIC32(at), memory_order_acquire)
#define LOAD64_RELAXED(at) atomic_load_explicit(ATOMIC64(at), memory_order_relaxed)
#define LOAD64_ACQUIRE(at) atomic_load_explicit(ATOMIC64(at), memory_order_acquire)
#define STORE32_RELAXED(at, v) atomic_store_explicit(ATOMIC32(at), (int32_t)(v), memory_order_relaxed)
#define STORE32_RELEASE(at, v) atomic_store_explicit(ATOMIC32(at), (int32_t)(v), memory_order_release)
#define STORE64_RELAXED(at, v) atomic_store_explicit(ATOMIC64(at), (int64_t)(v), memory_order_relaxed)
#define STORE64_RELEASE(at, v) atomic_store_explicit(ATOMIC64(at), (int64_t)(v), memory_order_release)
#define FENCE_ACQUIRE() atomic_thread_fence(memory_order_acquire)
#define FENCE_RELEASE() atomic_thread_fence(memory_order_release)
/* Keeps the compiler, but not the machine, from moving a memory access across it. */
#define FENCE_COMPILER() atomic_signal_fence(memory_order_seq_cst)
#define FENCE_SEQ_CST() atomic_thread_fence(memory_order_seq_cst)

/* Copies `length` bytes that another process may be overwriting: relaxed 8-byte loads. `from` must be aligned to 8, and
   mapped up to a multiple of 8 bytes. Payloads are: records are multiples of 8. */
static inline void copy_words(uint8_t *to, const uint8_t *from, int64_t length)
{
    int64_t at = 0;
    for (; at + 8 <= length; at += 8) {
        int64_t word = LOAD64_RELAXED(from + at);
        memcpy(to + at, &word, 8);
    }
    if (at < length) {
        int64_t word = LOAD64_RELAXED(from + at);
        memcpy(to + at, &word, (size_t)(length - at));
    }
}

/* A hint to the core, in a loop that looks at what another core writes. */
static inline void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb");
#endif
}

/* The same, several times; at least once. */
static inline void pause_cpus(int times)
{
    do
        pause_cpu();
    while (--times > 0);
}

#endif
