/* SPDX-License-Identifier: Apache-2.0 */
/* Releases a job: copies it to the end of the returns ring (spec/queue.md 8). */
#include "worker.h"
#include "writer.h"

enum { RELEASED = 1, STAYS = 0, FAILED = -1 };

/* A writer for the returns ring. `end`: where the last owner left published. */
static ring_writer writer_of(const Worker *self, int64_t end)
{
    const geometry *shape = &self->base.shape;
    int32_t slot = shape->publishers - 1;
    uint8_t *base = self->base.memory->base;
    int64_t count = LOAD64_RELAXED(base + ring_trailer_offset(shape, slot) + TRAILER_MESSAGES_BEGUN);
    ring_writer ring = ring_writer_make(shape, base, slot, end, count, 0);
    ring.window = 0; /* nothing is cleared ahead, so the next owner need not recover */
    return ring;
}

/* Recover the returns ring (step 2). Runs Python code. Returns as worker_release_job does. */
static int recover(Worker *self)
{
    int use = self->base.use;
    reader_begin(&self->base);
    PyObject *done = PyObject_CallMethod((PyObject *)self, "_recover_returns", NULL);
    self->base.use = use;
    if (done == NULL)
        return FAILED;
    Py_DECREF(done);
    if (!self->base.forked)
        return RELEASED;
    raise_error("ClosedError", "(si)", self->base.kind->what, 1);
    return FAILED;
}

/* Find the end of the returns ring (step 2). Returns as worker_release_job does. */
static int find_end(Worker *self, bool recovers, int64_t *end)
{
    const geometry *shape = &self->base.shape;
    const uint8_t *trailer = self->base.memory->base + ring_trailer_offset(shape, shape->publishers - 1);
    for (bool again = false;; again = true) {
        *end = LOAD64_ACQUIRE(trailer + TRAILER_PUBLISHED); /* pairs with publish 7 of the last owner */
        if (worker_is_position(self, *end) && LOAD64_RELAXED(trailer + TRAILER_CLAIMED) == *end)
            return RELEASED;
        if (!recovers || again)
            return STAYS;
        int recovered = recover(self);
        if (recovered != RELEASED)
            return recovered;
    }
}

/* Publish a copy of the job (steps 2 to 5, commit), under the slot's lock. */
static int publish_copy(Worker *self, bool recovers)
{
    int64_t end;
    int found = find_end(self, recovers, &end);
    if (found != RELEASED)
        return found;
    const job_view *view = &self->view;
    ring_writer ring = writer_of(self, end);
    int64_t length = RECORD_HEADER_LENGTH + RELEASED_LENGTH + view->length, n = ring_record_size(&ring, length);
    if (n > ring.longest || end > MAX_POSITION - 2 * ring.capacity)
        return STAYS;
    ring_recompute(&ring);
    for (;;) {
        int64_t to_wrap = ring_to_wrap(&ring);
        if (!ring_has_room(&ring, n > to_wrap ? to_wrap : n))
            return STAYS;
        if (n <= to_wrap)
            break;
        ring_pad(&ring);
    }
    ring_announce(&ring, n);
    uint8_t *payload = ring.data + (ring.end & ring.mask) + RECORD_PAYLOAD;
    int64_t attempts = (int64_t)view->attempts + self->attempts + 1;
    int32_t attempts_word = attempts > INT32_MAX ? INT32_MAX : (int32_t)attempts;
    memcpy(payload + RELEASED_ORIGIN_RING, &view->ring, 4);
    memcpy(payload + RELEASED_ATTEMPTS, &attempts_word, 4);
    memcpy(payload + RELEASED_ORIGIN_POSITION, &view->position, 8);
    memcpy(payload + RELEASED_LENGTH, view->payload, (size_t)view->length);
    FENCE_ACQUIRE(); /* 4: pairs with evict (7): after that, the job's bytes may be overwritten during the copy */
    bool ours = epoch_holds(&self->base.epoch);
    ring_set_type(&ring, ours ? view->type : TYPE_PADDING);
    ring_commit(&ring, length);
    ring_advance(&ring, n, ours ? 1 : 0);
    if (!ours)
        worker_explain_lost(self);
    return ours ? RELEASED : FAILED;
}

int worker_release_job(Worker *self, bool recovers)
{
    const geometry *shape = &self->base.shape;
    int64_t lock = publisher_slot_offset(shape, shape->publishers - 1) + CONTROL_SLOT_LOCK;
    if (!worker_still_ours(self))
        return FAILED;
    int released = STAYS;
    if (lock_try(self->lock, lock)) { /* 1: without the lock, two workers would claim the same place */
        released = publish_copy(self, recovers);
        if (!self->lost && !self->base.forked)
            lock_release(self->lock, lock); /* 5; else the lock went with its description */
    }
    if (released == RELEASED) {
        wake_one_if_asleep(&self->jobs); /* 10: as after a publish */
        return worker_finish_job(self) ? RELEASED : FAILED; /* 5, last: a kill before it leaves the job there twice */
    }
    if (released == STAYS) {
        self->again = true;
        self->unfinished = false;
    }
    return released;
}
