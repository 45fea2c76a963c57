/* SPDX-License-Identifier: Apache-2.0 */
#include "reader_parts.h"
#include "sbe/arrays.h"

PyTypeObject *reader_type;

/* Creation and close */

static void reader_forked(fork_node *node)
{
    Reader *self = (Reader *)((char *)node - offsetof(Reader, node));
    self->forked = true;
    epoch_drop(&self->epoch);
}

Reader *reader_new(PyTypeObject *type, const reader_kind *kind, Memory *data, Memory *memory, File *file,
                   const geometry *shape, int count, int wait)
{
    Reader *self = (Reader *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->kind = kind;
    memory_use(self->data = data);
    if (memory != NULL)
        memory_use(self->memory = memory);
    self->file = (File *)Py_NewRef((PyObject *)file);
    self->shape = *shape;
    self->capacity = shape->capacity;
    self->mask = shape->capacity - 1;
    self->alignment = shape->alignment;
    self->store_every = shape->capacity / GATE_STORE_DIVISOR;
    self->count = count;
    self->wait = wait;
    self->spin = DEFAULT_SPIN_NS;
    fork_add(&self->node, reader_forked);
    return self;
}

bool reader_exports_nothing(const Reader *self)
{
    (void)self;
    return false;
}

bool reader_expires_nothing(Reader *self)
{
    (void)self;
    return true;
}

COLD void reader_release_memory(Reader *self)
{
    Memory *data = self->data, *memory = self->memory;
    self->data = self->memory = NULL;
    if (data != NULL)
        memory_unuse(data);
    if (memory != NULL)
        memory_unuse(memory);
}

void reader_shut(Reader *self)
{
    if (self->closed)
        return;
    if (!self->forked)
        self->kind->expire_messages(self);
    self->kind->give_back(self);
    __atomic_store_n(&self->closed, true, __ATOMIC_RELAXED); /* a wait reads it without the GIL */
    if (self->notifier != NULL && !self->forked)
        notifier_stop(self->notifier);
    if (self->use == WAITING && !self->forked)
        reader_wake_waiting(self);
    /* A waiting thread still reads the rings, and releases the memory itself; a forked child may still have exports. */
    if (self->use == IDLE && !self->forked)
        reader_release_memory(self);
}

void reader_dealloc(Reader *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    fork_remove(&self->node);
    notifier_free(self->notifier);
    reader_release_memory(self);
    Py_XDECREF((PyObject *)self->file);
    Py_XDECREF((PyObject *)self->pinned);
    Py_XDECREF((PyObject *)self->spare);
    PyMem_Free(self->rings);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}
/* Checks */

PyObject *reader_view_alive(void)
{
    return raise_error("ViewAliveError", "(s)",
                       "a memoryview or array of a message is still alive after its handler returned; "
                       "release it, or copy the message (bytes) instead");
}

bool reader_in_use(Reader *self)
{
    if (UNLIKELY(self->closed || self->forked))
        raise_error("ClosedError", "(si)", self->kind->what, (int)self->forked);
    else if (UNLIKELY(self->use != IDLE))
        raise_error("TwoThreadsError", "(s)", self->kind->what);
    else
        return false;
    return true;
}

PyObject *reader_refuse(Reader *self)
{
    if (self->closed || self->forked || self->use != IDLE) {
        PyErr_Clear();
        reader_in_use(self);
    } else if (self->kind->exported(self)) {
        PyErr_Clear();
        if (self->kind->worker != NULL)
            self->kind->worker->refuse(self);
        else
            reader_view_alive();
    }
    return NULL;
}
/* Reading */

/* Check at intervals that the channel was not replaced (6.13). Called after each poll that found nothing. False with an
   exception. */
static inline bool check_replaced_now_and_then(Reader *self)
{
    return LIKELY(++self->idle < POLLS_TO_LOOK) || reader_check_replaced(self);
}

/* Parse the argument limit. False with an exception. */
static bool parse_limit(const Reader *self, PyObject *object, Py_ssize_t *limit)
{
    Py_ssize_t least = self->kind->takes_limit_0 ? 0 : 1;
    *limit = PyNumber_AsSsize_t(object, NULL); /* limited to the range of Py_ssize_t */
    if (*limit == -1 && PyErr_Occurred())
        return false;
    if (*limit < least)
        raise_error("InvalidArgumentError", "(ss)", "limit",
                    least == 0 ? "must be 0 or more requests" : "must be 1 or more messages");
    return *limit >= least;
}

/* Whether a poll found nothing. A poll that its handler ended with ABORT did find a message. */
static inline bool found_nothing(Reader *self, Py_ssize_t done)
{
    if (done != 0 || LIKELY(!self->ended))
        return done == 0;
    self->ended = false;
    return false;
}

/* Whether the reader drains, so that it does not wait. */
static inline bool is_drained(const Reader *self)
{
    return __atomic_load_n(&self->drains, __ATOMIC_RELAXED);
}

/* The common part of poll and poll_arrays. */
static PyObject *poll_by(Reader *self, poll_function *poll, void *receiver, Py_ssize_t limit, int64_t timeout)
{
    if (!self->kind->usable(self))
        return NULL;
    Py_INCREF((PyObject *)self); /* a handler may drop the last reference */
    Py_ssize_t done = poll(self, receiver, limit);
    bool nothing = found_nothing(self, done);
    if (nothing && timeout != WAIT_NOT && limit != 0 && !is_drained(self)) {
        wait_state state;
        wait_begin(&state, self->wait, self->spin, timeout);
        for (int again = 1; nothing && again > 0 && !is_drained(self);) {
            if (!check_replaced_now_and_then(self) || (again = reader_wait_for_more(self, &state)) < 0)
                done = again = -1;
            else if (again > 0)
                nothing = found_nothing(self, done = poll(self, receiver, limit));
        }
    } else if (nothing && !check_replaced_now_and_then(self)) {
        done = -1;
    }
    if (done > 0)
        self->idle = 0;
    else if (nothing && done == 0 && !reader_rearm(self))
        done = -1;
    Py_DECREF((PyObject *)self);
    return done < 0 ? NULL : PyLong_FromSsize_t(done);
}

ALWAYS_INLINE PyObject *poll_any(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names, Py_ssize_t limit)
{
    static const char *const parameters[] = {"handler", "limit", "timeout"};
    static const signature expected = {parameters, 3, 1};
    PyObject *values[3] = {NULL, NULL, NULL};
    int64_t timeout = WAIT_NOT;
    if (LIKELY(names == NULL && n >= 1 && n <= 3)) {
        for (Py_ssize_t i = 0; i < n; i++)
            values[i] = args[i];
    } else if (!parse_arguments(&expected, args, n, names, values)) {
        return reader_refuse(self);
    }
    if (!PyCallable_Check(values[0])) {
        PyErr_SetString(PyExc_TypeError, "handler must be callable");
        return reader_refuse(self);
    }
    if ((values[1] != NULL && !parse_limit(self, values[1], &limit)) ||
        (values[2] != NULL && (timeout = wait_timeout(values[2])) < 0))
        return reader_refuse(self);
    return poll_by(self, self->kind->poll, values[0], limit, timeout);
}

PyObject *reader_poll(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return poll_any(self, args, n, names, DEFAULT_POLL_LIMIT);
}

PyObject *reader_poll_up_to(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names, Py_ssize_t limit)
{
    return poll_any(self, args, n, names, limit);
}

int64_t reader_take_timeout(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"timeout"};
    static const signature expected = {parameters, 1, 0};
    PyObject *values[1] = {NULL};
    int64_t timeout = WAIT_NOT;
    if (!parse_arguments(&expected, args, n, names, values) ||
        (values[0] != NULL && (timeout = wait_timeout(values[0])) < 0)) {
        reader_refuse(self);
        return -1;
    }
    return timeout;
}

