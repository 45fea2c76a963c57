/* SPDX-License-Identifier: Apache-2.0 */
/* TableWriter: holds the writer's slot (spec/table.md 4, 5.1). "take 3" is step 3 of the operation take there. */
#include "arguments.h"
#include "table_types.h"

PyTypeObject *table_writer_type;

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *table, *lock;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!O!:TableWriter", table_type, &table, file_type, &lock))
        return NULL;
    TableWriter *self = (TableWriter *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->table = (Table *)Py_NewRef(table);
    self->lock = (File *)Py_NewRef(lock);
    self->closed = true; /* until writer_take */
    return (PyObject *)self;
}

/* Note that this writer does not hold the slot any more. */
static void no_longer_held(TableWriter *self)
{
    if (self->held)
        self->table->held--;
    self->held = false;
}

static void writer_dealloc(TableWriter *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    no_longer_held(self);
    Py_XDECREF((PyObject *)self->memory);
    Py_XDECREF((PyObject *)self->lock);
    Py_XDECREF((PyObject *)self->table);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Take 3 and 4; the caller has locked the slot. `held`: the writer serves more than one change. */
static PyObject *writer_take(TableWriter *self, PyObject *held)
{
    Table *table = self->table;
    if (table->closed || table->memory->forked)
        return raise_error("ClosedError", "(s)", "table");
    if (table->wakes && !table->registered)
        table->registered = register_waker();
    self->change = (table_change){.map = &table->map, .wakes = table->wakes, .registered = table->registered};
    change_result result = table_take(&self->change, PyObject_IsTrue(held) == 1);
    if (result != CHANGE_DONE)
        return change_raise(table, result, &self->change);
    Py_XDECREF((PyObject *)self->memory);
    self->memory = (Memory *)Py_NewRef((PyObject *)table->memory);
    self->closed = self->told = false;
    self->held = PyObject_IsTrue(held) == 1;
    table->held += self->held;
    return PyLong_FromLongLong(self->change.epoch);
}

/* Go on in the grown file, which the table uses already. `other` has taken the slot there, and gives it to this one. */
static PyObject *writer_move(TableWriter *self, PyObject *other)
{
    if (!PyObject_TypeCheck(other, table_writer_type)) {
        PyErr_SetString(PyExc_TypeError, "a TableWriter");
        return NULL;
    }
    TableWriter *from = (TableWriter *)other;
    Table *table = self->table;
    File *old = self->lock;
    Memory *memory = self->memory;
    self->change.epoch = from->change.epoch;
    self->lock = (File *)Py_NewRef((PyObject *)from->lock);
    self->memory = (Memory *)Py_NewRef((PyObject *)table->memory);
    file_shut(old);
    Py_DECREF((PyObject *)old);
    Py_XDECREF((PyObject *)memory);
    return Py_NewRef(Py_None);
}

bool writer_usable(TableWriter *self)
{
    Table *table = self->table;
    if (UNLIKELY(self->closed || table->closed || table->memory->forked)) {
        raise_error("ClosedError", "(si)", "writer", (int)(table->memory != NULL && table->memory->forked));
        return false;
    }
    if (UNLIKELY(!table_no_handler(table, false)))
        return false;
    if (LIKELY(table->memory == self->memory))
        return true;
    raise_error("SlotLostError", "(si)", "writer", 0); /* the table has switched to a grown file */
    return false;
}

bool writer_may_change(TableWriter *self)
{
    if (UNLIKELY(!writer_usable(self)))
        return false;
    if (LIKELY(!table_has_successor(self->table)) || self->told)
        return true;
    if (table_look(self->table, &self->next_look, "_check_replaced"))
        return writer_usable(self);
    self->told = true;
    return false;
}

static PyObject *writer_check_change(TableWriter *self, PyObject *unused)
{
    (void)unused;
    return writer_may_change(self) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *put(TableWriter *self, PyObject *object, PyObject *given, int64_t expected)
{
    given_key key;
    given_value value;
    PyObject *result = NULL;
    if (UNLIKELY(!writer_may_change(self)) || UNLIKELY(!key_given(self->table, object, &key)))
        return NULL;
    if (LIKELY(value_given(self->table, given, &value))) {
        if (LIKELY(writer_usable(self))) /* getting the buffers may have run Python code */
            result = change_raise(self->table, table_put(&self->change, &key.key, value.bytes, value.length, expected),
                                  &self->change);
        value_done(&value);
    }
    key_done(&key);
    return result;
}

/* Returns 1 if the key was there, 0 if not, -1 with an exception. */
static int remove_key(TableWriter *self, PyObject *object)
{
    given_key key;
    if (!writer_may_change(self) || !key_given(self->table, object, &key))
        return -1;
    change_result done = writer_usable(self) ? table_remove(&self->change, &key.key) : CHANGE_LOST;
    key_done(&key);
    if (done > CHANGE_NOT && !PyErr_Occurred())
        change_raise(self->table, done, &self->change);
    return PyErr_Occurred() ? -1 : done == CHANGE_DONE;
}

static PyObject *writer_put(TableWriter *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"key", "value"};
    const signature expected = {parameters, 2, 2};
    PyObject *values[2] = {NULL, NULL};
    if (LIKELY(n == 2 && names == NULL))
        return put(self, args[0], args[1], ANY_VERSION);
    return parse_arguments(&expected, args, n, names, values) ? put(self, values[0], values[1], ANY_VERSION) : NULL;
}

static PyObject *writer_put_if_absent(TableWriter *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"key", "value"};
    const signature expected = {parameters, 2, 2};
    PyObject *values[2] = {NULL, NULL};
    return parse_arguments(&expected, args, n, names, values) ? put(self, values[0], values[1], 0) : NULL;
}

