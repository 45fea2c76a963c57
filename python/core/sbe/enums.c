/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of enums, sets and composites. */
#include "sbe.h"

#define SCANNED 64 /* enums with at most so many members are scanned; larger ones use by_value */
#define MOST_CACHED 4096 /* cached values of a set of more than one byte: bounded, because the writer chooses them */

static bool remember(Field *self, uint64_t bits, PyObject *member)
{
    if (self->members != NULL) {
        Py_XDECREF(self->members[bits & 255]);
        self->members[bits & 255] = Py_NewRef(member);
        return true;
    }
    if (PyDict_Size(self->by_value) >= MOST_CACHED)
        PyDict_Clear(self->by_value);
    PyObject *key = PyLong_FromUnsignedLongLong(bits);
    bool done = key != NULL && PyDict_SetItem(self->by_value, key, member) == 0;
    Py_XDECREF(key);
    return done;
}

/* Return the cached member of these bits: borrowed; NULL with or without an exception. */
static PyObject *recall(Field *self, uint64_t bits)
{
    if (LIKELY(self->members != NULL))
        return self->members[bits & 255];
    PyObject *key = PyLong_FromUnsignedLongLong(bits);
    PyObject *member = key == NULL ? NULL : PyDict_GetItemWithError(self->by_value, key);
    Py_XDECREF(key);
    return member;
}

static bool take_pairs(Field *self, PyObject *pairs)
{
    Py_ssize_t count = PyTuple_Size(pairs);
    self->pairs = PyMem_Calloc((size_t)count + 1, sizeof *self->pairs);
    if (self->pairs == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *member;
        unsigned long long value; /* format K takes the two's complement */
        if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, i), "KO:member", &value, &member) ||
            !remember(self, value, member))
            return false;
        self->pairs[i].value = value;
        self->pairs[i].member = member;
    }
    self->pair_count = (int)(self->type == CHAR || count < SCANNED ? count : SCANNED);
    return true;
}

bool field_take_members(Field *self, PyObject *extra)
{
    if (self->type >= FLOAT || !PyTuple_Check(extra)) {
        PyErr_SetString(PyExc_ValueError, "an enum or set needs an integer primitive, and its values");
        return false;
    }
    if (primitive_size(self->type) == 1)
        self->members = PyMem_Calloc(256, sizeof(PyObject *));
    else
        self->by_value = PyDict_New();
    if (self->members == NULL && self->by_value == NULL) {
        if (!PyErr_Occurred())
            PyErr_NoMemory();
        return false;
    }
    if (self->get == get_enum)
        return take_pairs(self, extra);
    unsigned long long known;
    PyObject *make;
    if (!PyArg_ParseTuple(extra, "KO:set", &known, &make))
        return false;
    self->maximum = known; /* here the known bits, not a limit */
    self->make = Py_NewRef(make);
    return true;
}

/* Enums */

PyObject *get_enum(Field *self, Flyweight *owner, const uint8_t *at)
{
    uint64_t bits = load_bits(at, self->type, self->swap);
    PyObject *member = recall(self, bits);
    if (LIKELY(member != NULL))
        return Py_NewRef(member);
    if (PyErr_Occurred())
        return NULL;
    if (bits == self->null)
        return Py_NewRef(Py_None);
    return sbe_fail(owner, self, "UnknownValueError", "its enum has no value %lld", (long long)bits);
}

/* Find the wire value of a member: 1 found, 0 not a member, -1 an exception. */
static int find_member(Field *self, PyObject *value, uint64_t *bits)
{
    for (int i = 0; i < self->pair_count; i++) { /* by identity: most enums are small, and == is Python code */
        if (self->pairs[i].member == value) {
            *bits = self->pairs[i].value;
            return 1;
        }
    }
    if (self->type == CHAR || !PyLong_Check(value))
        return 0;
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    *bits = overflow > 0 ? PyLong_AsUnsignedLongLong(value) : (uint64_t)number;
    if (overflow < 0 || PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    if (self->members != NULL && *bits != (self->type == INT8 ? (uint64_t)(int64_t)(int8_t)*bits : *bits & 255))
        return 0;
    PyObject *member = recall(self, *bits);
    return member != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

int set_enum(Field *self, Flyweight *owner, PyObject *value)
{
    uint64_t bits = self->null;
    if (value != Py_None || !self->optional) {
        int found = find_member(self, value, &bits);
        if (UNLIKELY(found == 0))
            sbe_fail(owner, self, "WrongTypeError", "a member of its enum is expected, not %R", value);
        if (UNLIKELY(found != 1))
            return -1;
    }
    uint8_t *at = field_to_write(self, owner);
    if (UNLIKELY(at == NULL))
        return -1;
    store_bits(at, self->type, self->swap, bits);
    return 0;
}

/* Sets */

PyObject *get_set(Field *self, Flyweight *owner, const uint8_t *at)
{
    (void)owner;
    uint64_t bits = load_bits(at, self->type, self->swap) & self->maximum;
    PyObject *member = recall(self, bits);
    if (LIKELY(member != NULL))
        return Py_NewRef(member);
    if (PyErr_Occurred())
        return NULL;
    PyObject *number = PyLong_FromUnsignedLongLong(bits);
    if (number == NULL)
        return NULL;
    member = PyObject_CallFunctionObjArgs(self->make, number, NULL);
    Py_DECREF(number);
    if (member != NULL && !remember(self, bits, member))
        Py_CLEAR(member);
    return member;
}

int set_set(Field *self, Flyweight *owner, PyObject *value)
{
    uint64_t bits;
    if (UNLIKELY(!PyLong_Check(value))) {
        sbe_fail(owner, self, "WrongTypeError", "a member of its set is expected, not %R", value);
        return -1;
    }
    bits = PyLong_AsUnsignedLongLong(value);
    if (UNLIKELY((bits == UINT64_MAX && PyErr_Occurred()) || (bits & ~self->maximum) != 0)) {
        PyErr_Clear();
        sbe_fail(owner, self, "OutOfRangeError", "%R has more than the choices of its set", value);
        return -1;
    }
    uint8_t *at = field_to_write(self, owner);
    if (UNLIKELY(at == NULL))
        return -1;
    store_bits(at, self->type, self->swap, bits);
    return 0;
}

/* Composites */

PyObject *get_composite(Field *self, Flyweight *owner, const uint8_t *at)
{
    (void)at;
    return (PyObject *)flyweight_nested(self->class, owner, self, owner->offset + self->offset, self->length);
}

int set_composite(Field *self, Flyweight *owner, PyObject *value)
{
    if ((PyObject *)Py_TYPE(value) != self->class || ((Flyweight *)value)->block_length != self->length) {
        sbe_fail(owner, self, "WrongTypeError", "a composite of its own class is expected, not %R", value);
        return -1;
    }
    Flyweight *source = (Flyweight *)value;
    const uint8_t *from = flyweight_data(source);
    if (from == NULL) {
        sbe_dead(source);
        return -1;
    }
    uint8_t *at = field_to_write(self, owner);
    if (at == NULL)
        return -1;
    memmove(at, from + source->offset, (size_t)self->length);
    return 0;
}
