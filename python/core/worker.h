/* SPDX-License-Identifier: Apache-2.0 */
/* Worker of a queue (spec/queue.md), as Python object: shared by take.c (sections 3 and 9), adopt.c (5), release.c (8),
   job.c (Job), jobs.c (poll and take) and worker.c (life, waiting). */
#ifndef FLYRING_WORKER_H
#define FLYRING_WORKER_H

#include "reader.h"
#include "ring.h"
#include "waiting.h"

struct Job;

typedef struct {
    const uint8_t *data; /* mapped read-only */
    const uint8_t *slot; /* of its publisher */
    uint8_t *trailer;
    uint8_t *shared; /* gate[0] */
    uint8_t *gate; /* gate[w]; taken_end and attempts are beside it */
    sender from; /* its publisher; epoch 0: not known */
    int64_t known_from; /* jobs of that publisher lie here, and behind */
    int32_t number;
    uint32_t bit; /* of this ring in the words of who waits for room */
    bool corrupt; /* reported; not looked at again */
} job_ring;

/* A job that is handed out, as its record says. */
typedef struct {
    const uint8_t *payload; /* in the ring, or in the worker's copy; behind the prefix of the returns ring */
    int64_t length;
    int64_t position; /* with `ring`: where it was published first (9) */
    int32_t ring, type;
    int32_t attempts; /* of the record */
    sender *from;
} job_view;

typedef struct Worker {
    Reader base;
    waker room; /* of producers */
    waker jobs; /* of workers */
    /* The batch in hand. */
    job_ring *ring; /* NULL: nothing is in hand */
    int64_t at, next, end; /* where its first job starts and ends that is not done; where the batch ends */
    int32_t attempts, first_attempts; /* what attempts[w] holds; what it held when the batch was taken */
    bool adopted; /* its jobs are handed out as copies */
    bool again; /* the first one was handed out, and stays in hand */
    bool unfinished; /* the first one is handed out now */
    job_view view; /* if it is */
    struct Job *job; /* if it is: its object, borrowed; NULL: nobody has that any more */
    unsigned long thread; /* in whose hand the batch is */
    /* Cold. */
    bool pinned_release; /* base.pinned is to be released, else done, when its last export goes */
    bool lost, woken;
    int32_t slot;
    int64_t looked; /* by now_ns: the last look for jobs of the dead */
    int64_t monotonic; /* ns, of tests: what is stored in busy_since; 0: the clock's */
    uint8_t *copy; /* of a job that was adopted */
    int64_t copy_length; /* allocated */
    sender unknown; /* of a released job */
    struct Job *spare; /* kept from poll to poll */
    File *lock;
    struct Worker *next_worker, *previous_worker;
} Worker;

typedef struct Job {
    Message message; /* its owner is the worker */
    int32_t attempts;
    bool open; /* neither done nor released */
} Job;

static inline job_ring *worker_rings(const Worker *self)
{
    return self->base.rings;
}

/* A position as spec/channel.md 9 wants it. */
static inline bool worker_is_position(const Worker *self, int64_t position)
{
    return position >= 0 && position < MAX_POSITION && (position & (self->base.alignment - 1)) == 0;
}

/* Bytes of a record of this length, aligned. */
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

/* The epoch has changed: raises and returns false. Nothing is stored. */
bool worker_explain_lost(Worker *self);
/* 3, 4: false, with an exception, if the slot was taken away. */
static inline bool worker_still_ours(Worker *self)
{
    FENCE_ACQUIRE(); /* 3, 5: pairs with evict (7), which raises the epoch before others take the job */
    return LIKELY(epoch_holds(&self->base.epoch)) || worker_explain_lost(self);
}
/* A batch is in hand from now on, for the calling thread. */
void worker_has_batch(Worker *self, job_ring *ring, int64_t at, int64_t end, int32_t attempts, bool adopted,
                      int64_t now);
/* Whether a job is there that a worker may take: without the GIL. */
bool worker_any_job(const Worker *self);
/* Steps 1 to 3 on all rings, or 5, of up to `limit` jobs: 1 something is in hand, 0 nothing, -1 an exception. */
int worker_find_jobs(Worker *self, Py_ssize_t limit);
/* Step 4: self->view is the first job in hand, which counts as handed out. 1; 0 it was done, and with it the batch goes;
   -1 an exception. */
int worker_load_job(Worker *self);
/* Step 5 of the first job in hand: false with an exception, and nothing stored, if the slot was taken away. */
bool worker_finish_job(Worker *self);
/* The batch in hand goes, unfinished. */
void worker_drop_batch(Worker *self);
/* 9: without a job in hand, whatever others do meanwhile. */
bool worker_has_ended(const Worker *self);

/* adopt.c */

/* 5: true if a job of another worker is in hand now. `now` is by now_ns. */
bool worker_adopt(Worker *self, int64_t now);
/* 5, 7: copies the record at self->at. `length` and `type` are its own: 1; 0 lapped, and the batch was dropped; -1 an
   exception. */
int worker_copy_job(Worker *self, int64_t *length, int32_t *type);

/* release.c */

/* 8, of the first job in hand, which is loaded: 1 others may have it; 0 it stays in hand; -1 an exception. `recovers`:
   Python code may run, if its last owner left the returns ring to be recovered. */
int worker_release_job(Worker *self, bool recovers);

/* job.c */

Job *job_new(Worker *owner);
/* It stands for the job that was loaded. */
void job_begin(Worker *worker, Job *self);
/* Raises that a view of it is alive. NULL. */
PyObject *job_view_alive(void);
/* done: false with an exception. */
bool job_end_as_done(Worker *worker, Job *self);
/* release: as worker_release_job. */
int job_end_as_released(Worker *worker, Job *self);
/* The job that is handed out can be used no more. */
void worker_expire_job(Worker *self);

/* jobs.c */

extern const reader_kind worker_reader_kind;
bool worker_usable(Worker *self);
/* Raises why it cannot be used while a job is unfinished. NULL. */
PyObject *worker_refuse(const Reader *self);
/* The methods poll and take. */
PyObject *worker_poll(Worker *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *worker_take(Worker *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* worker.c: waiting */

extern const worker_kind worker_waiting_kind;
/* What a wait set does for it now and then: 5. */
void worker_look(Reader *self);
/* 10, the end of what a woken worker does: wakes one more if a job is there. */
void worker_pass_on(Worker *self);
/* Of the workers of a channel object the slot of one that holds a job of this ring below `needed` in the hand of the
   calling thread; -1: none does. */
int32_t worker_slot_here(const Memory *memory, int32_t ring, int64_t needed);

PyTypeObject *make_worker_type(PyObject *module), *make_job_type(PyObject *module);

#endif
