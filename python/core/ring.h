/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of one ring, in the steps and terms of spec/channel.md 6.1 to 6.3. Does not use Python. */
#ifndef FLYRING_RING_H
#define FLYRING_RING_H

#include "atomics.h"
#include "geometry.h"
#include "layout.h"

typedef struct {
    uint8_t *data; /* the ring's first byte */
    uint8_t *trailer;
    int64_t capacity, mask, alignment;
    int64_t end; /* t: end of what this publisher published */
    int64_t cleared; /* up to here, the length fields hold 0 or belong to committed records */
    int64_t window; /* W: how far to clear ahead */
    int64_t limit; /* records, and 8 bytes behind them, must stay below this position */
    int64_t count; /* messages published */
    int64_t longest; /* the longest record: capacity / 4; for a queue less what a release adds */
    int64_t together; /* the largest size of a batch: capacity / 4 */
    int64_t lag; /* how far the end may be ahead of a gate: the capacity or the lag limit (6.2, 2) */
    int boundary_shift; /* log2 of an eighth of the capacity */
    int32_t subscribers;
    uint8_t *head_cache; /* if the subscriber is foreign (6.15), else NULL */
    uint8_t *handovers; /* in a queue, else NULL */
} ring_writer;

/* The size n of a record: its length, rounded up to the alignment. */
static inline int64_t ring_record_size(const ring_writer *ring, int64_t length)
{
    return (length + ring->alignment - 1) & -ring->alignment;
}

static inline int64_t gate_offset(int32_t slot)
{
    return slot == 0 ? TRAILER_GATE : TRAILER_MORE_GATES + (slot - 1) * TRAILER_GATE_STRIDE;
}

/* The offset of a slot's gate in the trailer. In a service each ring has one gate (service.md 2). */
static inline int64_t slot_gate_offset(const geometry *shape, int32_t slot)
{
    return gate_offset(shape->service ? 0 : slot);
}

/* The window W of a ring: how far to clear ahead. */
static inline int64_t ring_window(int64_t capacity, int64_t alignment)
{
    if (alignment != DEFAULT_ALIGNMENT)
        return 0;
    return capacity / CLEAR_AHEAD_DIVISOR < CLEAR_AHEAD ? capacity / CLEAR_AHEAD_DIVISOR : CLEAR_AHEAD;
}

/* The number of bytes from the end to the point where the ring wraps. */
static inline int64_t ring_to_wrap(const ring_writer *ring)
{
    return ring->capacity - (ring->end & ring->mask);
}

/* Whether there is room for n bytes at the end (steps 1 and 2). */
static inline bool ring_has_room(const ring_writer *ring, int64_t n)
{
    return ring->end + n + RECORD_HEADER_LENGTH <= ring->limit;
}

/* The smallest gate that leaves room for n bytes at the end. */
static inline int64_t ring_needed_gate(const ring_writer *ring, int64_t n)
{
    return ring->end + n + RECORD_HEADER_LENGTH - ring->lag;
}

/* Announce writing up to `to`, or as far as the limit allows, and zero the length fields from `first` to there (the
   stores of steps 3 and 4). */
static __attribute__((noinline, unused)) void ring_announce_up_to(ring_writer *ring, int64_t first, int64_t to)
{
    int64_t unit = ring->alignment, lap_end = (ring->end | ring->mask) + 1;
    int64_t room = (ring->limit - RECORD_HEADER_LENGTH) & -unit;
    to = to < lap_end ? to : lap_end;
    to = to < room ? to : room;
    if (to <= ring->cleared)
        return;
    FENCE_COMPILER(); /* 7: the previous record's published is stored first, wherever a kill comes */
    STORE64_RELAXED(ring->trailer + TRAILER_CLAIMED, to); /* 3: read by lossy 2-4 after their acquire fence; recover */
    FENCE_RELEASE(); /* 3: before any byte changes; pairs with the acquire fence of lossy 2-4 */
    for (int64_t at = first > ring->cleared + unit ? first : ring->cleared + unit; at <= to; at += unit)
        STORE32_RELAXED(ring->data + (at & ring->mask) + RECORD_LENGTH, 0); /* 4: published by the release of 6 */
    ring->cleared = to;
}

/* How far to clear ahead for a record of n bytes. */
static inline int64_t ring_window_for(const ring_writer *ring, int64_t n)
{
    return n <= ring->window / CLEAR_AHEAD_RECORDS ? ring->window : 0;
}

/* Announce that [end, end + n) is being written, and store a zero behind it, when due (steps 3 and 4). */
static inline void ring_announce(ring_writer *ring, int64_t n)
{
    int64_t end = ring->end + n;
    if (UNLIKELY(end > ring->cleared))
        ring_announce_up_to(ring, end, end + ring_window_for(ring, n));
}

/* Store the type of the record at the end (step 5). */
static inline void ring_set_type(ring_writer *ring, int32_t type)
{
    STORE32_RELAXED(ring->data + (ring->end & ring->mask) + RECORD_TYPE, type);
}

/* Make the record at the end visible (step 6). `length` includes the 8 bytes of its header. */
static inline void ring_commit(ring_writer *ring, int64_t length)
{
    uint8_t *record = ring->data + (ring->end & ring->mask);
    STORE32_RELEASE(record + RECORD_LENGTH, length); /* 6: pairs with poll 1, lossy 1 (acquire) */
}

