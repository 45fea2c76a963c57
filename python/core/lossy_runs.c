/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of equal records in a ring that is read without a slot: private copies (spec 6.10, messages.md 3). */
#include "arrays.h"
#include "lossy.h"

#define LONGEST_RUN (256 * 1024) /* bytes; the longer, the sooner it is overwritten before it is whole */

/* The run whose first payload is copied goes on as far as the next records are like it; their payloads are copied, too,
   each to where it would lie behind the first. Nothing of it is known to be whole before lossy_lapped is asked. False
   with an exception. */
static bool extend(Lossy *self, const lossy_ring *ring, array_poll *poll, Py_ssize_t most, lossy_record *found)
{
    const int64_t length = found->length + RECORD_HEADER_LENGTH, n = found->bytes;
    int64_t bytes = n;
    while (poll->count < most && bytes < LONGEST_RUN && bytes < self->capacity / GATE_STORE_DIVISOR) {
        int64_t at = (ring->cursor + bytes) & self->mask;
        if (at == 0 || LOAD32_ACQUIRE(ring->data + at + RECORD_LENGTH) != length || /* 6.10, 1: pairs with publish 6 */
            at + n > self->capacity || LOAD32_RELAXED(ring->data + at + RECORD_TYPE) != found->type) /* 3 */
            break;
        if (!lossy_room_for_copy(self, bytes + found->length))
            return false;
        copy_words(self->copy + bytes, ring->data + at + RECORD_PAYLOAD, found->length); /* 4 */
        if (!array_goes_on(poll, self->copy + bytes))
            break;
        poll->count++;
        bytes += n;
    }
    poll->stride = n;
    found->length += bytes - n;
    found->bytes = bytes;
    return true;
}

int lossy_next_run(Lossy *self, lossy_ring *ring, lossy_turn *turn, void *context, Py_ssize_t most, lossy_record *found)
{
    array_poll *poll = context;
    int more;
    while ((more = lossy_next(self, ring, turn, found)) > 0) {
        if (array_wanted(poll, found->type) && !lossy_copy(self, found))
            return -1;
        array_kind kind = array_begin(poll, found->type, self->copy, found->length);
        if (kind == ARRAY_RUN && !extend(self, ring, poll, most, found))
            return -1;
        found->count = poll->count;
        if (kind != ARRAY_SKIPPED)
            return 1;
        if (lossy_lapped(self, ring)) {
            more = lossy_jump(self, ring, turn);
            if (more <= 0)
                return more;
            continue;
        }
        lossy_consume(ring, found->bytes, 1);
        if (ring->cursor >= turn->stop) /* as with padding */
            return 0;
    }
    return more;
}
