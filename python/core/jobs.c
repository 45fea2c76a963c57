/* SPDX-License-Identifier: Apache-2.0 */
/* Job, and the methods poll and take of a worker (spec/queue.md 3 and 8). */
#include "worker.h"

#include <structmember.h>

PyTypeObject *job_type;

/* Job */

static Job *job_new(Worker *owner)
{
    Job *self = PyObject_NewVar(Job, job_type, 0);
    if (self == NULL)
        return NULL;
    Message *message = &self->message;
    message->owner = Py_NewRef((PyObject *)owner);
    message->data = NULL;
    message->length = message->exports = 0;
    message->position = 0;
    message->type = message->ring = 0;
    message->from = NULL;
    message->sender = NULL;
    message->held = NULL;
    self->attempts = 0;
    self->open = false;
    return self;
}

/* It stands for the job that was loaded. */
static inline void job_begin(Worker *worker, Job *self)
{
    const job_view *view = &worker->view;
    Message *message = &self->message;
    message->data = view->payload;
    message->length = (Py_ssize_t)view->length;
    message->position = view->position;
    message->type = view->type;
    message->ring = view->ring;
    message->from = view->from;
    int64_t attempts = (int64_t)view->attempts + worker->attempts;
    self->attempts = attempts > INT32_MAX ? INT32_MAX : (int32_t)attempts;
    self->open = true;
    worker->job = self;
}

/* It was done or released, or its worker has gone. No export is alive, but in a forked child or a lost slot. */
static inline void job_expire(Job *self)
{
    self->open = false;
    message_expire(&self->message);
}

void worker_expire_job(Worker *self)
{
    Job *job = self->job;
    self->job = NULL;
    self->unfinished = false;
    if (job != NULL)
        job_expire(job);
}

static PyObject *view_alive(void)
{
    return raise_error("ViewAliveError", "(s)",
                       "a memoryview or array of a job is still alive, which must not outlive it; release it first, or "
                       "copy the job (bytes) instead");
}

/* Its worker, if it can be ended now: NULL with an exception. */
static Worker *job_worker(Job *self)
{
    Worker *worker = (Worker *)self->message.owner;
    if (worker != NULL && worker->base.forked)
        raise_error("ClosedError", "(si)", "job", 1);
    else if (!self->open || worker == NULL)
        raise_error("ClosedError", "(sis)", "job", 0, "it was done or released, or its worker was closed");
    else if (self->message.exports != 0)
        view_alive();
    else
        return worker;
    return NULL;
}

/* done: false with an exception. */
static bool end_as_done(Worker *worker, Job *self)
{
    if (UNLIKELY(!worker_finish_job(worker))) /* it expired there */
        return false;
    worker->job = NULL;
    job_expire(self); /* last: it may be what keeps the worker */
    return true;
}

/* release: as worker_release_job. */
static int end_as_released(Worker *worker, Job *self)
{
    Py_INCREF((PyObject *)self); /* it may be what keeps the worker */
    Py_INCREF((PyObject *)worker);
    int released = worker_release_job(worker, true);
    if (released >= 0) {
        worker->job = NULL;
        job_expire(self);
    }
    Py_DECREF((PyObject *)worker);
    Py_DECREF((PyObject *)self);
    return released;
}

static PyObject *job_done(Job *self, PyObject *ignored)
{
    (void)ignored;
    Worker *worker = job_worker(self);
    return worker == NULL || !end_as_done(worker, self) ? NULL : Py_NewRef(Py_None);
}

static PyObject *job_release(Job *self, PyObject *ignored)
{
    (void)ignored;
    Worker *worker = job_worker(self);
    int released = worker == NULL ? -1 : end_as_released(worker, self);
    return released < 0 ? NULL : PyBool_FromLong(released);
}

static PyObject *job_enter(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_NewRef(self);
}

static PyObject *job_exit(Job *self, PyObject *const *args, Py_ssize_t n)
{
    if (!self->open)
        return Py_NewRef(Py_None);
    Worker *worker = job_worker(self);
    if (worker == NULL)
        return NULL;
    bool raised = n > 0 && args[0] != Py_None;
    return (raised ? end_as_released(worker, self) >= 0 : end_as_done(worker, self)) ? Py_NewRef(Py_None) : NULL;
}

static void job_dealloc(Job *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Worker *worker = (Worker *)self->message.owner;
    if (worker != NULL && worker->job == self)
        worker->job = NULL; /* the job stays unfinished: the worker's close gives it back */
    Py_CLEAR(self->message.owner);
    Py_XDECREF(self->message.sender);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *job_repr(Job *self)
{
    const Message *message = &self->message;
    return PyUnicode_FromFormat("<flyring.Job type=%d ring=%d position=%lld attempts=%d: %zd bytes%s>",
                                (int)message->type, (int)message->ring, (long long)message->position,
                                (int)self->attempts, message->length, self->open ? "" : ", ended");
}

static PyObject *job_repeat(Job *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->attempts > 0);
}

static PyObject *job_is_open(Job *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->open);
}

