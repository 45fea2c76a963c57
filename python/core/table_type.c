/* SPDX-License-Identifier: Apache-2.0 */
/* Table: the methods that read, and the list of all methods in C. flyring/table.py has the rest. Numbers in parentheses
   are sections of spec/table.md; "write 5" is step 5 of its operation write. */
#include "arguments.h"
#include "table_types.h"

PyTypeObject *table_type;

#define LOOK_NS 1000000 /* the least time between two looks whether the file was replaced (7) */
#define SCAN_BYTES (1 << 20) /* one scan ends after this many bytes of values */

/* Set the map from the dimensions of a checked header. If a part of the table lies outside the mapping, raises
   ValueError and returns false. */
static bool map_make(table_map *map, PyObject *shape, Memory *memory)
{
    int key_type, key_bytes, value_bytes, checked;
    long long capacity, cells, entries;
    if (!PyArg_ParseTuple(shape, "iiipLLL:shape", &key_type, &key_bytes, &value_bytes, &checked, &capacity, &cells,
                          &entries))
        return false;
    bool valid = key_type >= TABLE_KEY_TYPE_BYTES && key_type <= TABLE_KEY_TYPE_INTEGER && key_bytes >= 1 &&
                 key_bytes <= TABLE_MAX_KEY_BYTES && value_bytes >= 0 && value_bytes <= TABLE_MAX_VALUE_BYTES &&
                 capacity >= 1 && capacity <= TABLE_MAX_CAPACITY && cells >= capacity && cells < UINT32_MAX &&
                 entries >= TABLE_MIN_ENTRIES && entries % 8 == 0 && entries < INT64_C(1) << 31;
    int64_t alignment = TABLE_BODY_ALIGNMENT, page = SECTION_ALIGNMENT;
    int64_t body = (TABLE_CELL_KEY + (int64_t)key_bytes + alignment - 1) / alignment * alignment;
    int64_t body_stride = (TABLE_BODY_VALUE + (int64_t)value_bytes + alignment - 1) / alignment * alignment;
    int64_t stride = body + 2 * body_stride, index = (8 * entries + page - 1) / page * page;
    int64_t at = HEADER_LENGTH + TABLE_CONTROL_LENGTH + 2 * index;
    if (!valid || at > memory->length || cells > (memory->length - at) / stride) {
        PyErr_SetString(PyExc_ValueError, "this table does not fit into the mapping");
        return false;
    }
    uint8_t *base = memory->base, *first = base + HEADER_LENGTH + TABLE_CONTROL_LENGTH;
    *map = (table_map){
        .base = base,
        .control = base + HEADER_LENGTH,
        .cells_at = base + at,
        .index = {first, first + index},
        .key_type = key_type,
        .key_bytes = key_bytes,
        .value_bytes = value_bytes,
        .checked = checked,
        .one_piece = cells * stride <= TABLE_PIECE,
        .capacity = capacity,
        .cells = cells,
        .stride = stride,
        .entries = entries,
        .body = body,
        .body_stride = body_stride,
        .length = at + cells * stride,
    };
    return true;
}

/* Give up the references to the file, its mapping and its lock. */
static void let_go(Table *self)
{
    Memory *memory = self->memory;
    self->memory = NULL;
    Py_CLEAR(self->file);
    Py_CLEAR(self->lock);
    if (memory != NULL)
        memory_unuse(memory);
}

/* Use this file from now on, in the place of an earlier one. */
static PyObject *table_attach(Table *self, PyObject *args)
{
    PyObject *file, *memory, *shape;
    table_map map;
    if (!PyArg_ParseTuple(args, "O!O!O!:_attach", file_type, &file, memory_type, &memory, &PyTuple_Type, &shape) ||
        !memory_covers((Memory *)memory, 0, 1) || !map_make(&map, shape, (Memory *)memory))
        return NULL;
    memory_use((Memory *)memory);
    Py_INCREF(file);
    let_go(self);
    self->map = map;
    self->memory = (Memory *)memory;
    self->file = (File *)file;
    self->ready = self->renewed = false;
    self->next_look = 0;
    return Py_NewRef(Py_None);
}

