/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, cancel, and rings that are damaged (spec/service.md 7 and 10). */
#include "server.h"

/* Streams */

enum { STREAM_DONE, STREAM_PULLS, STREAM_FAILED };

static bool fail_too_large(Request *request, int64_t longest)
{
    char text[120];
    int length = PyOS_snprintf(text, sizeof text, "an item of %zd bytes is too large: this service sends %lld",
                               PyBytes_Size(request->item), (long long)longest);
    return server_fail(request, text, length);
}

/* Send the item that was made, or the end of the stream. */
static int stream_step(Request *request)
{
    Server *self = request->server;
    if (self == NULL || request->answered || request->pulling)
        return STREAM_DONE;
    if (!server_still_ours(self))
        return STREAM_FAILED;
    service_side *side = side_of(request);
    if (request->item != NULL && request->credit > 0 && !request->cancelled && side->waiting == NULL) {
        int64_t length = PyBytes_Size(request->item);
        int64_t longest = side->writer.ring.longest - RECORD_HEADER_LENGTH - REPLY_LENGTH;
        if (!client_is_there(side, request)) {
            self->client_gone++;
            request->cancelled = true;
        } else if (length > longest) {
            return fail_too_large(request, longest) ? STREAM_DONE : STREAM_FAILED;
        } else {
            int sent = server_send(self, side, request, REPLY_STATUS_OK, REPLY_FLAG_MORE,
                                   PyBytes_AsString(request->item), length, request->item_type);
            if (sent < 0)
                return STREAM_FAILED;
            if (sent > 0) {
                request->credit--;
                Py_CLEAR(request->item);
            } else {
                self->stream_blocked = true;
            }
        }
    }
    if (request->item == NULL && !request->exhausted && !request->cancelled)
        return STREAM_PULLS;
    bool fine = true;
    if (request->item != NULL && request->deadline > 0 && service_now(&self->clock) >= request->deadline)
        fine = server_finish(request, REPLY_STATUS_EXPIRED, NULL, 0, TYPE_RAW);
    else if (request->item == NULL || request->cancelled)
        fine = server_finish(request, REPLY_STATUS_OK, NULL, 0, TYPE_RAW);
    return fine ? STREAM_DONE : STREAM_FAILED;
}

/* End a stream whose iterator raised. False with an exception. */
static bool fail_with_exception(Request *request)
{
    PyObject *kind = NULL, *value = NULL, *traceback = NULL;
    bool nobody = is_for_nobody();
    if (nobody) {
        PyErr_Fetch(&kind, &value, &traceback);
        PyErr_SetString(PyExc_RuntimeError, "the sequence of items was interrupted");
    }
    PyObject *text = text_of_exception();
    bool fine = text != NULL && (request->server == NULL || request->answered ||
                                 server_fail(request, PyBytes_AsString(text), PyBytes_Size(text)));
    Py_XDECREF(text);
    if (!nobody)
        return fine;
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
    return false;
}

/* Get the next item from the iterator, which runs Python code. False with an exception. */
static bool pull(Request *request)
{
    int32_t type = request->server->default_type;
    PyObject *items = Py_NewRef(request->items), *bytes = NULL;
    request->pulling = true;
    PyObject *item = PyIter_Next(items);
    if (item != NULL) {
        type = request->given_type != 0 ? request->given_type : type;
        bytes = bytes_of_answer(item, NULL, &type);
        Py_DECREF(item);
    }
    request->pulling = false;
    bool fine = true;
    if (PyErr_Occurred()) {
        fine = fail_with_exception(request);
    } else if (request->server != NULL && !request->answered) {
        request->exhausted = bytes == NULL;
        request->item = Py_XNewRef(bytes);
        request->item_type = type;
    }
    Py_XDECREF(bytes);
    Py_DECREF(items);
    return fine;
}

bool server_go_on(Request *request)
{
    Py_INCREF((PyObject *)request);
    int step;
    while ((step = stream_step(request)) == STREAM_PULLS) {
        if (!pull(request)) {
            step = STREAM_FAILED;
            break;
        }
    }
    Py_DECREF((PyObject *)request);
    return step != STREAM_FAILED;
}

bool server_streams_go_on(Server *self)
{
    self->stream_blocked = false;
    PyObject *all = PyList_New(0); /* the streams at this moment */
    for (int k = 0; all != NULL && k < self->base.count; k++) {
        for (Request *one = server_sides(self)[k].first; one != NULL; one = one->behind) {
            if (one->streaming && !one->answered && PyList_Append(all, (PyObject *)one) < 0) {
                Py_CLEAR(all);
                break;
            }
        }
    }
    bool fine = all != NULL;
    for (Py_ssize_t i = 0; fine && i < PyList_Size(all); i++)
        fine = server_go_on((Request *)PyList_GetItem(all, i));
    Py_XDECREF(all);
    return fine;
}

bool server_apply(Server *self, service_side *side, const request_prefix *prefix)
{
    Request *found = side->first;
    while (found != NULL && (found->client_epoch != prefix->client_epoch || found->sequence != prefix->sequence))
        found = found->behind;
    if (found == NULL)
        return true;
    if (prefix->operation == REQUEST_OPERATION_CANCEL) {
        found->cancelled = true;
    } else if (prefix->operation == REQUEST_OPERATION_CREDIT && !self->least) {
        uint32_t credit = found->credit + prefix->credit;
        found->credit = credit > MOST_CREDIT ? MOST_CREDIT : credit;
    }
    return !found->streaming || server_go_on(found);
}

/* Damaged */

bool server_set_damaged(Server *self, service_side *side)
{
    if (!server_still_ours(self)) /* channel.md 6.9, 2 */
        return false;
    side->damaged = true;
    side->evicted = false;
    self->damaged_sides++;
    self->damaged++;
    return server_mend(self, side);
}

bool server_mend(Server *self, service_side *side)
{
    const geometry *shape = &self->base.shape;
    uint8_t *base = self->base.memory->base;
    if (!server_still_ours(self))
        return false;
    if (!side->evicted) {
        int64_t control = shape->control + CONTROL_CONTROL_LOCK;
        if (!lock_try(self->lock, control))
            return true; /* the next poll tries again */
        evict_slot(shape, base, 1 + side->number);
        lock_release(self->lock, control);
        side->evicted = true;
    }
    int64_t published = LOAD64_ACQUIRE(side->trailer + TRAILER_PUBLISHED); /* pairs with publish 7 */
    if (!is_position(shape, published))
        return true;
    for (Request *one = side->first; one != NULL; one = one->behind) {
        one->cancelled = true;
        one->position = published; /* so that the gate does not move back */
        one->count = COUNT_UNKNOWN;
    }
    side->count = COUNT_UNKNOWN;
    side->cursor = side->repeat_end = side->stored = published;
    STORE64_RELAXED(side->gate + GATE_COUNT, COUNT_UNKNOWN);
    STORE64_RELEASE(side->gate + GATE_TAKEN_END, published); /* pairs with gone 4 */
    STORE64_RELEASE(side->gate, published); /* pairs with channel 6.2, 2 */
    side->damaged = false;
    self->damaged_sides--;
    wake_if_asleep(&self->room, waiting_bit(side->number));
    return true;
}
