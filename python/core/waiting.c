/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* syscall */
#include "waiting.h"
#include "ring.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define WORD(at) ((_Atomic uint32_t *)(void *)(at))

/* What a waker watches instead of the asleep word. Without wakes: no bit is set. Without membarrier: all bits are set,
   so that wake_now looks at the asleep word behind a fence. */
static const uint32_t no_ring_is_woken = 0, a_fence_comes_first = ALL_RINGS;

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec;
}

/* Waking. "wake 1", "sleep 3" are steps in spec/channel.md 6.16, "join 2" in 6.4. */

bool register_waker(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void wake_sleepers(const uint8_t *sequence, uint32_t bits)
{
    syscall(SYS_futex, sequence, FUTEX_WAKE_BITSET, INT_MAX, NULL, NULL, bits);
}

void wake_all(waiting_words words)
{
    atomic_fetch_add_explicit(WORD(words.sequence), 1, memory_order_release); /* pairs with sleep 1 */
    wake_sleepers(words.sequence, ALL_RINGS);
}

waker waker_make(waiting_words words, bool wakes)
{
    if (!wakes)
        return (waker){(const uint8_t *)&no_ring_is_woken, words, false};
    bool registered = register_waker();
    return (waker){registered ? words.asleep : (const uint8_t *)&a_fence_comes_first, words, registered};
}

COLD void wake_now(const waker *self, uint32_t bits)
{
    if (!self->registered) {
        FENCE_SEQ_CST(); /* instead of the compiler fence; pairs with sleep 3 */
        if (((uint32_t)LOAD32_RELAXED(self->words.asleep) & bits) == 0)
            return;
    }
    atomic_fetch_and_explicit(WORD(self->words.asleep), ~bits, memory_order_relaxed); /* wake 1 */
    atomic_fetch_add_explicit(WORD(self->words.sequence), 1, memory_order_release); /* wake 2; pairs with sleep 1 */
    wake_sleepers(self->words.sequence, bits); /* wake 3 */
}

bool sleeps(const waker *self, uint32_t bits)
{
    if (!self->registered)
        FENCE_SEQ_CST(); /* instead of the compiler fence; pairs with sleep 3 */
    return ((uint32_t)LOAD32_RELAXED(self->words.asleep) & bits) != 0;
}

COLD void wake_one_now(const waker *self)
{
    if (!sleeps(self, JOBS_BIT))
        return;
    atomic_fetch_and_explicit(WORD(self->words.asleep), ~(uint32_t)JOBS_BIT, memory_order_relaxed);
    atomic_fetch_add_explicit(WORD(self->words.sequence), 1, memory_order_release); /* pairs with sleep 1 */
    syscall(SYS_futex, self->words.sequence, FUTEX_WAKE_BITSET, 1, NULL, NULL, (uint32_t)JOBS_BIT);
}

/* Sleeping */

int64_t wait_cap(bool room, int64_t began)
{
    if (!room)
        return DATA_CAP_NS;
    return now_ns() - began < SECOND_NS ? FIRST_ROOM_CAP_NS : ROOM_CAP_NS;
}

void set_asleep(const wait_target *target)
{
    atomic_fetch_or_explicit(WORD(target->words.asleep), target->mask, memory_order_relaxed);
}

bool reach_wakers(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0)
        return true;
    FENCE_SEQ_CST();
    return false;
}

bool announce_sleep(const wait_target *target)
{
    if (!target->writable)
        return false;
    set_asleep(target); /* sleep 2 */
    return reach_wakers(); /* sleep 3 */
}

void sleep_while(const uint8_t *sequence, uint32_t value, uint32_t mask, int64_t until)
{
    struct timespec time = {.tv_sec = until / SECOND_NS, .tv_nsec = until % SECOND_NS};
    syscall(SYS_futex, sequence, FUTEX_WAIT_BITSET, value, &time, NULL, mask); /* sleep 6 */
}

void sleep_once(const wait_target *target, int64_t deadline, int64_t cap)
{
    uint32_t sequence = atomic_load_explicit(WORD(target->words.sequence), memory_order_acquire); /* sleep 1 */
    bool reached = announce_sleep(target);
    if (target->ready(target->context)) /* sleep 4 */
        return;
    if (!reached || !target->others_wake(target->context)) /* sleep 5 */
        cap = SHORT_CAP_NS;
    int64_t until = now_ns() + cap;
    if (until > deadline)
        until = deadline;
    if (target->until != 0 && until > target->until)
        until = target->until;
    sleep_while(target->words.sequence, sequence, target->mask, until);
}

void rest_once(const wait_target *target, int64_t until)
{
    uint32_t sequence = atomic_load_explicit(WORD(target->words.sequence), memory_order_acquire); /* sleep 1 */
    if (!target->ready(target->context)) /* sleep 4 */
        sleep_while(target->words.sequence, sequence, target->mask, until);
}

bool publisher_wakes(const geometry *shape, const uint8_t *base, int32_t ring)
{
    const uint8_t *slot = base + publisher_slot_offset(shape, ring);
    int64_t epoch = LOAD64_ACQUIRE(slot + PUBLISHER_SLOT_EPOCH); /* pairs with 5.2, 4 */
    return shape->foreign != FEATURE_FOREIGN_PUBLISHER &&
           (epoch <= 0 || epoch > MAX_EPOCH || LOAD32_RELAXED(slot + PUBLISHER_SLOT_CLOSED) != 0 ||
            LOAD64_RELAXED(slot + PUBLISHER_SLOT_WAKES) == epoch);
}

bool subscribers_wake(const geometry *shape, const uint8_t *base, int32_t ring)
{
    const uint8_t *trailer = base + ring_trailer_offset(shape, ring);
    if (shape->foreign == FEATURE_FOREIGN_SUBSCRIBER)
        return false;
    int32_t first = shape->service ? service_reader(shape, ring) : 0;
    int32_t end = shape->service ? first + 1 : shape->subscribers;
    for (int32_t k = first; k < end; k++) {
        const uint8_t *slot = base + subscriber_slot_offset(shape, k);
        if (LOAD64_ACQUIRE(trailer + slot_gate_offset(shape, k)) >= 0 && /* pairs with join 2 and 4 */
            LOAD64_RELAXED(slot + SUBSCRIBER_SLOT_WAKES) != LOAD64_ACQUIRE(slot + SUBSCRIBER_SLOT_EPOCH))
            return false;
    }
    return true;
}

bool workers_wake(const geometry *shape, const uint8_t *base, const File *lock)
{
    for (int32_t k = 1; k < shape->subscribers; k++) {
        int64_t at = subscriber_slot_offset(shape, k);
        int64_t epoch = LOAD64_ACQUIRE(base + at + SUBSCRIBER_SLOT_EPOCH); /* pairs with 5.2, 4 */
        if (epoch > 0 && epoch <= MAX_EPOCH && LOAD64_RELAXED(base + at + SUBSCRIBER_SLOT_WAKES) != epoch &&
            !lock_is_free(lock, at + CONTROL_SLOT_LOCK)) /* if the lock is free, the owner was evicted or has gone */
            return false;
    }
    return true;
}
