/* SPDX-License-Identifier: Apache-2.0 */
/* Adopts the jobs of workers that died or were evicted (spec/queue.md 5). */
#include "worker.h"

static bool is_evicting(const Worker *self, int32_t slot)
{
    return LOAD32_ACQUIRE(self->base.memory->base + subscriber_slot_offset(&self->base.shape, slot) +
                          SUBSCRIBER_SLOT_EVICTING) != 0; /* pairs with 7 and channel 5.3, 5 (release) */
}

/* Whether the owner of a slot is dead. Never tries the lock, because the slot's next owner would find it locked. */
static bool is_dead(const Worker *self, int32_t slot)
{
    return lock_is_free(self->lock, subscriber_slot_offset(&self->base.shape, slot) + CONTROL_SLOT_LOCK);
}

/* Adopt the job of one gate (steps 1 to 5), under the control lock. Returns whether it did. */
static bool adopt_gate(Worker *self, int32_t slot, job_ring *ring, int64_t now)
{
    uint8_t *its = ring->trailer + gate_offset(slot);
    bool dead = is_dead(self, slot);
    if (!epoch_holds(&self->base.epoch) || (!dead && !is_evicting(self, slot))) /* 1: checked again under the lock */
        return false;
    int64_t at = LOAD64_ACQUIRE(its); /* 2; pairs with take 2 and 5 */
    if (at < 0)
        return false;
    int64_t end = LOAD64_ACQUIRE(its + GATE_TAKEN_END); /* 2: after the gate; pairs with take 2 */
    int64_t shared = LOAD64_ACQUIRE(ring->shared); /* 2: after the look at its owner; pairs with take 3 */
    if (!dead && at >= shared)
        return false; /* 3: its owner may still take the job that it has announced */
    if (end <= at || end > shared || !worker_is_position(self, at) || !worker_is_position(self, end)) {
        compare_and_set(its, at, NOT_GATING); /* 4: the job was never taken, and is still in the ring */
        wake_if_asleep(&self->room, ring->bit);
        return false;
    }
    int32_t attempts = LOAD32_RELAXED(its + GATE_ATTEMPTS); /* 5 */
    attempts = attempts < 0 ? 1 : attempts + (attempts < INT32_MAX);
    STORE32_RELAXED(ring->gate + GATE_ATTEMPTS, attempts); /* 5 */
    STORE64_RELEASE(ring->gate + GATE_TAKEN_END, end); /* 5; pairs with adopt 2 */
    STORE64_RELEASE(ring->gate, at); /* 5; pairs with queue 4, 2b */
    atomic_fetch_add_explicit(ATOMIC64(self->base.memory->base + self->base.shape.control + CONTROL_HANDOVERS), 1,
                              memory_order_release); /* 5; pairs with queue 4, 2a and 2c, ended 1 and 4 */
    if (!compare_and_set(its, at, NOT_GATING)) { /* 5, last: failed, because the owner has moved its gate */
        STORE64_RELEASE(ring->gate, NOT_GATING); /* pairs with queue 4, 2b */
        wake_if_asleep(&self->room, ring->bit);
        return false;
    }
    worker_has_batch(self, ring, at, end, attempts, true, now);
    return true;
}

bool worker_adopt(Worker *self, int64_t now)
{
    int64_t control_lock = self->base.shape.control + CONTROL_CONTROL_LOCK;
    for (int32_t slot = 1; slot < self->base.shape.subscribers; slot++) {
        if (slot == self->slot)
            continue;
        for (int i = 0; i < self->base.count; i++) {
            job_ring *ring = &worker_rings(self)[i];
            if (LOAD64_ACQUIRE(ring->trailer + gate_offset(slot)) < 0) /* pairs with take 2 */
                continue;
            if (!is_evicting(self, slot) && !is_dead(self, slot))
                break; /* its owner is alive */
            if (!lock_try(self->lock, control_lock)) /* 1 */
                return false; /* try again later */
            bool adopted = adopt_gate(self, slot, ring, now);
            lock_release(self->lock, control_lock); /* 6 */
            if (adopted)
                return true;
        }
    }
    return false;
}

/* Make room for a copy of `length` bytes. False with an exception. */
static bool grow_copy(Worker *self, int64_t length)
{
    if (length <= self->copy_length)
        return true;
    uint8_t *copy = PyMem_Realloc(self->copy, (size_t)length);
    if (copy == NULL) {
        PyErr_NoMemory();
        return false;
    }
    self->copy = copy;
    self->copy_length = length;
    return true;
}

int worker_copy_job(Worker *self, int64_t *length, int32_t *type)
{
    job_ring *ring = self->ring;
    int64_t offset = self->at & self->base.mask;
    const uint8_t *at = ring->data + offset;
    *length = LOAD32_ACQUIRE((void *)(at + RECORD_LENGTH)); /* 7, as channel 6.10, 1 */
    *type = LOAD32_RELAXED((void *)(at + RECORD_TYPE));
    if (*length >= RECORD_HEADER_LENGTH && offset + worker_record_size(self, *length) <= self->base.capacity) {
        if (!grow_copy(self, *length))
            return -1;
        copy_words(self->copy, at + RECORD_PAYLOAD, *length - RECORD_HEADER_LENGTH);
    }
    FENCE_ACQUIRE(); /* 7: pairs with the release fences of publish 3 and 9 */
    if (self->at + self->base.capacity - RECORD_HEADER_LENGTH < LOAD64_ACQUIRE(ring->trailer + TRAILER_CLAIMED)) {
        worker_drop_batch(self); /* lapped: the job was done, and other workers have or had the next ones */
        return 0;
    }
    return 1;
}