static inline PyObject *found_none(Reader *self)
{
    return reader_rearm(self) ? Py_NewRef(Py_None) : NULL;
}

PyObject *reader_take_waiting(Reader *self, int64_t timeout)
{
    if (PyErr_Occurred() || !check_replaced_now_and_then(self))
        return NULL;
    if (timeout == WAIT_NOT || is_drained(self))
        return found_none(self);
    wait_state state;
    wait_begin(&state, self->wait, self->spin, timeout);
    for (;;) {
        int again = reader_wait_for_more(self, &state);
        if (again < 0)
            return NULL;
        PyObject *message = self->kind->take(self);
        if (message != NULL || PyErr_Occurred())
            return message;
        if (!check_replaced_now_and_then(self))
            return NULL;
        if (again == 0 || is_drained(self))
            return found_none(self);
    }
}

/* Iteration: wait for the next message. NULL without an exception: the end. */
PyObject *reader_next(Reader *self)
{
    if (!self->kind->usable(self))
        return NULL;
    wait_state state;
    wait_begin(&state, self->wait, self->spin, WAIT_UNLIMITED);
    for (;;) {
        PyObject *message = self->kind->take(self);
        if (message != NULL || PyErr_Occurred() || reader_have_ended(self) || !check_replaced_now_and_then(self))
            return message;
        self->iterating = true;
        int again = reader_wait_for_more(self, &state);
        self->iterating = false;
        if (again < 0)
            return NULL;
    }
}

