/* SPDX-License-Identifier: Apache-2.0 */
/* The Python object Subscriber, the owner of a subscriber slot. Shared by poll.c (reading) and subscriber.c (creation).
   */
#ifndef FLYRING_SUBSCRIBER_H
#define FLYRING_SUBSCRIBER_H

#include "reader.h"
#include "ring.h"
#include "waiting.h"

typedef struct {
    uint8_t *data; /* mapped read-only */
    uint8_t *gate;
    int64_t cursor;
    int64_t stored; /* the gate's value */
    int64_t count; /* the count of the cursor (6.5), which wraps; below 0: not known */
    sender *from;
    int32_t number;
    uint32_t bit; /* this ring's bit in the asleep words */
    bool corrupt; /* reported; not read again */
} ring_reader;

typedef struct {
    Reader base;
    waker waker; /* of publishers */
    ring_reader *pinned_ring; /* the ring of base.pinned, whose gate stays at that record */
    bool lost, kept;
    int32_t slot;
    sender *senders; /* one for each ring */
    File *lock;
} Subscriber;

static inline ring_reader *subscriber_rings(const Subscriber *self)
{
    return self->base.rings;
}

/* Store the gate, and wake publishers (6.9, 4 and 6). `count`: the count of the position. */
static inline void store_gate_at(const Subscriber *self, ring_reader *ring, int64_t position, int64_t count)
{
    if (ring->stored != position) {
        ring->stored = position;
        STORE64_RELAXED(ring->gate + GATE_COUNT, count < 0 ? COUNT_UNKNOWN : count);
        STORE64_RELEASE(ring->gate, position); /* after the last read below it; pairs with 6.2, 2 */
        wake_if_asleep(&self->waker, ring->bit); /* 6.9, 6 */
    }
}

static inline void store_gate(const Subscriber *self, ring_reader *ring)
{
    store_gate_at(self, ring, ring->cursor, ring->count);
}

static inline void count_messages(ring_reader *ring, int64_t messages)
{
    ring->count = (int64_t)((uint64_t)ring->count + (uint64_t)messages); /* wraps if the file has such a count */
}

/* A message in a ring, or a run of similar ones. */
typedef struct {
    const uint8_t *payload;
    int64_t length, next; /* of the payload; where the next record starts */
    int64_t count; /* the number of messages */
    int32_t type;
} record;

/* poll.c */

extern const reader_kind subscriber_kind;
/* Raises and returns false if the subscriber cannot be used now. */
bool subscriber_usable(Subscriber *self);
/* Find the next message at or after the cursor, which stays before it (6.9, 1 to 3): 1 found, 0 none, -1 an exception.
   Stores the gate when `store_every` bytes were read. */
int subscriber_next(Subscriber *self, ring_reader *ring, record *found);
/* Whether the slot was not taken away while bytes were read (6.9, 5). False with SlotLostError. */
bool subscriber_still_ours(Subscriber *self);
/* The method take. */
PyObject *subscriber_take(Subscriber *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

PyTypeObject *make_subscriber_type(PyObject *module);

#endif