static PyMethodDef job_methods[] = {
    {"done", (PyCFunction)job_done, METH_NOARGS,
     "done($self, /)\n--\n\n"
     "Finishes it: its bytes are given back. SlotLostError if the worker was evicted meanwhile (the job is\n"
     "another's); ViewAliveError if a view of it is alive; ClosedError the second time."},
    {"release", (PyCFunction)job_release, METH_NOARGS,
     "release($self, /)\n--\n\n"
     "Gives it to others, at the end of the queue's returns: whether they may have it now. If not, there is no\n"
     "room, or others release just now: it stays in hand, and its worker's next take or poll hands it out\n"
     "again. SlotLostError, ViewAliveError, ClosedError as ``done``."},
    {"__enter__", job_enter, METH_NOARGS, NULL},
    {"__exit__", FAST(job_exit), "Done; after an exception released."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef job_members[] = {
    {"attempts", T_INT, offsetof(Job, attempts), READONLY, "how often it was handed out before, as far as it is known"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef job_getters[] = {
    {"repeat", (getter)job_repeat, NULL, "whether it was handed out before", NULL},
    {"_open", (getter)job_is_open, NULL, "neither done nor released", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot job_slots[] = {
    {Py_tp_doc, "One message of a queue, in the hand of one worker until it is done or released (spec/api.md). A\n"
                "context manager: done at its normal end, released after an exception. ``ring`` and ``position`` are\n"
                "those of the record in which it was published first: its identity. Its bytes lie in the ring, and\n"
                "are valid until it ends."},
    {Py_tp_dealloc, job_dealloc},
    {Py_tp_methods, job_methods},
    {Py_tp_members, job_members},
    {Py_tp_getset, job_getters},
    {Py_tp_repr, job_repr},
    {0, NULL},
};

static PyType_Spec job_spec = {"flyring.Job", sizeof(Job), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               job_slots};

PyTypeObject *make_job_type(PyObject *module)
{
    return job_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &job_spec, (PyObject *)message_type);
}

/* Whether the worker can be used */

PyObject *worker_refuse(const Reader *base)
{
    const Worker *self = (const Worker *)base;
    if (base->pinned != NULL || (self->job != NULL && self->job->message.exports != 0))
        return view_alive();
    return raise_error("ViewAliveError", "(s)",
                       "this worker has an unfinished job in hand; call its done or release, or close the worker");
}

/* Ends the job of a handler that left a view of it alive, if that has gone: false, with an exception, if not. */
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
        fine = self->pinned_release ? end_as_released(self, job) >= 0 : end_as_done(self, job);
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

/* What became of a job whose handler gave `result`, NULL after an exception. ENDS: the poll ends, and it counts. */
enum { GOES_ON, ENDS, ABORTED, FAILS };

/* The handler is over, and its job is open: done. */
static int settle_done(Worker *self, Job *job)
{
    return end_as_done(self, job) ? GOES_ON : FAILS;
}

/* The same: released. An exception that is set stays. */
static COLD int settle_released(Worker *self, Job *job)
{
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    bool raised = kind != NULL;
    if (end_as_released(self, job) < 0) {
        if (self->job == job) { /* the returns ring is corrupt: it stays in hand */
            self->again = true;
            worker_expire_job(self);
        }
        if (!raised)
            return FAILS;
        PyErr_Clear(); /* the handler's own exception goes first; the next call finds what this one did */
    }
    PyErr_Restore(kind, value, traceback);
    return raised ? FAILS : ABORTED;
}

static COLD int settle_other(Worker *self, Job *job, PyObject *result)
{
    int action = result == NULL ? -1 : result == Py_None ? HANDED : reader_action(result);
    PyObject *type = result != NULL && action < 0 ? PyType_GetName(Py_TYPE(result)) : NULL;
    bool raised = result == NULL;
    Py_XDECREF(result); /* it may be the last that holds a view */
    if (self->base.forked) { /* the handler forked, and this is the child: nothing here is ours */
        Py_XDECREF(type);
        if (!PyErr_Occurred())
            raise_error("ClosedError", "(si)", self->base.kind->what, 1);
        return FAILS;
    }
    bool releases = raised || action == ABORT;
    if (!raised && action < 0 && type != NULL)
        reader_not_an_action(type);
    Py_XDECREF(type);
    int settled = action == ABORT ? ABORTED : action == BREAK ? ENDS : GOES_ON;
    if (job->open && job->message.exports != 0) {
        self->base.pinned = (Message *)Py_NewRef((PyObject *)job);
        self->pinned_release = releases;
        message_expire(&job->message); /* no new views of it */
        if (!PyErr_Occurred())
            view_alive();
    } else if (job->open && releases) {
        return settle_released(self, job);
    } else if (job->open) {
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback); /* not an action: the job counts as done */
        bool done = end_as_done(self, job);
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

/* The job object of a poll, and afterwards. */
static Job *acquire_job(Worker *self)
{
    Job *job = self->spare;
    self->spare = NULL;
    return job != NULL ? job : job_new(self);
}

static void keep_job(Worker *self, Job *job)
{
    if (self->spare == NULL && Py_REFCNT((PyObject *)job) == 1) {
        Py_CLEAR(job->message.owner); /* no cycle */
        self->spare = job;
    } else {
        Py_DECREF((PyObject *)job);
    }
}

/* The handler's turn with the job that was loaded: as settle. */
static inline int hand_out(Worker *self, PyObject *handler, Job **current)
{
    Job *job = *current;
    if (UNLIKELY(Py_REFCNT((PyObject *)job) != 1)) { /* it is kept: it must not become another job */
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

/* An exception before the handler was called: the job stays as if it had not been loaded. */
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

/* Whether view alive goes before an argument that is refused. */
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
        PyErr_Clear(); /* close goes on: what is in hand is given back as far as it can be */
    return true;
}

/* Close: what is in hand is released. What cannot be is adopted. */
static void kind_give_back(Reader *base)
{
    Worker *self = (Worker *)base;
    bool left = false;
    if (!base->forked && !self->lost && epoch_holds(&base->epoch)) {
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback);
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
        wake_all(jobs_words(&base->shape, base->memory->base)); /* who looks now finds its owner gone */
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
};
