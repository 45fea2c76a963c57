/* SPDX-License-Identifier: Apache-2.0 */
/* Server: creation, methods and attributes (spec/service.md 4). */
#include "server.h"

/* One side, of `facts`: (cursor, stored, count, repeat_end, damaged, end of ring N + k, its count). */
static bool add_side(Server *self, int32_t k, PyObject *facts)
{
    const geometry *shape = &self->base.shape;
    uint8_t *base = self->base.memory->base;
    int32_t replies = shape->publishers / 2 + k;
    long long cursor, stored, count, repeat_end, end, end_count;
    int damaged;
    if (!PyArg_ParseTuple(facts, "LLLLpLL:side", &cursor, &stored, &count, &repeat_end, &damaged, &end, &end_count))
        return false;
    if (!is_position(shape, cursor) || !is_position(shape, repeat_end) || !is_position(shape, end)) {
        PyErr_SetString(PyExc_ValueError, "not positions of this channel");
        return false;
    }
    service_side *side = &server_sides(self)[k];
    *side = (service_side){
        .data = self->base.data->base + ring_data_offset(shape, k),
        .trailer = base + ring_trailer_offset(shape, k),
        .gate = base + ring_trailer_offset(shape, k) + gate_offset(0),
        .client_epoch = base + subscriber_slot_offset(shape, 1 + k) + SUBSCRIBER_SLOT_EPOCH,
        .client_closed = base + publisher_slot_offset(shape, k) + PUBLISHER_SLOT_CLOSED,
        .cursor = cursor,
        .stored = stored,
        .count = count < 0 ? COUNT_UNKNOWN : count,
        .repeat_end = repeat_end,
        .number = k,
        .damaged = damaged,
        .from = {.ring = k},
        .writer =
            {
                .ring = ring_writer_make(shape, base, replies, end, end_count, 0),
                .owner_pending = true,
                .slot = replies,
                .monotonic = self->clock.injected,
                .clock_offset = self->clock.offset,
                .name = self->name,
                .lock = self->lock,
                .base = base,
                .shape = &self->base.shape,
            },
    };
    side->writer.epoch = LOAD64_RELAXED(base + publisher_slot_offset(shape, replies) + PUBLISHER_SLOT_EPOCH);
    sender_from_slot(&side->from, base + publisher_slot_offset(shape, k), cursor);
    self->damaged_sides += damaged;
    self->damaged += damaged;
    return true;
}

static PyObject *server_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *data, *memory, *shape, *lock, *sides, *name, *wait;
    int strategy, wakes, least, max_outstanding, default_type;
    long long epoch, monotonic, offset;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!O!LO!SpiiLLOp:Server", memory_type, &data, memory_type, &memory, &PyTuple_Type,
                          &shape, file_type, &lock, &epoch, &PyTuple_Type, &sides, &name, &least, &max_outstanding,
                          &default_type, &monotonic, &offset, &wait, &wakes) ||
        wait_parse(wait, &strategy) < 0)
        return NULL;
    geometry here;
    if (!memory_covers((Memory *)memory, 0, 0) || !memory_covers((Memory *)data, 0, ((Memory *)memory)->length) ||
        !geometry_parse(shape, ((Memory *)memory)->length, &here))
        return NULL;
    if (!((Memory *)memory)->writable || !here.service || epoch < 0 || max_outstanding < 1 || default_type < 1 ||
        PyTuple_Size(sides) != here.publishers / 2) {
        PyErr_SetString(PyExc_ValueError, "not a writable mapping of a service, and what a server of it has");
        return NULL;
    }
    Server *self = (Server *)reader_new(type, &server_kind, (Memory *)data, (Memory *)memory, (File *)lock, &here,
                                        here.publishers / 2, strategy);
    if (self == NULL)
        return NULL;
    uint8_t *base = ((Memory *)memory)->base;
    self->lock = (File *)Py_NewRef(lock);
    self->name = Py_NewRef(name);
    self->least = least;
    self->max_outstanding = max_outstanding;
    self->default_type = default_type;
    self->clock = (service_clock){monotonic, offset};
    self->waker = waker_make(data_words(&here, base), wakes);
    self->room = waker_make(room_words(&here, base), wakes);
    epoch_watch(&self->base.epoch, base + subscriber_slot_offset(&here, 0) + SUBSCRIBER_SLOT_EPOCH, epoch);
    self->base.rings = PyMem_Calloc((size_t)self->base.count, sizeof(service_side));
    bool fine = self->base.rings != NULL;
    if (!fine)
        PyErr_NoMemory();
    for (int32_t k = 0; fine && k < self->base.count; k++)
        fine = add_side(self, k, PyTuple_GetItem(sides, k));
    if (!fine) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void server_dealloc(Server *self)
{
    if (self->lock != NULL)
        reader_shut(&self->base);
    Py_XDECREF((PyObject *)self->lock);
    Py_XDECREF(self->name);
    Py_XDECREF(self->handler);
    for (int k = 0; self->base.rings != NULL && k < self->base.count; k++)
        Py_XDECREF(server_sides(self)[k].from.object);
    reader_dealloc(&self->base);
}

/* Methods and attributes */

