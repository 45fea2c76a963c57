/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber's half of publish.c: the core's poll, message by message,
 * without Python. */
#include "../../core/poll.c"

#include "race.h"

#include <unistd.h>

void *read_all(void *argument)
{
    const reader_start *start = argument;
    sender from = {0};
    ring_reader ring = {.data = start->data, .gate = start->gate, .from = &from};
    Subscriber self = {0};
    epoch_watch(&self.base.epoch, (const uint8_t *)start->epoch, 1);
    self.base.capacity = CAPACITY;
    self.base.mask = CAPACITY - 1;
    self.base.alignment = start->alignment;
    self.waker = waker_make((waiting_words){NULL, NULL}, false);
    self.base.store_every = CAPACITY / GATE_STORE_DIVISOR;
    for (int64_t sequence = 0; sequence < MESSAGES;) {
        record found;
        int more = next_message(&self, &ring, &found);
        if (more < 0)
            stop("a corrupt ring", sequence, ring.cursor);
        if (more == 0) {
            store_gate(&self, &ring);
            usleep(10);
            continue;
        }
        if (found.length != length_of(sequence) || found.type != type_of(sequence))
            stop("a message out of order", length_of(sequence), found.length);
        for (int64_t at = 0; at < found.length; at++)
            if (found.payload[at] != byte_of(sequence, at))
                stop("a torn message", byte_of(sequence, at), found.payload[at]);
        sequence++;
        ring.cursor = found.next;
        if (ring.cursor - ring.stored >= self.base.store_every)
            store_gate(&self, &ring);
    }
    store_gate(&self, &ring);
    return NULL;
}
