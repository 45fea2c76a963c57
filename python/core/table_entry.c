/* SPDX-License-Identifier: Apache-2.0 */
/* Entry: a handle that remembers the cell of a key (spec/table.md 6). */
#include "arguments.h"
#include "table_reading.h"
#include "table_types.h"

typedef struct {
    PyObject_HEAD
    Table *table;
    TableWriter *writer; /* or NULL */
    Memory *memory; /* a reference: of the file that `cell` lies in */
    PyObject *object; /* the key */
    given_key key; /* its bytes belong to `object`, or to the buffer that `key.view` holds */
    int64_t cell;
} Entry;

static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *table, *object, *writer = Py_None;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!O|O:Entry", table_type, &table, &object, &writer))
        return NULL;
    if (writer != Py_None && !PyObject_TypeCheck(writer, table_writer_type)) {
        PyErr_SetString(PyExc_TypeError, "a TableWriter");
        return NULL;
    }
    if (!table_usable((Table *)table))
        return NULL;
    Entry *self = (Entry *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    /* A mutable key is copied. */
    bool copies = ((Table *)table)->map.key_type == TABLE_KEY_TYPE_BYTES && !PyUnicode_Check(object);
    self->object = copies ? PyBytes_FromObject(object) : Py_NewRef(object);
    self->cell = -1;
    if (self->object == NULL || !key_given((Table *)table, self->object, &self->key)) {
        self->key.view.obj = NULL;
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    if (((Table *)table)->map.key_type == TABLE_KEY_TYPE_INTEGER)
        self->key.key.bytes = (const uint8_t *)&self->key.integer; /* this object's own */
    self->table = (Table *)Py_NewRef(table);
    self->writer = writer == Py_None ? NULL : (TableWriter *)Py_NewRef(writer);
    return (PyObject *)self;
}

static void entry_dealloc(Entry *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    key_done(&self->key);
    Py_XDECREF(self->object);
    Py_XDECREF((PyObject *)self->memory);
    Py_XDECREF((PyObject *)self->writer);
    Py_XDECREF((PyObject *)self->table);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Check that the table is usable, and forget the cell if it lies in another file. */
ALWAYS_INLINE bool ready(Entry *self)
{
    if (UNLIKELY(!table_quickly_usable(self->table)))
        return false;
    if (UNLIKELY(self->memory != self->table->memory)) {
        Py_XDECREF((PyObject *)self->memory);
        self->memory = (Memory *)Py_NewRef((PyObject *)self->table->memory);
        self->cell = -1;
    }
    return true;
}

/* Read the remembered cell, or find the key. True: the result is FOUND or ABSENT. False: an exception. */
ALWAYS_INLINE bool look(Entry *self, table_reading *reading, table_taker take, table_result *result)
{
    const table_map *map = &self->table->map;
    *result = self->cell >= 0 ? table_read_inline(map, self->cell, &self->key.key, reading, take) : TABLE_ABSENT;
    if (UNLIKELY(*result == TABLE_ABSENT)) {
        *result = table_find(map, &self->key.key, reading);
        if (*result == TABLE_FOUND)
            self->cell = reading->cell;
    }
    if (LIKELY(*result <= TABLE_ABSENT))
        return true;
    table_raise(self->table, *result, reading);
    return false;
}

static PyObject *entry_get(Entry *self, PyObject *ignored)
{
    PyObject *value;
    table_reading reading = reading_bytes(&value);
    table_result result;
    (void)ignored;
    if (!ready(self))
        return NULL;
    bool good = look(self, &reading, take_bytes, &result);
    if (LIKELY(good && result == TABLE_FOUND))
        return value;
    Py_XDECREF(value);
    return good ? Py_NewRef(Py_None) : NULL;
}

static PyObject *entry_version(Entry *self, void *ignored)
{
    table_reading reading = {0};
    table_result result;
    (void)ignored;
    if (!ready(self) || !look(self, &reading, NULL, &result))
        return NULL;
    return PyLong_FromLongLong(result == TABLE_FOUND ? reading.version : 0);
}

static PyObject *entry_read(Entry *self, PyObject *handler)
{
    return ready(self) ? table_read_with(self->table, &self->key.key, &self->cell, handler) : NULL;
}

static PyObject *entry_wait_changed(Entry *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"version", "timeout"};
    const signature expected = {parameters, 2, 1};
    PyObject *values[2] = {NULL, NULL};
    int64_t timeout = WAIT_UNLIMITED;
    if (!parse_arguments(&expected, args, n, names, values) ||
        (values[1] != NULL && (timeout = wait_timeout(values[1])) < 0))
        return NULL;
    int64_t version = PyLong_AsLongLong(values[0]);
    if ((version == -1 && PyErr_Occurred()) || !ready(self))
        return NULL;
    return table_wait(self->table, &self->key.key, version, timeout);
}

static PyObject *entry_put(Entry *self, PyObject *given)
{
    given_value value;
    PyObject *result = NULL;
    if (self->writer == NULL)
        return raise_error("InvalidArgumentError", "(ss)", "entry", "it can only read; make it with TableWriter.entry");
    if (!writer_may_change(self->writer) || !value_given(self->table, given, &value))
        return NULL;
    if (writer_usable(self->writer)) {
        table_change *change = &self->writer->change;
        result = change_raise(self->table, table_put(change, &self->key.key, value.bytes, value.length, ANY_VERSION),
                              change);
    }
    value_done(&value);
    return result;
}

static PyObject *entry_key(Entry *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef(self->object);
}

static PyObject *entry_writer(Entry *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef(self->writer != NULL ? (PyObject *)self->writer : Py_None);
}

static PyMethodDef methods[] = {
    {"get", (PyCFunction)entry_get, METH_NOARGS,
     "get($self, /)\n--\n\nReturns a copy of the key's value, or None if it is absent."},
    {"read", (PyCFunction)entry_read, METH_O, "read($self, handler, /)\n--\n\nLike ``Table.read``."},
    {"wait_changed", KEYWORDS(entry_wait_changed),
     "wait_changed($self, /, version, timeout=None)\n--\n\nLike ``Table.wait_changed(key, version)`` of this key."},
    {"put", (PyCFunction)entry_put, METH_O,
     "put($self, value, /)\n--\n\n"
     "Like ``TableWriter.put`` of this key. Raises InvalidArgumentError if ``Table.entry`` made this entry."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"version", (getter)entry_version, NULL, "The key's version; 0 if it is absent.", NULL},
    {"key", (getter)entry_key, NULL, "The key.", NULL},
    {"_writer", (getter)entry_writer, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, entry_new},
    {Py_tp_dealloc, entry_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.TableEntry", sizeof(Entry), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};

PyTypeObject *make_table_entry_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