static PyObject *table_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *file, *memory, *shape, *path;
    int wakes, writable;
    if (kwargs != NULL && PyDict_Size(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "no keywords");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!O!pp:Table", file_type, &file, memory_type, &memory, &PyTuple_Type, &shape,
                          &PyUnicode_Type, &path, &wakes, &writable))
        return NULL;
    Table *self = (Table *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->wakes = wakes;
    self->writable = writable;
    self->path = Py_NewRef(path);
    PyObject *parts = PyTuple_Pack(3, file, memory, shape);
    PyObject *done = parts == NULL ? NULL : table_attach(self, parts);
    Py_XDECREF(parts);
    Py_XDECREF(done);
    if (done == NULL)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void table_dealloc(Table *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    let_go(self);
    Py_XDECREF(self->path);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *table_shut(Table *self, PyObject *ignored)
{
    (void)ignored;
    if (self->changing != 0)
        return raise_error("TwoThreadsError", "(s)", "table");
    if (!table_no_handler(self, false))
        return NULL;
    __atomic_store_n(&self->closed, true, __ATOMIC_RELAXED); /* a wait reads it without the GIL */
    table_end_waits(self);
    if (self->lock != NULL)
        file_shut(self->lock);
    let_go(self);
    return Py_NewRef(Py_None);
}

bool table_call(Table *self, const char *method)
{
    PyObject *done = PyObject_CallMethod((PyObject *)self, method, NULL);
    Py_XDECREF(done);
    return done != NULL;
}

bool table_is_open(Table *self)
{
    if (LIKELY(!self->closed && !self->memory->forked))
        return true;
    raise_error("ClosedError", "(si)", "table", (int)(self->memory != NULL && self->memory->forked));
    return false;
}

bool table_look(Table *self, int64_t *next_look, const char *method)
{
    if (now_ns() < *next_look)
        return true;
    __atomic_store_n(next_look, now_ns() + LOOK_NS, __ATOMIC_RELAXED); /* waits read it without the GIL */
    return table_call(self, method) && table_is_open(self);
}

bool table_no_handler(const Table *self, bool others)
{
    if (LIKELY(self->handler == 0) || (self->memory != NULL && self->memory->forked))
        return true;
    if (self->handler == PyThread_get_thread_ident()) {
        raise_error("ViewAliveError", "(s)",
                    "the handler of an update changes a copy of the value, and cannot change or close its table; do "
                    "that when update has returned");
        return false;
    }
    if (!others)
        raise_error("TwoThreadsError", "(s)", "table");
    return others;
}

PyObject *table_handle(Table *self, PyObject *const *args, Py_ssize_t n)
{
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "_handle(handler, value)");
        return NULL;
    }
    if (!table_is_open(self) || !table_no_handler(self, false))
        return NULL;
    self->handler = PyThread_get_thread_ident();
    PyObject *result = PyObject_CallFunctionObjArgs(args[0], args[1], NULL);
    self->handler = 0;
    return result;
}

/* Raises ViewAliveError if this thread runs the handler of an update. */
static PyObject *table_check_handler(Table *self, PyObject *ignored)
{
    (void)ignored;
    return table_no_handler(self, true) ? Py_NewRef(Py_None) : NULL;
}

/* Check that a writer may take the slot: one that holds it (`held`), or one of a single change. */
static PyObject *table_check_single(Table *self, PyObject *held)
{
    bool allowed =
        PyObject_IsTrue(held) == 1 ? table_is_open(self) && table_no_handler(self, true) : single_allowed(self);
    return allowed ? Py_NewRef(Py_None) : NULL;
}

bool table_usable(Table *self)
{
    if (UNLIKELY(!table_is_open(self)))
        return false;
    if (UNLIKELY(table_has_successor(self)) && !table_look(self, &self->next_look, "_follow"))
        return false;
    return LIKELY(self->ready) || (table_call(self, "_check_boot") && table_is_open(self));
}

