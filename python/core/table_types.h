/* SPDX-License-Identifier: Apache-2.0 */
/* The Python types of tables: Table, TableWriter, Entry, the view of a value in place, and a wait in an event loop.
   Numbers in parentheses are sections of spec/table.md. */
#ifndef FLYRING_TABLE_TYPES_H
#define FLYRING_TABLE_TYPES_H

#include "memory.h"
#include "table.h"
#include "wait.h"

typedef struct Table {
    PyObject_HEAD
    table_map map;
    Memory *memory; /* in use by this object; another one after grow */
    File *file;
    File *lock; /* the same file, opened for the lock of single changes; NULL before the first one */
    PyObject *path;
    bool closed, wakes, registered, writable;
    bool ready; /* it was checked that the table needs no recovery (9) */
    bool renewed; /* it has the id of this boot, so a change need not look at that again */
    unsigned long changing; /* the thread that has `lock` and runs Python code, as in a recovery; 0: none */
    int held; /* how many TableWriters of this object hold the slot, changes of Table not counted */
    unsigned long handler; /* the thread that runs the handler of an update; 0: none */
    int64_t next_look; /* by now_ns: when to look next whether the file was replaced, if `successor` is not 0 */
    int64_t busy; /* how many reads were busy */
    struct table_sight *sights; /* the waits of this object, which its close wakes */
} Table;

typedef struct TableWriter {
    PyObject_HEAD
    Table *table;
    Memory *memory; /* a reference: the mapping of the file whose slot it has */
    File *lock;
    table_change change;
    bool closed;
    bool held; /* it serves more than one change; counted in table->held */
    bool told; /* ChannelReplacedError was raised, which is done once */
    int64_t next_look; /* as next_look of Table */
} TableWriter;

extern PyTypeObject *table_type, *table_writer_type;

/* A key as the caller gave it. */
typedef struct {
    table_key key;
    Py_buffer view; /* held if view.obj is not NULL */
    int64_t integer; /* an integer key: its bytes */
} given_key;

/* Convert a key. False with an exception: InvalidArgumentError, MessageTooLargeError. */
bool key_given(const Table *self, PyObject *object, given_key *key);
void key_done(given_key *key);
/* Make a Python object of a key's bytes. */
PyObject *key_object(const table_map *map, const uint8_t *bytes, int32_t length);
/* A value as the caller gave it: bytes, a buffer, or a typed message. */
typedef struct {
    const void *bytes;
    int32_t length;
    Py_buffer view; /* held if view.obj is not NULL */
    PyObject *copy; /* of a typed message: a bytes object; else NULL */
} given_value;
/* Convert a value. False with an exception. */
bool value_given(const Table *self, PyObject *object, given_value *value);
void value_done(given_value *value);

/* Call a method without arguments, and drop its result. False with an exception. */
bool table_call(Table *self, const char *method);
/* False with ClosedError. */
bool table_is_open(Table *self);
/* Check that the table can be read: it is open and needs no recovery. If it has grown, switch to the grown file. False
   with an exception. */
bool table_usable(Table *self);
/* False with an exception if the handler of an update runs: ViewAliveError in its thread, TwoThreadsError in another
   one. `others`: other threads may go on, because they wait for the slot. */
bool table_no_handler(const Table *self, bool others);
/* Call a handler with an argument, during which this thread cannot change or close the table. */
PyObject *table_handle(Table *self, PyObject *const *args, Py_ssize_t n);
/* If it is time to look whether the file was replaced, call `method`, which does so. False with an exception. */
bool table_look(Table *self, int64_t *next_look, const char *method);
/* Whether `successor` says that another file may have the name. */
static inline bool table_has_successor(const Table *self)
{
    return UNLIKELY(LOAD32_RELAXED(self->map.control + TABLE_CONTROL_SUCCESSOR) != 0);
}
/* The same as table_usable, with the frequent case inline. */
ALWAYS_INLINE bool table_quickly_usable(Table *self)
{
    return LIKELY(!self->closed && !self->memory->forked && self->ready && !table_has_successor(self)) ||
           table_usable(self);
}

