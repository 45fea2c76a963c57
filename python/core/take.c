/* SPDX-License-Identifier: Apache-2.0 */
/* Takes jobs, and works through a batch (spec/queue.md 3 and 9). */
#include "worker.h"

#define MOST_TRIES 1000 /* per ring and look: a bound, because a hostile process may change gate[0] all the time */

COLD bool worker_explain_lost(Worker *self)
{
    if (!self->lost) {
        self->lost = true;
        epoch_drop(&self->base.epoch);
        self->ring = NULL;
        file_shut(self->lock); /* 7: the gates stay for the worker that adopts the job */
    }
    raise_error("SlotLostError", "(si)", "subscriber", self->slot);
    worker_expire_job(self); /* last, because the job may hold the last reference to the worker */
    return false;
}

/* Raise that a ring is corrupt (queue.md 3, 1). The worker does not read this ring again. */
static COLD void ring_is_corrupt(Worker *self, job_ring *ring, int64_t position, const char *reason, int64_t value)
{
    char text[200];
    if (!worker_still_ours(self))
        return;
    PyOS_snprintf(text, sizeof text, reason, (long long)value);
    ring->corrupt = true;
    raise_error("CorruptRingError", "(iLs)", ring->number, (long long)position, text);
}

void worker_has_batch(Worker *self, job_ring *ring, int64_t at, int64_t end, int32_t attempts, bool adopted,
                      int64_t now)
{
    self->ring = ring;
    self->at = self->next = at;
    self->end = end;
    self->attempts = self->first_attempts = attempts;
    self->adopted = adopted;
    self->again = false;
    self->thread = PyThread_get_thread_ident();
    STORE64_RELAXED(worker_own_slot(self) + SUBSCRIBER_SLOT_BUSY_SINCE, self->monotonic != 0 ? self->monotonic : now);
}

/* Note that nothing is in hand any more, after the store of the gate. */
static inline void has_nothing(Worker *self)
{
    STORE64_RELAXED(worker_own_slot(self) + SUBSCRIBER_SLOT_BUSY_SINCE, 0);
    wake_if_asleep(&self->room, self->ring->bit);
    self->ring = NULL;
    self->again = false;
}

void worker_drop_batch(Worker *self)
{
    STORE64_RELEASE(self->ring->gate, NOT_GATING); /* 5, 7; pairs with queue 4, 2b */
    has_nothing(self);
}

/* Take */

/* The record at a position of a ring. */
typedef struct {
    int64_t length, size;
    int32_t type;
} record;

/* Whether a record with a length above 0 is valid at this position. */
static inline bool is_sound(const Worker *self, int64_t at, const record *found)
{
    return found->length >= RECORD_HEADER_LENGTH && (at & self->base.mask) + found->size <= self->base.capacity;
}

/* Read the record at a position. Returns whether there is one. */
static inline bool look_at(const Worker *self, const job_ring *ring, int64_t at, record *found)
{
    const uint8_t *record = ring->data + (at & self->base.mask);
    found->length = LOAD32_ACQUIRE((void *)(record + RECORD_LENGTH)); /* channel 6.9, 1: once; pairs with publish 6 */
    if (found->length <= 0)
        return false;
    found->size = worker_record_size(self, found->length);
    found->type = LOAD32_RELAXED((void *)(record + RECORD_TYPE));
    return true;
}

/* Return the end of a batch of up to `limit` jobs, of which the first ends at `end`. */
static inline int64_t end_of_batch(const Worker *self, const job_ring *ring, int64_t start, int64_t end,
                                   Py_ssize_t limit)
{
    record found;
    for (const int64_t most = start + self->base.capacity / BATCH_DIVISOR; limit > 1 && end < most; limit--) {
        if (!look_at(self, ring, end, &found) || found.type <= 0 || !is_sound(self, end, &found) ||
            found.size > most - end)
            break; /* an invalid record is reported when its turn comes */
        end += found.size;
    }
    return end;
}