/* Like reader_poll, but without a handler uses those of `on`. */
static PyObject *server_poll(Server *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"handler", "limit", "timeout"};
    static const signature expected = {parameters, 3, 0};
    if (LIKELY(names == NULL && n >= 1 && args[0] != Py_None))
        return reader_poll(&self->base, args, n, names);
    PyObject *values[3] = {NULL, NULL, NULL};
    if (!parse_arguments(&expected, args, n, names, values))
        return reader_refuse(&self->base);
    if (values[0] == NULL || values[0] == Py_None)
        values[0] = self->handler;
    if (values[0] == NULL) {
        PyErr_SetString(PyExc_TypeError, "give a handler, or call on before");
        return reader_refuse(&self->base);
    }
    Py_INCREF(values[0]); /* the handler may call `on`, which replaces it */
    PyObject *limit = values[1] != NULL ? Py_NewRef(values[1]) : PyLong_FromLong(DEFAULT_POLL_LIMIT);
    PyObject *timeout = values[2] != NULL ? Py_NewRef(values[2]) : PyLong_FromLong(0);
    PyObject *all[3] = {values[0], limit, timeout}, *done = NULL;
    if (limit != NULL && timeout != NULL)
        done = reader_poll(&self->base, all, 3, NULL);
    Py_XDECREF(limit);
    Py_XDECREF(timeout);
    Py_DECREF(values[0]);
    return done;
}

static PyObject *server_set_handler(Server *self, PyObject *handler)
{
    PyObject *before = self->handler;
    self->handler = Py_NewRef(handler);
    Py_XDECREF(before);
    return Py_NewRef(Py_None);
}

static PyObject *server_stop(Server *self, PyObject *ignored)
{
    (void)ignored;
    if (self->base.closed || self->base.forked)
        return raise_error("ClosedError", "(si)", self->base.kind->what, (int)self->base.forked);
    __atomic_store_n(&self->base.drains, true, __ATOMIC_RELAXED); /* stored before the wake, which is the release */
    wake_all(data_words(&self->base.shape, self->base.memory->base));
    return Py_NewRef(Py_None);
}

/* For serve: whether stop was called since the last check. */
static PyObject *server_stopped(Server *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(__atomic_exchange_n(&self->base.drains, false, __ATOMIC_RELAXED));
}

/* For tests: sets the clock of deadlines. */
static PyObject *server_set_clock(Server *self, PyObject *monotonic)
{
    long long now = PyLong_AsLongLong(monotonic);
    if (now == -1 && PyErr_Occurred())
        return NULL;
    self->clock.injected = now;
    for (int k = 0; k < self->base.count; k++)
        server_sides(self)[k].writer.monotonic = now;
    return Py_NewRef(Py_None);
}

static PyObject *get_held(Server *self, void *ignored)
{
    (void)ignored;
    return Py_BuildValue("(ii)", (int)self->in_hand, (int)self->waiting);
}

static PyObject *get_count(Server *self, void *which)
{
    return PyLong_FromLongLong(*(int64_t *)((char *)self + (size_t)which));
}

static PyObject *get_slot(Server *self, void *ignored)
{
    (void)self, (void)ignored;
    return PyLong_FromLong(0);
}

static PyObject *get_epoch(Server *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->base.epoch.value);
}

static PyObject *get_longest(Server *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->base.capacity / MAX_MESSAGE_DIVISOR - RECORD_HEADER_LENGTH - REPLY_LENGTH);
}

static PyMethodDef methods[] = {
    {"poll", KEYWORDS(server_poll),
     "poll($self, /, handler=None, limit=256, timeout=0)\n--\n\n"
     "Calls ``handler(request)`` for each waiting request, at most ``limit`` of them. Returns how many were\n"
     "handled. If there is none, waits up to ``timeout`` seconds for the first (0: does not wait; None: no\n"
     "limit). With ``limit`` 0 it takes no request, does not wait, and sends replies that waited for room.\n"
     "Without a ``handler``, uses those of ``on``.\n\n"
     "The handler answers by ``request.reply``, or by the value that it returns: bytes, or a message of a\n"
     "generated class. If the handler raises, the call ends with ServiceError, and the poll goes on. Only\n"
     "exceptions that no handler should catch (KeyboardInterrupt, SystemExit) reach the caller, after the\n"
     "reply. An exception after the handler's own reply goes to ``sys.unraisablehook``."},
    {"stop", (PyCFunction)server_stop, METH_NOARGS,
     "stop($self, /)\n--\n\n"
     "Ends the current ``serve``, or the next one. Thread-safe."},
    {"_set_handler", (PyCFunction)server_set_handler, METH_O, "for on"},
    {"_stopped", (PyCFunction)server_stopped, METH_NOARGS, "for serve"},
    {"_set_clock", (PyCFunction)server_set_clock, METH_O, "for tests"},
    {NULL, NULL, 0, NULL},
};

#define COUNT(field) (void *)offsetof(Server, field)
static PyGetSetDef getters[] = {
    {"_held", (getter)get_held, NULL, "for held", NULL},
    {"client_gone", (getter)get_count, NULL, "how many replies were for clients that have gone", COUNT(client_gone)},
    {"expired", (getter)get_count, NULL, "how many requests came after their deadline", COUNT(expired)},
    {"not_run", (getter)get_count, NULL, "how many requests were for an earlier server", COUNT(not_run)},
    {"damaged", (getter)get_count, NULL, "how many clients were evicted for a damaged ring", COUNT(damaged)},
    {"slot", (getter)get_slot, NULL, "the number of its subscriber slot: 0", NULL},
    {"epoch", (getter)get_epoch, NULL, "how many servers the service has had, this one included", NULL},
    {"max_message_length", (getter)get_longest, NULL, "the largest answer, in bytes", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, server_new},
    {Py_tp_dealloc, server_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Server", sizeof(Server), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyTypeObject *make_server_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, (PyObject *)reader_type);
}
