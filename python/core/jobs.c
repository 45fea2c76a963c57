/* SPDX-License-Identifier: Apache-2.0 */
/* The methods poll and take of a worker (spec/queue.md 3 and 8). */
#include "worker.h"

/* Whether the worker can be used */

PyObject *worker_refuse(const Reader *base)
{
    const Worker *self = (const Worker *)base;
    if (base->pinned != NULL || (self->job != NULL && self->job->message.exports != 0))
        return job_view_alive();
    return raise_error("ViewAliveError", "(s)",
                       "this worker has an unfinished job in hand; call its done or release, or close the worker");
}

/* End a job whose handler left an export alive. False with an exception if the export is still alive. */
static COLD bool unpin(Worker *self)
{
    Job *job = (Job *)self->base.pinned;
    if (job->message.exports != 0) {
        worker_refuse(&self->base);
        return false;
    }
    self->base.pinned = NULL;
    bool fine = true;
    if (job->open)
        fine = self->pinned_release ? job_end_as_released(self, job) >= 0 : job_end_as_done(self, job);
    Py_DECREF((PyObject *)job);
    return fine;
}

static COLD bool explain_unusable(Worker *self)
{
    if (reader_in_use(&self->base))
        return false;
    if (self->base.pinned != NULL) {
        if (!unpin(self))
            return false;
    } else if (self->unfinished) {
        worker_refuse(&self->base);
        return false;
    }
    return epoch_holds(&self->base.epoch) || worker_explain_lost(self);
}

static inline bool usable(Worker *self)
{
    return LIKELY(self->base.use == IDLE && !self->unfinished && self->base.pinned == NULL &&
                  epoch_holds(&self->base.epoch)) ||
           explain_unusable(self);
}

bool worker_usable(Worker *self)
{
    return usable(self);
}

/* poll */

/* The outcome of a job. ENDS: the poll ends, and counts the job. */
enum { GOES_ON, ENDS, ABORTED, FAILS };

/* Finish a job that is still open after its handler. */
static int settle_done(Worker *self, Job *job)
{
    return job_end_as_done(self, job) ? GOES_ON : FAILS;
}

/* Release a job that is still open after its handler. An exception that is set stays. */
static COLD int settle_released(Worker *self, Job *job)
{
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    bool raised = kind != NULL;
    if (job_end_as_released(self, job) < 0) {
        if (self->job == job) { /* the returns ring is corrupt, so the job stays in hand */
            self->again = true;
            worker_expire_job(self);
        }
        if (!raised)
            return FAILS;
        PyErr_Clear(); /* the handler's exception comes first; the next call raises this one again */
    }
    PyErr_Restore(kind, value, traceback);
    return raised ? FAILS : ABORTED;
}

static COLD int settle_other(Worker *self, Job *job, PyObject *result)
{
    int action = result == NULL ? -1 : result == Py_None ? HANDED : reader_action(result);
    PyObject *type = result != NULL && action < 0 ? PyType_GetName(Py_TYPE(result)) : NULL;
    bool raised = result == NULL;
    Py_XDECREF(result); /* it may hold the last export */
    if (self->base.forked) { /* the handler forked, and this is the child, which owns nothing here */
        Py_XDECREF(type);
        if (!PyErr_Occurred())
            raise_error("ClosedError", "(si)", self->base.kind->what, 1);
        return FAILS;
    }
    bool releases = raised || action == ABORT;
    if (!raised && action < 0 && type != NULL)
        reader_not_an_action(type);
    Py_XDECREF(type);
    int settled = action == ABORT && job->open ? ABORTED : action == ABORT || action == BREAK ? ENDS : GOES_ON;
    if (job->open && job->message.exports != 0) {
        self->base.pinned = (Message *)Py_NewRef((PyObject *)job);
        self->pinned_release = releases;
        message_expire(&job->message); /* no new exports */
        if (!PyErr_Occurred())
            job_view_alive();
    } else if (job->open && releases) {
        return settle_released(self, job);
    } else if (job->open) {
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback); /* not an action: the job counts as done */
        bool done = job_end_as_done(self, job);
        if (done || kind != NULL) {
            PyErr_Clear();
            PyErr_Restore(kind, value, traceback);
        }
    }
    return PyErr_Occurred() ? FAILS : settled;
}

static inline int settle(Worker *self, Job *job, PyObject *result)
{
    if (UNLIKELY(result != Py_None || self->base.forked || job->message.exports != 0))
        return settle_other(self, job, result);
    Py_DECREF(result);
    return LIKELY(job->open) ? settle_done(self, job) : GOES_ON;
}

/* Get and give back the job object of a poll. */
static Job *acquire_job(Worker *self)
{
    Job *job = self->spare;
    self->spare = NULL;
    return job != NULL ? job : job_new(self);
}

static void keep_job(Worker *self, Job *job)
{
    if (self->spare == NULL && Py_REFCNT((PyObject *)job) == 1) {
        Py_CLEAR(job->message.owner); /* no reference cycle */
        self->spare = job;
    } else {
        Py_DECREF((PyObject *)job);
    }
}

/* Call the handler with the job that was loaded. Returns the outcome. */
static inline int hand_out(Worker *self, PyObject *handler, Job **current)
{
    Job *job = *current;
    if (UNLIKELY(Py_REFCNT((PyObject *)job) != 1)) { /* the handler kept the object, so it must not be reused */
        Job *other = job_new(self);
        if (other == NULL)
            return FAILS;
        Py_DECREF((PyObject *)job);
        *current = job = other;
    }
    if (job->message.owner == NULL)
        job->message.owner = Py_NewRef((PyObject *)self);
    Py_CLEAR(job->message.sender);
    job_begin(self, job);
    PyObject *result = PyObject_CallFunctionObjArgs(handler, (PyObject *)job, NULL);
    return settle(self, job, result);
}

