/* SPDX-License-Identifier: Apache-2.0 */
/* Worker: creation, waiting (spec/queue.md 6, 9, 10), methods and attributes. Numbers in comments are sections of that
   page. */
#include "worker.h"

/* The list of all workers, which changes only with the GIL held. */
static Worker workers = {.next_worker = &workers, .previous_worker = &workers};

/* Creation and close */

static bool add_rings(Worker *self)
{
    const geometry *shape = &self->base.shape;
    uint8_t *base = self->base.memory->base;
    self->base.rings = PyMem_Calloc((size_t)self->base.count, sizeof(job_ring));
    if (self->base.rings == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (int32_t k = 0; k < self->base.count; k++) {
        uint8_t *trailer = base + ring_trailer_offset(shape, k);
        worker_rings(self)[k] = (job_ring){
            .data = self->base.data->base + ring_data_offset(shape, k),
            .slot = base + publisher_slot_offset(shape, k),
            .trailer = trailer,
            .shared = trailer + gate_offset(0),
            .gate = trailer + gate_offset(self->slot),
            .from = {.ring = k},
            .number = k,
            .bit = waiting_bit(k),
        };
    }
    return true;
}

static PyObject *worker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *data, *memory, *shape, *lock, *wait;
    int slot, ring, attempts, strategy, wakes;
    long long epoch, at, end, monotonic;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!O!iLiLLiLOp:Worker", memory_type, &data, memory_type, &memory, &PyTuple_Type,
                          &shape, file_type, &lock, &slot, &epoch, &ring, &at, &end, &attempts, &monotonic, &wait,
                          &wakes) ||
        wait_parse(wait, &strategy) < 0)
        return NULL;
    geometry here;
    if (!memory_covers((Memory *)memory, 0, 0) || !memory_covers((Memory *)data, 0, ((Memory *)memory)->length) ||
        !geometry_parse(shape, ((Memory *)memory)->length, &here))
        return NULL;
    bool has = ring >= 0;
    if (!((Memory *)memory)->writable || !here.queue || epoch < 0 || slot < 1 || slot >= here.subscribers ||
        ring >= here.publishers ||
        (has && (at < 0 || end <= at || end >= MAX_POSITION || at % here.alignment != 0 || attempts < 0))) {
        PyErr_SetString(PyExc_ValueError, "not a writable mapping of a queue, a worker's slot and a batch of it");
        return NULL;
    }
    Worker *self = (Worker *)reader_new(type, &worker_reader_kind, (Memory *)data, (Memory *)memory, (File *)lock,
                                        &here, here.publishers, strategy);
    if (self == NULL)
        return NULL;
    self->lock = (File *)Py_NewRef(lock);
    self->slot = slot;
    self->monotonic = monotonic;
    self->unknown.ring = -1;
    self->next_worker = &workers;
    self->previous_worker = workers.previous_worker;
    self->previous_worker->next_worker = workers.previous_worker = self;
    self->room = waker_make(room_words(&here, ((Memory *)memory)->base), wakes);
    self->jobs = waker_make(jobs_words(&here, ((Memory *)memory)->base), wakes);
    epoch_watch(&self->base.epoch,
                ((Memory *)memory)->base + subscriber_slot_offset(&here, slot) + SUBSCRIBER_SLOT_EPOCH, epoch);
    if (!add_rings(self)) {
        Py_DECREF(self);
        return NULL;
    }
    if (has) /* the batch of the slot's last owner (6) */
        worker_has_batch(self, &worker_rings(self)[ring], at, end, attempts, true, now_ns());
    return (PyObject *)self;
}

static void worker_dealloc(Worker *self)
{
    if (self->next_worker != NULL) {
        self->next_worker->previous_worker = self->previous_worker;
        self->previous_worker->next_worker = self->next_worker;
    }
    if (self->lock != NULL)
        reader_shut(&self->base);
    Py_XDECREF((PyObject *)self->lock);
    Py_XDECREF((PyObject *)self->spare);
    for (int i = 0; self->base.rings != NULL && i < self->base.count; i++)
        Py_XDECREF(worker_rings(self)[i].from.object);
    Py_XDECREF(self->unknown.object);
    PyMem_Free(self->copy);
    reader_dealloc(&self->base);
}

int32_t worker_slot_here(const Memory *memory, int32_t ring, int64_t needed)
{
    unsigned long thread = PyThread_get_thread_ident();
    for (const Worker *one = workers.next_worker; one != &workers; one = one->next_worker) {
        if (one->base.memory == memory && one->ring != NULL && one->ring->number == ring && one->at < needed &&
            one->thread == thread && !one->base.closed && !one->base.forked && epoch_holds(&one->base.epoch))
            return one->slot;
    }
    return -1;
}

/* Waiting */

static bool kind_ended(const Reader *base)
{
    const Worker *self = (const Worker *)base;
    if (self->ring != NULL)
        return false;
    return __atomic_load_n(&base->drains, __ATOMIC_RELAXED) || worker_has_ended(self);
}

static bool kind_others_wake(void *context)
{
    const Worker *self = context;
    const geometry *shape = &self->base.shape;
    for (int32_t k = 0; k < shape->publishers - 1; k++) {
        if (!publisher_wakes(shape, self->base.memory->base, k))
            return false;
    }
    return workers_wake(shape, self->base.memory->base, self->lock);
}

/* Whether there is something to do at a cap: another worker has a job and may have died (5), or the queue has ended. */
static bool kind_due(void *context)
{
    const Worker *self = context;
    for (int i = 0; i < self->base.count; i++) {
        for (int32_t k = 1; k < self->base.shape.subscribers; k++) {
            if (k != self->slot &&
                LOAD64_ACQUIRE(worker_rings(self)[i].trailer + gate_offset(k)) >= 0) /* pairs with take 2 */
                return true;
        }
    }
    return worker_has_ended(self); /* the end of the last job wakes no worker */
}

