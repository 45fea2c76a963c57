/* SPDX-License-Identifier: Apache-2.0 */
/* Converts keys and values of tables from and to Python objects, and raises the errors of a table. */
#include "arguments.h"
#include "sbe/sbe.h"
#include "table_types.h"

#include <errno.h>

static bool too_large(Py_ssize_t length, int32_t limit, const char *what)
{
    raise_error("MessageTooLargeError", "(nis)", length, (int)limit, what);
    return false;
}

static bool not_a_key(const char *what)
{
    raise_error("InvalidArgumentError", "(ss)", "key", what);
    return false;
}

/* Set a key from bytes. False with MessageTooLargeError. */
static bool key_bytes(const Table *self, given_key *key, const void *bytes, Py_ssize_t length)
{
    if (length > self->map.key_bytes)
        return too_large(length, self->map.key_bytes, "key");
    key->key = table_key_make(bytes, (int32_t)length);
    return true;
}

bool key_given(const Table *self, PyObject *object, given_key *key)
{
    Py_ssize_t length;
    key->view.obj = NULL;
    switch (self->map.key_type) {
    case TABLE_KEY_TYPE_INTEGER: {
        int overflow = 0;
        if (!PyLong_Check(object))
            return not_a_key("this table's keys are integers");
        key->integer = PyLong_AsLongLongAndOverflow(object, &overflow);
        if (overflow != 0)
            return not_a_key("must be -2^63 to 2^63 - 1");
        key->key = table_key_make(&key->integer, sizeof key->integer);
        return true;
    }
    case TABLE_KEY_TYPE_TEXT: {
        if (!PyUnicode_Check(object))
            return not_a_key("this table's keys are text");
        const char *text = PyUnicode_AsUTF8AndSize(object, &length);
        if (text == NULL) {
            PyErr_Clear();
            return not_a_key("it has surrogates, which UTF-8 does not have");
        }
        return key_bytes(self, key, text, length);
    }
    default:
        if (PyBytes_CheckExact(object))
            return key_bytes(self, key, PyBytes_AsString(object), PyBytes_Size(object));
        if (PyUnicode_Check(object) || PyObject_GetBuffer(object, &key->view, PyBUF_SIMPLE) < 0) {
            key->view.obj = NULL;
            PyErr_Clear();
            return not_a_key("this table's keys are bytes");
        }
        if (key_bytes(self, key, key->view.buf, key->view.len))
            return true;
        key_done(key);
        return false;
    }
}

void key_done(given_key *key)
{
    if (key->view.obj != NULL)
        PyBuffer_Release(&key->view);
}

PyObject *key_object(const table_map *map, const uint8_t *bytes, int32_t length)
{
    int64_t integer = 0;
    switch (map->key_type) {
    case TABLE_KEY_TYPE_INTEGER:
        memcpy(&integer, bytes, length < 8 ? (size_t)length : 8);
        return PyLong_FromLongLong(integer);
    case TABLE_KEY_TYPE_TEXT:
        return PyUnicode_DecodeUTF8((const char *)bytes, length, "replace"); /* another process may write anything */
    default:
        return PyBytes_FromStringAndSize((const char *)bytes, length);
    }
}

bool value_given(const Table *self, PyObject *object, given_value *value)
{
    int32_t type;
    Py_ssize_t length;
    value->view.obj = NULL;
    value->copy = NULL;
    if (PyBytes_CheckExact(object)) {
        value->bytes = PyBytes_AsString(object);
        length = PyBytes_Size(object);
    } else if (PyObject_GetBuffer(object, &value->view, PyBUF_SIMPLE) == 0) {
        value->bytes = value->view.buf;
        length = value->view.len;
    } else {
        value->view.obj = NULL;
        if ((value->copy = message_to_offer(object, NULL, &type)) == NULL)
            return false;
        value->bytes = PyBytes_AsString(value->copy);
        length = PyBytes_Size(value->copy);
    }
    if (length > self->map.value_bytes) {
        value_done(value);
        return too_large(length, self->map.value_bytes, "value");
    }
    value->length = (int32_t)length;
    return true;
}

void value_done(given_value *value)
{
    if (value->view.obj != NULL)
        PyBuffer_Release(&value->view);
    Py_XDECREF(value->copy);
}

PyObject *table_raise(Table *self, table_result result, const table_reading *reading)
{
    if (result == TABLE_FAILED)
        return NULL;
    if (result == TABLE_BUSY) {
        self->busy++;
        return raise_error("BusyError", "(Oi)", Py_None, 0);
    }
    return raise_error("CorruptTableError", "(Ls)", (long long)reading->cell,
                       "the length of its key or value is out of range");
}

PyObject *change_raise(Table *self, change_result result, const table_change *change)
{
    switch (result) {
    case CHANGE_DONE:
        return PyLong_FromLongLong(change->version);
    case CHANGE_NOT:
        return PyLong_FromLong(0);
    case CHANGE_LOST:
        return raise_error("SlotLostError", "(si)", "writer", 0);
    case CHANGE_UNSYNCED:
        return raise_error("IoError", "(siO)", "msync", errno, self->path);
    case CHANGE_FULL:
        return raise_error("NoSpaceError", "(Oiis)", self->path, 1, 0, "keys");
    default:
        return raise_error("CorruptTableError", "(Ls)", (long long)change->corrupt, change->reason);
    }
}

table_reading reading_bytes(PyObject **value)
{
    *value = NULL;
    return (table_reading){.take = take_bytes, .context = value};
}
