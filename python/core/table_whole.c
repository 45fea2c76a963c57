/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of Table that go through all cells: recovery and copies; and the one that stores `clean` (spec/table.md
   7, 9). The caller holds the writer's slot, or only reads. */
#include "table_types.h"

#include <errno.h>

#define COPY_BYTES (1 << 20) /* one part of a copy ends after this many bytes of values */

/* Recover all cells. Calls `progress`, if it is not None, after each part. Returns how many cells were damaged. */
PyObject *table_recover_python(Table *self, PyObject *progress)
{
    table_map map = self->map; /* another thread may close the table */
    table_recovery recovery = {.map = &map};
    bool ended = false;
    Memory *memory = self->memory;
    memory_use(memory);
    while (!ended && table_is_open(self)) {
        Py_BEGIN_ALLOW_THREADS
        ended = table_recover_some(&recovery, 1 << 16);
        Py_END_ALLOW_THREADS
        if (progress != Py_None) {
            long long cells = map.cells, done = recovery.phase == 0 ? recovery.at : cells;
            PyObject *said = PyObject_CallFunction(progress, "LL", done, cells);
            Py_XDECREF(said);
            if (said == NULL)
                break;
        }
        if (PyErr_CheckSignals() < 0)
            break;
    }
    memory_unuse(memory);
    if (PyErr_Occurred() || !ended)
        return NULL;
    if (recovery.wrong != NULL)
        return raise_error("CorruptTableError", "(is)", -1, recovery.wrong);
    if (recovery.error != 0)
        return raise_error("IoError", "(siO)", "msync", recovery.error, self->path);
    return PyLong_FromLongLong(recovery.damaged);
}

/* Store `clean` and sync it, without the GIL. */
PyObject *table_set_clean_python(Table *self, PyObject *clean)
{
    if (!table_is_open(self))
        return NULL;
    int is_clean = PyObject_IsTrue(clean), error = 0;
    Memory *memory = self->memory;
    table_map map = self->map;
    memory_use(memory);
    Py_BEGIN_ALLOW_THREADS
    error = table_set_clean(&map, is_clean) ? 0 : errno;
    Py_END_ALLOW_THREADS
    memory_unuse(memory);
    return error != 0 ? raise_error("IoError", "(siO)", "msync", error, self->path) : Py_NewRef(Py_None);
}

/* Copy the cells from `cell` on into a new table, up to COPY_BYTES. Returns the next cell, or -1 at the end. */
PyObject *table_copy(Table *self, PyObject *args)
{
    long long cell;
    Table *to;
    uint8_t bytes[TABLE_MAX_KEY_BYTES];
    PyObject *value;
    if (!PyArg_ParseTuple(args, "O!L:_copy", table_type, &to, &cell) || !table_usable(self) || !table_is_open(to))
        return NULL;
    int64_t fresh = table_fresh(&self->map);
    for (int64_t copied = 0; cell < fresh && copied < COPY_BYTES; cell++) {
        copied += 64;
        if (cell < 0 || !cell_is_usable(&self->map, cell))
            continue;
        table_reading reading = reading_bytes(&value);
        reading.key = bytes;
        table_result result = table_read(&self->map, cell, NULL, &reading);
        bool added = true;
        if (result == TABLE_FOUND) {
            table_key key = table_key_make(bytes, reading.key_length);
            added = table_add(&to->map, &key, PyBytes_AsString(value), reading.length, reading.version);
            copied += reading.length;
        }
        Py_XDECREF(value);
        if (result > TABLE_ABSENT)
            return table_raise(self, result, &reading);
        if (!added)
            return raise_error("NoSpaceError", "(Oiis)", to->path, 1, 0, "keys");
    }
    return PyLong_FromLongLong(cell < fresh ? cell : -1);
}
