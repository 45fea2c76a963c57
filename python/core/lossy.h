/* SPDX-License-Identifier: Apache-2.0 */
/* The Python object LossySubscriber, a reader without a slot. Shared by lossy_ring.c (the steps of spec/channel.md
   6.10), lossy_poll.c (poll, take, peek, valid) and lossy.c (creation). */
#ifndef FLYRING_LOSSY_H
#define FLYRING_LOSSY_H

#include "reader.h"

typedef struct {
    const uint8_t *data, *trailer, *slot; /* mapped read-only; the slot is the publisher's */
    int64_t cursor;
    int64_t messages; /* the ring's messages before the cursor */
    int64_t lost_messages, lost_bytes;
    sender from;
    bool started; /* false: it starts when the first consistent count is read */
    bool corrupt; /* reported; not read again */
} lossy_ring;

typedef struct {
    Reader base;
    int64_t longest; /* of a message's record: capacity / 4 */
    uint8_t *copy; /* the copy of the message that a handler has */
    int64_t copy_length; /* allocated */
    Message *peeked; /* borrowed: the message refers to this subscriber, and clears this pointer when it is freed */
    lossy_ring *peeked_ring; /* NULL: there is no message from peek */
    int64_t peeked_length; /* of its record, aligned */
    bool oldest; /* the rings start at the oldest message still there; else at now */
    bool newest; /* after a lap it continues at now; else at the oldest message that leaves a quarter of the ring */
} Lossy;

static inline lossy_ring *lossy_rings(const Lossy *self)
{
    return self->base.rings;
}

typedef struct {
    const uint8_t *payload;
    int64_t length, bytes; /* of the payload; of the record, aligned */
    int64_t count; /* messages: 1, or those of a run */
    int32_t type;
} lossy_record;

/* One ring's turn within one poll, take or peek. */
typedef struct {
    int64_t stop; /* padding that leads here ends the turn */
    int jumps;
} lossy_turn;

/* lossy_ring.c */

/* Whether the bytes that were read at the cursor may be of a later lap: p + C < claimed + 8 (6.10). To be called after
   the reads. */
static inline bool lossy_lapped(const Lossy *self, const lossy_ring *ring)
{
    FENCE_ACQUIRE(); /* 6.10, 2 to 4: pairs with the release fences of publish 3 and 9 */
    return UNLIKELY(ring->cursor + self->base.capacity - RECORD_HEADER_LENGTH <
                    LOAD64_ACQUIRE(ring->trailer + TRAILER_CLAIMED));
}

/* Set the cursor where reading of the ring starts. False with an exception. */
bool lossy_start(Lossy *self, lossy_ring *ring);
lossy_turn lossy_begin_turn(const Lossy *self, const lossy_ring *ring);
/* Find the next message (6.10, 1 to 3): 1 there is one at the cursor, which the caller reads and then tests with
   lossy_lapped; 0 the turn is over; -1 an exception. */
int lossy_next(Lossy *self, lossy_ring *ring, lossy_turn *turn, lossy_record *found);
/* Jump to a later position after a lap (6.10, 5): 1 go on, 0 the turn is over, -1 an exception. */
int lossy_jump(Lossy *self, lossy_ring *ring, lossy_turn *turn);
static inline void lossy_consume(lossy_ring *ring, int64_t bytes, int64_t messages)
{
    ring->cursor += bytes;
    ring->messages = (int64_t)((uint64_t)ring->messages + (uint64_t)messages); /* wraps if the file has such a count */
}
/* Whether lossy_next may find or lose something. Only a hint. */
bool lossy_may_find(const Lossy *self, const lossy_ring *ring);

/* lossy_poll.c */

extern const reader_kind lossy_kind;
/* Methods. */
PyObject *lossy_take(Lossy *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *lossy_peek(Lossy *self, PyObject *ignored);
PyObject *lossy_valid(Lossy *self, PyObject *ignored);

PyTypeObject *make_lossy_type(PyObject *module);

#endif