static PyObject *writer_compare_and_put(TableWriter *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"key", "version", "value"};
    const signature expected = {parameters, 3, 3};
    PyObject *values[3] = {NULL, NULL, NULL};
    if (!parse_arguments(&expected, args, n, names, values))
        return NULL;
    int64_t version = PyLong_AsLongLong(values[1]);
    if (version == -1 && PyErr_Occurred())
        return NULL;
    if (version < 0)
        return raise_error("InvalidArgumentError", "(ss)", "version", "must be 0 or more");
    return put(self, values[0], values[2], version);
}

static PyObject *writer_remove(TableWriter *self, PyObject *key)
{
    int there = remove_key(self, key);
    return there < 0 ? NULL : PyBool_FromLong(there);
}

static int writer_assign(TableWriter *self, PyObject *key, PyObject *value)
{
    if (value != NULL) {
        PyObject *version = put(self, key, value, ANY_VERSION);
        Py_XDECREF(version);
        return version == NULL ? -1 : 0;
    }
    int there = remove_key(self, key);
    if (there == 0)
        PyErr_SetObject(PyExc_KeyError, key);
    return there == 1 ? 0 : -1;
}

/* Remove the keys of some cells from `number` on: (the cell to go on with, or -1 at the end; how many were removed). */
static PyObject *writer_clear(TableWriter *self, PyObject *number)
{
    int64_t cell = PyLong_AsLongLong(number), removed = 0;
    if ((cell == -1 && PyErr_Occurred()) || !writer_may_change(self))
        return NULL;
    int64_t fresh = table_fresh(&self->table->map), end = fresh - cell > 4096 ? cell + 4096 : fresh;
    for (; cell >= 0 && cell < end; cell++) {
        change_result done = table_remove_cell(&self->change, cell);
        if (done > CHANGE_NOT)
            return change_raise(self->table, done, &self->change);
        removed += done == CHANGE_DONE;
    }
    return Py_BuildValue("LL", (long long)(cell < fresh ? cell : -1), (long long)removed);
}

static PyObject *writer_shut(TableWriter *self, PyObject *ignored)
{
    (void)ignored;
    Table *table = self->table;
    if (!self->closed && !table_no_handler(table, false))
        return NULL;
    bool held = self->held;
    no_longer_held(self);
    if (!self->closed && held && !table->closed && !table->memory->forked && table->memory == self->memory) {
        uint8_t *slot = table->map.control + TABLE_CONTROL_SLOT;
        if (LOAD64_RELAXED(slot + PUBLISHER_SLOT_EPOCH) == self->change.epoch)
            STORE32_RELEASE(slot + PUBLISHER_SLOT_CLOSED, 1); /* channel.md 5.2, close */
    }
    self->closed = true;
    file_shut(self->lock); /* last, because it unlocks the slot: channel.md 5.1 */
    return Py_NewRef(Py_None);
}

static PyObject *writer_epoch(TableWriter *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->change.epoch);
}

static PyObject *writer_closed(TableWriter *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->closed || self->table->closed || self->table->memory->forked);
}

static PyMethodDef methods[] = {
    {"put", KEYWORDS(writer_put),
     "put($self, /, key, value)\n--\n\n"
     "Puts a value: bytes, a buffer, or a typed message. Returns the key's new version.\n\n"
     "Raises NoSpaceError if the table is full, MessageTooLargeError, and SlotLostError."},
    {"put_if_absent", KEYWORDS(writer_put_if_absent),
     "put_if_absent($self, /, key, value)\n--\n\n"
     "Like ``put``, but only if the key is absent. Returns the new version, or 0 if the key was there."},
    {"compare_and_put", KEYWORDS(writer_compare_and_put),
     "compare_and_put($self, /, key, version, value)\n--\n\n"
     "Like ``put``, but only if the key has this version; 0 means that the key must be absent. Returns the new\n"
     "version, or 0 if it put nothing."},
    {"remove", (PyCFunction)writer_remove, METH_O,
     "remove($self, key, /)\n--\n\nRemoves a key. Returns whether it was there."},
    {"_check_change", (PyCFunction)writer_check_change, METH_NOARGS, NULL},
    {"_clear", (PyCFunction)writer_clear, METH_O, NULL},
    {"_take", (PyCFunction)writer_take, METH_O, NULL},
    {"_move", (PyCFunction)writer_move, METH_O, NULL},
    {"_shut", (PyCFunction)writer_shut, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"epoch", (getter)writer_epoch, NULL,
     "A number that grows each time the writer's slot is taken; that of this writer.", NULL},
    {"closed", (getter)writer_closed, NULL, "True after ``close``, and in a forked child process.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, writer_new}, {Py_tp_dealloc, writer_dealloc},      {Py_tp_methods, methods},
    {Py_tp_getset, getters}, {Py_mp_ass_subscript, writer_assign}, {0, NULL},
};

static PyType_Spec spec = {"flyring._core.TableWriter", sizeof(TableWriter), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyTypeObject *make_table_writer_type(PyObject *module)
{
    return table_writer_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