/* Find a key that the caller gave. True: the result is FOUND or ABSENT. False: an exception. */
static bool find_given(Table *self, PyObject *object, table_reading *reading, table_result *result)
{
    given_key key;
    if (UNLIKELY(!table_quickly_usable(self)) || UNLIKELY(!key_given(self, object, &key)))
        return false;
    if (UNLIKELY(key.view.obj != NULL) && !table_is_open(self)) { /* getting the buffer may have run Python code */
        key_done(&key);
        return false;
    }
    *result = table_find(&self->map, &key.key, reading);
    key_done(&key);
    if (LIKELY(*result <= TABLE_ABSENT))
        return true;
    table_raise(self, *result, reading);
    return false;
}

static PyObject *table_get(Table *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"key", "default"};
    const signature expected = {parameters, 2, 1};
    PyObject *values[2] = {NULL, NULL}, *value;
    table_reading reading = reading_bytes(&value);
    table_result result;
    if (LIKELY(n == 1 && names == NULL))
        values[0] = args[0];
    else if (!parse_arguments(&expected, args, n, names, values))
        return NULL;
    if (!find_given(self, values[0], &reading, &result)) {
        Py_XDECREF(value);
        return NULL;
    }
    if (result == TABLE_FOUND)
        return value;
    Py_XDECREF(value);
    return Py_NewRef(values[1] != NULL ? values[1] : Py_None);
}

static PyObject *table_subscript(Table *self, PyObject *object)
{
    PyObject *value;
    table_reading reading = reading_bytes(&value);
    table_result result;
    if (find_given(self, object, &reading, &result)) {
        if (result == TABLE_FOUND)
            return value;
        PyErr_SetObject(PyExc_KeyError, object);
    }
    Py_XDECREF(value);
    return NULL;
}

static PyObject *table_get_versioned(Table *self, PyObject *object)
{
    PyObject *value, *pair = NULL;
    table_reading reading = reading_bytes(&value);
    table_result result;
    if (find_given(self, object, &reading, &result))
        pair = result == TABLE_FOUND ? Py_BuildValue("OL", value, (long long)reading.version) : Py_NewRef(Py_None);
    Py_XDECREF(value);
    return pair;
}

/* The version of a key, 0 if it is absent. Of None: that of the table. */
static PyObject *table_version_of(Table *self, PyObject *object)
{
    table_reading reading = {0};
    table_result result;
    if (object == Py_None) {
        if (!table_usable(self))
            return NULL;
        return PyLong_FromLongLong(LOAD64_ACQUIRE(self->map.control + TABLE_CONTROL_CHANGED)); /* pairs with write 6 */
    }
    if (!find_given(self, object, &reading, &result))
        return NULL;
    return PyLong_FromLongLong(result == TABLE_FOUND ? reading.version : 0);
}

static int table_contains(Table *self, PyObject *object)
{
    table_reading reading = {0};
    table_result result;
    return !find_given(self, object, &reading, &result) ? -1 : result == TABLE_FOUND;
}

static Py_ssize_t table_length(Table *self)
{
    if (!table_usable(self))
        return -1;
    int64_t size = LOAD64_RELAXED(self->map.control + TABLE_CONTROL_SIZE);
    return size < 0 ? 0 : size > self->map.cells ? self->map.cells : size; /* 10: any value */
}

static PyObject *table_read_in_place(Table *self, PyObject *const *args, Py_ssize_t n)
{
    given_key key;
    int64_t cell = -1;
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "read(key, handler)");
        return NULL;
    }
    if (!table_usable(self) || !key_given(self, args[0], &key))
        return NULL;
    /* Getting the buffer may have run Python code. */
    PyObject *result =
        key.view.obj == NULL || table_is_open(self) ? table_read_with(self, &key.key, &cell, args[1]) : NULL;
    key_done(&key);
    return result;
}

