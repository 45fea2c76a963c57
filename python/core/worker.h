/* SPDX-License-Identifier: Apache-2.0 */
/* The Python object Worker of a queue (spec/queue.md). Shared by take.c (sections 3 and 9), adopt.c (5), release.c (8),
   job.c (Job), jobs.c (poll and take) and worker.c (creation, waiting). */
#ifndef FLYRING_WORKER_H
#define FLYRING_WORKER_H

#include "reader.h"
#include "ring.h"
#include "waiting.h"

struct Job;

typedef struct {
    const uint8_t *data; /* mapped read-only */
    const uint8_t *slot; /* the publisher's slot */
    uint8_t *trailer;
    uint8_t *shared; /* gate[0] */
    uint8_t *gate; /* gate[w]; taken_end and attempts are beside it */
    sender from; /* the publisher; epoch 0: not known */
    int64_t known_from; /* jobs from this position on are by that publisher */
    int32_t number;
    uint32_t bit; /* this ring's bit in the asleep word of `room` */
    bool corrupt; /* reported; not read again */
} job_ring;

/* A job that is handed out, as read from its record. */
typedef struct {
    const uint8_t *payload; /* in the ring, or in the worker's copy; behind the prefix of the returns ring */
    int64_t length;
    int64_t position; /* with `ring`: where it was first published (queue.md 9) */
    int32_t ring, type;
    int32_t attempts; /* from the record */
    sender *from;
} job_view;

typedef struct Worker {
    Reader base;
    waker room; /* of producers */
    waker jobs; /* of workers */
    /* The batch in hand. */
    job_ring *ring; /* NULL: nothing is in hand */
    int64_t at, next, end; /* start and end of the first unfinished job; end of the batch */
    int32_t attempts, first_attempts; /* the value of attempts[w]; its value when the batch was taken */
    bool adopted; /* its jobs are handed out as copies */
    bool again; /* the first job was handed out before, and stayed in hand */
    bool unfinished; /* the first job is handed out now */
    job_view view; /* the job, if `unfinished` */
    struct Job *job; /* its object, if `unfinished`; borrowed; NULL: freed already */
    unsigned long thread; /* the thread that has the batch in hand */
    /* Cold. */
    bool pinned_release; /* when the last export of base.pinned ends, that job is released; else done */
    bool lost, woken;
    int32_t slot;
    int64_t looked; /* when it last looked for jobs of dead workers, by now_ns */
    int64_t monotonic; /* the value for busy_since in tests, in ns; 0: the clock's */
    uint8_t *copy; /* the copy of an adopted job */
    int64_t copy_length; /* allocated */
    sender unknown; /* the sender of released jobs */
    struct Job *spare; /* a job object that is kept from poll to poll */
    File *lock;
    struct Worker *next_worker, *previous_worker;
} Worker;

typedef struct Job {
    Message message; /* message.owner is the worker */
    int32_t attempts;
    bool open; /* neither done nor released */
} Job;

static inline job_ring *worker_rings(const Worker *self)
{
    return self->base.rings;
}

/* Whether this is a valid position (spec/channel.md 9). */
static inline bool worker_is_position(const Worker *self, int64_t position)
{
    return position >= 0 && position < MAX_POSITION && (position & (self->base.alignment - 1)) == 0;
}

/* The aligned size of a record of this length, in bytes. */
static inline int64_t worker_record_size(const Worker *self, int64_t length)
{
    return (length + self->base.alignment - 1) & -self->base.alignment;
}

static inline bool compare_and_set(uint8_t *at, int64_t expected, int64_t value)
{
    return atomic_compare_exchange_strong_explicit(ATOMIC64(at), &expected, value, memory_order_acq_rel,
                                                   memory_order_acquire);
}

static inline uint8_t *worker_own_slot(const Worker *self)
{
    return self->base.memory->base + subscriber_slot_offset(&self->base.shape, self->slot);
}

/* take.c */

/* Handle a changed epoch: raise, and return false. Stores nothing. */
bool worker_explain_lost(Worker *self);
/* Check that the slot was not taken away (queue.md 3, 4). False with an exception. */
static inline bool worker_still_ours(Worker *self)
{
    FENCE_ACQUIRE(); /* 3, 5: pairs with evict (7), which raises the epoch before others take the job */
    return LIKELY(epoch_holds(&self->base.epoch)) || worker_explain_lost(self);
}
/* Note that a batch is in the hand of the calling thread from now on. */
void worker_has_batch(Worker *self, job_ring *ring, int64_t at, int64_t end, int32_t attempts, bool adopted,
                      int64_t now);
/* Whether there is a job that a worker may take. Runs without the GIL. */
bool worker_any_job(const Worker *self);
/* Take up to `limit` jobs from a ring (queue.md 3, steps 1 to 3), or adopt a job (5): 1 a job is in hand, 0 none, -1 an
   exception. */
int worker_find_jobs(Worker *self, Py_ssize_t limit);
/* Load the first job in hand into self->view (step 4); it counts as handed out. 1; 0 the job was done, and the batch is
   dropped; -1 an exception. */
int worker_load_job(Worker *self);
/* Finish the first job in hand (step 5). If the slot was taken away: stores nothing, and returns false with an
   exception. */
bool worker_finish_job(Worker *self);
/* Drop the batch in hand unfinished. */
void worker_drop_batch(Worker *self);
/* Whether the queue has ended (queue.md 9). For a worker without a job in hand. */
bool worker_has_ended(const Worker *self);

/* adopt.c */

/* Adopt a job of a dead or evicted worker (queue.md 5). Returns whether one is in hand now. `now` is by now_ns. */
bool worker_adopt(Worker *self, int64_t now);
/* Copy the record at self->at, and read its `length` and `type` (queue.md 5, 7): 1; 0 lapped, and the batch was
   dropped; -1 an exception. */
int worker_copy_job(Worker *self, int64_t *length, int32_t *type);

/* release.c */

/* Release the first job in hand, which is loaded (queue.md 8): 1 released, 0 it stays in hand, -1 an exception.
   `recovers`: may recover the returns ring after the death of its last owner, which runs Python code. */
int worker_release_job(Worker *self, bool recovers);

/* job.c */

Job *job_new(Worker *owner);
/* Make `self` the object of the job that was loaded. */
void job_begin(Worker *worker, Job *self);
/* Raise that an export of the job is alive. Returns NULL. */
PyObject *job_view_alive(void);
/* Finish a job. False with an exception. */
bool job_end_as_done(Worker *worker, Job *self);
/* Release a job. Returns as worker_release_job does. */
int job_end_as_released(Worker *worker, Job *self);
/* Expire the object of the job that is handed out. */
void worker_expire_job(Worker *self);

/* jobs.c */

extern const reader_kind worker_reader_kind;
bool worker_usable(Worker *self);
/* Raise that the worker cannot be used while a job is unfinished. Returns NULL. */
PyObject *worker_refuse(const Reader *self);
/* The methods poll and take. */
PyObject *worker_poll(Worker *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *worker_take(Worker *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* worker.c: waiting */

extern const worker_kind worker_waiting_kind;
/* Called by a wait set at intervals: looks for jobs of dead workers (queue.md 5). */
void worker_look(Reader *self);
/* Pass a wake on: wake one more worker if there is a job (queue.md 10). */
void worker_pass_on(Worker *self);
/* Find a worker of this channel object that holds a job of this ring below `needed` for the calling thread. Returns its
   slot; -1: there is none. */
int32_t worker_slot_here(const Memory *memory, int32_t ring, int64_t needed);

PyTypeObject *make_worker_type(PyObject *module), *make_job_type(PyObject *module);

#endif
