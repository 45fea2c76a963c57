/* SPDX-License-Identifier: Apache-2.0 */
/* LossySubscriber: creation and attributes. It owns nothing in the file. */
#include "lossy.h"

/* Life */

static bool add_rings(Lossy *self, PyObject *rings)
{
    self->base.rings = PyMem_Calloc((size_t)self->base.count, sizeof(lossy_ring));
    if (self->base.rings == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (int i = 0; i < self->base.count; i++) {
        long number = PyLong_AsLong(PyTuple_GetItem(rings, i));
        if (number == -1 && PyErr_Occurred())
            return false;
        if (number < 0 || number >= self->base.shape.publishers) {
            PyErr_SetString(PyExc_ValueError, "not a ring of this channel");
            return false;
        }
        const uint8_t *base = self->base.data->base;
        lossy_rings(self)[i] = (lossy_ring){
            .data = base + ring_data_offset(&self->base.shape, (int32_t)number),
            .trailer = base + ring_trailer_offset(&self->base.shape, (int32_t)number),
            .slot = base + publisher_slot_offset(&self->base.shape, (int32_t)number),
            .from = {.ring = (int32_t)number},
        };
        if (!lossy_start(self, &lossy_rings(self)[i])) { /* the first poll raises it; other rings can be read */
            PyErr_Clear();
            lossy_rings(self)[i].corrupt = lossy_rings(self)[i].started = false;
        }
    }
    return true;
}

static PyObject *lossy_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *data, *memory, *file, *shape, *rings, *wait;
    int oldest, newest, strategy;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!O!O!ppO:LossySubscriber", memory_type, &data, memory_type, &memory, file_type,
                          &file, &PyTuple_Type, &shape, &PyTuple_Type, &rings, &oldest, &newest, &wait) ||
        wait_parse(wait, &strategy) < 0)
        return NULL;
    geometry at;
    if (!memory_covers((Memory *)data, 0, 0) || !memory_covers((Memory *)memory, 0, ((Memory *)data)->length) ||
        !geometry_parse(shape, ((Memory *)data)->length, &at))
        return NULL;
    if (PyTuple_Size(rings) < 1 || PyTuple_Size(rings) > at.publishers || at.foreign == FEATURE_FOREIGN_PUBLISHER) {
        PyErr_SetString(PyExc_ValueError, "not rings of this channel");
        return NULL;
    }
    Lossy *self = (Lossy *)reader_new(type, &lossy_kind, (Memory *)data,
                                      ((Memory *)memory)->writable ? (Memory *)memory : NULL, /* to say that it waits */
                                      (File *)file, &at, (int)PyTuple_Size(rings), strategy);
    if (self == NULL)
        return NULL;
    self->longest = at.capacity / MAX_MESSAGE_DIVISOR;
    self->oldest = oldest != 0;
    self->newest = newest != 0;
    if (!add_rings(self, rings)) {
        self->base.closed = true;
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void lossy_dealloc(Lossy *self)
{
    for (int i = 0; self->base.rings != NULL && i < self->base.count; i++)
        Py_XDECREF(lossy_rings(self)[i].from.object);
    PyMem_Free(self->copy);
    reader_dealloc(&self->base);
}

/* Methods and attributes */

static PyObject *lossy_lost_messages(Lossy *self, PyObject *number)
{
    int i = reader_find_ring(&self->base, number);
    return i < 0 ? NULL : PyLong_FromLongLong(lossy_rings(self)[i].lost_messages);
}

static PyObject *lossy_lost_bytes(Lossy *self, PyObject *number)
{
    int i = reader_find_ring(&self->base, number);
    return i < 0 ? NULL : PyLong_FromLongLong(lossy_rings(self)[i].lost_bytes);
}

static PyMethodDef methods[] = {
    READER_FAST_METHODS(lossy_take),
    READER_RING_METHODS,
    {"peek", (PyCFunction)lossy_peek, METH_NOARGS,
     "peek($self, /)\n--\n\n"
     "Returns one message in place, without a copy, or None. Does not consume it.\n\n"
     "A publisher may overwrite the message while you read it. Call ``valid`` afterwards, and discard what you\n"
     "read if it returns False. The next ``poll``, ``take``, ``peek`` or ``valid`` ends the message."},
    {"valid", (PyCFunction)lossy_valid, METH_NOARGS,
     "valid($self, /)\n--\n\n"
     "Consumes the message from ``peek``, and returns whether it was intact until now. If it was overwritten,\n"
     "the loss is counted, and the subscriber continues with the next published message. Raises\n"
     "InvalidArgumentError if there is no message from ``peek``."},
    {"lost_messages", (PyCFunction)lossy_lost_messages, METH_O,
     "lost_messages($self, ring, /)\n--\n\n"
     "Returns how many messages of this ring were overwritten before they were read, since the subscriber was\n"
     "made."},
    {"lost_bytes", (PyCFunction)lossy_lost_bytes, METH_O,
     "lost_bytes($self, ring, /)\n--\n\n"
     "Returns how many bytes of this ring, padding included, were overwritten before they were read, since the\n"
     "subscriber was made."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    READER_RING_GETTERS,
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, lossy_new},   {Py_tp_dealloc, lossy_dealloc},
    {Py_tp_methods, methods}, {Py_tp_getset, getters},
    READER_ITERATION,         {0, NULL},
};

static PyType_Spec spec = {"flyring._core.LossySubscriber", sizeof(Lossy), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};

PyTypeObject *make_lossy_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, (PyObject *)reader_type);
}
