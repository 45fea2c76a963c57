/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for changes (spec/table.md 8), by sleeping or in an event loop. */
#include "arguments.h"
#include "notify.h"
#include "table_types.h"

/* Whether the wait must look: its change is there, or the table was closed, or may have another file. */
static bool is_changed(void *context)
{
    const table_sight *sight = context;
    table_reading reading = {0};
    if (UNLIKELY(__atomic_load_n(&sight->table->closed, __ATOMIC_RELAXED)))
        return true;
    if (UNLIKELY(LOAD32_RELAXED(sight->map.control + TABLE_CONTROL_SUCCESSOR) != 0) &&
        now_ns() >= __atomic_load_n(&sight->table->next_look, __ATOMIC_RELAXED)) /* channel.md 6.16, 4 */
        return true;
    if (sight->cell != NULL)
        return LOAD64_ACQUIRE(sight->cell + TABLE_CELL_VERSION) != sight->version; /* pairs with write 5 */
    if (sight->key != NULL)
        return table_find(&sight->map, sight->key, &reading) != TABLE_ABSENT;
    return LOAD64_ACQUIRE(sight->map.control + TABLE_CONTROL_CHANGED) != sight->version; /* pairs with write 6 */
}

static bool writer_wakes(void *context)
{
    return table_writer_wakes(&((const table_sight *)context)->map);
}

static bool is_nameless(void *context)
{
    return file_is_nameless(((const table_sight *)context)->file);
}

/* The list of a table's waits; changed with the GIL held */

static void begin_wait(table_sight *sight, const wait_target *target, notifier *notifier)
{
    sight->sequence = target->words.sequence;
    sight->notifier = notifier;
    sight->next = sight->table->sights;
    sight->table->sights = sight;
}

static void end_wait(table_sight *sight)
{
    for (table_sight **at = &sight->table->sights; *at != NULL; at = &(*at)->next) {
        if (*at == sight) {
            *at = sight->next;
            return;
        }
    }
}

void table_end_waits(Table *self)
{
    for (table_sight *sight = self->sights; sight != NULL; sight = sight->next) {
        if (sight->notifier != NULL)
            notifier_stop(sight->notifier); /* makes its descriptor readable */
        else
            wake_sleepers(sight->sequence, 1);
    }
}

table_result table_aim(Table *self, const table_key *key, int64_t version, table_sight *sight, wait_target *target)
{
    table_reading reading = {0};
    *sight = (table_sight){.table = self, .map = self->map, .key = key, .version = version, .file = self->file};
    if (key == NULL) {
        sight->version = LOAD64_ACQUIRE(self->map.control + TABLE_CONTROL_CHANGED); /* pairs with write 6 */
        if (sight->version != version)
            return TABLE_FOUND;
    } else {
        table_result result = table_find(&self->map, key, &reading);
        if (result > TABLE_ABSENT) {
            table_raise(self, result, &reading);
            return result;
        }
        sight->version = result == TABLE_FOUND ? reading.version : 0;
        if (sight->version != version)
            return TABLE_FOUND;
        if (result == TABLE_FOUND)
            sight->cell = cell_at(&sight->map, reading.cell);
    }
    *target = (wait_target){.words = sight->cell != NULL ? cell_words(sight->cell) : table_words(&sight->map),
                            .mask = 1,
                            .writable = self->writable,
                            .ready = is_changed,
                            .others_wake = writer_wakes,
                            .nameless = is_nameless,
                            .context = sight};
    return TABLE_ABSENT;
}

PyObject *table_wait(Table *self, const table_key *key, int64_t version, int64_t timeout)
{
    wait_state state;
    table_sight sight;
    wait_target target;
    bool over = false;
    wait_begin(&state, WAIT_BLOCK, DEFAULT_SPIN_NS, timeout);
    for (;;) {
        if (!table_usable(self))
            return NULL;
        switch (table_aim(self, key, version, &sight, &target)) {
        case TABLE_FOUND:
            return PyLong_FromLongLong(sight.version);
        case TABLE_ABSENT:
            break;
        default:
            return NULL;
        }
        if (over)
            return raise_error("TimedOutError", "(s)", key == NULL ? "a change of the table" : "a change of the key");
        Memory *memory = self->memory;
        memory_use(memory);
        Py_INCREF((PyObject *)sight.file);
        begin_wait(&sight, &target, NULL);
        int result = wait_some(&state, &target);
        end_wait(&sight);
        Py_DECREF((PyObject *)sight.file);
        memory_unuse(memory);
        if (result == -1)
            return NULL;
        if (self->closed)
            return raise_error("ClosedError", "(s)", "table");
        if (((result != 1 && state.slept) || table_has_successor(self)) &&
            !check_replaced((PyObject *)self, self->file))
            return NULL;
        over = result == -2;
    }
}