/* Methods */

/* For async for: whether the iteration ends. */
static PyObject *reader_tell_ended(Reader *self, PyObject *ignored)
{
    (void)ignored;
    if (reader_in_use(self))
        return NULL;
    return PyBool_FromLong(reader_have_ended(self));
}

static PyObject *reader_set_spin(Reader *self, PyObject *seconds)
{
    int64_t spin = wait_spin(seconds);
    if (spin < 0 || reader_in_use(self))
        return reader_refuse(self);
    self->spin = spin;
    return Py_NewRef(Py_None);
}

PyObject *reader_poll_arrays(Reader *self, PyObject *const *args, Py_ssize_t n)
{
    array_poll poll;
    Py_ssize_t limit;
    int64_t timeout;
    if (!array_poll_parse(&poll, args, n) || !parse_limit(self, args[3], &limit) ||
        (timeout = wait_timeout(args[5])) < 0)
        return reader_refuse(self);
    return poll_by(self, self->kind->poll_arrays, &poll, limit, timeout);
}

int reader_find_ring(const Reader *self, PyObject *number)
{
    int overflow;
    long wanted = PyLong_AsLongAndOverflow(number, &overflow);
    if (wanted == -1 && PyErr_Occurred())
        return -1;
    for (int i = 0; i < self->count && overflow == 0; i++) {
        if (self->kind->ring_at(self, i).number == wanted)
            return i;
    }
    raise_error("InvalidArgumentError", "(ss)", "ring", "this subscriber did not choose that ring");
    return -1;
}

PyObject *reader_position(Reader *self, PyObject *number)
{
    int i = reader_find_ring(self, number);
    return i < 0 ? NULL : PyLong_FromLongLong(self->kind->ring_at(self, i).cursor);
}

PyObject *reader_ended(Reader *self, PyObject *number)
{
    if (self->closed || self->forked)
        return raise_error("ClosedError", "(si)", self->kind->what, (int)self->forked);
    int i = reader_find_ring(self, number);
    if (self->closed) /* converting the argument ran Python code, which closed it */
        return reader_refuse(self);
    if (i < 0 || !self->kind->owned(self))
        return NULL;
    ring_place at = self->kind->ring_at(self, i);
    return PyBool_FromLong(ring_ended(&self->shape, self->data->base, at.number, at.cursor));
}

bool reader_may_close(Reader *self)
{
    if (self->forked || self->closed)
        return true;
    if (self->use == BUSY) {
        raise_error("ViewAliveError", "(s)",
                    "close would unmap the message of a handler that runs; close when it has returned");
        return false;
    }
    if (self->kind->expire_messages(self))
        return true;
    reader_view_alive();
    return false;
}

