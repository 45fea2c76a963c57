/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of one ring, without Python: spec/channel.md section 6.1 to 6.3, in its steps. */
#ifndef FLYRING_RING_H
#define FLYRING_RING_H

#include "layout.h"

typedef struct {
    uint8_t *data; /* the ring's first byte */
    uint8_t *trailer;
    int64_t capacity, mask, alignment;
    int64_t tail; /* t: end of what was published */
    int64_t cleared; /* up to here the places of lengths hold 0, or a committed record */
    int64_t window; /* W: how far to clear ahead */
    int64_t limit; /* what is written, and 8 bytes behind it, stays below */
    int64_t count; /* messages published */
    int64_t longest; /* of a record: capacity / 4 */
    int64_t lag; /* how far ahead of a gate it may be: the capacity, or the lag limit (6.2, 2) */
    int boundary_shift; /* log2 of an eighth of the capacity */
    int32_t subscribers;
    uint8_t *head_cache; /* of a foreign subscriber's ring, else NULL: 6.15 */
} ring_writer;

static inline int64_t ring_align(const ring_writer *ring, int64_t length)
{
    return (length + ring->alignment - 1) & -ring->alignment;
}

static inline int64_t gate_offset(int32_t slot)
{
    return slot == 0 ? TRAILER_GATE : TRAILER_MORE_GATES + (slot - 1) * TRAILER_GATE_STRIDE;
}

/* W of a ring. */
static inline int64_t ring_window(int64_t capacity, int64_t alignment)
{
    if (alignment != DEFAULT_ALIGNMENT)
        return 0;
    return capacity / CLEAR_AHEAD_DIVISOR < CLEAR_AHEAD ? capacity / CLEAR_AHEAD_DIVISOR : CLEAR_AHEAD;
}

/* The stores of steps 3 and 4, or 9: from `first` up to q, or as far as is allowed. */
static __attribute__((noinline, unused)) void ring_clear(ring_writer *ring, int64_t first, int64_t q)
{
    int64_t unit = ring->alignment, lap_end = (ring->tail | ring->mask) + 1;
    int64_t room = (ring->limit - RECORD_HEADER_LENGTH) & -unit;
    q = q < lap_end ? q : lap_end;
    q = q < room ? q : room;
    if (q <= ring->cleared)
        return;
    STORE64_RELAXED(ring->trailer + TRAILER_CLAIMED, q); /* 3: read by lossy 2-4 after their acquire fence; recover */
    FENCE_RELEASE(); /* 3: before any byte changes; pairs with the acquire fence of lossy 2-4 */
    for (int64_t at = first > ring->cleared + unit ? first : ring->cleared + unit; at <= q; at += unit)
        STORE32_RELAXED(ring->data + (at & ring->mask) + RECORD_LENGTH, 0); /* 4: published by the release of 6 */
    ring->cleared = q;
}

/* How far is cleared ahead of a record of n bytes. */
static inline int64_t ring_ahead(const ring_writer *ring, int64_t n)
{
    return n <= ring->window / CLEAR_AHEAD_RECORDS ? ring->window : 0;
}

/* Steps 3 and 4, if they are due: announces that [tail, tail + n) is being written, with a zero behind it. */
static inline void ring_begin(ring_writer *ring, int64_t n)
{
    int64_t end = ring->tail + n;
    if (UNLIKELY(end > ring->cleared))
        ring_clear(ring, end, end + ring_ahead(ring, n));
}

/* 6.1, prefetch. */
static inline void ring_prefetch(const ring_writer *ring)
{
    const uint8_t *record = ring->data + (ring->tail & ring->mask);
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*record)); /* compilers need a flag for it */
#else
    __builtin_prefetch(record, 1);
#endif
}

/* Step 5, the type of the record at the tail. */
static inline void ring_set_type(ring_writer *ring, int32_t type)
{
    STORE32_RELAXED(ring->data + (ring->tail & ring->mask) + RECORD_TYPE, type);
}

