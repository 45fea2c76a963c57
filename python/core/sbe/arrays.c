/* SPDX-License-Identifier: Apache-2.0 */
/* poll_arrays hands out runs of messages, each as one array. A run is a series of messages of the same type, length and
   header that lie directly behind one another. This file tells whether a record begins a run; poll.c and lossy_poll.c
   find the run's end. */
#include "arrays.h"
#include "sbe.h"

static array_kind bad(array_poll *poll, const char *reason, uint64_t value, uint64_t expected)
{
    PyOS_snprintf(poll->reason, sizeof poll->reason, reason, (unsigned long long)value, (unsigned long long)expected);
    return poll->kind = ARRAY_BAD;
}

array_kind array_begin(array_poll *poll, int32_t type, const uint8_t *payload, int64_t length)
{
    const Layout *layout = poll->layout;
    poll->count = 1;
    if (type != poll->template_id)
        return poll->kind = array_wanted(poll, type) ? ARRAY_OTHER : ARRAY_SKIPPED;
    if (length < layout->header_length) /* the checks are in the order of spec/messages.md 1 */
        return bad(poll, "its %llu bytes are less than the message header's %llu", (uint64_t)length,
                   (uint64_t)layout->header_length);
    if (poll->packed)
        memcpy(&poll->first, payload, sizeof poll->first);
    const uint8_t *header = poll->packed ? (const uint8_t *)&poll->first : payload;
    for (int field = 0; field < HEADER_FIELDS; field++)
        poll->header[field] = array_field(poll, field, header);
    poll->values[BLOCK_LENGTH] = load_place(header, &layout->header_block_length);
    poll->values[TEMPLATE_ID] = load_place(header, &layout->header_template_id);
    poll->values[SCHEMA_ID] = load_place(header, &layout->header_schema_id);
    poll->values[VERSION] = load_place(header, &layout->header_version);
    if (poll->values[SCHEMA_ID] != layout->schema_id)
        return bad(poll, "its schema id is %llu, not %llu", poll->values[SCHEMA_ID], layout->schema_id);
    if (poll->values[TEMPLATE_ID] != layout->template_id)
        return bad(poll, "its template id is %llu, but the type of its record %llu", poll->values[TEMPLATE_ID],
                   (uint64_t)type);
    if (poll->values[BLOCK_LENGTH] > (uint64_t)(length - layout->header_length))
        return bad(poll, "its block of %llu bytes does not fit into its payload of %llu", poll->values[BLOCK_LENGTH],
                   (uint64_t)length);
    if (poll->values[BLOCK_LENGTH] < (uint64_t)layout->block_length &&
        poll->values[VERSION] >= (uint64_t)layout->version)
        return bad(poll, "its block of %llu bytes is too short for version %llu", poll->values[BLOCK_LENGTH],
                   poll->values[VERSION]);
    return poll->kind = ARRAY_RUN;
}

static void set_layout(array_poll *poll, const Layout *layout)
{
    const place *places[] = {&layout->header_block_length, &layout->header_template_id, &layout->header_schema_id,
                             &layout->header_version};
    int total = 0;
    poll->layout = layout;
    poll->template_id = layout->type;
    poll->packed = true;
    for (int field = 0; field < HEADER_FIELDS; field++) {
        int size = places[field]->constant ? 0 : primitive_size(places[field]->type);
        poll->fields[field].offset = places[field]->offset;
        poll->fields[field].size = size;
        poll->packed = poll->packed && places[field]->offset + size <= 8;
        total += size;
    }
    poll->packed = poll->packed && total == 8;
}

bool array_poll_parse(array_poll *poll, PyObject *const *args, Py_ssize_t n)
{
    if (n != 6 || Py_TYPE(args[0]) != layout_type) {
        PyErr_SetString(PyExc_TypeError, "a Layout, view, handler, limit, otherwise and timeout are expected");
        return false;
    }
    *poll = (array_poll){.view = args[1], .handler = args[2], .otherwise = args[4] == Py_None ? NULL : args[4]};
    if (!PyCallable_Check(poll->handler) || (poll->otherwise != NULL && !PyCallable_Check(poll->otherwise))) {
        PyErr_Format(PyExc_TypeError, "%s must be callable", PyCallable_Check(poll->handler) ? "otherwise" : "handler");
        return false;
    }
    set_layout(poll, (const Layout *)(void *)args[0]);
    return true;
}

/* Call the handler for the run, and return its result. */
static PyObject *give_run(const array_poll *poll, Message *run)
{
    PyObject *array = PyObject_CallFunction(poll->view, "OnLLKK", (PyObject *)run, poll->count,
                                            (long long)poll->layout->header_length, (long long)poll->stride,
                                            (unsigned long long)poll->values[BLOCK_LENGTH],
                                            (unsigned long long)poll->values[VERSION]);
    if (array == NULL)
        return NULL;
    PyObject *result = PyObject_CallFunctionObjArgs(poll->handler, array, NULL);
    Py_DECREF(array);
    return result;
}

PyObject *array_give(const array_poll *poll, Message *message)
{
    if (poll->kind == ARRAY_RUN)
        return give_run(poll, message);
    if (poll->kind == ARRAY_OTHER)
        return PyObject_CallFunctionObjArgs(poll->otherwise, (PyObject *)message, NULL);
    return raise_error("BadMessageError", "(iLis)", (int)message->ring, (long long)message->position,
                       (int)message->type, poll->reason);
}
