/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of numbers, and arrays of them. Values are converted first, which may run Python code, and then written. */
#include "sbe.h"

#include <math.h>

/* Integers */

static PyObject *from_bits(primitive type, uint64_t bits)
{
    return LIKELY(type != UINT64) ? PyLong_FromLongLong((int64_t)bits) : PyLong_FromUnsignedLongLong(bits);
}

PyObject *get_integer(Field *self, Flyweight *owner, const uint8_t *at)
{
    (void)owner;
    uint64_t bits = load_bits(at, self->type, self->swap);
    if (self->optional && bits == self->null)
        return Py_NewRef(Py_None);
    return from_bits(self->type, bits);
}

static bool wrong_type(Field *self, Flyweight *owner, const char *wanted, PyObject *value)
{
    PyErr_Clear();
    sbe_fail(owner, self, "WrongTypeError", "%s is expected, not %R", wanted, value);
    return false;
}

static bool out_of_range(Field *self, Flyweight *owner, PyObject *value)
{
    PyErr_Clear();
    PyObject *minimum = from_bits(self->type, self->minimum), *maximum = from_bits(self->type, self->maximum);
    if (minimum != NULL && maximum != NULL)
        sbe_fail(owner, self, "OutOfRangeError", "%R is not in %R to %R", value, minimum, maximum);
    Py_XDECREF(minimum);
    Py_XDECREF(maximum);
    return false;
}

/* Convert to an integer of the field's primitive, within its limits. False with an exception. May run Python code. */
static bool to_integer(Field *self, Flyweight *owner, PyObject *value, uint64_t *bits)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (UNLIKELY(number == -1 && overflow == 0 && PyErr_Occurred()))
        return PyErr_ExceptionMatches(PyExc_TypeError) && wrong_type(self, owner, "an int", value);
    *bits = (uint64_t)number;
    if (UNLIKELY(self->type == UINT64)) {
        if (overflow > 0) {
            PyObject *whole = PyNumber_Index(value);
            if (whole == NULL)
                return false;
            *bits = PyLong_AsUnsignedLongLong(whole);
            Py_DECREF(whole);
            if (*bits == UINT64_MAX && PyErr_Occurred())
                return out_of_range(self, owner, value);
        }
        if (overflow < 0 || (overflow == 0 && number < 0) || *bits < self->minimum || *bits > self->maximum)
            return out_of_range(self, owner, value);
        return true;
    }
    return LIKELY(overflow == 0 && number >= (int64_t)self->minimum && number <= (int64_t)self->maximum) ||
           out_of_range(self, owner, value);
}

/* Whether None may be written to the field. Raises if not. */
static bool may_be_none(Field *self, Flyweight *owner)
{
    if (!self->optional)
        sbe_fail(owner, self, "WrongTypeError", "the field is required, it cannot be None");
    return self->optional;
}

static bool is_null_value(Field *self, Flyweight *owner, PyObject *value)
{
    sbe_fail(owner, self, "OutOfRangeError", "%R is the null value; write None", value);
    return false;
}

int set_integer(Field *self, Flyweight *owner, PyObject *value)
{
    uint64_t bits = self->null;
    if (UNLIKELY(value == Py_None)) {
        if (!may_be_none(self, owner))
            return -1;
    } else if (UNLIKELY(!to_integer(self, owner, value, &bits) ||
                        (self->optional && bits == self->null && !is_null_value(self, owner, value)))) {
        return -1;
    }
    uint8_t *at = field_to_write(self, owner);
    if (UNLIKELY(at == NULL))
        return -1;
    store_bits(at, self->type, self->swap, bits);
    return 0;
}

/* Floats */

static double double_of(primitive type, uint64_t bits)
{
    double value;
    if (type == FLOAT) {
        uint32_t narrow = (uint32_t)bits;
        float single;
        memcpy(&single, &narrow, 4);
        return single;
    }
    memcpy(&value, &bits, 8);
    return value;
}

static uint64_t bits_of(primitive type, double value)
{
    uint64_t bits = 0;
    if (type == FLOAT) {
        float single = (float)value;
        memcpy(&bits, &single, 4);
    } else {
        memcpy(&bits, &value, 8);
    }
    return bits;
}

static bool is_null(Field *self, double value)
{
    double null = double_of(DOUBLE, self->null);
    return self->optional && (isnan(null) ? isnan(value) : value == (self->type == FLOAT ? (double)(float)null : null));
}

