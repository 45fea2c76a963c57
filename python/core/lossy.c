/* SPDX-License-Identifier: Apache-2.0 */
/* LossySubscriber: how it begins and closes, and what it tells. It owns nothing in the file. */
#include "lossy.h"
#include "arrays.h"

#include "ring.h"

PyTypeObject *lossy_type;

/* Life */

static void lossy_forked(fork_node *node)
{
    ((Lossy *)((char *)node - offsetof(Lossy, node)))->base.forked = true;
}

static bool add_rings(Lossy *self, PyObject *rings)
{
    self->count = (int)PyTuple_Size(rings);
    self->rings = PyMem_Calloc((size_t)self->count, sizeof(lossy_ring));
    if (self->rings == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (int i = 0; i < self->count; i++) {
        long number = PyLong_AsLong(PyTuple_GetItem(rings, i));
        if (number == -1 && PyErr_Occurred())
            return false;
        if (number < 0 || number >= self->shape.publishers) {
            PyErr_SetString(PyExc_ValueError, "not a ring of this channel");
            return false;
        }
        const uint8_t *base = self->memory->base;
        self->rings[i] = (lossy_ring){
            .data = base + ring_data_offset(&self->shape, (int32_t)number),
            .trailer = base + ring_trailer_offset(&self->shape, (int32_t)number),
            .slot = base + publisher_slot_offset(&self->shape, (int32_t)number),
            .from = {.ring = (int32_t)number},
        };
        if (!lossy_start(self, &self->rings[i])) { /* the first poll says so; the other rings can be read */
            PyErr_Clear();
            self->rings[i].corrupt = self->rings[i].started = false;
        }
    }
    return true;
}

static PyObject *lossy_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *memory, *shape, *rings, *wait;
    int oldest, strategy;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!pO:LossySubscriber", memory_type, &memory, &PyTuple_Type, &shape, &PyTuple_Type,
                          &rings, &oldest, &wait) ||
        wait_parse(wait, &strategy) < 0)
        return NULL;
    geometry at;
    if (!memory_covers((Memory *)memory, 0, 0) || !geometry_parse(shape, ((Memory *)memory)->length, &at))
        return NULL;
    if (PyTuple_Size(rings) < 1 || PyTuple_Size(rings) > at.publishers || at.foreign == FEATURE_FOREIGN_PUBLISHER) {
        PyErr_SetString(PyExc_ValueError, "not rings of this channel");
        return NULL;
    }
    Lossy *self = (Lossy *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->base.kind = &lossy_kind;
    self->base.wait = strategy;
    memory_use(self->memory = (Memory *)memory);
    self->shape = at;
    self->capacity = at.capacity;
    self->mask = at.capacity - 1;
    self->alignment = at.alignment;
    self->longest = at.capacity / MAX_MESSAGE_DIVISOR;
    fork_add(&self->node, lossy_forked);
    self->oldest = oldest != 0;
    if (!add_rings(self, rings)) {
        self->base.closed = true;
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

void lossy_let_go_of_memory(Lossy *self)
{
    Memory *memory = self->memory;
    self->memory = NULL;
    if (memory != NULL)
        memory_unuse(memory);
}

static void lossy_dealloc(Lossy *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    fork_remove(&self->node);
    lossy_let_go_of_memory(self);
    Py_XDECREF((PyObject *)self->base.pinned);
    Py_XDECREF((PyObject *)self->base.spare);
    for (int i = 0; self->rings != NULL && i < self->count; i++)
        Py_XDECREF(self->rings[i].from.object);
    PyMem_Free(self->rings);
    PyMem_Free(self->copy);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* No export is alive: false, and nothing is changed, if one is. What was peeked at expires. */
static bool let_go_of_messages(Lossy *self)
{
    if (self->peeked != NULL) {
        if (self->peeked->exports != 0)
            return false;
        int use = self->base.use;
        reader_begin(&self->base); /* a sender may be made: this runs Python code */
        message_expire(self->peeked);
        self->base.use = use;
    }
    self->peeked_ring = NULL;
    if (self->base.pinned != NULL) {
        if (self->base.pinned->exports != 0)
            return false;
        Py_CLEAR(self->base.pinned);
    }
    return true;
}

bool lossy_usable(Lossy *self)
{
    if (UNLIKELY(self->base.closed || self->base.forked))
        core_raise("ClosedError", "(si)", "subscriber", (int)self->base.forked);
    else if (UNLIKELY(self->base.use != IDLE))
        core_raise("TwoThreadsError", "(s)", "subscriber");
    else if (UNLIKELY(!let_go_of_messages(self)))
        reader_view_alive();
    else
        return true;
    return false;
}

static PyObject *lossy_close(Lossy *self, PyObject *ignored)
{
    (void)ignored;
    if (!reader_may_close(&self->base))
        return NULL;
    if (!self->base.forked && !let_go_of_messages(self))
        return reader_view_alive();
    self->base.closed = true;
    /* A waiting thread reads the rings, and lets go itself when it wakes; a forked child may still have views. */
    if (self->base.use == IDLE && !self->base.forked)
        lossy_let_go_of_memory(self);
    return Py_NewRef(Py_None);
}

/* What Python is told */

/* NULL with an exception. */
static lossy_ring *ring_of_number(Lossy *self, PyObject *number)
{
    long wanted = PyLong_AsLong(number);
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    for (int i = 0; i < self->count; i++) {
        if (self->rings[i].from.ring == wanted)
            return &self->rings[i];
    }
    reader_no_such_ring();
    return NULL;
}

static PyObject *lossy_position(Lossy *self, PyObject *number)
{
    lossy_ring *ring = ring_of_number(self, number);
    return ring == NULL ? NULL : PyLong_FromLongLong(ring->cursor);
}

static PyObject *lossy_lost_messages(Lossy *self, PyObject *number)
{
    lossy_ring *ring = ring_of_number(self, number);
    return ring == NULL ? NULL : PyLong_FromLongLong(ring->lost_messages);
}

static PyObject *lossy_lost_bytes(Lossy *self, PyObject *number)
{
    lossy_ring *ring = ring_of_number(self, number);
    return ring == NULL ? NULL : PyLong_FromLongLong(ring->lost_bytes);
}

static PyObject *lossy_ended(Lossy *self, PyObject *number)
{
    lossy_ring *ring = ring_of_number(self, number);
    if (ring == NULL)
        return NULL;
    if (self->base.closed || self->base.forked)
        return core_raise("ClosedError", "(si)", "subscriber", (int)self->base.forked);
    return PyBool_FromLong(ring_ended(&self->shape, self->memory->base, ring->from.ring, ring->cursor));
}

static int32_t ring_at(Reader *self, int i)
{
    return ((Lossy *)self)->rings[i].from.ring;
}

static PyObject *get_rings(Lossy *self, void *ignored)
{
    (void)ignored;
    return reader_rings(self->count, ring_at, &self->base);
}

static PyObject *get_closed(Lossy *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->base.closed || self->base.forked);
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef methods[] = {
    {"poll", KEYWORDS(reader_poll),
     "poll(handler, limit=256, timeout=0) -> int\n\n"
     "Calls ``handler`` for each message that is there, at most ``limit``: how many. Waits up to\n"
     "``timeout`` seconds for the first (0: do not wait; None: for ever). A message is a private copy,\n"
     "valid until its handler returns; one whose handler raised counts as consumed."},
    {"_poll_arrays", (PyCFunction)(void (*)(void))reader_poll_arrays, METH_FASTCALL, "for poll_arrays"},
    {"take", KEYWORDS(lossy_take),
     "take(timeout=0) -> Message | None\n\n"
     "One message that owns its bytes, or None if there was none within ``timeout`` seconds."},
    {"peek", (PyCFunction)lossy_peek, METH_NOARGS,
     "peek() -> Message | None\n\n"
     "One message in place, or None: it may be overwritten while it is read. Not consumed; what is read of\n"
     "it counts only if ``valid()`` says so afterwards. The next poll, take, peek or valid ends it."},
    {"valid", (PyCFunction)lossy_valid, METH_NOARGS,
     "valid() -> bool\n\n"
     "Whether the message peeked at was whole until now. It is consumed; if not, the loss is counted and the\n"
     "subscriber goes on with what is published next. InvalidArgumentError if nothing is peeked at."},
    {"lost_messages", (PyCFunction)lossy_lost_messages, METH_O,
     "lost_messages(ring) -> int: how many were overwritten before they were read, since the start"},
    {"lost_bytes", (PyCFunction)lossy_lost_bytes, METH_O,
     "lost_bytes(ring) -> int: bytes of the ring, padding included, that were overwritten before they were read"},
    {"position", (PyCFunction)lossy_position, METH_O,
     "position(ring) -> int\n\n"
     "The cursor in that ring, in bytes. InvalidArgumentError if the ring was not chosen."},
    {"ended", (PyCFunction)lossy_ended, METH_O,
     "ended(ring) -> bool\n\n"
     "Whether the ring's publisher closed and all that it published was consumed. A new publisher makes it\n"
     "untrue again. InvalidArgumentError if the ring was not chosen."},
    {"close", (PyCFunction)lossy_close, METH_NOARGS,
     "close()\n\n"
     "Twice is fine. ViewAliveError inside of a handler, or while a message is still exported. A thread that\n"
     "waits in this subscriber gets ClosedError."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"rings", (getter)get_rings, NULL, "the rings that this subscriber reads, ascending", NULL},
    {"closed", (getter)get_closed, NULL, "True after close, and in a forked child", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, lossy_new},
    {Py_tp_dealloc, lossy_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.LossySubscriber", sizeof(Lossy), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};

PyTypeObject *make_lossy_type(PyObject *module)
{
    return lossy_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