/* Store the boundary `end`, which is in another eighth of the ring than the previous end (step 8). */
static inline void ring_note_boundary(const ring_writer *ring, int64_t end, int64_t count)
{
    int64_t eighth = (end >> ring->boundary_shift) & (BOUNDARIES - 1);
    if (eighth == 0 && ring->head_cache != NULL)
        return; /* 6.15: a foreign subscriber may read the trailer's first word as a length */
    uint8_t *boundary = ring->trailer + TRAILER_BOUNDARY + eighth * TRAILER_BOUNDARY_STRIDE;
    STORE64_RELAXED(boundary, -1); /* 8 */
    FENCE_RELEASE(); /* 8: pairs with the acquire fence of 6.10 "start at what is still there" */
    STORE64_RELAXED(boundary + TRAILER_BOUNDARY_COUNT, count); /* 8 */
    STORE64_RELEASE(boundary, end); /* 8: pairs with the acquire load of 6.10 */
}

/* Move the end over n bytes, which hold `messages` messages (step 7). Then do steps 8 and 9, when due. */
static inline void ring_advance(ring_writer *ring, int64_t n, int64_t messages)
{
    uint8_t *trailer = ring->trailer;
    int64_t start = ring->end, end = start + n;
    int64_t count = ring->count =
        (int64_t)((uint64_t)ring->count + (uint64_t)messages); /* wraps if the file has such a count */
    FENCE_COMPILER(); /* 7: the length of step 6 is stored first, wherever a kill comes */
    STORE64_RELAXED(trailer + TRAILER_MESSAGES_BEGUN, count); /* 7: lossy reads it last */
    STORE64_RELEASE(trailer + TRAILER_PUBLISHED, end); /* 7: pairs with join 2 and 4, lossy 5 (acquire) */
    STORE64_RELEASE(trailer + TRAILER_MESSAGES_DONE, count); /* 7: pairs with lossy 5, which reads it first (acquire) */
    if (UNLIKELY(start >> ring->boundary_shift != end >> ring->boundary_shift))
        ring_note_boundary(ring, end, count);
    ring->end = end;
    if (UNLIKELY(ring->cleared - end < ring->window / 2) && ring_window_for(ring, n) != 0)
        ring_announce_up_to(ring, end, end + ring->window); /* 9: clear ahead */
}

/* Publish padding up to the point where the ring wraps (step 1). There must be room. */
static inline void ring_pad(ring_writer *ring)
{
    int64_t n = ring_to_wrap(ring);
    ring_announce(ring, n);
    ring_set_type(ring, TYPE_PADDING);
    ring_commit(ring, n);
    ring_advance(ring, n, 0);
}

/* Compute the limit from the gates; `gate` gets the gate of the last slot. */
static inline int64_t ring_gate_limit(const ring_writer *ring, int64_t *gate)
{
    int64_t limit = ring->end + ring->capacity;
    if (UNLIKELY(limit > MAX_POSITION)) /* 11: no position goes beyond 2^62 */
        limit = MAX_POSITION;
    for (int32_t slot = 0; slot < ring->subscribers; slot++) {
        *gate = LOAD64_ACQUIRE(ring->trailer + gate_offset(slot)); /* pairs with poll 4, join 2 and 4 (release) */
        if (*gate >= 0 && *gate < limit - ring->lag) /* written so that no sum overflows */
            limit = *gate + ring->lag;
    }
    return limit;
}

#define HANDOVER_TRIES 3

/* The same in a queue (queue.md 4). Repeats if a job changes hands meanwhile, because its gate could be missed. Returns
   false, without a limit, if that happens each time. */
static inline bool ring_queue_limit(const ring_writer *ring, int64_t *limit)
{
    int64_t gate;
    for (int i = 0; i < HANDOVER_TRIES; i++) {
        int64_t handovers = LOAD64_ACQUIRE(ring->handovers); /* queue 4, 2a; pairs with adopt 5 */
        *limit = ring_gate_limit(ring, &gate); /* 2b: gate[0] first; pairs with take 2, 3 and 5 */
        if (LOAD64_ACQUIRE(ring->handovers) == handovers) /* 2c; pairs with adopt 5 */
            return true;
    }
    return false;
}

/* Recompute the limit (6.2, 1 and 2). */
static inline void ring_recompute(ring_writer *ring)
{
    int64_t gate = 0;
    FENCE_SEQ_CST(); /* 6.2, 1: pairs with join 3 */
    int64_t limit = 0;
    if (ring->handovers == NULL)
        limit = ring_gate_limit(ring, &gate);
    else if (!ring_queue_limit(ring, &limit))
        return; /* treated as no room */
    if (limit > ring->limit) /* the limit never goes down */
        ring->limit = limit;
    if (UNLIKELY(ring->head_cache != NULL))
        STORE64_RELAXED(ring->head_cache, gate); /* 6.15: the only gate; for a stock writer that owns the ring later */
}

/* Prefetch the cache line of the next record (6.1, prefetch). */
static inline void ring_prefetch(const ring_writer *ring)
{
    const uint8_t *record = ring->data + (ring->end & ring->mask);
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*record)); /* the compiler's builtin needs a flag for this instruction */
#else
    __builtin_prefetch(record, 1);
#endif
}

#endif