/* Set the asleep bit of workers again: the wake of this worker has cleared it, though others may sleep (steps 2 and 3
   of *sleep*, spec/channel.md 6.16). */
static void announce(const Worker *self)
{
    atomic_fetch_or_explicit(
        (_Atomic uint32_t *)(void *)(self->base.memory->base + self->base.shape.control + CONTROL_JOBS_ASLEEP),
        (uint32_t)JOBS_BIT, memory_order_relaxed);
    reach_wakers();
}

static void kind_woken(Reader *base)
{
    announce((Worker *)base);
    ((Worker *)base)->woken = true;
}

void worker_pass_on(Worker *self)
{
    self->woken = false;
    if (worker_any_job(self))
        wake_one_if_asleep(&self->jobs);
}

static void kind_pass_on(void *context)
{
    Worker *self = context;
    announce(self);
    worker_pass_on(self);
}

void worker_look(Reader *base)
{
    Worker *self = (Worker *)base;
    if (self->ring == NULL && !self->unfinished && epoch_holds(&base->epoch)) {
        self->looked = now_ns();
        worker_adopt(self, self->looked);
    }
}

const worker_kind worker_waiting_kind = {
    .ended = kind_ended,
    .others_wake = kind_others_wake,
    .due = kind_due,
    .woken = kind_woken,
    .pass_on = kind_pass_on,
    .refuse = worker_refuse,
};

/* Methods and attributes */

/* Raise the error if the worker cannot be used now. */
static PyObject *worker_check(Worker *self, PyObject *ignored)
{
    (void)ignored;
    return worker_usable(self) ? Py_NewRef(Py_None) : NULL;
}

/* For the iterator in Python: like reader_next. */
static PyObject *worker_next(Worker *self, PyObject *ignored)
{
    (void)ignored;
    PyObject *job = reader_next(&self->base);
    if (job != NULL || PyErr_Occurred())
        return job;
    if (!self->base.drains)
        wake_all(jobs_words(&self->base.shape, self->base.memory->base)); /* other workers end, too */
    return Py_NewRef(Py_None);
}

static PyObject *worker_drain(Worker *self, PyObject *ignored)
{
    (void)ignored;
    if (self->base.closed || self->base.forked)
        return raise_error("ClosedError", "(si)", self->base.kind->what, (int)self->base.forked);
    __atomic_store_n(&self->base.drains, true, __ATOMIC_RELAXED); /* stored before the wake, which is the release */
    wake_all(jobs_words(&self->base.shape, self->base.memory->base));
    return Py_NewRef(Py_None);
}

static PyObject *get_ended(Worker *self, void *ignored)
{
    (void)ignored;
    if (self->base.closed || self->base.forked)
        return raise_error("ClosedError", "(si)", self->base.kind->what, (int)self->base.forked);
    if (!epoch_holds(&self->base.epoch) && self->base.use == IDLE && !self->unfinished) {
        worker_explain_lost(self);
        return NULL;
    }
    return PyBool_FromLong(worker_has_ended(self));
}

static PyObject *get_drains(Worker *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->base.drains);
}

static PyObject *get_slot(Worker *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLong(self->slot);
}

static PyObject *get_epoch(Worker *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->base.epoch.value);
}

static PyMethodDef methods[] = {
    {"poll", KEYWORDS(worker_poll),
     "poll($self, /, handler, limit=1, timeout=0)\n--\n\n"
     "Calls ``handler(job)`` for each job that this worker can take, at most ``limit`` of them. Returns how\n"
     "many were handled. If there is none, waits up to ``timeout`` seconds for the first (0: does not wait;\n"
     "None: no limit).\n\n"
     "Up to ``limit`` jobs, of at most an eighth of a ring in size, are taken at once, so each job waits for\n"
     "those before it. A job whose handler returns is done. A job whose handler raises is released, and the\n"
     "exception reaches the caller. Jobs that were taken but not handed out come with the next call.\n\n"
     "The handler returns None or a ``flyring.Action``: CONTINUE and COMMIT (the job is done), BREAK (the job\n"
     "is done, and the poll ends), or ABORT (the job is released and not counted, and the poll ends). The\n"
     "handler may also call ``done`` or ``release`` itself."},
    {"take", KEYWORDS(worker_take),
     "take($self, /, timeout=0)\n--\n\n"
     "Returns one job, or None if none came within ``timeout`` seconds (0: does not wait; None: no limit).\n"
     "Raises ViewAliveError while the previous job is neither done nor released."},
    {"drain", (PyCFunction)worker_drain, METH_NOARGS,
     "drain($self, /)\n--\n\n"
     "Stops taking jobs. The worker hands out the jobs that it has already taken; then ``take`` returns None\n"
     "and ``poll`` returns 0 at once, and iteration ends. Thread-safe."},
    {"_check", (PyCFunction)worker_check, METH_NOARGS, "raises the error if the worker cannot be used now"},
    {"_next", (PyCFunction)worker_next, METH_NOARGS, "for iteration: the next job, or None at the end"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"ended", (getter)get_ended, NULL,
     "whether all producers have closed and every job is done. False before the first producer", NULL},
    {"slot", (getter)get_slot, NULL, "the number of its subscriber slot", NULL},
    {"_drains", (getter)get_drains, NULL, "for receive", NULL},
    {"epoch", (getter)get_epoch, NULL, "how many owners the slot has had, this one included", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, worker_new},
    {Py_tp_dealloc, worker_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Worker", sizeof(Worker), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyTypeObject *make_worker_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, (PyObject *)reader_type);
}