static PyObject *reader_close(Reader *self, PyObject *ignored)
{
    (void)ignored;
    if (!reader_may_close(self))
        return NULL;
    reader_shut(self);
    return Py_NewRef(Py_None);
}

PyObject *reader_get_rings(Reader *self, void *ignored)
{
    (void)ignored;
    PyObject *rings = PyTuple_New(self->count);
    for (int i = 0; rings != NULL && i < self->count; i++) {
        PyObject *number = PyLong_FromLong(self->kind->ring_at(self, i).number);
        if (number == NULL || PyTuple_SetItem(rings, i, number) < 0)
            Py_CLEAR(rings);
    }
    return rings;
}

static PyObject *get_closed(Reader *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->closed || self->forked);
}

const char reader_poll_text[] =
    "poll($self, /, handler, limit=256, timeout=0)\n--\n\n"
    "Calls ``handler(message)`` for each waiting message, at most ``limit`` of them. Returns how many were\n"
    "handled. If there is none, waits up to ``timeout`` seconds for the first (0: does not wait; None: no\n"
    "limit).\n\n"
    "A message is valid until its handler returns. It lies in the ring; for a lossy subscriber it is a private\n"
    "copy. A message whose handler raises counts as consumed, and the exception reaches the caller.\n\n"
    "The handler returns None or a ``flyring.Action``: COMMIT (messages handled so far count as read from now\n"
    "on), BREAK (the poll ends), or ABORT (the poll ends; this message is neither consumed nor counted, and\n"
    "the next poll begins with it). Anything else raises InvalidArgumentError, and the message counts as\n"
    "consumed.";
const char reader_take_text[] =
    "take($self, /, timeout=0)\n--\n\n"
    "Returns one message that owns its bytes, or None if none came within ``timeout`` seconds (0: does not\n"
    "wait; None: no limit).";

const char reader_position_text[] =
    "position($self, ring, /)\n--\n\n"
    "Returns the position of this reader in the given ring, in bytes. Raises InvalidArgumentError if the\n"
    "reader did not choose that ring.";
const char reader_ended_text[] =
    "ended($self, ring, /)\n--\n\n"
    "Returns whether the ring's publisher has closed and all its messages are consumed. A later publisher in\n"
    "the same ring makes it False again. Raises InvalidArgumentError if the reader did not choose that ring.";

/* reader_refuse for methods in Python: raises the errors that come before those of arguments. */
static PyObject *reader_check_idle(Reader *self, PyObject *ignored)
{
    (void)ignored;
    reader_refuse(self);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"_check_idle", (PyCFunction)reader_check_idle, METH_NOARGS,
     "raises the errors that come before those of arguments"},
    {"_is_armed", (PyCFunction)reader_is_armed, METH_NOARGS, "for receive"},
    {"_have_ended", (PyCFunction)reader_tell_ended, METH_NOARGS, "for async for"},
    {"fileno", (PyCFunction)reader_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\n"
     "Returns a file descriptor for select, epoll and event loops. It is readable while there may be messages.\n"
     "A ``poll`` or ``take`` that finds nothing makes it unreadable; do not read from it. It lives as long as\n"
     "this object."},
    {"set_spin", (PyCFunction)reader_set_spin, METH_O,
     "set_spin($self, spin, /)\n--\n\n"
     "Sets how long a wait with ``wait=\"block\"`` spins before it sleeps, in seconds. The default is 0.00002."},
    {"close", (PyCFunction)reader_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Gives the slot back, if the reader has one. A kept slot keeps its position; any other stops holding\n"
     "publishers back. Closing twice does nothing. Raises ViewAliveError inside a handler, and while a\n"
     "memoryview or array of a message is alive. A thread that waits in this reader gets ClosedError."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"closed", (getter)get_closed, NULL, "True after close, and in a forked child", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Reader", sizeof(Reader), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

PyTypeObject *make_reader_type(PyObject *module)
{
    if (!reader_load_actions())
        return NULL;
    return reader_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