PyObject *get_float(Field *self, Flyweight *owner, const uint8_t *at)
{
    (void)owner;
    double value = double_of(self->type, load_bits(at, self->type, self->swap));
    return UNLIKELY(is_null(self, value)) ? Py_NewRef(Py_None) : PyFloat_FromDouble(value);
}

static bool to_float(Field *self, Flyweight *owner, PyObject *value, double *number)
{
    *number = PyFloat_AsDouble(value);
    if (UNLIKELY(*number == -1 && PyErr_Occurred())) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Clear();
            sbe_fail(owner, self, "OutOfRangeError", "%R is too large", value);
            return false;
        }
        return PyErr_ExceptionMatches(PyExc_TypeError) && wrong_type(self, owner, "a float", value);
    }
    if (UNLIKELY(*number < double_of(DOUBLE, self->minimum) || *number > double_of(DOUBLE, self->maximum) ||
                 (self->type == FLOAT && isfinite(*number) && isinf((float)*number)))) {
        sbe_fail(owner, self, "OutOfRangeError", "%R is too large or too small", value);
        return false;
    }
    return true;
}

int set_float(Field *self, Flyweight *owner, PyObject *value)
{
    double number = double_of(DOUBLE, self->null);
    if (UNLIKELY(value == Py_None)) {
        if (!may_be_none(self, owner))
            return -1;
    } else if (UNLIKELY(!to_float(self, owner, value, &number) ||
                        (is_null(self, number) && !is_null_value(self, owner, value)))) {
        return -1;
    }
    uint8_t *at = field_to_write(self, owner);
    if (UNLIKELY(at == NULL))
        return -1;
    store_bits(at, self->type, self->swap, bits_of(self->type, number));
    return 0;
}

/* Arrays */

static bool is_float(const Field *self)
{
    return self->type >= FLOAT;
}

PyObject *get_array(Field *self, Flyweight *owner, const uint8_t *at)
{
    (void)owner;
    int size = primitive_size(self->type);
    PyObject *tuple = PyTuple_New((Py_ssize_t)self->length);
    for (Py_ssize_t i = 0; tuple != NULL && i < self->length; i++) {
        uint64_t bits = load_bits(at + i * size, self->type, self->swap);
        PyObject *item = is_float(self) ? PyFloat_FromDouble(double_of(self->type, bits)) : from_bits(self->type, bits);
        if (item == NULL || PyTuple_SetItem(tuple, i, item) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* Convert an element to its bits on the wire, but in native byte order. */
static bool to_element(Field *self, Flyweight *owner, PyObject *value, uint64_t *bits)
{
    double number;
    if (!is_float(self))
        return to_integer(self, owner, value, bits);
    if (!to_float(self, owner, value, &number))
        return false;
    *bits = bits_of(self->type, number);
    return true;
}

static void store_elements(Field *self, Flyweight *owner, const uint64_t *elements)
{
    uint8_t *at = field_to_write(self, owner);
    for (int64_t i = 0; at != NULL && i < self->length; i++)
        store_bits(at + i * primitive_size(self->type), self->type, self->swap, elements[i]);
}

int set_array(Field *self, Flyweight *owner, PyObject *value)
{
    PyObject *items = NULL;
    uint64_t *elements = PyMem_Malloc(((size_t)self->length + 1) * sizeof(uint64_t));
    if (elements == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    uint64_t null = is_float(self) ? bits_of(self->type, double_of(DOUBLE, self->null)) : self->null;
    bool fine = true;
    if (value == Py_None) {
        fine = may_be_none(self, owner);
        for (int64_t i = 0; i < self->length; i++)
            elements[i] = null;
    } else if ((items = PySequence_Tuple(value)) == NULL) {
        fine = PyErr_ExceptionMatches(PyExc_TypeError) && wrong_type(self, owner, "a sequence of numbers", value);
    } else if (PyTuple_Size(items) != self->length) {
        sbe_fail(owner, self, "OutOfRangeError", "%lld numbers are expected, not %zd", (long long)self->length,
                 PyTuple_Size(items));
        fine = false;
    } else {
        for (Py_ssize_t i = 0; fine && i < self->length; i++)
            fine = to_element(self, owner, PyTuple_GetItem(items, i), &elements[i]);
    }
    if (fine)
        store_elements(self, owner, elements);
    PyMem_Free(elements);
    Py_XDECREF(items);
    return fine && !PyErr_Occurred() ? 0 : -1;
}