/* Read the cells from `number` on, up to SCAN_BYTES: (the cell to go on with, or -1 at the end; a list of (key, value,
   version)). */
static PyObject *table_scan(Table *self, PyObject *number)
{
    int64_t cell = PyLong_AsLongLong(number), bytes = 0;
    PyObject *value, *list;
    uint8_t key[TABLE_MAX_KEY_BYTES];
    if ((cell == -1 && PyErr_Occurred()) || !table_usable(self) || (list = PyList_New(0)) == NULL)
        return NULL;
    table_map map = self->map; /* a garbage collection may run Python code, which closes the table */
    Memory *memory = self->memory;
    memory_use(memory);
    for (int64_t fresh = table_fresh(&map); cell >= 0 && bytes < SCAN_BYTES; cell++) {
        table_reading reading = reading_bytes(&value);
        reading.key = key;
        if (cell >= fresh) {
            cell = -2;
            continue;
        }
        bytes += 64;
        if (!cell_is_usable(&map, cell))
            continue;
        table_result result = table_read(&map, cell, NULL, &reading);
        if (result == TABLE_ABSENT) {
            Py_XDECREF(value);
            continue;
        }
        PyObject *one = result != TABLE_FOUND ? table_raise(self, result, &reading)
                                              : Py_BuildValue("NOL", key_object(&map, key, reading.key_length), value,
                                                              (long long)reading.version);
        Py_XDECREF(value);
        if (one == NULL || PyList_Append(list, one) < 0) {
            Py_XDECREF(one);
            Py_DECREF(list);
            memory_unuse(memory);
            return NULL;
        }
        Py_DECREF(one);
        bytes += reading.length;
    }
    memory_unuse(memory);
    return Py_BuildValue("LN", (long long)cell, list);
}

bool table_parse_version(PyObject *number, int64_t *version)
{
    *version = PyLong_AsLongLong(number);
    if (*version == -1 && PyErr_Occurred())
        return false;
    if (*version < 0)
        raise_error("InvalidArgumentError", "(ss)", "version", "must be 0 or more");
    return *version >= 0;
}

static PyObject *table_wait_changed(Table *self, PyObject *const *args, Py_ssize_t n)
{
    given_key key;
    int64_t timeout, version;
    if (n != 3) {
        PyErr_SetString(PyExc_TypeError, "_wait_changed(key or None, version, timeout)");
        return NULL;
    }
    if (!table_usable(self))
        return NULL;
    if (args[0] == Py_None) {
        if (!table_parse_version(args[1], &version) || (timeout = wait_timeout(args[2])) < 0)
            return NULL;
        return table_wait(self, NULL, version, timeout);
    }
    if (!key_given(self, args[0], &key))
        return NULL;
    PyObject *result = NULL;
    if (table_parse_version(args[1], &version) && (timeout = wait_timeout(args[2])) >= 0)
        result = table_wait(self, &key.key, version, timeout);
    key_done(&key);
    return result;
}

static PyObject *table_is_ready(Table *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->ready);
}

static int table_set_ready(Table *self, PyObject *value, void *ignored)
{
    (void)ignored;
    self->ready = value != NULL && PyObject_IsTrue(value) == 1;
    return 0;
}

static PyObject *table_is_renewed(Table *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->renewed);
}

static int table_set_renewed(Table *self, PyObject *value, void *ignored)
{
    self->renewed = value != NULL && PyObject_IsTrue(value) == 1;
    return table_set_ready(self, value, ignored);
}

static PyObject *table_is_closed(Table *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->closed || self->memory == NULL || self->memory->forked);
}

static PyObject *table_busy(Table *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->busy);
}

static int table_set_busy(Table *self, PyObject *value, void *ignored)
{
    (void)ignored;
    int64_t busy = value == NULL ? 0 : PyLong_AsLongLong(value);
    if (busy == -1 && PyErr_Occurred())
        return -1;
    self->busy = busy;
    return 0;
}