/* Undo loading a job, after an exception before the handler was called. */
static COLD void unload(Worker *self)
{
    if (self->ring != NULL && self->unfinished && self->job == NULL)
        self->unfinished = false;
}

static Py_ssize_t kind_poll(Reader *base, void *handler, Py_ssize_t limit)
{
    Worker *self = (Worker *)base;
    Py_ssize_t total = 0;
    int found = worker_find_jobs(self, limit);
    if (found <= 0)
        return found;
    Job *current = acquire_job(self);
    if (current == NULL)
        return -1;
    self->thread = PyThread_get_thread_ident();
    reader_begin(base);
    for (;;) {
        int loaded = worker_load_job(self), settled = FAILS;
        if (loaded > 0) {
            settled = hand_out(self, handler, &current);
            if (settled == FAILS)
                unload(self);
        }
        if (loaded < 0 || (loaded > 0 && settled == FAILS)) {
            total = -1;
            break;
        }
        total += loaded > 0 && settled != ABORTED;
        if ((loaded > 0 && settled != GOES_ON) || total >= limit || self->again) {
            base->ended = total == 0;
            break;
        }
        found = worker_find_jobs(self, limit - total);
        if (found <= 0) {
            total = found < 0 ? -1 : total;
            break;
        }
    }
    keep_job(self, current);
    base->use = IDLE;
    return total;
}

static Py_ssize_t no_arrays(Reader *base, void *poll, Py_ssize_t limit)
{
    (void)base, (void)poll, (void)limit;
    PyErr_SetString(PyExc_TypeError, "a worker has no poll_arrays: jobs come one by one");
    return -1;
}

PyObject *worker_poll(Worker *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return reader_poll_up_to(&self->base, args, n, names, 1);
}

/* take */

static PyObject *take_once(Worker *self)
{
    for (;;) {
        if (worker_find_jobs(self, 1) <= 0)
            return NULL;
        int loaded = worker_load_job(self);
        if (loaded < 0)
            return NULL;
        if (loaded == 0)
            continue;
        Job *job = job_new(self);
        if (job == NULL) {
            unload(self);
            return NULL;
        }
        job_begin(self, job);
        self->thread = PyThread_get_thread_ident();
        self->base.idle = 0;
        return (PyObject *)job;
    }
}

PyObject *worker_take(Worker *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int64_t timeout = WAIT_NOT;
    if ((n != 0 || names != NULL) && (timeout = reader_take_timeout(&self->base, args, n, names)) < 0)
        return NULL;
    if (UNLIKELY(!usable(self)))
        return NULL;
    PyObject *job = take_once(self);
    return LIKELY(job != NULL) ? job : reader_take_waiting(&self->base, timeout);
}

/* What reader.c calls */

static bool kind_usable(Reader *self)
{
    return usable((Worker *)self);
}

static PyObject *kind_take(Reader *self)
{
    return take_once((Worker *)self);
}

static bool kind_ready(void *context)
{
    Worker *self = context;
    return !epoch_holds(&self->base.epoch) || __atomic_load_n(&self->base.drains, __ATOMIC_RELAXED) ||
           (self->ring != NULL && !self->unfinished) || worker_any_job(self);
}

static ring_place kind_ring_at(const Reader *self, int i)
{
    const job_ring *ring = &worker_rings((const Worker *)self)[i];
    return (ring_place){ring->number, LOAD64_ACQUIRE(ring->shared)}; /* pairs with take 3 */
}

/* Whether view alive comes before an invalid argument. */
static bool kind_exported(const Reader *base)
{
    const Worker *self = (const Worker *)base;
    return self->unfinished && (base->pinned == NULL || base->pinned->exports != 0);
}

static bool kind_owned(Reader *self)
{
    return epoch_holds(&self->epoch) || worker_explain_lost((Worker *)self);
}

static bool kind_expire_messages(Reader *base)
{
    Worker *self = (Worker *)base;
    if (self->job != NULL && self->job->message.exports != 0)
        return false;
    if (base->pinned != NULL && !unpin(self))
        PyErr_Clear(); /* close goes on, and releases what it can */
    return true;
}

/* Close: release the jobs in hand. Other workers adopt those that cannot be released. */
static void kind_give_back(Reader *base)
{
    Worker *self = (Worker *)base;
    bool left = false;
    if (!base->forked && !self->lost && epoch_holds(&base->epoch)) {
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback);
        self->again = false; /* it is not handed out again, so release counts its last hand-out */
        while (self->ring != NULL) {
            int loaded = self->unfinished ? 1 : worker_load_job(self);
            if (loaded < 0 || (loaded > 0 && worker_release_job(self, false) != 1))
                break;
        }
        PyErr_Clear();
        PyErr_Restore(kind, value, traceback);
        left = self->ring != NULL;
    }
    worker_expire_job(self);
    self->ring = NULL;
    epoch_drop(&base->epoch);
    file_shut(self->lock);
    if (left && !base->forked)
        wake_all(jobs_words(&base->shape, base->memory->base)); /* workers that look now find its owner gone */
}

const reader_kind worker_reader_kind = {
    .what = "worker",
    .worker = &worker_waiting_kind,
    .usable = kind_usable,
    .poll = kind_poll,
    .poll_arrays = no_arrays,
    .take = kind_take,
    .ready = kind_ready,
    .ring_at = kind_ring_at,
    .exported = kind_exported,
    .owned = kind_owned,
    .expire_messages = kind_expire_messages,
    .give_back = kind_give_back,
    .look = worker_look,
};
