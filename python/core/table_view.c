/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a value in place (spec/table.md 6): the view that a handler gets, and the call of the handler. The view
   counts its exports (Python's memoryviews of it), so that one that outlives the handler is noticed. */
#include "table_types.h"

static PyTypeObject *view_type;

typedef struct {
    PyObject_HEAD
    Memory *memory; /* in use; NULL: the view has expired, and all exports are gone */
    const uint8_t *at;
    Py_ssize_t length, exports;
    bool expired;
} View;

/* Give up the mapping. */
static void view_let_go(View *self)
{
    Memory *memory = self->memory;
    self->memory = NULL;
    if (memory != NULL)
        memory_unuse(memory);
}

static int view_get_buffer(View *self, Py_buffer *buffer, int flags)
{
    if (self->expired) {
        raise_error("ClosedError", "(sis)", "value", 0, "it was valid until its handler returned; copy it there");
        return -1;
    }
    if (PyBuffer_FillInfo(buffer, (PyObject *)self, (void *)(uintptr_t)self->at, self->length, 1, flags) < 0)
        return -1;
    self->exports++;
    return 0;
}

static void view_release_buffer(View *self, Py_buffer *buffer)
{
    (void)buffer;
    if (--self->exports == 0 && self->expired)
        view_let_go(self);
}

static void view_dealloc(View *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    view_let_go(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot view_slots[] = {
    {Py_tp_dealloc, view_dealloc},
    {Py_bf_getbuffer, view_get_buffer},
    {Py_bf_releasebuffer, view_release_buffer},
    {0, NULL},
};

static PyType_Spec view_spec = {"flyring._core.TableView", sizeof(View), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, view_slots};

PyTypeObject *make_table_view_type(PyObject *module)
{
    return view_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &view_spec, NULL);
}

/* A handler, and what its last call returned or raised. */
typedef struct {
    Memory *memory;
    PyObject *handler, *result;
    PyObject *error, *error_value, *error_traceback;
} handling;

static void forget(handling *self)
{
    Py_CLEAR(self->result);
    Py_CLEAR(self->error);
    Py_CLEAR(self->error_value);
    Py_CLEAR(self->error_traceback);
}

static bool call_handler(table_reading *reading, const uint8_t *value, int32_t length)
{
    handling *self = reading->context;
    forget(self); /* what an earlier try returned or raised */
    View *view = PyObject_New(View, view_type);
    if (view == NULL)
        return false;
    memory_use(self->memory);
    view->memory = self->memory;
    view->at = value;
    view->length = length;
    view->exports = 0;
    view->expired = false;
    PyObject *memoryview = PyMemoryView_FromObject((PyObject *)view);
    if (memoryview != NULL)
        self->result = PyObject_CallFunctionObjArgs(self->handler, memoryview, NULL);
    if (self->result == NULL)
        PyErr_Fetch(&self->error, &self->error_value, &self->error_traceback);
    PyObject *released = memoryview == NULL ? NULL : PyObject_CallMethod(memoryview, "release", NULL);
    if (released == NULL)
        PyErr_Clear(); /* a part of it is exported: `alive` below */
    Py_XDECREF(released);
    Py_XDECREF(memoryview);
    view->expired = true;
    bool alive = view->exports > 0;
    if (!alive)
        view_let_go(view);
    Py_DECREF((PyObject *)view);
    if (alive) {
        forget(self);
        raise_error("ViewAliveError", "(s)",
                    "a view of the value, or of a part of it, outlives its handler; copy what is needed (bytes(view))");
        return false;
    }
    if (self->error == NULL || PyErr_GivenExceptionMatches(self->error, PyExc_Exception))
        return true; /* the error counts only if the value turns out not to be torn */
    PyErr_Restore(self->error, self->error_value, self->error_traceback);
    self->error = self->error_value = self->error_traceback = NULL;
    return false;
}

PyObject *table_read_with(Table *self, const table_key *key, int64_t *cell, PyObject *handler)
{
    table_map map = self->map; /* the handler may close the table, or make it follow another file */
    handling handling = {.memory = self->memory, .handler = handler};
    table_reading reading = {.take = call_handler, .context = &handling, .slow = true};
    table_result result = TABLE_ABSENT;
    memory_use(handling.memory);
    if (*cell >= 0)
        result = table_read(&map, *cell, key, &reading);
    if (result == TABLE_ABSENT)
        result = table_find(&map, key, &reading);
    bool forked = handling.memory->forked;
    memory_unuse(handling.memory);
    if (forked) { /* this is the child of a handler that forked */
        forget(&handling);
        return raise_error("ClosedError", "(si)", "table", 1);
    }
    if (result == TABLE_FOUND) {
        *cell = reading.cell;
        if (handling.error == NULL)
            return handling.result;
        PyErr_Restore(handling.error, handling.error_value, handling.error_traceback);
        return NULL;
    }
    forget(&handling);
    return result == TABLE_ABSENT ? Py_NewRef(Py_None) : table_raise(self, result, &reading);
}