/* Take jobs from one ring (steps 1 to 3): 1 taken, 0 none, -1 an exception. */
static int take_from(Worker *self, job_ring *ring, Py_ssize_t limit, int64_t now)
{
    int64_t passed = 0;
    for (int tries = 0; tries < MOST_TRIES && passed < self->base.capacity; tries++) {
        int64_t at = LOAD64_ACQUIRE(ring->shared); /* 1; pairs with 3: loaded before the record */
        if (UNLIKELY(!worker_is_position(self, at))) {
            ring_is_corrupt(self, ring, at, "gate[0] is %lld, which is no position", at);
            return -1;
        }
        record found;
        if (!look_at(self, ring, at, &found))
            return 0;
        bool sound = is_sound(self, at, &found);
        if (LIKELY(sound && found.type > 0)) {
            int64_t end = end_of_batch(self, ring, at, at + found.size, limit);
            STORE32_RELAXED(ring->gate + GATE_ATTEMPTS, 0); /* 2 */
            STORE64_RELEASE(ring->gate + GATE_TAKEN_END, end); /* 2; pairs with adopt 2 */
            STORE64_RELEASE(ring->gate, at); /* 2; pairs with adopt 2, queue 4, 2b */
            if (LIKELY(compare_and_set(ring->shared, at, end))) { /* 3: a process that sees this also sees 2 */
                worker_has_batch(self, ring, at, end, 0, false, now);
                return 1;
            }
            STORE64_RELEASE(ring->gate, NOT_GATING); /* 3, failed: pairs with adopt 2 */
            wake_if_asleep(&self->room, ring->bit); /* it may have been the smallest gate */
        } else if (sound && (found.type == TYPE_PADDING || found.type == TYPE_OWNER)) {
            if (compare_and_set(ring->shared, at, at + found.size)) { /* 1: a plain store could move it back */
                passed += found.size; /* bounded, because a hostile ring may be all padding */
                wake_if_asleep(&self->room, ring->bit);
            }
        } else if (LOAD64_ACQUIRE(ring->shared) == at) { /* 1: else another worker has taken what was here */
            if (sound)
                ring_is_corrupt(self, ring, at, "there is no record type %lld", found.type);
            else
                ring_is_corrupt(self, ring, at, "a record of %lld bytes cannot be here", found.length);
            return -1;
        }
    }
    return 0;
}

bool worker_any_job(const Worker *self)
{
    for (int i = 0; i < self->base.count; i++) {
        const job_ring *ring = &worker_rings(self)[i];
        int64_t at = LOAD64_ACQUIRE(ring->shared) & self->base.mask & -8; /* the masks make any value a valid offset */
        if (LOAD32_RELAXED((void *)(ring->data + at + RECORD_LENGTH)) > 0 && LIKELY(!ring->corrupt))
            return true;
    }
    return false;
}

int worker_find_jobs(Worker *self, Py_ssize_t limit)
{
    int found = self->ring != NULL;
    if (!found && !__atomic_load_n(&self->base.drains, __ATOMIC_RELAXED)) {
        int64_t now = now_ns();
        if (UNLIKELY(now - self->looked >= ADOPT_INTERVAL)) { /* 5: even if there are jobs to take */
            self->looked = now;
            found = worker_adopt(self, now);
        }
        for (int i = 0, at = self->base.next; i < self->base.count && found == 0; i++) {
            job_ring *ring = &worker_rings(self)[at];
            at = at + 1 == self->base.count ? 0 : at + 1;
            if (LIKELY(!ring->corrupt) && (found = take_from(self, ring, limit, now)) != 0)
                self->base.next = at;
        }
    }
    if (UNLIKELY(self->woken))
        worker_pass_on(self); /* 10: after the take, and before the handler */
    return found;
}

/* Hand out */

/* The sender of a job that the ring's publisher has published (9). */
static sender *sender_of(job_ring *ring, int64_t position)
{
    int64_t epoch = LOAD64_RELAXED(ring->slot + PUBLISHER_SLOT_EPOCH);
    if (UNLIKELY(epoch != ring->from.epoch || epoch == 0 || position < ring->known_from)) {
        sender_from_slot(&ring->from, ring->slot, position);
        ring->known_from = position;
    }
    return &ring->from;
}

/* Read the prefix of a job in the returns ring (8, 3). False if it is invalid. */
static bool read_prefix(Worker *self, job_view *view)
{
    int32_t ring, attempts;
    int64_t position;
    if (view->length < RELEASED_LENGTH)
        return false;
    memcpy(&ring, view->payload + RELEASED_ORIGIN_RING, 4);
    memcpy(&attempts, view->payload + RELEASED_ATTEMPTS, 4);
    memcpy(&position, view->payload + RELEASED_ORIGIN_POSITION, 8);
    if (ring < 0 || ring >= self->base.shape.publishers - 1 || !worker_is_position(self, position))
        return false;
    view->ring = ring;
    view->position = position;
    view->attempts = attempts < 1 ? 1 : attempts; /* a released job was handed out at least once */
    view->payload += RELEASED_LENGTH;
    view->length -= RELEASED_LENGTH;
    if (self->unknown.ring != ring) {
        self->unknown.ring = ring;
        Py_CLEAR(self->unknown.object);
    }
    view->from = &self->unknown;
    return true;
}

static COLD int corrupt_in_hand(Worker *self, const char *reason, int64_t value)
{
    ring_is_corrupt(self, self->ring, self->at, reason, value);
    if (epoch_holds(&self->base.epoch))
        worker_drop_batch(self);
    return -1;
}

