/* SPDX-License-Identifier: Apache-2.0 */
/* Many messages in one claim, part by part (spec/channel.md 6.3): shared by offer_batch and offer_array. */
#ifndef FLYRING_BATCH_H
#define FLYRING_BATCH_H

#include "publisher.h"

/* The functions that differ between the two, known at compile time. `all` are the messages. */

/* Returns the aligned size of message i's record, in bytes. */
typedef int64_t part_length(const ring_writer *ring, const void *all, Py_ssize_t i);
/* Returns how many messages from `first` up to `count` fit into `most` bytes; `total` gets their bytes. */
typedef Py_ssize_t part_fit(const ring_writer *ring, const void *all, Py_ssize_t first, Py_ssize_t count, int64_t most,
                            int64_t *total);
/* Publishes `count` messages as one claim of `total` bytes. There must be room. */
typedef void part_write(ring_writer *ring, const void *all, Py_ssize_t first, Py_ssize_t count, int64_t total);

/* Publishes up to `count` messages within `timeout` ns. Returns how many, or -1 with an exception; with a timeout, some
   may have been published before the exception. */
ALWAYS_INLINE Py_ssize_t offer_parts(Publisher *self, const void *all, Py_ssize_t count, int64_t timeout,
                                     part_length *length, part_fit *fit, part_write *write)
{
    ring_writer *ring = &self->writer.ring;
    Py_ssize_t done = 0, woken = 0;
    wait_state state;
    bool waiting = false;
    while (done < count) {
        int64_t limit_before = ring->limit;
        if (done > 0 && timeout == WAIT_NOT)
            self->writer.held_since = 0; /* some are published: no test (6.2, 4), whose error would hide how many */
        int room = writer_reserve(&self->writer, length(ring, all, done));
        if (room < 0 && done > 0 && timeout == WAIT_NOT && is_own_error()) {
            PyErr_Clear(); /* some are published: return their number; the next call raises the error again */
            break;
        }
        if (room < 0) {
            if (done > woken)
                publisher_wake(self); /* publish 10 */
            return -1;
        }
        if (room == 0) {
            if (timeout == WAIT_NOT)
                break;
            if (done > woken) /* the readers that must make room may be asleep */
                publisher_wake(self); /* publish 10 */
            woken = done;
            room = publisher_wait_for_room(self, &state, &waiting, timeout);
            if (room < 0)
                return -1;
            if (room == 0)
                break;
            continue;
        }
        int64_t most = ring_to_wrap(ring) < ring->together ? ring_to_wrap(ring) : ring->together, total;
        Py_ssize_t part = fit(ring, all, done, count, most, &total);
        if (!ring_has_room(ring, total) && (ring->limit == limit_before || self->writer.evicts))
            publisher_recompute(self, total, length(ring, all, done));
        if (!ring_has_room(ring, total))
            part = fit(ring, all, done, count, ring->limit - RECORD_HEADER_LENGTH - ring->end, &total);
        if (UNLIKELY(total >= LARGE_COPY)) {
            PyThreadState *state = publisher_begin_copy(self);
            write(ring, all, done, part, total);
            publisher_end_copy(self, state);
        } else {
            write(ring, all, done, part, total);
        }
        done += part;
    }
    if (done > woken)
        publisher_wake(self); /* publish 10, once for the batch */
    return done;
}

#endif
