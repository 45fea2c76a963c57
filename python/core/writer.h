/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of a publisher slot as it writes its ring: the owner record, and how it finds room (spec 6.1, 1 and 2; 6.2).
   A publisher has one, a client of a service one, the server of a service one for each client. */
#ifndef FLYRING_WRITER_H
#define FLYRING_WRITER_H

#include "ring.h"
#include "slots.h"

typedef struct slot_writer {
    ring_writer ring;
    bool owner_pending; /* 6.1: the owner record comes before the first record */
    bool blocked; /* blocked_since is not 0 (6.2, 5) */
    bool evicts; /* there is a lag limit */
    int32_t slot;
    int64_t wanted; /* bytes at the end that found no room last, with the header behind them; 0: none since */
    int64_t held_since; /* ns: held back first, or the last test (6.2, 4); 0: not held back */
    int64_t monotonic; /* ns, of tests: what is stored in blocked_since; 0: the clock's */
    int64_t clock_offset; /* of CLOCK_MONOTONIC in this time namespace (spec 10) */
    int64_t epoch; /* of the slot's owner */
    PyObject *name; /* of the owner, bytes; borrowed */
    File *lock; /* through which the locks of other slots are tried; borrowed */
    uint8_t *base; /* where the file is mapped */
    const geometry *shape;
    /* Looks whether the channel was replaced: 6.2, 0, or `held_back`: 4. False with an exception. NULL: others look. */
    bool (*look)(struct slot_writer *self, bool held_back);
} slot_writer;

/* The ring of a slot, as 5.2 leaves it. `lag`: 0 for the capacity. */
ring_writer ring_writer_make(const geometry *shape, uint8_t *base, int32_t slot, int64_t end, int64_t count,
                             int64_t lag);
/* 6.2 for n bytes at the end: 1 there is room, 2 the end moved (start again), 0 back-pressured, -1 an exception. */
int writer_recompute(slot_writer *self, int64_t n);
/* 6.2, 5, room again. */
void writer_unblocked(slot_writer *self);
/* 6.1, 1 and 2 for a record of size n at the end, which may move over padding: 1 there is room, 0 back-pressured, -1 an
   exception. */
int writer_reserve(slot_writer *self, int64_t n);
/* Whether what found no room last has some now. */
static inline bool writer_has_room_now(const slot_writer *self)
{
    int64_t gate;
    return self->wanted == 0 || self->ring.end + self->wanted <= ring_gate_limit(&self->ring, &gate);
}

#endif
