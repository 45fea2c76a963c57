/* SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"
#include "ring.h"
#include "waiting.h"

const int64_t dead_epoch_word = INT64_MIN; /* no epoch is negative */

/* Return the next subscriber slot that has a gate in the ring with this trailer; -1 after the last. */
static int32_t next_gating(const geometry *shape, const uint8_t *base, const uint8_t *trailer, int32_t slot)
{
    if (!shape->service)
        return slot + 1 < shape->subscribers ? slot + 1 : -1;
    int32_t ring = (int32_t)((trailer - base - shape->rings) / shape->stride), reader = service_reader(shape, ring);
    return slot < 0 && reader != 0 ? reader : -1; /* service.md 2, 9: never the server's slot */
}

void stop_gating(const geometry *shape, uint8_t *base, int32_t slot)
{
    for (int32_t ring = 0; ring < shape->publishers; ring++) {
        if (shape->service && service_reader(shape, ring) != slot)
            continue; /* service.md 2 */
        /* 6.6, 6.7: after the last read of the bytes below; pairs with the acquire of 6.2, 2 */
        STORE64_RELEASE(base + ring_trailer_offset(shape, ring) + slot_gate_offset(shape, slot), NOT_GATING);
    }
    wake_all(room_words(shape, base));
}

void evict_slot(const geometry *shape, uint8_t *base, int32_t slot)
{
    uint8_t *at = base + subscriber_slot_offset(shape, slot);
    atomic_fetch_add_explicit(ATOMIC64(at + SUBSCRIBER_SLOT_EPOCH), 1,
                              memory_order_seq_cst); /* pairs with 5.4, 6.9, 5 */
    STORE32_RELEASE(at + SUBSCRIBER_SLOT_EVICTING, 1); /* until the next join: 5.3, 4 (acquire) */
    stop_gating(shape, base, slot);
    wake_all(data_words(shape, base)); /* the victim, if it sleeps */
}

bool evict_laggards(const geometry *shape, uint8_t *base, File *lock, const uint8_t *trailer, int64_t needed)
{
    bool any = false;
    int64_t control_lock = shape->control + CONTROL_CONTROL_LOCK;
    if (!lock_try(lock, control_lock))
        return false; /* try again later */
    for (int32_t slot = -1; (slot = next_gating(shape, base, trailer, slot)) >= 0;) {
        int64_t gate =
            LOAD64_ACQUIRE(trailer + slot_gate_offset(shape, slot)); /* under the lock: 6.11; pairs with poll 4 */
        if (gate >= 0 && gate < needed) {
            evict_slot(shape, base, slot);
            any = true;
        }
    }
    lock_release(lock, control_lock);
    return any;
}

static bool holds_back(const uint8_t *gate, int64_t needed)
{
    int64_t position = LOAD64_ACQUIRE(gate); /* pairs with poll 4 */
    return position >= 0 && position < needed;
}

static bool is_evicted(const uint8_t *slot)
{
    return LOAD32_ACQUIRE(slot + SUBSCRIBER_SLOT_EVICTING) != 0; /* pairs with 5.3, 5 (release) */
}

bool take_back(const geometry *shape, uint8_t *base, File *lock, const uint8_t *trailer, int64_t needed)
{
    bool any = false;
    int64_t control_lock = shape->control + CONTROL_CONTROL_LOCK;
    if (shape->foreign != 0)
        return false; /* 6.15: a foreign subscriber cannot be evicted */
    for (int32_t k = -1; (k = next_gating(shape, base, trailer, k)) >= 0;) {
        const uint8_t *slot = base + subscriber_slot_offset(shape, k);
        if (!holds_back(trailer + slot_gate_offset(shape, k), needed) || !is_evicted(slot))
            continue;
        if (!lock_try(lock, control_lock))
            return any; /* try again later */
        if (is_evicted(slot)) { /* tested under the lock, because the next owner may have the gates by now */
            stop_gating(shape, base, k);
            any = true;
        }
        lock_release(lock, control_lock);
    }
    return any;
}

static bool is_kept(const uint8_t *slot)
{
    return LOAD32_ACQUIRE(slot + SUBSCRIBER_SLOT_KEPT) != 0; /* pairs with 5.3, 5 (release) */
}

bool retire_dead(const geometry *shape, uint8_t *base, File *lock, const uint8_t *trailer, int64_t needed)
{
    bool any = false;
    if (shape->foreign != 0)
        return false; /* 6.15: a foreign subscriber holds no lock */
    for (int32_t k = -1; (k = next_gating(shape, base, trailer, k)) >= 0;) {
        int64_t offset = subscriber_slot_offset(shape, k);
        uint8_t *slot = base + offset;
        const uint8_t *gate = trailer + slot_gate_offset(shape, k);
        if (!holds_back(gate, needed) || is_kept(slot))
            continue;
        if (!lock_try(lock, offset + CONTROL_SLOT_LOCK))
            continue; /* its owner is alive */
        if (!is_kept(slot) && holds_back(gate, needed)) {
            atomic_fetch_add_explicit(ATOMIC64(slot + SUBSCRIBER_SLOT_EPOCH), 1,
                                      memory_order_release); /* pairs with 5.4 */
            stop_gating(shape, base, k);
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
