/* SPDX-License-Identifier: Apache-2.0 */
/* Subscriber: how it begins, loses its slot, and closes (spec 5.3, 5.4, 6.6). */
#include "subscriber.h"
#include "arrays.h"

PyTypeObject *subscriber_type;

/* Life */

static void subscriber_forked(fork_node *node)
{
    Subscriber *self = (Subscriber *)((char *)node - offsetof(Subscriber, node));
    self->base.forked = true;
    atomic_store_explicit(&self->epoch_word, &dead_epoch_word, memory_order_relaxed);
}

static bool add_rings(Subscriber *self, PyObject *rings)
{
    self->count = (int)PyTuple_Size(rings);
    self->rings = PyMem_Calloc((size_t)self->count, sizeof(ring_reader));
    self->senders = PyMem_Calloc((size_t)self->count, sizeof(sender));
    if (self->rings == NULL || self->senders == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (int i = 0; i < self->count; i++) {
        int ring;
        long long cursor;
        if (!PyArg_ParseTuple(PyTuple_GetItem(rings, i), "iL:ring", &ring, &cursor))
            return false;
        if (ring < 0 || ring >= self->shape.publishers || cursor < 0 || cursor >= MAX_POSITION ||
            cursor % self->alignment != 0) {
            PyErr_SetString(PyExc_ValueError, "not a ring and a cursor of this channel");
            return false;
        }
        self->rings[i] = (ring_reader){
            .data = self->data->base + ring_data_offset(&self->shape, ring),
            .gate = self->memory->base + ring_trailer_offset(&self->shape, ring) + gate_offset(self->slot),
            .cursor = cursor,
            .stored = cursor,
            .from = &self->senders[i],
            .ring = ring,
        };
        self->senders[i].ring = ring;
        if (self->shape.foreign == 0) /* else it is not known: 6.15 */
            sender_from_slot(&self->senders[i], self->memory->base + publisher_slot_offset(&self->shape, ring), cursor);
    }
    return true;
}

static PyObject *subscriber_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *data, *memory, *shape, *lock, *rings, *wait;
    int slot, kept, strategy;
    long long epoch;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!O!iLO!pO:Subscriber", memory_type, &data, memory_type, &memory, &PyTuple_Type,
                          &shape, lock_file_type, &lock, &slot, &epoch, &PyTuple_Type, &rings, &kept, &wait) ||
        wait_parse(wait, &strategy) < 0)
        return NULL;
    geometry at;
    if (!memory_covers((Memory *)memory, 0, 0) || !memory_covers((Memory *)data, 0, ((Memory *)memory)->length) ||
        !geometry_parse(shape, ((Memory *)memory)->length, &at))
        return NULL;
    if (!((Memory *)memory)->writable || epoch < 0 || slot < 0 || slot >= at.subscribers || PyTuple_Size(rings) < 1 ||
        PyTuple_Size(rings) > at.publishers || at.foreign == FEATURE_FOREIGN_SUBSCRIBER) {
        PyErr_SetString(PyExc_ValueError, "not a writable mapping, a slot and rings of this channel");
        return NULL;
    }
    Subscriber *self = (Subscriber *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->base.kind = &subscriber_kind;
    memory_use(self->data = (Memory *)data);
    memory_use(self->memory = (Memory *)memory);
    self->lock = (LockFile *)Py_NewRef(lock);
    self->shape = at;
    self->slot = slot;
    self->base.wait = strategy;
    self->kept = kept;
    self->epoch = epoch;
    self->capacity = at.capacity;
    self->mask = at.capacity - 1;
    self->alignment = at.alignment;
    self->store_every = at.capacity / GATE_STORE_DIVISOR;
    uint8_t *epoch_word = self->memory->base + subscriber_slot_offset(&at, slot) + SUBSCRIBER_SLOT_EPOCH;
    atomic_store_explicit(&self->epoch_word, (const int64_t *)(void *)epoch_word, memory_order_relaxed);
    fork_add(&self->node, subscriber_forked);
    if (!add_rings(self, rings)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

void subscriber_let_go_of_memory(Subscriber *self)
{
    Memory *data = self->data, *memory = self->memory;
    self->data = self->memory = NULL;
    if (data != NULL)
        memory_unuse(data);
    if (memory != NULL)
        memory_unuse(memory);
}

/* The slot was taken away (evicted): 5.4. */
static void give_up(Subscriber *self)
{
    int64_t slot_lock = subscriber_slot_offset(&self->shape, self->slot) + CONTROL_SLOT_LOCK;
    self->lost = true;
    atomic_store_explicit(&self->epoch_word, &dead_epoch_word, memory_order_relaxed);
    if (self->shape.foreign == 0 && /* 6.15: a gate that Agrona computes with stays */
        lock_try(self->lock, slot_lock)) { /* still ours: take back what was stored after the eviction */
        uint8_t *slot = self->memory->base + subscriber_slot_offset(&self->shape, self->slot);
        STORE32_RELEASE(slot + SUBSCRIBER_SLOT_EVICTING, 1); /* pairs with 5.3, 4 (acquire) */
        gates_clear(&self->shape, self->memory->base, self->slot);
    }
    lock_shut(self->lock);
}

/* Drops the pin if its last export is gone. */
bool subscriber_unpin(Subscriber *self)
{
    if (self->base.pinned == NULL)
        return true;
    if (self->base.pinned->exports != 0)
        return false;
    Message *message = self->base.pinned;
    self->base.pinned = NULL;
    if (epoch_holds(self) && !self->pinned_ring->corrupt)
        store_gate(self->pinned_ring, self->pinned_ring->cursor);
    Py_DECREF((PyObject *)message);
    return true;
}

/* 5.3 Close. No export of a message may be alive, except at the end of the process. */
static void subscriber_shut(Subscriber *self)
{
    if (self->base.closed)
        return;
    if (!self->base.forked && !self->lost) {
        if (!epoch_holds(self)) {
            give_up(self);
        } else {
            subscriber_unpin(self);
            if (!self->kept)
                gates_clear(&self->shape, self->memory->base, self->slot); /* 6.6 */
        }
    }
    self->base.closed = true;
    atomic_store_explicit(&self->epoch_word, &dead_epoch_word, memory_order_relaxed);
    lock_shut(self->lock);
    /* A waiting thread reads the rings, and lets go itself when it wakes; a forked child may still have views. */
    if (self->base.use == IDLE && !self->base.forked)
        subscriber_let_go_of_memory(self);
}

static void subscriber_dealloc(Subscriber *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    fork_remove(&self->node);
    if (self->lock != NULL)
        subscriber_shut(self);
    subscriber_let_go_of_memory(self);
    Py_XDECREF((PyObject *)self->base.pinned);
    Py_XDECREF((PyObject *)self->base.spare);
    Py_XDECREF((PyObject *)self->lock);
    for (int i = 0; self->senders != NULL && i < self->count; i++)
        Py_XDECREF(self->senders[i].object);
    PyMem_Free(self->senders);
    PyMem_Free(self->rings);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *subscriber_close(Subscriber *self, PyObject *ignored)
{
    (void)ignored;
    if (!reader_may_close(&self->base))
        return NULL;
    if (self->base.pinned != NULL && self->base.pinned->exports != 0 && !self->base.forked)
        return reader_view_alive();
    subscriber_shut(self);
    return Py_NewRef(Py_None);
}

bool subscriber_explain_lost(Subscriber *self)
{
    if (!self->lost)
        give_up(self);
    core_raise("SlotLostError", "(si)", "subscriber", self->slot);
    return false;
}

bool subscriber_explain_unusable(Subscriber *self)
{
    if (self->base.closed || self->base.forked) {
        core_raise("ClosedError", "(si)", "subscriber", (int)self->base.forked);
    } else if (self->base.use != IDLE) {
        core_raise("TwoThreadsError", "(s)", "subscriber");
    } else {
        subscriber_explain_lost(self);
    }
    return false;
}

/* What Python is told */

/* NULL with an exception. */
static ring_reader *ring_of_number(Subscriber *self, PyObject *number)
{
    long wanted = PyLong_AsLong(number);
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    for (int i = 0; i < self->count; i++) {
        if (self->rings[i].ring == wanted)
            return &self->rings[i];
    }
    reader_no_such_ring();
    return NULL;
}

static PyObject *subscriber_position(Subscriber *self, PyObject *number)
{
    ring_reader *ring = ring_of_number(self, number);
    return ring == NULL ? NULL : PyLong_FromLongLong(ring->cursor);
}

static PyObject *subscriber_ended(Subscriber *self, PyObject *number)
{
    ring_reader *ring = ring_of_number(self, number);
    if (ring == NULL)
        return NULL;
    if (self->base.closed || self->base.forked)
        return core_raise("ClosedError", "(si)", "subscriber", (int)self->base.forked);
    return PyBool_FromLong(ring_ended(&self->shape, self->memory->base, ring->ring, ring->cursor));
}

/* For forget: from now on the slot is given up at close. Raises if the subscriber cannot be used. */
static PyObject *subscriber_unkeep(Subscriber *self, PyObject *ignored)
{
    (void)ignored;
    if (!subscriber_usable(self))
        return NULL;
    self->kept = false;
    uint8_t *slot = self->memory->base + subscriber_slot_offset(&self->shape, self->slot);
    STORE32_RELEASE(slot + SUBSCRIBER_SLOT_KEPT, 0); /* pairs with retire 6.7 (acquire) */
    return Py_NewRef(Py_None);
}

static int32_t ring_at(Reader *self, int i)
{
    return ((Subscriber *)self)->rings[i].ring;
}

static PyObject *get_rings(Subscriber *self, void *ignored)
{
    (void)ignored;
    return reader_rings(self->count, ring_at, &self->base);
}

static PyObject *get_slot(Subscriber *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLong(self->slot);
}

static PyObject *get_kept(Subscriber *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->kept);
}

static PyObject *get_epoch(Subscriber *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->epoch);
}

static PyObject *get_closed(Subscriber *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->base.closed || self->base.forked);
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_FASTCALL | METH_KEYWORDS
static PyMethodDef methods[] = {
    {"poll", KEYWORDS(reader_poll),
     "poll(handler, limit=256, timeout=0) -> int\n\n"
     "Calls ``handler`` for each message that is there, at most ``limit``: how many. Waits up to\n"
     "``timeout`` seconds for the first (0: do not wait; None: for ever). A message is valid until its\n"
     "handler returns; one whose handler raised counts as consumed, and the exception reaches the caller."},
    {"_poll_arrays", (PyCFunction)(void (*)(void))reader_poll_arrays, METH_FASTCALL, "for poll_arrays"},
    {"take", KEYWORDS(subscriber_take),
     "take(timeout=0) -> Message | None\n\n"
     "One message that owns its bytes, or None if there was none within ``timeout`` seconds."},
    {"position", (PyCFunction)subscriber_position, METH_O,
     "position(ring) -> int\n\n"
     "The cursor in that ring, in bytes. InvalidArgumentError if the ring was not chosen."},
    {"ended", (PyCFunction)subscriber_ended, METH_O,
     "ended(ring) -> bool\n\n"
     "Whether the ring's publisher closed and all that it published was consumed. A new publisher makes it\n"
     "untrue again. InvalidArgumentError if the ring was not chosen."},
    {"close", (PyCFunction)subscriber_close, METH_NOARGS,
     "close()\n\n"
     "Gives the slot back; a kept one stays where it is, any other stops holding publishers back. Twice is\n"
     "fine. ViewAliveError inside of a handler, or while a message is still exported. A thread that waits\n"
     "in this subscriber gets ClosedError."},
    {"_unkeep", (PyCFunction)subscriber_unkeep, METH_NOARGS, "for forget"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"rings", (getter)get_rings, NULL, "the rings that this subscriber reads, ascending", NULL},
    {"slot", (getter)get_slot, NULL, "its slot", NULL},
    {"kept", (getter)get_kept, NULL, "whether the slot keeps its place after close", NULL},
    {"epoch", (getter)get_epoch, NULL, "the slot's epoch when it was taken", NULL},
    {"closed", (getter)get_closed, NULL, "True after close, and in a forked child", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, subscriber_new},
    {Py_tp_dealloc, subscriber_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Subscriber", sizeof(Subscriber), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};

PyTypeObject *make_subscriber_type(PyObject *module)
{
    return subscriber_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