static PyMethodDef methods[] = {
    {"get", KEYWORDS(table_get),
     "get($self, /, key, default=None)\n--\n\nReturns a copy of the key's value, or ``default`` if it is absent."},
    {"get_versioned", (PyCFunction)table_get_versioned, METH_O,
     "get_versioned($self, key, /)\n--\n\n"
     "Returns (value, version) of the key, with a copy of the value, or None if the key is absent."},
    {"read", FAST(table_read_in_place),
     "read($self, key, handler, /)\n--\n\n"
     "Calls ``handler(value)`` with a memoryview of the value in the mapped file. Returns the handler's result, or\n"
     "None if the key is absent.\n\n"
     "The handler may see a torn value, and is called again then. Only its last call counts; that one saw a value\n"
     "that was not torn. The view is valid until the handler returns: keeping it, or a part of it, raises\n"
     "ViewAliveError. Raises BusyError if the value changed for a millisecond, faster than it could be read."},
    {"put", KEYWORDS(table_put_given),
     "put($self, /, key, value, timeout=None)\n--\n\n"
     "Puts a value: bytes, a buffer, or a typed message. Takes the writer's slot for this one change, and waits up to\n"
     "``timeout`` seconds (None: no limit) for it. Returns the key's new version.\n\n"
     "Raises NoFreeSlotError at the time-out, NoSpaceError if the table is full, MessageTooLargeError,\n"
     "AccessDeniedError if the table is read-only, BusyError if a TableWriter of this Table is open, and\n"
     "ChannelReplacedError if another table has the name."},
    {"put_if_absent", KEYWORDS(table_put_if_absent),
     "put_if_absent($self, /, key, value, timeout=None)\n--\n\n"
     "Like ``put``, but only if the key is absent. Returns the new version, or 0 if the key was there."},
    {"compare_and_put", KEYWORDS(table_compare_and_put),
     "compare_and_put($self, /, key, version, value, timeout=None)\n--\n\n"
     "Like ``put``, but only if the key has this version; 0 means that the key must be absent. Returns the new\n"
     "version, or 0 if it put nothing."},
    {"remove", KEYWORDS(table_remove_given),
     "remove($self, /, key, timeout=None)\n--\n\n"
     "Removes a key. Returns whether it was there. ``timeout`` and errors are those of ``put``."},
    {"_attach", (PyCFunction)table_attach, METH_VARARGS, NULL},
    {"_shut", (PyCFunction)table_shut, METH_NOARGS, NULL},
    {"_scan", (PyCFunction)table_scan, METH_O, NULL},
    {"_version_of", (PyCFunction)table_version_of, METH_O, NULL},
    {"_wait_changed", FAST(table_wait_changed), NULL},
    {"_recover", (PyCFunction)table_recover_python, METH_O, NULL},
    {"_set_clean", (PyCFunction)table_set_clean_python, METH_O, NULL},
    {"_copy", (PyCFunction)table_copy, METH_VARARGS, NULL},
    {"_handle", FAST(table_handle), NULL},
    {"_check_handler", (PyCFunction)table_check_handler, METH_NOARGS, NULL},
    {"_check_single", (PyCFunction)table_check_single, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"closed", (getter)table_is_closed, NULL, "True after ``close``, and in a forked child process.", NULL},
    {"_ready", (getter)table_is_ready, (setter)table_set_ready, NULL, NULL},
    {"_renewed", (getter)table_is_renewed, (setter)table_set_renewed, NULL, NULL},
    {"_busy", (getter)table_busy, (setter)table_set_busy, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, table_new},       {Py_tp_dealloc, table_dealloc},     {Py_tp_methods, methods},
    {Py_tp_getset, getters},      {Py_mp_subscript, table_subscript}, {Py_mp_ass_subscript, table_assign},
    {Py_mp_length, table_length}, {Py_sq_contains, table_contains},   {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Table", sizeof(Table), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyTypeObject *make_table_type(PyObject *module)
{
    return table_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