/* Step 6: the record at the tail becomes visible. `length` with the 8 bytes of its header. */
static inline void ring_commit(ring_writer *ring, int64_t length)
{
    uint8_t *record = ring->data + (ring->tail & ring->mask);
    STORE32_RELEASE(record + RECORD_LENGTH, length); /* 6: pairs with poll 1, lossy 1 (acquire) */
}

/* Steps 7 to 9: moves the tail over n bytes that hold `messages` messages. */
static inline void ring_advance(ring_writer *ring, int64_t n, int64_t messages)
{
    uint8_t *trailer = ring->trailer;
    int64_t tail = ring->tail, end = tail + n;
    int64_t count = ring->count =
        (int64_t)((uint64_t)ring->count + (uint64_t)messages); /* wraps, if the file says so */
    STORE64_RELAXED(trailer + TRAILER_MESSAGES_BEGUN, count); /* 7: lossy reads it last */
    STORE64_RELEASE(trailer + TRAILER_PUBLISHED, end); /* 7: pairs with join 2 and 4, lossy 5 (acquire) */
    STORE64_RELEASE(trailer + TRAILER_MESSAGES_DONE, count); /* 7: pairs with lossy 5, which reads it first (acquire) */
    int shift = ring->boundary_shift;
    if (UNLIKELY(tail >> shift != end >> shift)) {
        uint8_t *boundary = trailer + TRAILER_BOUNDARY + ((end >> shift) & (BOUNDARIES - 1)) * TRAILER_BOUNDARY_STRIDE;
        STORE64_RELAXED(boundary, -1); /* 8 */
        FENCE_RELEASE(); /* 8: pairs with the acquire fence of 6.10 "start at what is still there" */
        STORE64_RELAXED(boundary + TRAILER_BOUNDARY_COUNT, count); /* 8 */
        STORE64_RELEASE(boundary, end); /* 8: pairs with the acquire load of 6.10 */
    }
    ring->tail = end;
    if (UNLIKELY(ring->cleared - end < ring->window / 2) && ring_ahead(ring, n) != 0)
        ring_clear(ring, end, end + ring->window); /* 9 */
}

/* The limit that the gates allow now; `gate` gets that of the last slot. */
static inline int64_t ring_gates(const ring_writer *ring, int64_t *gate)
{
    int64_t limit = ring->tail + ring->capacity;
    for (int32_t slot = 0; slot < ring->subscribers; slot++) {
        *gate = LOAD64_ACQUIRE(ring->trailer + gate_offset(slot)); /* pairs with poll 4, join 2 and 4 (release) */
        if (*gate >= 0 && *gate < limit - ring->lag) /* so written, the sum cannot overflow */
            limit = *gate + ring->lag;
    }
    return limit;
}

/* 6.2, 1 and 2. */
static inline void ring_recompute(ring_writer *ring)
{
    int64_t gate = 0;
    FENCE_SEQ_CST(); /* 6.2, 1: pairs with join 3 */
    int64_t limit = ring_gates(ring, &gate);
    if (limit > ring->limit) /* what was granted stays good */
        ring->limit = limit;
    if (UNLIKELY(ring->head_cache != NULL))
        STORE64_RELAXED(ring->head_cache, gate); /* 6.15: the only one; for a stock writer that has the ring later */
}

/* A gate below this one leaves no room for n bytes at the tail. */
static inline int64_t ring_needs(const ring_writer *ring, int64_t n)
{
    return ring->tail + n + RECORD_HEADER_LENGTH - ring->lag;
}

static inline bool ring_has_room(const ring_writer *ring, int64_t n)
{
    return ring->tail + n + RECORD_HEADER_LENGTH <= ring->limit;
}

/* Bytes from the tail to the ring's end. */
static inline int64_t ring_to_end(const ring_writer *ring)
{
    return ring->capacity - (ring->tail & ring->mask);
}

/* Step 1's padding, up to the ring's end. There must be room. */
static inline void ring_pad(ring_writer *ring)
{
    int64_t n = ring_to_end(ring);
    ring_begin(ring, n);
    ring_set_type(ring, TYPE_PADDING);
    ring_commit(ring, n);
    ring_advance(ring, n, 0);
}

#endif