/* A wait in an event loop */

typedef struct {
    PyObject_HEAD
    Table *table;
    Memory *memory; /* in use while it is armed; else NULL */
    File *file; /* a reference while it is armed; else NULL */
    notifier *notifier;
    table_key key;
    uint8_t *bytes; /* the bytes of `key`; NULL: any key */
    table_sight sight;
    int64_t version, began;
} TableWait;

static void disarm(TableWait *self)
{
    notifier_stop(self->notifier);
    Memory *memory = self->memory;
    self->memory = NULL;
    if (memory != NULL)
        end_wait(&self->sight);
    Py_CLEAR(self->file);
    if (memory != NULL)
        memory_unuse(memory);
}

static PyObject *wait_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *table, *object;
    long long version;
    given_key key;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!OL:TableWait", table_type, &table, &object, &version))
        return NULL;
    bool any = object == Py_None;
    if (!any && !key_given((Table *)table, object, &key))
        return NULL;
    TableWait *self = (TableWait *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self != NULL) {
        self->table = (Table *)Py_NewRef(table);
        self->version = version;
        self->began = now_ns();
        self->notifier = notifier_new();
        if (!any && (self->bytes = PyMem_Malloc((size_t)key.key.length + 1)) != NULL) {
            memcpy(self->bytes, key.key.bytes, (size_t)key.key.length);
            self->key = key.key;
            self->key.bytes = self->bytes;
        }
        if (!any && self->bytes == NULL)
            PyErr_NoMemory();
        if (self->notifier == NULL || (!any && self->bytes == NULL))
            Py_CLEAR(self);
    }
    if (!any)
        key_done(&key);
    return (PyObject *)self;
}

static void wait_dealloc(TableWait *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (self->notifier != NULL)
        disarm(self);
    notifier_free(self->notifier);
    PyMem_Free(self->bytes);
    Py_XDECREF((PyObject *)self->table);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *wait_fileno(TableWait *self, PyObject *ignored)
{
    (void)ignored;
    return PyLong_FromLong(notifier_fd(self->notifier));
}

static PyObject *wait_is_armed(TableWait *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(notifier_is_armed(self->notifier));
}

/* Returns the new version, or None if there is none yet. Then the descriptor becomes readable when it is time to look
   again. */
static PyObject *wait_look(TableWait *self, PyObject *ignored)
{
    wait_target target;
    Table *table = self->table;
    (void)ignored;
    bool nameless = notifier_found_nameless(self->notifier);
    if (!table->closed && (nameless || table_has_successor(table)) && !check_replaced((PyObject *)table, table->file))
        return NULL;
    disarm(self);
    for (;;) {
        if (!table_usable(table))
            return NULL;
        switch (table_aim(table, self->bytes != NULL ? &self->key : NULL, self->version, &self->sight, &target)) {
        case TABLE_FOUND:
            return PyLong_FromLongLong(self->sight.version);
        case TABLE_ABSENT:
            break;
        default:
            return NULL;
        }
        memory_use(table->memory);
        self->memory = table->memory;
        self->file = (File *)Py_NewRef((PyObject *)table->file);
        begin_wait(&self->sight, &target, self->notifier);
        int armed = notifier_arm(self->notifier, &target, self->began);
        if (armed == 1)
            return Py_NewRef(Py_None);
        disarm(self);
        if (armed < 0)
            return NULL;
    }
}

static PyObject *wait_stop(TableWait *self, PyObject *ignored)
{
    (void)ignored;
    disarm(self);
    return Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"fileno", (PyCFunction)wait_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\nA descriptor that becomes readable when it is time to call ``look``."},
    {"_is_armed", (PyCFunction)wait_is_armed, METH_NOARGS, NULL},
    {"look", (PyCFunction)wait_look, METH_NOARGS,
     "look($self, /)\n--\n\nReturns the new version, or None if there is none yet."},
    {"stop", (PyCFunction)wait_stop, METH_NOARGS, "stop($self, /)\n--\n\nEnds the wait."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, wait_new},
    {Py_tp_dealloc, wait_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.TableWait", sizeof(TableWait), 0, Py_TPFLAGS_DEFAULT, slots};

PyTypeObject *make_table_wait_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
