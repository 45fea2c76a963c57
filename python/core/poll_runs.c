/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of equal records in a ring, in place (spec 6.9, messages.md 3). */
#include "arrays.h"
#include "subscriber.h"

/* The run that `found` begins goes on as far as the next records are like it. It ends at the ring's end, and where the
   gate is to be stored. `most` messages. */
static void extend(const Subscriber *self, const ring_reader *ring, array_poll *poll, Py_ssize_t most, record *found)
{
    const int64_t length = found->length + RECORD_HEADER_LENGTH, n = found->next - ring->cursor;
    int64_t next = found->next;
    while (poll->count < most && next - ring->stored < self->store_every && (next & self->mask) != 0) {
        const uint8_t *at = ring->data + (next & self->mask);
        if (LOAD32_ACQUIRE((void *)(at + RECORD_LENGTH)) != length || /* 6.9, 1: once; pairs with publish 6 */
            (next & self->mask) + n > self->capacity || /* 2: it is told as corrupt when its turn comes */
            LOAD32_RELAXED((void *)(at + RECORD_TYPE)) != found->type || /* 3: once */
            !array_goes_on(poll, at + RECORD_PAYLOAD))
            break;
        poll->count++;
        next += n;
    }
    poll->stride = n;
    found->length += (poll->count - 1) * n;
    found->next = next;
}

int subscriber_next_run(Subscriber *self, ring_reader *ring, void *context, Py_ssize_t most, record *found)
{
    array_poll *poll = context;
    for (int64_t stop = ring->cursor + self->capacity; ring->cursor < stop;) { /* as with padding */
        int more = subscriber_next_message(self, ring, found);
        if (more != 1)
            return more;
        array_kind kind = array_begin(poll, found->type, found->payload, found->length);
        if (kind == ARRAY_RUN)
            extend(self, ring, poll, most, found);
        found->count = poll->count;
        if (kind != ARRAY_SKIPPED)
            return 1;
        ring->cursor = found->next;
        if (ring->cursor - ring->stored >= self->store_every)
            store_gate(ring, ring->cursor);
    }
    return 0;
}
