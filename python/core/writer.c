/* SPDX-License-Identifier: Apache-2.0 */
#include "writer.h"
#include "waiting.h"

#define RETIRE_AFTER_NS 1000000 /* 6.2, 4 */
#define LEAST_PAUSES 32 /* a microsecond, about */
#define MOST_PAUSES 128
#define BYTES_PER_PAUSE 8192 /* of the ring */
#define LITTLE_ROOM 8 /* less than this part of a queue's ring */

ring_writer ring_writer_make(const geometry *shape, uint8_t *base, int32_t slot, int64_t end, int64_t count,
                             int64_t lag)
{
    int shift = 0;
    while ((int64_t)BOUNDARIES << shift < shape->capacity)
        shift++;
    uint8_t *trailer = base + ring_trailer_offset(shape, slot);
    return (ring_writer){
        .data = base + ring_data_offset(shape, slot),
        .trailer = trailer,
        .capacity = shape->capacity,
        .mask = shape->capacity - 1,
        .alignment = shape->alignment,
        .end = end,
        .cleared = end,
        .window = ring_window(shape->capacity, shape->alignment),
        .limit = 0,
        .count = count,
        .longest = shape->capacity / MAX_MESSAGE_DIVISOR,
        .together = shape->capacity / MAX_MESSAGE_DIVISOR,
        .lag = lag == 0 ? shape->capacity : lag,
        .boundary_shift = shift,
        .subscribers = shape->service ? 1 : shape->subscribers, /* service.md 2: one gate each */
        .head_cache = shape->foreign == 0 ? NULL : trailer + TRAILER_HEAD_CACHE,
        .handovers = shape->queue ? base + shape->control + CONTROL_HANDOVERS : NULL,
    };
}

/* Publish the owner record (6.1, owner record): 1 published, 0 no room. `wanted`: the size of the record, or of its
   padding, that needs room. */
static int publish_owner(slot_writer *self, int64_t *wanted)
{
    ring_writer *ring = &self->ring;
    int64_t name_length = PyBytes_Size(self->name);
    int64_t length = RECORD_HEADER_LENGTH + OWNER_RECORD_NAME + name_length, n = ring_record_size(ring, length);
    for (;;) {
        int64_t to_wrap = ring_to_wrap(ring);
        *wanted = n > to_wrap ? to_wrap : n;
        if (!ring_has_room(ring, *wanted))
            return 0;
        if (n <= to_wrap)
            break;
        ring_pad(ring);
    }
    ring_announce(ring, n);
    uint8_t *payload = ring->data + (ring->end & ring->mask) + RECORD_PAYLOAD;
    int32_t length_word = (int32_t)name_length;
    memcpy(payload + OWNER_RECORD_EPOCH, &self->epoch, 8);
    memcpy(payload + OWNER_RECORD_NAME_LENGTH, &length_word, 4);
    memcpy(payload + OWNER_RECORD_NAME, PyBytes_AsString(self->name), (size_t)name_length);
    ring_set_type(ring, TYPE_OWNER);
    ring_commit(ring, length);
    ring_advance(ring, n, 0);
    self->owner_pending = false;
    return 1;
}

/* Store blocked_since and blocked_length after n bytes found no room, so that other processes can see them (6.2, 5). */
static void blocked(slot_writer *self, int64_t n, int64_t now)
{
    uint8_t *slot = self->base + publisher_slot_offset(self->shape, self->slot);
    STORE64_RELAXED(slot + PUBLISHER_SLOT_BLOCKED_LENGTH, n);
    int64_t since = now - self->clock_offset < 1 ? 1 : now - self->clock_offset; /* spec/channel.md 10 */
    STORE64_RELEASE(slot + PUBLISHER_SLOT_BLOCKED_SINCE, self->monotonic != 0 ? self->monotonic : since);
    self->blocked = true;
}

void writer_unblocked(slot_writer *self)
{
    self->held_since = self->wanted = 0;
    if (!self->blocked)
        return;
    uint8_t *slot = self->base + publisher_slot_offset(self->shape, self->slot);
    STORE64_RELEASE(slot + PUBLISHER_SLOT_BLOCKED_SINCE, 0);
    self->blocked = false;
}

/* Free the gates of retired and evicted slots (6.2, 4). Returns whether a gate moved. */
static bool free_gates(slot_writer *self, int64_t needed)
{
    if (self->shape->queue) /* queue.md 4 and 7: a worker's gate must stay, because it says where its job lies */
        return false;
    bool changed = retire_dead(self->shape, self->base, self->lock, self->ring.trailer, needed);
    return take_back(self->shape, self->base, self->lock, self->ring.trailer, needed) || changed;
}

int room_pauses(const geometry *shape)
{
    if (!shape->queue)
        return 1;
    int64_t pauses = shape->capacity / BYTES_PER_PAUSE;
    return pauses < LEAST_PAUSES ? LEAST_PAUSES : pauses > MOST_PAUSES ? MOST_PAUSES : (int)pauses;
}

int writer_recompute(slot_writer *self, int64_t n)
{
    if (self->stands_back)
        pause_cpus(room_pauses(self->shape));
    ring_writer *ring = &self->ring;
    if (self->look != NULL && !self->look(self, false)) /* 6.2, 0 */
        return -1;
    for (bool lag_tested = false, tested = false;;) {
        ring_recompute(ring);
        self->stands_back = self->shape->queue && ring->limit - ring->end < ring->capacity / LITTLE_ROOM;
        int64_t wanted = n;
        if (self->owner_pending) {
            if (publish_owner(self, &wanted)) {
                writer_unblocked(self);
                return 2;
            }
        } else if (ring_has_room(ring, n)) {
            writer_unblocked(self);
            return 1;
        }
        int64_t needed = ring_needed_gate(ring, wanted);
        if (UNLIKELY(needed > MAX_POSITION - ring->lag)) { /* the record would end beyond 2^62 */
            raise_error("CorruptRingError", "(iLs)", self->slot, (long long)ring->end, "its position nears 2^62");
            return -1;
        }
        if (self->evicts && !lag_tested) { /* 6.2, 3 */
            lag_tested = true;
            if (evict_laggards(self->shape, self->base, self->lock, ring->trailer, needed))
                continue;
        }
        int64_t now = now_ns(); /* 6.2, 4 */
        if (self->held_since != 0 && !tested && now - self->held_since >= RETIRE_AFTER_NS) {
            tested = true;
            self->held_since = now;
            bool changed = free_gates(self, needed);
            if (self->look != NULL && !self->look(self, true))
                return -1;
            if (changed)
                continue;
        }
        if (self->held_since == 0)
            self->held_since = now;
        if (!self->blocked)
            blocked(self, wanted, now);
        self->wanted = wanted + RECORD_HEADER_LENGTH;
        return 0;
    }
}

int writer_reserve(slot_writer *self, int64_t n)
{
    ring_writer *ring = &self->ring;
    for (;;) {
        int64_t to_wrap = ring_to_wrap(ring), wanted = n > to_wrap ? to_wrap : n;
        if (self->owner_pending || !ring_has_room(ring, wanted)) {
            int result = writer_recompute(self, wanted);
            if (result <= 0)
                return result;
            if (result == 2)
                continue;
        }
        if (n <= to_wrap)
            return 1;
        ring_pad(ring);
    }
}
