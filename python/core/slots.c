/* SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"
#include "ring.h"

const int64_t dead_epoch_word = INT64_MIN; /* no epoch is negative */

void clear_gates(const geometry *shape, uint8_t *base, int32_t slot)
{
    for (int32_t ring = 0; ring < shape->publishers; ring++) {
        /* 6.6, 6.7: after the last read of what is given up; pairs with the acquire of 6.2, 2 */
        STORE64_RELEASE(base + ring_trailer_offset(shape, ring) + gate_offset(slot), NOT_GATING);
    }
}

/* 6.11, under the control lock: takes a subscriber slot away from its owner. */
static void evict_slot(const geometry *shape, uint8_t *base, int32_t slot)
{
    uint8_t *at = base + subscriber_slot_offset(shape, slot);
    atomic_fetch_add_explicit(ATOMIC64(at + SUBSCRIBER_SLOT_EPOCH), 1,
                              memory_order_seq_cst); /* pairs with 5.4, 6.9, 5 */
    STORE32_RELEASE(at + SUBSCRIBER_SLOT_EVICTING, 1); /* until the next join: 5.3, 4 (acquire) */
    clear_gates(shape, base, slot);
}

bool evict_laggards(const geometry *shape, uint8_t *base, File *lock, const uint8_t *trailer, int64_t needed)
{
    bool any = false;
    int64_t control_lock = shape->control + CONTROL_CONTROL_LOCK;
    if (!lock_try(lock, control_lock))
        return false; /* this time */
    for (int32_t slot = 0; slot < shape->subscribers; slot++) {
        int64_t gate = LOAD64_ACQUIRE(trailer + gate_offset(slot)); /* under the lock: 6.11; pairs with poll 4 */
        if (gate >= 0 && gate < needed) {
            evict_slot(shape, base, slot);
            any = true;
        }
    }
    lock_release(lock, control_lock);
    return any;
}

/* Kept, and there is where to resume. */
static bool is_kept(const uint8_t *slot)
{
    return LOAD32_ACQUIRE(slot + SUBSCRIBER_SLOT_KEPT) != 0 && LOAD32_ACQUIRE(slot + SUBSCRIBER_SLOT_EVICTING) == 0;
}

bool retire_dead(const geometry *shape, uint8_t *base, File *lock, const uint8_t *trailer, int64_t needed)
{
    bool any = false;
    if (shape->foreign != 0)
        return false; /* 6.15: it holds no lock */
    for (int32_t k = 0; k < shape->subscribers; k++) {
        int64_t offset = subscriber_slot_offset(shape, k);
        uint8_t *slot = base + offset;
        const uint8_t *gate = trailer + gate_offset(k);
        int64_t position = LOAD64_ACQUIRE(gate); /* pairs with poll 4 */
        if (position < 0 || position >= needed || is_kept(slot))
            continue;
        if (!lock_try(lock, offset + CONTROL_SLOT_LOCK))
            continue; /* its owner lives */
        position = LOAD64_ACQUIRE(gate);
        if (!is_kept(slot) && position >= 0 && position < needed) {
            atomic_fetch_add_explicit(ATOMIC64(slot + SUBSCRIBER_SLOT_EPOCH), 1,
                                      memory_order_release); /* pairs with 5.4 */
            clear_gates(shape, base, k);
            any = true;
        }
        lock_release(lock, offset + CONTROL_SLOT_LOCK);
    }
    return any;
}

bool ring_ended(const geometry *shape, const uint8_t *base, int32_t ring, int64_t cursor)
{
    const uint8_t *slot = base + publisher_slot_offset(shape, ring), *trailer = base + ring_trailer_offset(shape, ring);
    return shape->foreign != FEATURE_FOREIGN_PUBLISHER && /* 6.15 */
           LOAD32_ACQUIRE(slot + PUBLISHER_SLOT_CLOSED) == 1 && /* 6.14; pairs with 5.2, close (release) */
           LOAD64_ACQUIRE(trailer + TRAILER_PUBLISHED) == cursor; /* pairs with publish 7 */
}
