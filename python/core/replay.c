/* SPDX-License-Identifier: Apache-2.0 */
/* Replay: the hot loop of `flyring replay` (spec/journal.md 9).

   A step publishes messages of the recording until it meets something that the caller decides: a record that is no
   message, a ring whose publisher is not known, a message that is not due yet, a full ring. The cursor stays in front
   of that. */
#include "replay.h"
#include "arguments.h"
#include "journal_reader.h"
#include "publisher.h"
#include "recorder.h"

#define BLOCKED_NS INT64_C(50000000) /* how long a step waits for room before it returns */
#define LATE_NS INT64_C(1000000) /* a message that is published later than this after its time is late */

/* Why a step ended; flyring/cli/replay.py has the same. */
enum { FAILED = -1, STEP_LIMIT, STEP_NOTHING, STEP_END, STEP_OTHER, STEP_ROUTE, STEP_DUE, STEP_BLOCKED };

/* Where the messages of a ring go. */
typedef struct {
    Publisher *publisher; /* NULL: they are not chosen */
    uint16_t source, ring;
} route;

typedef struct {
    PyObject_HEAD
    JournalReader *reader;
    route *routes;
    size_t count, room, last; /* last: of the message before */
    int32_t *types; /* that are chosen */
    Py_ssize_t type_count; /* 0: all */
    int64_t end; /* messages from this position on are not played, */
    int64_t until_time, until_number; /* nor from this time or number on */
    double speed; /* 0: as fast as it goes */
    int64_t first, begun; /* the time of the first message, and when it was published; begun 0: there is none yet */
    int64_t due; /* of the message that was not due */
    int64_t published, late, latest;
} Replay;

static route *route_of(Replay *self, uint16_t source, uint16_t ring)
{
    if (LIKELY(self->last < self->count && self->routes[self->last].source == source &&
               self->routes[self->last].ring == ring))
        return &self->routes[self->last];
    for (size_t i = 0; i < self->count; i++) {
        if (self->routes[i].source == source && self->routes[i].ring == ring) {
            self->last = i;
            return &self->routes[i];
        }
    }
    return NULL;
}

static bool is_chosen(const Replay *self, int32_t type)
{
    for (Py_ssize_t i = 0; i < self->type_count; i++) {
        if (self->types[i] == type)
            return true;
    }
    return self->type_count == 0;
}

/* Whether the message is due. */
static bool is_due(Replay *self, int64_t time)
{
    int64_t now = now_ns();
    if (self->begun == 0) {
        self->first = time;
        self->begun = now;
        return true;
    }
    /* A wall clock that went back makes no wait: what is due is published at once. */
    double after = ((double)time - (double)self->first) / self->speed;
    self->due = after < (double)(INT64_MAX / 2) ? self->begun + (int64_t)(after > 0 ? after : 0) : INT64_MAX;
    if (self->due > now)
        return false;
    int64_t late = now - self->due;
    if (late > LATE_NS) {
        self->late++;
        self->latest = late > self->latest ? late : self->latest;
    }
    return true;
}

/* Publish one message: STEP_LIMIT, or STEP_BLOCKED or FAILED, with nothing published. */
static int publish(Publisher *to, const uint8_t *bytes, int64_t length, int32_t type)
{
    if (UNLIKELY(!publisher_usable(to)))
        return FAILED;
    ring_writer *ring = &to->writer.ring;
    if (UNLIKELY(length > ring->longest - RECORD_HEADER_LENGTH)) {
        publisher_too_large(to, length);
        return FAILED;
    }
    int64_t n = ring_record_size(ring, RECORD_HEADER_LENGTH + length);
    if (UNLIKELY(ring->end + n > ring->cleared || to->writer.owner_pending)) {
        int found = publisher_reserve_within(to, n, BLOCKED_NS);
        if (found <= 0)
            return found < 0 ? FAILED : STEP_BLOCKED;
        ring_announce(ring, n);
    }
    copy_words(ring->data + (ring->end & ring->mask) + RECORD_PAYLOAD, bytes, length);
    ring_set_type(ring, type);
    ring_commit(ring, RECORD_HEADER_LENGTH + length);
    ring_advance(ring, n, 1);
    publisher_wake(to); /* publish 10 */
    return STEP_LIMIT;
}

static int cannot_be(const JournalReader *reader, const char *reason)
{
    raise_error("CorruptJournalError", "(OLs)", reader->base.data->path, (long long)reader->cursor, reason);
    return FAILED;
}

/* Play the record that was found: STEP_LIMIT goes on behind it. */
static int play(Replay *self, const journal_record *found)
{
    uint16_t source, ring;
    int32_t type;
    if (UNLIKELY(found->type != RECORDING_TYPE_MESSAGE))
        return STEP_OTHER;
    if (UNLIKELY(found->length < RECORDING_MESSAGE_PAYLOAD))
        return cannot_be(self->reader, "a recorded message is too short");
    if (UNLIKELY(found->time >= self->until_time || self->reader->number >= self->until_number))
        return STEP_END;
    memcpy(&source, found->payload + RECORDING_MESSAGE_SOURCE, sizeof source);
    memcpy(&ring, found->payload + RECORDING_MESSAGE_RING, sizeof ring);
    memcpy(&type, found->payload + RECORDING_MESSAGE_TYPE, sizeof type);
    const route *to = route_of(self, source, ring);
    if (UNLIKELY(to == NULL))
        return STEP_ROUTE;
    if (to->publisher == NULL || !is_chosen(self, type))
        return STEP_LIMIT;
    if (UNLIKELY(type <= 0))
        return cannot_be(self->reader, "a recorded message has a type below 1");
    if (self->speed > 0 && !is_due(self, found->time))
        return STEP_DUE;
    int done = publish(to->publisher, found->payload + RECORDING_MESSAGE_PAYLOAD,
                       found->length - RECORDING_MESSAGE_PAYLOAD, type);
    self->published += done == STEP_LIMIT;
    return done;
}

