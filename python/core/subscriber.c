/* SPDX-License-Identifier: Apache-2.0 */
/* Subscriber: creation, methods and attributes (spec/channel.md 5.3, 6.6). */
#include "subscriber.h"

#define UNKNOWN INT64_MIN /* a count that stays below 0, whatever is added */

/* Creation and close */

static bool add_rings(Subscriber *self, PyObject *rings)
{
    self->base.rings = PyMem_Calloc((size_t)self->base.count, sizeof(ring_reader));
    self->senders = PyMem_Calloc((size_t)self->base.count, sizeof(sender));
    if (self->base.rings == NULL || self->senders == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (int i = 0; i < self->base.count; i++) {
        int ring;
        long long cursor, count;
        if (!PyArg_ParseTuple(PyTuple_GetItem(rings, i), "iLL:ring", &ring, &cursor, &count))
            return false;
        if (ring < 0 || ring >= self->base.shape.publishers || cursor < 0 || cursor >= MAX_POSITION ||
            cursor % self->base.alignment != 0) {
            PyErr_SetString(PyExc_ValueError, "not a ring and a cursor of this channel");
            return false;
        }
        subscriber_rings(self)[i] = (ring_reader){
            .data = self->base.data->base + ring_data_offset(&self->base.shape, ring),
            .gate = self->base.memory->base + ring_trailer_offset(&self->base.shape, ring) + gate_offset(self->slot),
            .cursor = cursor,
            .stored = cursor,
            .count = count < 0 ? UNKNOWN : count,
            .from = &self->senders[i],
            .number = ring,
            .bit = waiting_bit(ring),
        };
        self->senders[i].ring = ring;
        if (self->base.shape.foreign == 0) /* a foreign publisher is not known (6.15) */
            sender_from_slot(&self->senders[i],
                             self->base.memory->base + publisher_slot_offset(&self->base.shape, ring), cursor);
    }
    return true;
}

static PyObject *subscriber_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *data, *memory, *shape, *lock, *rings, *wait;
    int slot, kept, strategy, wakes;
    long long epoch;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!O!iLO!pOp:Subscriber", memory_type, &data, memory_type, &memory, &PyTuple_Type,
                          &shape, file_type, &lock, &slot, &epoch, &PyTuple_Type, &rings, &kept, &wait, &wakes) ||
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
    Subscriber *self = (Subscriber *)reader_new(type, &subscriber_kind, (Memory *)data, (Memory *)memory, (File *)lock,
                                                &at, (int)PyTuple_Size(rings), strategy);
    if (self == NULL)
        return NULL;
    self->lock = (File *)Py_NewRef(lock);
    self->slot = slot;
    self->kept = kept;
    self->waker = waker_make(room_words(&at, ((Memory *)memory)->base), wakes);
    epoch_watch(&self->base.epoch, ((Memory *)memory)->base + subscriber_slot_offset(&at, slot) + SUBSCRIBER_SLOT_EPOCH,
                epoch);
    if (!add_rings(self, rings)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void subscriber_dealloc(Subscriber *self)
{
    if (self->lock != NULL)
        reader_shut(&self->base);
    Py_XDECREF((PyObject *)self->lock);
    for (int i = 0; self->senders != NULL && i < self->base.count; i++)
        Py_XDECREF(self->senders[i].object);
    PyMem_Free(self->senders);
    reader_dealloc(&self->base);
}

/* Methods and attributes */

/* Raise the error if the subscriber cannot be used now. */
static PyObject *subscriber_check(Subscriber *self, PyObject *ignored)
{
    (void)ignored;
    return subscriber_usable(self) ? Py_NewRef(Py_None) : NULL;
}

/* For forget: makes the slot one that close gives up. Raises if the subscriber cannot be used. */
static PyObject *subscriber_unkeep(Subscriber *self, PyObject *ignored)
{
    (void)ignored;
    if (!subscriber_usable(self))
        return NULL;
    self->kept = false;
    uint8_t *slot = self->base.memory->base + subscriber_slot_offset(&self->base.shape, self->slot);
    STORE32_RELEASE(slot + SUBSCRIBER_SLOT_KEPT, 0); /* pairs with retire 6.7 (acquire) */
    return Py_NewRef(Py_None);
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
    return PyLong_FromLongLong(self->base.epoch.value);
}

static PyMethodDef methods[] = {
    READER_FAST_METHODS(subscriber_take),
    READER_RING_METHODS,
    {"_check", (PyCFunction)subscriber_check, METH_NOARGS, "raises the error if it cannot be used now"},
    {"_unkeep", (PyCFunction)subscriber_unkeep, METH_NOARGS, "for forget"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    READER_RING_GETTERS,
    {"slot", (getter)get_slot, NULL, "the number of its subscriber slot", NULL},
    {"kept", (getter)get_kept, NULL, "whether the slot keeps its position after close", NULL},
    {"epoch", (getter)get_epoch, NULL, "how many owners the slot has had, this one included", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, subscriber_new},
    {Py_tp_dealloc, subscriber_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    READER_ITERATION,
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Subscriber", sizeof(Subscriber), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};

PyTypeObject *make_subscriber_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, (PyObject *)reader_type);
}
