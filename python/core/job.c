/* SPDX-License-Identifier: Apache-2.0 */
/* Job: one message of a queue in the hand of a worker (spec/queue.md 3 and 8). */
#include "worker.h"

#include <structmember.h>

PyTypeObject *job_type;

/* Job */

Job *job_new(Worker *owner)
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

void job_begin(Worker *worker, Job *self)
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

/* Expire a job that is done or released, or whose worker has gone. No export is alive, except in a forked child or
   after the slot was lost. */
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

PyObject *job_view_alive(void)
{
    return raise_error("ViewAliveError", "(s)",
                       "a memoryview or array of a job is still alive, which must not outlive it; release it first, or "
                       "copy the job (bytes) instead");
}

/* Return the worker of a job that can be ended now; NULL with an exception. */
static Worker *job_worker(Job *self)
{
    Worker *worker = (Worker *)self->message.owner;
    if (worker != NULL && worker->base.forked)
        raise_error("ClosedError", "(si)", "job", 1);
    else if (!self->open || worker == NULL)
        raise_error("ClosedError", "(sis)", "job", 0, "it was done or released, or its worker was closed");
    else if (self->message.exports != 0)
        job_view_alive();
    else
        return worker;
    return NULL;
}

bool job_end_as_done(Worker *worker, Job *self)
{
    if (UNLIKELY(!worker_finish_job(worker))) /* the job expired there */
        return false;
    worker->job = NULL;
    job_expire(self); /* last, because the job may hold the last reference to the worker */
    return true;
}

int job_end_as_released(Worker *worker, Job *self)
{
    Py_INCREF((PyObject *)self); /* the job may hold the last reference to the worker */
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
    return worker == NULL || !job_end_as_done(worker, self) ? NULL : Py_NewRef(Py_None);
}

static PyObject *job_release(Job *self, PyObject *ignored)
{
    (void)ignored;
    Worker *worker = job_worker(self);
    int released = worker == NULL ? -1 : job_end_as_released(worker, self);
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
    return (raised ? job_end_as_released(worker, self) >= 0 : job_end_as_done(worker, self)) ? Py_NewRef(Py_None)
                                                                                             : NULL;
}

static void job_dealloc(Job *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Worker *worker = (Worker *)self->message.owner;
    if (worker != NULL && worker->job == self)
        worker->job = NULL; /* the job stays unfinished until the worker's close releases it */
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
     "Finishes the job.\n\n"
     "Raises SlotLostError if the worker was evicted meanwhile, so that the job belongs to another worker;\n"
     "ViewAliveError if a memoryview or array of the job is alive; ClosedError if the job has ended."},
    {"release", (PyCFunction)job_release, METH_NOARGS,
     "release($self, /)\n--\n\n"
     "Gives the job back to the queue, for any worker. Returns whether this succeeded.\n\n"
     "False: the returns ring has no room, or another worker is releasing a job right now. The job then stays\n"
     "in hand, and the next ``take`` or ``poll`` of this worker hands it out again. Raises SlotLostError,\n"
     "ViewAliveError and ClosedError as ``done`` does."},
    {"__enter__", job_enter, METH_NOARGS, NULL},
    {"__exit__", FAST(job_exit), "Calls done if the job is open. After an exception, calls release."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef job_members[] = {
    {"attempts", T_INT, offsetof(Job, attempts), READONLY, "how often it was handed out before, as far as known"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef job_getters[] = {
    {"repeat", (getter)job_repeat, NULL, "whether it was handed out before", NULL},
    {"_open", (getter)job_is_open, NULL, "whether it is neither done nor released", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot job_slots[] = {
    {Py_tp_doc, "One message of a queue, in the hand of one worker until it is done or released (spec/api.md).\n\n"
                "A job is a context manager: the end of the ``with`` block calls ``done``, and an exception calls\n"
                "``release``. ``ring`` and ``position`` identify the job: they stay the same however often it is\n"
                "handed out. The payload lies in the ring and is valid until the job ends; after that it raises\n"
                "ClosedError. Ending a job raises ViewAliveError while a memoryview or array of it is alive. The\n"
                "sender of a job that was released before is not known."},
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
