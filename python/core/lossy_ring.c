/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a ring without a slot, in the steps of spec/channel.md 6.10. */
#include "lossy.h"
#include "ring.h"

#define JUMPS 2 /* per turn: after a second lap the ring waits for the next poll */

/* Raise that a ring is corrupt. The subscriber does not read this ring again. */
static int ring_is_corrupt(lossy_ring *ring, int64_t position, const char *reason, int64_t value)
{
    char text[100];
    PyOS_snprintf(text, sizeof text, reason, (long long)value);
    ring->corrupt = true;
    raise_error("CorruptRingError", "(iLs)", (int)ring->from.ring, (long long)position, text);
    return -1;
}

static bool is_position(const Lossy *self, int64_t position)
{
    return position >= 0 && position < MAX_POSITION && position % self->base.alignment == 0;
}

/* Read a consistent count (6.10). False if the publisher stopped or died between the stores of publish 7. */
static bool consistent_count(const lossy_ring *ring, int64_t *published, int64_t *count)
{
    for (int64_t i = 0; i < LOSSY_TRIES; i++) {
        int64_t done = LOAD64_ACQUIRE(ring->trailer + TRAILER_MESSAGES_DONE); /* pairs with publish 7, the last */
        *published = LOAD64_ACQUIRE(ring->trailer + TRAILER_PUBLISHED); /* pairs with publish 7 */
        *count = LOAD64_RELAXED(ring->trailer + TRAILER_MESSAGES_BEGUN);
        if (done == *count)
            return true;
    }
    return false;
}

/* Start at the end of what is published (6.10). */
static bool start_at_now(Lossy *self, lossy_ring *ring)
{
    int64_t published, count;
    ring->started = consistent_count(ring, &published, &count);
    if (!is_position(self, published)) {
        ring_is_corrupt(ring, published, "published (%lld) is not a position", published);
        return false;
    }
    ring->cursor = published;
    ring->messages = count;
    return true;
}

/* Find the smallest boundary above `above` from which a reader is not lapped until `room` more bytes are published: 1
   found, and `best` is filled; 0 none; -1 an exception. */
static int oldest_boundary(Lossy *self, lossy_ring *ring, int64_t above, int64_t room, lossy_ring *best)
{
    lossy_ring found[BOUNDARIES];
    for (int e = 0; e < BOUNDARIES; e++) {
        const uint8_t *word = ring->trailer + TRAILER_BOUNDARY + e * TRAILER_BOUNDARY_STRIDE;
        found[e] = *ring;
        found[e].cursor = LOAD64_ACQUIRE(word); /* pairs with publish 8, the last */
        found[e].messages = LOAD64_RELAXED(word + TRAILER_BOUNDARY_COUNT);
        FENCE_ACQUIRE(); /* pairs with the release fence of publish 8 */
        if (LOAD64_RELAXED(word) != found[e].cursor)
            found[e].cursor = -1; /* it is being changed */
    }
    int64_t published = LOAD64_ACQUIRE(ring->trailer + TRAILER_PUBLISHED); /* after them; pairs with publish 7 */
    FENCE_ACQUIRE();
    int64_t claimed = LOAD64_ACQUIRE(ring->trailer + TRAILER_CLAIMED);
    *best = (lossy_ring){.cursor = -1};
    for (int e = 0; e < BOUNDARIES; e++) {
        int64_t at = found[e].cursor;
        if (at != -1 && (!is_position(self, at) || at > published))
            return ring_is_corrupt(ring, at, "boundary %lld is not a position up to published", e);
        if (at > above && at + self->base.capacity - room >= claimed && (best->cursor < 0 || at < best->cursor))
            *best = found[e];
    }
    return best->cursor >= 0;
}

/* Start at the oldest message still there (6.10): 1 found, 0 none, -1 an exception. */
static int start_at_oldest(Lossy *self, lossy_ring *ring)
{
    lossy_ring best;
    int found = oldest_boundary(self, ring, -1, RECORD_HEADER_LENGTH, &best);
    if (found > 0) {
        *ring = best;
        ring->started = true;
    }
    return found;
}

bool lossy_start(Lossy *self, lossy_ring *ring)
{
    int found = self->oldest ? start_at_oldest(self, ring) : 0;
    if (found < 0 || (found == 0 && !start_at_now(self, ring)))
        return false;
    sender_from_slot(&ring->from, ring->slot, ring->cursor); /* 6.14 */
    return true;
}

lossy_turn lossy_begin_turn(const Lossy *self, const lossy_ring *ring)
{
    return (lossy_turn){.stop = ring->cursor + self->base.capacity, .jumps = 0};
}

