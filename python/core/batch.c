/* SPDX-License-Identifier: Apache-2.0 */
/* offer_batch and send_batch: many messages in one claim (spec/channel.md 6.3). */
#include "batch.h"
#include "arguments.h"

typedef struct {
    Py_buffer *views;
    Py_ssize_t count;
    int32_t type;
} batch;

static void batch_release(batch *messages)
{
    for (Py_ssize_t i = 0; i < messages->count; i++)
        PyBuffer_Release(&messages->views[i]);
    PyMem_Free(messages->views);
}

/* Gets the buffers of all messages, and checks their lengths. False with an exception. */
static bool batch_acquire(batch *messages, PyObject *tuple, int64_t longest)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    messages->count = 0;
    messages->views = PyMem_Calloc((size_t)count + 1, sizeof(Py_buffer));
    if (messages->views == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (; messages->count < count; messages->count++) {
        Py_buffer *view = &messages->views[messages->count];
        PyObject *item = PyTuple_GetItem(tuple, messages->count);
        if (PyBytes_CheckExact(item)) { /* the tuple keeps it alive, so a plain pointer is enough */
            view->buf = PyBytes_AsString(item);
            view->len = PyBytes_Size(item);
        } else if (PyObject_GetBuffer(item, view, PyBUF_SIMPLE) < 0) {
            break;
        }
        if (view->len > longest) {
            raise_error("MessageTooLargeError", "(nL)", view->len, (long long)longest);
            messages->count++;
            break;
        }
    }
    if (PyErr_Occurred()) {
        batch_release(messages);
        return false;
    }
    return true;
}

static inline int64_t record_length(const ring_writer *ring, const Py_buffer *view)
{
    return ring_record_size(ring, RECORD_HEADER_LENGTH + view->len);
}

static int64_t record_length_of(const ring_writer *ring, const void *all, Py_ssize_t first)
{
    return record_length(ring, &((const batch *)all)->views[first]);
}

static Py_ssize_t that_fit(const ring_writer *ring, const void *all, Py_ssize_t first, Py_ssize_t count, int64_t most,
                           int64_t *total)
{
    const batch *messages = all;
    Py_ssize_t i = first;
    for (*total = 0; i < count; i++) {
        int64_t n = record_length(ring, &messages->views[i]);
        if (*total + n > most)
            break;
        *total += n;
    }
    return i - first;
}

static void write_part(ring_writer *ring, const void *all, Py_ssize_t first, Py_ssize_t count, int64_t total)
{
    const Py_buffer *views = ((const batch *)all)->views + first;
    int32_t type = ((const batch *)all)->type;
    ring_announce(ring, total);
    uint8_t *record = ring->data + (ring->end & ring->mask);
    for (Py_ssize_t i = 1; i < count; i++) { /* plain stores: no reader comes here before record 1 has its length */
        record += record_length(ring, &views[i - 1]);
        STORE32_RELAXED(record + RECORD_LENGTH, RECORD_HEADER_LENGTH + views[i].len);
        STORE32_RELAXED(record + RECORD_TYPE, type);
        memcpy(record + RECORD_PAYLOAD, views[i].buf, (size_t)views[i].len);
    }
    memcpy(ring->data + (ring->end & ring->mask) + RECORD_PAYLOAD, views[0].buf, (size_t)views[0].len);
    ring_set_type(ring, type);
    ring_commit(ring, RECORD_HEADER_LENGTH + views[0].len);
    ring_advance(ring, total, count);
}

static Py_ssize_t offer_all(Publisher *self, batch *messages, int32_t type, int64_t timeout)
{
    messages->type = type;
    return offer_parts(self, messages, messages->count, timeout, record_length_of, that_fit, write_part);
}

static PyObject *batch_any(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names, bool waits)
{
    static const char *const parameters[] = {"messages", "type", "timeout"};
    const signature expected = {parameters, waits ? 3 : 2, 1};
    PyObject *values[3] = {NULL, NULL, NULL};
    int32_t type = self->default_type;
    int64_t timeout = waits ? WAIT_UNLIMITED : WAIT_NOT;
    if (!parse_arguments(&expected, args, n, names, values) ||
        (values[1] != NULL && (type = parse_type(values[1])) == 0) ||
        (values[2] != NULL && (timeout = wait_timeout(values[2])) < 0))
        return publisher_refuse(self);
    PyObject *tuple = PySequence_Tuple(values[0]);
    if (tuple == NULL)
        return publisher_refuse(self);
    batch messages;
    PyObject *result = NULL;
    if (!batch_acquire(&messages, tuple, self->writer.ring.longest - RECORD_HEADER_LENGTH)) {
        publisher_refuse(self);
    } else {
        /* Check now, because getting the buffers may have run Python code. From here on none runs. */
        if (publisher_usable(self)) {
            Py_ssize_t taken = offer_all(self, &messages, type, timeout);
            if (taken >= 0)
                result = PyLong_FromSsize_t(taken);
        }
        batch_release(&messages);
    }
    Py_DECREF(tuple);
    return result;
}

PyObject *publisher_offer_batch(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return batch_any(self, args, n, names, false);
}

PyObject *publisher_send_batch(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return batch_any(self, args, n, names, true);
}
