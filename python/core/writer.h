/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of a publisher slot's ring: writes the owner record and finds room (spec/channel.md 6.1, 1 and 2; 6.2). A
   publisher and a service's client have one; a service's server has one for each client. */
#ifndef FLYRING_WRITER_H
#define FLYRING_WRITER_H

#include "ring.h"
#include "slots.h"

typedef struct slot_writer {
    ring_writer ring;
    bool owner_pending; /* the owner record is due before the first record (6.1) */
    bool blocked; /* blocked_since is not 0 (6.2, 5) */
    bool evicts; /* there is a lag limit */
    bool stands_back; /* of a queue: pauses before the next look for room (queue.md 4) */
    int32_t slot;
    int64_t wanted; /* how many bytes last found no room at the end, with the header behind them; 0: none */
    int64_t held_since; /* when it was first held back, or last tested (6.2, 4), in ns; 0: not held back */
    int64_t monotonic; /* the value for blocked_since in tests, in ns; 0: the clock's */
    int64_t clock_offset; /* the shift of CLOCK_MONOTONIC in this time namespace (spec/channel.md 10) */
    int64_t epoch; /* the owner's epoch */
    PyObject *name; /* the owner's name, as bytes; borrowed */
    File *lock; /* for trying the locks of other slots; borrowed */
    uint8_t *base; /* the address of the mapping */
    const geometry *shape;
    /* Check that the channel was not replaced (6.2, 0; if `held_back`, 6.2, 4). False with an exception. NULL: other
       objects check this. */
    bool (*look)(struct slot_writer *self, bool held_back);
} slot_writer;

/* The ring of a slot that was just taken (5.2). `lag`: the lag limit; 0: the capacity. */
ring_writer ring_writer_make(const geometry *shape, uint8_t *base, int32_t slot, int64_t end, int64_t count,
                             int64_t lag);
/* Look for room for n bytes at the end (6.2): 1 there is room, 2 the end moved (start again), 0 back-pressured, -1 an
   exception. */
int writer_recompute(slot_writer *self, int64_t n);
/* How often a writer pauses before it looks for room again: in a queue for about four microseconds, or one if the ring
   is small, so that workers do not empty it meanwhile; else once. Each look takes from a worker the cache lines that the
   worker is about to write. */
int room_pauses(const geometry *shape);
/* Clear blocked_since, because there is room again (6.2, 5). */
void writer_unblocked(slot_writer *self);
/* Reserve room for a record of size n at the end, which may move over padding (6.1, 1 and 2): 1 there is room, 0
   back-pressured, -1 an exception. */
int writer_reserve(slot_writer *self, int64_t n);
/* Whether there is room now for the record that last found none. */
static inline bool writer_has_room_now(const slot_writer *self)
{
    int64_t gate;
    return self->wanted == 0 || self->ring.end + self->wanted <= ring_gate_limit(&self->ring, &gate);
}

#endif