/* Raise the error of a result that is neither FOUND nor ABSENT. Returns NULL. */
PyObject *table_raise(Table *self, table_result result, const table_reading *reading);
/* Convert the result of a change: the new version, 0 for CHANGE_NOT, else NULL with an exception. */
PyObject *change_raise(Table *self, change_result result, const table_change *change);
/* Make a bytes object of the value. `context` points to the reference that gets it. */
ALWAYS_INLINE bool take_bytes(table_reading *reading, const uint8_t *value, int32_t length)
{
    PyObject **result = reading->context;
    Py_XDECREF(*result); /* of a try before */
    *result = PyBytes_FromStringAndSize(NULL, length);
    if (UNLIKELY(*result == NULL))
        return false;
    copy_words((uint8_t *)PyBytes_AsString(*result), value, length);
    return true;
}
/* A reading that makes a bytes object of the value. *value is a new reference, or NULL. */
table_reading reading_bytes(PyObject **value);
/* Call a handler with the value in place, and return its result; None if the key is absent. *cell: the remembered cell,
   or -1; set if the key is found. NULL with an exception. */
PyObject *table_read_with(Table *self, const table_key *key, int64_t *cell, PyObject *handler);
/* Wait until the version of the key (NULL: of the table) differs from `version` (8). NULL with an exception. */
PyObject *table_wait(Table *self, const table_key *key, int64_t version, int64_t timeout);
/* What a wait looks for: the context of its wait_target, whose functions run without the GIL. */
typedef struct table_sight {
    Table *table;
    table_map map;
    const table_key *key;
    uint8_t *cell; /* the cell of a key that is there; NULL: waits for an absent key, or for any change */
    int64_t version;
    File *file;
    const uint8_t *sequence; /* the word on which it sleeps */
    struct notifier *notifier; /* in an event loop; else NULL */
    struct table_sight *next; /* of the table's list */
} table_sight;
/* End all waits of a table that is closed: only by a futex call (8). */
void table_end_waits(Table *self);
/* Decide what a wait sleeps on. FOUND: nothing, because the version differs already; sight->version is the new one.
   ABSENT: sets *target. Else an exception was raised. */
table_result table_aim(Table *self, const table_key *key, int64_t version, table_sight *sight, wait_target *target);

/* Begin and end a single change: take the writer's slot for it, and give it back. False with an exception. */
bool single_begin(Table *self, int64_t timeout, table_change *change);
void single_end(Table *self);
/* Check that a change may begin in this thread: open, no handler, no recovery. False with an exception. */
bool single_ready(Table *self);
/* The same, and that a change may take the slot: not read-only, and no TableWriter of this Table has it. */
bool single_allowed(Table *self);
/* Check that the writer is open and has the slot. False with an exception. */
bool writer_usable(TableWriter *self);
/* The same before a change, and that the table was not replaced; that error is raised only once. */
bool writer_may_change(TableWriter *self);

/* Methods of Table that are not in table_type.c. */
bool table_parse_version(PyObject *number, int64_t *version);
PyObject *table_put_given(Table *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *table_put_if_absent(Table *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *table_compare_and_put(Table *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *table_remove_given(Table *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
int table_assign(Table *self, PyObject *object, PyObject *given);
PyObject *table_recover_python(Table *self, PyObject *progress);
PyObject *table_set_clean_python(Table *self, PyObject *clean);
PyObject *table_copy(Table *self, PyObject *args);

PyTypeObject *make_table_view_type(PyObject *module), *make_table_type(PyObject *module),
    *make_table_writer_type(PyObject *module), *make_table_entry_type(PyObject *module),
    *make_table_wait_type(PyObject *module);

#endif