int worker_load_job(Worker *self)
{
    if (UNLIKELY(!epoch_holds(&self->base.epoch))) { /* 4 */
        worker_explain_lost(self);
        return -1;
    }
    job_ring *ring = self->ring;
    job_view *view = &self->view;
    int64_t length;
    int32_t type;
    if (UNLIKELY(self->adopted)) {
        int whole = worker_copy_job(self, &length, &type);
        if (whole != 1)
            return whole;
        view->payload = self->copy;
    } else {
        const uint8_t *at = ring->data + (self->at & self->base.mask);
        length = LOAD32_RELAXED((void *)(at + RECORD_LENGTH)); /* this worker owns the record since step 3 */
        type = LOAD32_RELAXED((void *)(at + RECORD_TYPE));
        view->payload = at + RECORD_PAYLOAD;
    }
    int64_t size = worker_record_size(self, length);
    if (UNLIKELY(length < RECORD_HEADER_LENGTH || size > self->end - self->at || type <= 0 ||
                 (self->at & self->base.mask) + size > self->base.capacity))
        return corrupt_in_hand(self, "the record of a job in hand was overwritten with something that is no job", 0);
    view->length = length - RECORD_HEADER_LENGTH;
    view->type = type;
    view->attempts = 0;
    view->ring = ring->number;
    view->position = self->at;
    if (LIKELY(ring->number != self->base.shape.publishers - 1))
        view->from = sender_of(ring, self->at);
    else if (!read_prefix(self, view))
        return corrupt_in_hand(self, "what stands in front of a released job of %lld bytes cannot be", view->length);
    if (UNLIKELY(self->again)) { /* 8: the job was handed out before */
        self->again = false;
        self->attempts += self->attempts < INT32_MAX;
        STORE32_RELAXED(ring->gate + GATE_ATTEMPTS, self->attempts);
    }
    self->next = self->at + size;
    self->unfinished = true;
    return 1;
}

bool worker_finish_job(Worker *self)
{
    job_ring *ring = self->ring;
    if (UNLIKELY(!worker_still_ours(self))) /* 5: after the last read of the job */
        return false;
    self->unfinished = false;
    if (UNLIKELY(self->attempts != self->first_attempts)) { /* 8: the count was for the finished job */
        self->attempts = self->first_attempts;
        STORE32_RELAXED(ring->gate + GATE_ATTEMPTS, self->attempts);
    }
    if (LIKELY(self->next >= self->end)) {
        STORE64_RELEASE(ring->gate, NOT_GATING); /* 5: gives its bytes back; pairs with queue 4, 2b and adopt 2 */
        has_nothing(self);
    } else {
        STORE64_RELEASE(ring->gate, self->next); /* as above */
        self->at = self->next;
        self->again = false;
        wake_if_asleep(&self->room, ring->bit);
    }
    return true;
}

/* Ended */

static bool producers_have_closed(const geometry *shape, const uint8_t *base)
{
    bool any = false;
    for (int32_t k = 0; k < shape->publishers - 1; k++) {
        const uint8_t *slot = base + publisher_slot_offset(shape, k);
        int64_t epoch = LOAD64_ACQUIRE(slot + PUBLISHER_SLOT_EPOCH); /* pairs with channel 5.2, 4 */
        if (epoch <= 0 || epoch > MAX_EPOCH)
            continue; /* the slot never had an owner */
        if (LOAD32_ACQUIRE(slot + PUBLISHER_SLOT_CLOSED) == 0) /* pairs with channel 5.2, close */
            return false;
        any = true;
    }
    return any;
}

bool worker_has_ended(const Worker *self)
{
    const geometry *shape = &self->base.shape;
    const uint8_t *base = self->base.data->base, *handed_over = base + shape->control + CONTROL_HANDOVERS;
    int64_t handovers = LOAD64_ACQUIRE(handed_over), published = 0; /* ended 1; pairs with adopt 5 */
    if (!producers_have_closed(shape, base))
        return false;
    for (int32_t ring = 0; ring < shape->publishers; ring++) { /* ended 2 */
        const uint8_t *trailer = base + ring_trailer_offset(shape, ring);
        int64_t shared = LOAD64_ACQUIRE(trailer + TRAILER_GATE); /* pairs with take 3 */
        published = LOAD64_ACQUIRE(trailer + TRAILER_PUBLISHED); /* pairs with publish 7; at last the returns ring's */
        if (shared != published)
            return false;
    }
    for (int32_t ring = 0; ring < shape->publishers; ring++) { /* ended 3: behind 2 */
        const uint8_t *trailer = base + ring_trailer_offset(shape, ring);
        for (int32_t k = 1; k < shape->subscribers; k++) {
            if (LOAD64_ACQUIRE(trailer + gate_offset(k)) >= 0) /* pairs with take 2 and 5, adopt 5 */
                return false;
        }
    }
    const uint8_t *returns = base + ring_trailer_offset(shape, shape->publishers - 1);
    return LOAD64_ACQUIRE(returns + TRAILER_PUBLISHED) == published && /* ended 4; pairs with publish 7 of a release */
           LOAD64_ACQUIRE(handed_over) == handovers; /* ended 4; pairs with adopt 5 */
}