int lossy_jump(Lossy *self, lossy_ring *ring, lossy_turn *turn)
{
    int64_t published, count;
    lossy_ring best;
    int found = self->newest ? 0 : oldest_boundary(self, ring, ring->cursor, self->base.capacity / 4, &best);
    if (found < 0)
        return -1;
    if (found > 0) {
        published = best.cursor;
        count = best.messages;
    } else if (!consistent_count(ring, &published, &count)) {
        return 0; /* there is nothing new up to published */
    }
    if (published <= ring->cursor || !is_position(self, published))
        return ring_is_corrupt(ring, ring->cursor, "it was lapped, but published is %lld", published);
    ring->lost_bytes += published - ring->cursor;
    ring->lost_messages =
        (int64_t)((uint64_t)ring->lost_messages + (uint64_t)count - (uint64_t)ring->messages); /* wraps, likewise */
    ring->cursor = published;
    ring->messages = count;
    sender_from_slot(&ring->from, ring->slot, published); /* 6.14 */
    turn->stop = published + self->base.capacity;
    return ++turn->jumps < JUMPS;
}

/* Move over a record at the cursor that is not a message. Returns as lossy_next does. */
static int skip(Lossy *self, lossy_ring *ring, lossy_turn *turn, const lossy_record *found)
{
    sender next = ring->from;
    next.object = NULL;
    if (found->type == TYPE_OWNER)
        sender_from_record(&next, found->payload, found->length);
    if (lossy_lapped(self, ring))
        return lossy_jump(self, ring, turn);
    if (found->type == TYPE_OWNER) {
        Py_CLEAR(ring->from.object);
        ring->from = next;
    } else if (found->type != TYPE_PADDING) {
        return ring_is_corrupt(ring, ring->cursor, "there is no record type %lld", found->type);
    }
    ring->cursor += found->bytes;
    return ring->cursor < turn->stop;
}

int lossy_next(Lossy *self, lossy_ring *ring, lossy_turn *turn, lossy_record *found)
{
    if (UNLIKELY(!ring->started)) {
        if (!lossy_start(self, ring))
            return -1;
        if (!ring->started)
            return 0;
    }
    int go_on;
    do {
        const uint8_t *at = ring->data + (ring->cursor & self->base.mask);
        int64_t length = LOAD32_ACQUIRE(at + RECORD_LENGTH); /* 1: once; pairs with publish 6 */
        int64_t bytes = (length + self->base.alignment - 1) & -self->base.alignment;
        found->type = LOAD32_RELAXED(at + RECORD_TYPE); /* 3: once */
        if (UNLIKELY(length < RECORD_HEADER_LENGTH || (ring->cursor & self->base.mask) + bytes > self->base.capacity ||
                     (found->type > 0 && bytes > self->longest))) {
            if (lossy_lapped(self, ring)) { /* 2, 3 */
                go_on = lossy_jump(self, ring, turn);
                continue;
            }
            if (length <= 0)
                return 0;
            return ring_is_corrupt(ring, ring->cursor, "a record of %lld bytes cannot be here", length);
        }
        found->payload = at + RECORD_PAYLOAD;
        found->length = length - RECORD_HEADER_LENGTH;
        found->bytes = bytes;
        if (LIKELY(found->type > 0))
            return 1;
        go_on = skip(self, ring, turn, found);
    } while (go_on > 0);
    return go_on;
}

/* Whether lossy_jump may find a boundary. */
static bool may_find_boundary(const Lossy *self, const lossy_ring *ring)
{
    int64_t capacity = self->base.capacity, claimed = LOAD64_ACQUIRE(ring->trailer + TRAILER_CLAIMED);
    for (int e = 0; e < BOUNDARIES; e++) {
        int64_t at = LOAD64_RELAXED(ring->trailer + TRAILER_BOUNDARY + e * TRAILER_BOUNDARY_STRIDE);
        if (at != -1 && (!is_position(self, at) || (at > ring->cursor && at + capacity - capacity / 4 >= claimed)))
            return true;
    }
    return false;
}

bool lossy_may_find(const Lossy *self, const lossy_ring *ring)
{
    if (ring->corrupt)
        return false;
    if (ring->started && !lossy_lapped(self, ring))
        return LOAD32_RELAXED(ring->data + (ring->cursor & self->base.mask) + RECORD_LENGTH) > 0;
    /* If the counts differ, the publisher is inside publish 7 and wakes this reader after it, or it died there. */
    return LOAD64_RELAXED(ring->trailer + TRAILER_MESSAGES_DONE) ==
               LOAD64_RELAXED(ring->trailer + TRAILER_MESSAGES_BEGUN) ||
           (ring->started && !self->newest && may_find_boundary(self, ring));
}
