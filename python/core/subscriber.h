/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of a subscriber slot, as Python object: shared by subscriber.c (life) and poll.c (reading). */
#ifndef FLYRING_SUBSCRIBER_H
#define FLYRING_SUBSCRIBER_H

#include "reader.h"
#include "ring.h"

typedef struct {
    uint8_t *data; /* mapped read-only */
    uint8_t *gate;
    int64_t cursor;
    int64_t stored; /* what the gate holds */
    sender *from;
    int32_t ring;
    bool corrupt; /* reported; not looked at again */
} ring_reader;

typedef struct {
    Reader base;
    _Atomic(const int64_t *) epoch_word; /* in the slot; &dead_epoch_word once closed, forked or lost */
    int64_t epoch;
    ring_reader *rings;
    int count, next; /* rings chosen; the one after the ring that was served last */
    int64_t capacity, mask, alignment, store_every;
    ring_reader *pinned_ring; /* of base.pinned: the gate stays at its record */
    bool lost, kept;
    int32_t slot;
    sender *senders; /* of the rings */
    Memory *data, *memory;
    geometry shape;
    LockFile *lock;
    fork_node node;
} Subscriber;

/* A message in a ring, or a run of equal ones. */
typedef struct {
    const uint8_t *payload;
    int64_t length, next; /* of the payload; where the next record starts */
    int64_t count; /* messages */
    int32_t type;
} record;

static inline bool epoch_holds(Subscriber *self)
{
    const int64_t *word = atomic_load_explicit(&self->epoch_word, memory_order_relaxed);
    return LIKELY(LOAD64_RELAXED((void *)word) == self->epoch); /* 5.4 */
}

static inline void store_gate(ring_reader *ring, int64_t position)
{
    if (ring->stored != position) {
        ring->stored = position;
        STORE64_RELEASE(ring->gate, position); /* 6.9, 4: after the last read below it; pairs with 6.2, 2 */
    }
}

/* Raises and returns false. */
bool subscriber_explain_unusable(Subscriber *self);
/* The epoch has changed: raises and returns false. */
bool subscriber_explain_lost(Subscriber *self);
/* Drops the pin if its last export is gone. */
bool subscriber_unpin(Subscriber *self);
void subscriber_let_go_of_memory(Subscriber *self);

static inline bool subscriber_usable(Subscriber *self)
{
    if (UNLIKELY(self->base.use != IDLE || !epoch_holds(self)))
        return subscriber_explain_unusable(self);
    if (UNLIKELY(self->base.pinned != NULL && !subscriber_unpin(self))) {
        reader_view_alive();
        return false;
    }
    return true;
}

/* poll.c */
extern const reader_kind subscriber_kind;
/* The next message at or after the cursor, which moves over what is not a message: 1 found, 0 none, -1 corrupt. */
int subscriber_next_message(Subscriber *self, ring_reader *ring, record *found);
/* poll_runs.c: the same for an array_poll. A run has at most `most` messages. */
int subscriber_next_run(Subscriber *self, ring_reader *ring, void *array_poll, Py_ssize_t most, record *found);
PyObject *subscriber_take(Subscriber *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

#endif
