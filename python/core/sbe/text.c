/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of characters and bytes. */
#include "sbe.h"

#define SHORT 256 /* at most so many bytes are copied to the stack */

/* Text is copied before it is decoded, because another process may change the bytes, which no codec expects. A byte
   that is invalid in the encoding becomes a lone surrogate, which is written as the same byte, so no information is
   lost. */
#define ODD_BYTES "surrogateescape"

static PyObject *not_text(Field *self, Flyweight *owner)
{
    if (!PyErr_ExceptionMatches(PyExc_ValueError)) /* UnicodeError is a ValueError */
        return NULL;
    PyErr_Clear();
    return sbe_fail(owner, self, "UnknownValueError", "its bytes are not text in %U", self->codec);
}

PyObject *decode_text(Field *self, Flyweight *owner, const char *bytes, Py_ssize_t length)
{
    PyObject *text = NULL;
    if (self->ascii) {
        text = PyUnicode_DecodeASCII(bytes, length, ODD_BYTES);
    } else if (self->utf8) {
        text = PyUnicode_DecodeUTF8(bytes, length, ODD_BYTES);
    } else {
        PyObject *codec = PyUnicode_AsASCIIString(self->codec);
        if (codec != NULL)
            text = PyUnicode_Decode(bytes, length, PyBytes_AsString(codec), ODD_BYTES);
        Py_XDECREF(codec);
    }
    return text != NULL ? text : not_text(self, owner);
}

static const char *not_encodable(Field *self, Flyweight *owner, PyObject *value)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_ValueError))
        return NULL;
    PyErr_Clear();
    sbe_fail(owner, self, "OutOfRangeError", "%R cannot be written in %U", value, self->codec);
    return NULL;
}

const char *encode_text(Field *self, Flyweight *owner, PyObject *value, Py_ssize_t *length, PyObject **holder)
{
    *holder = NULL;
    if (UNLIKELY(!PyUnicode_Check(value))) {
        sbe_fail(owner, self, "WrongTypeError", "a str is expected, not %R", value);
        return NULL;
    }
    if (LIKELY(self->ascii || self->utf8)) {
        const char *bytes = PyUnicode_AsUTF8AndSize(value, length);
        if (LIKELY(bytes != NULL && (self->utf8 || *length == PyUnicode_GetLength(value))))
            return bytes;
        PyErr_Clear();
    }
    PyObject *codec = PyUnicode_AsASCIIString(self->codec);
    if (codec == NULL)
        return NULL;
    *holder = PyUnicode_AsEncodedString(value, PyBytes_AsString(codec), ODD_BYTES);
    Py_DECREF(codec);
    if (*holder == NULL)
        return not_encodable(self, owner, value);
    *length = PyBytes_Size(*holder);
    return PyBytes_AsString(*holder);
}

/* One character */

PyObject *get_char(Field *self, Flyweight *owner, const uint8_t *at)
{
    char byte = (char)load_bits(at, CHAR, false);
    if (self->optional && (uint8_t)byte == self->null)
        return Py_NewRef(Py_None);
    return decode_text(self, owner, &byte, 1);
}

int set_char(Field *self, Flyweight *owner, PyObject *value)
{
    uint8_t byte = (uint8_t)self->null;
    if (value != Py_None || !self->optional) {
        PyObject *holder;
        Py_ssize_t length;
        const char *bytes = encode_text(self, owner, value, &length, &holder);
        if (bytes == NULL)
            return -1;
        byte = length == 1 ? (uint8_t)bytes[0] : 0;
        Py_XDECREF(holder);
        if (length != 1 || byte < self->minimum || byte > self->maximum || (self->optional && byte == self->null)) {
            sbe_fail(owner, self, "OutOfRangeError", "%R is not one character (one byte) that the field takes", value);
            return -1;
        }
    }
    uint8_t *at = field_to_write(self, owner);
    if (at == NULL)
        return -1;
    *at = byte;
    return 0;
}

/* Text of a fixed length */

PyObject *get_text(Field *self, Flyweight *owner, const uint8_t *at)
{
    char small[SHORT], *copy = small;
    size_t length = (size_t)self->length;
    if (UNLIKELY(length > SHORT) && (copy = PyMem_Malloc(length)) == NULL)
        return PyErr_NoMemory();
    memcpy(copy, at, length);
    while (length > 0 && copy[length - 1] == 0)
        length--;
    PyObject *text = decode_text(self, owner, copy, (Py_ssize_t)length);
    if (copy != small)
        PyMem_Free(copy);
    return text;
}

int set_text(Field *self, Flyweight *owner, PyObject *value)
{
    PyObject *holder = NULL;
    Py_ssize_t length = 0;
    const char *bytes = "";
    if (LIKELY(value != Py_None || !self->optional)) {
        bytes = encode_text(self, owner, value, &length, &holder);
        if (UNLIKELY(bytes == NULL))
            return -1;
    }
    uint8_t *at = NULL;
    if (UNLIKELY(length > self->length))
        sbe_fail(owner, self, "OutOfRangeError", "%R has %zd bytes, more than %lld", value, length,
                 (long long)self->length);
    else
        at = field_to_write(self, owner);
    if (LIKELY(at != NULL)) {
        memcpy(at, bytes, (size_t)length);
        memset(at + length, 0, (size_t)(self->length - length));
    }
    Py_XDECREF(holder);
    return at == NULL ? -1 : 0;
}

/* Bytes of a fixed length */

PyObject *get_octets(Field *self, Flyweight *owner, const uint8_t *at)
{
    (void)owner;
    return PyBytes_FromStringAndSize((const char *)at, (Py_ssize_t)self->length);
}

int set_octets(Field *self, Flyweight *owner, PyObject *value)
{
    uint8_t *at = NULL;
    if (value == Py_None && self->optional) {
        at = field_to_write(self, owner);
        if (at != NULL)
            memset(at, (int)self->null, (size_t)self->length);
        return at == NULL ? -1 : 0;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            sbe_fail(owner, self, "WrongTypeError", "bytes are expected, not %R", value);
        }
        return -1;
    }
    if (view.len != self->length)
        sbe_fail(owner, self, "OutOfRangeError", "%lld bytes are expected, not %zd", (long long)self->length, view.len);
    else
        at = field_to_write(self, owner);
    if (at != NULL)
        memmove(at, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return at == NULL ? -1 : 0;
}