static int play_on(Replay *self, int64_t most)
{
    JournalReader *reader = self->reader;
    journal_record found;
    journal_begin_turn(reader);
    for (int64_t i = 0; i < most; i++) {
        int more = journal_next(reader, &found);
        if (more <= 0)
            return more < 0 ? FAILED : STEP_NOTHING;
        if (UNLIKELY(reader->cursor >= self->end))
            return STEP_END;
        int done = play(self, &found);
        if (UNLIKELY(done != STEP_LIMIT))
            return done;
        reader->cursor = found.next;
        reader->number++;
    }
    return STEP_LIMIT;
}

/* The object */

static PyObject *replay_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *reader, *types;
    long long end, until_time, until_number;
    double speed;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!LLLd:Replay", reader_type, &reader, &PyTuple_Type, &types, &end, &until_time,
                          &until_number, &speed))
        return NULL;
    if (((Reader *)reader)->kind != &journal_reader_kind || ((JournalReader *)reader)->slot != NULL || !(speed >= 0)) {
        PyErr_SetString(PyExc_ValueError, "not a reader without a slot, or not a speed");
        return NULL;
    }
    Replay *self = (Replay *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->reader = (JournalReader *)Py_NewRef(reader);
    self->end = end;
    self->until_time = until_time;
    self->until_number = until_number;
    self->speed = speed;
    self->type_count = PyTuple_Size(types);
    self->types = PyMem_Calloc((size_t)self->type_count + 1, sizeof *self->types);
    if (self->types == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < self->type_count; i++) {
        self->types[i] = (int32_t)PyLong_AsLong(PyTuple_GetItem(types, i));
        if (PyErr_Occurred()) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static void drop_routes(Replay *self)
{
    size_t count = self->count;
    self->count = 0;
    for (size_t i = 0; i < count; i++)
        Py_XDECREF((PyObject *)self->routes[i].publisher);
}

static void replay_dealloc(Replay *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    drop_routes(self);
    PyMem_Free(self->routes);
    PyMem_Free(self->types);
    Py_XDECREF((PyObject *)self->reader);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Raises and returns false while a step runs Python code: it uses a route. */
static bool may_change(const Replay *self)
{
    if (self->reader->base.use == IDLE)
        return true;
    raise_error("TwoThreadsError", "(s)", "replay");
    return false;
}

static PyObject *replay_route(Replay *self, PyObject *args)
{
    unsigned short source, ring;
    PyObject *publisher;
    if (!may_change(self))
        return NULL;
    if (!PyArg_ParseTuple(args, "HHO:route", &source, &ring, &publisher))
        return NULL;
    if (publisher != Py_None && !PyObject_TypeCheck(publisher, publisher_type)) {
        PyErr_SetString(PyExc_TypeError, "a Publisher or None");
        return NULL;
    }
    if (self->count == self->room) {
        size_t wider = self->room == 0 ? 8 : 2 * self->room;
        route *routes = PyMem_Realloc(self->routes, wider * sizeof *routes);
        if (routes == NULL)
            return PyErr_NoMemory();
        self->routes = routes;
        self->room = wider;
    }
    Publisher *to = publisher == Py_None ? NULL : (Publisher *)Py_NewRef(publisher);
    self->routes[self->count++] = (route){to, source, ring};
    return Py_NewRef(Py_None);
}

static PyObject *replay_forget_routes(Replay *self, PyObject *ignored)
{
    (void)ignored;
    if (!may_change(self))
        return NULL;
    drop_routes(self);
    return Py_NewRef(Py_None);
}

static PyObject *replay_step(Replay *self, PyObject *number)
{
    int64_t most = PyLong_AsLongLong(number);
    if (most == -1 && PyErr_Occurred())
        return NULL;
    Reader *base = &self->reader->base;
    if (!base->kind->usable(base))
        return NULL;
    reader_begin(base); /* a wait for room runs Python code */
    Py_INCREF((PyObject *)self);
    int done = play_on(self, most);
    base->use = IDLE;
    Py_DECREF((PyObject *)self);
    return done == FAILED ? NULL : PyLong_FromLong(done);
}

#define TOTAL(name) \
    static PyObject *get_##name(Replay *self, void *ignored) \
    { \
        (void)ignored; \
        return PyLong_FromLongLong(self->name); \
    }

TOTAL(published)
TOTAL(late)
TOTAL(latest)
TOTAL(due)

static PyMethodDef methods[] = {
    {"route", (PyCFunction)replay_route, METH_VARARGS,
     "route($self, source, ring, publisher, /)\n--\n\nMessages of this ring go there. None: they are not chosen."},
    {"forget_routes", (PyCFunction)replay_forget_routes, METH_NOARGS, "forget_routes($self, /)\n--\n\n"},
    {"step", (PyCFunction)replay_step, METH_O,
     "step($self, limit, /)\n--\n\nPasses up to ``limit`` messages, and publishes those that are chosen. Returns why "
     "it "
     "ended."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"published", (getter)get_published, NULL, "how many messages were published", NULL},
    {"late", (getter)get_late, NULL, "how many of them were published over a millisecond late", NULL},
    {"latest", (getter)get_latest, NULL, "the most that one was late, in ns", NULL},
    {"due", (getter)get_due, NULL, "when the message is due that was not, in ns of CLOCK_MONOTONIC", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, replay_new},
    {Py_tp_dealloc, replay_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Replay", sizeof(Replay), 0, Py_TPFLAGS_DEFAULT, slots};

PyTypeObject *make_replay_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
