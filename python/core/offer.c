/* SPDX-License-Identifier: Apache-2.0 */
/* offer, send and claim (spec/channel.md 6.1). */
#include "arguments.h"
#include "publisher.h"
#include "sbe/sbe.h"

/* Finish an offer of a large message, from publish 5 on, with a copy that releases the GIL. */
static COLD PyObject *offer_large(Publisher *self, const void *bytes, int64_t length, int32_t type)
{
    ring_writer *ring = &self->writer.ring;
    PyThreadState *state = publisher_begin_copy(self);
    memcpy(ring->data + (ring->end & ring->mask) + RECORD_PAYLOAD, bytes, (size_t)length); /* 5 */
    publisher_end_copy(self, state);
    if (UNLIKELY(!publisher_usable(self))) /* forked or lost meanwhile; readers do not see the message */
        return NULL;
    ring_set_type(ring, type);
    ring_commit(ring, RECORD_HEADER_LENGTH + length);
    ring_advance(ring, ring_record_size(ring, RECORD_HEADER_LENGTH + length), 1);
    publisher_wake(self); /* publish 10 */
    return PyLong_FromLongLong(ring->end);
}

static PyObject *offer_bytes(Publisher *self, const void *bytes, int64_t length, int32_t type, int64_t timeout)
{
    if (UNLIKELY(!publisher_usable(self)))
        return publisher_refuse_length(self, length);
    ring_writer *ring = &self->writer.ring;
    if (UNLIKELY(length > ring->longest - RECORD_HEADER_LENGTH))
        return publisher_too_large(self, length);
    int64_t n = ring_record_size(ring, RECORD_HEADER_LENGTH + length);
    if (UNLIKELY(ring->end + n > ring->cleared || self->writer.owner_pending)) {
        int room = publisher_reserve_within(self, n, timeout);
        if (room < 0)
            return NULL;
        if (room == 0)
            return Py_NewRef(Py_None);
        ring_announce(ring, n);
        if (UNLIKELY(length >= LARGE_COPY)) /* longer than what is cleared ahead, so it always comes here */
            return offer_large(self, bytes, length, type);
    }
    memcpy(ring->data + (ring->end & ring->mask) + RECORD_PAYLOAD, bytes, (size_t)length); /* 5 */
    ring_set_type(ring, type);
    ring_commit(ring, RECORD_HEADER_LENGTH + length);
    ring_advance(ring, n, 1);
    publisher_wake(self); /* publish 10 */
    return PyLong_FromLongLong(ring->end);
}

/* offer, and send, which waits. `waits` is a compile-time constant. */
ALWAYS_INLINE PyObject *offer_any(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names, bool waits)
{
    static const char *const parameters[] = {"data", "type", "timeout"};
    const signature expected = {parameters, waits ? 3 : 2, 1};
    PyObject *values[3] = {NULL, NULL, NULL};
    int32_t type = self->default_type;
    int64_t timeout = waits ? WAIT_UNLIMITED : WAIT_NOT;
    if (LIKELY(n == 1 && names == NULL)) {
        values[0] = args[0];
    } else {
        if (!parse_arguments(&expected, args, n, names, values) ||
            (values[1] != NULL && (type = parse_type(values[1])) == 0) ||
            (values[2] != NULL && (timeout = wait_timeout(values[2])) < 0))
            return publisher_refuse(self);
    }
    if (LIKELY(PyBytes_CheckExact(values[0])))
        return offer_bytes(self, PyBytes_AsString(values[0]), PyBytes_Size(values[0]), type, timeout);
    Py_buffer view;
    if (PyObject_GetBuffer(values[0], &view, PyBUF_SIMPLE) < 0) {
        PyObject *copy = message_to_offer(values[0], values[1], &type);
        if (copy == NULL)
            return publisher_refuse(self);
        PyObject *end = offer_bytes(self, PyBytes_AsString(copy), PyBytes_Size(copy), type, timeout);
        Py_DECREF(copy);
        return end;
    }
    PyObject *position = offer_bytes(self, view.buf, view.len, type, timeout);
    PyBuffer_Release(&view);
    return position;
}

PyObject *publisher_offer(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return offer_any(self, args, n, names, false);
}

PyObject *publisher_send(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *position = offer_any(self, args, n, names, true);
    if (LIKELY(position != Py_None))
        return position;
    Py_DECREF(position);
    return publisher_back_pressured(self);
}

PyObject *publisher_back_pressured(Publisher *self)
{
    PyObject *holder = PyObject_CallMethod((PyObject *)self, "held_by", NULL);
    return holder == NULL ? NULL : raise_error("BackPressuredError", "(Ni)", holder, (int)self->shape.queue);
}

/* claim, and try_claim, which has no timeout. `must` is a compile-time constant. */
ALWAYS_INLINE PyObject *claim_bytes(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names, bool must)
{
    static const char *const parameters[] = {"length", "type", "timeout"};
    const signature expected = {parameters, must ? 3 : 2, 1};
    PyObject *values[3] = {NULL, NULL, NULL};
    int32_t type = self->default_type;
    int64_t timeout = must ? WAIT_UNLIMITED : WAIT_NOT;
    if (n > 0 && !PyLong_CheckExact(args[0]) && PyType_Check(args[0]))
        return publisher_claim_message(self, args, n, names, must);
    if (!parse_arguments(&expected, args, n, names, values) ||
        (values[1] != NULL && (type = parse_type(values[1])) == 0) ||
        (values[2] != NULL && (timeout = wait_timeout(values[2])) < 0))
        return publisher_refuse(self);
    Py_ssize_t length = PyLong_CheckExact(values[0]) ? PyLong_AsSsize_t(values[0]) : -1;
    if (length == -1) {
        PyErr_Clear();
        length = PyNumber_AsSsize_t(values[0], NULL); /* limited to the range of Py_ssize_t */
        if (length == -1 && PyErr_Occurred())
            return publisher_refuse(self);
    }
    if (length < 0) {
        raise_error("InvalidArgumentError", "(ss)", "length", "must be 0 or more bytes");
        return publisher_refuse(self);
    }
    if (!publisher_usable(self))
        return publisher_refuse_length(self, length);
    ring_writer *ring = &self->writer.ring;
    if (length > ring->longest - RECORD_HEADER_LENGTH)
        return publisher_too_large(self, length);
    int64_t record = ring_record_size(ring, RECORD_HEADER_LENGTH + length);
    int room = publisher_reserve_within(self, record, timeout);
    if (room < 0)
        return NULL;
    if (room == 0)
        return must ? publisher_back_pressured(self) : Py_NewRef(Py_None);
    Claim *claim = claim_new(self, NULL, length);
    if (claim == NULL)
        return NULL;
    ring_announce(ring, record);
    ring_set_type(ring, type);
    claim->data = ring->data + (ring->end & ring->mask) + RECORD_PAYLOAD;
    self->claim = claim;
    return (PyObject *)claim;
}

PyObject *publisher_claim(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return claim_bytes(self, args, n, names, true);
}

PyObject *publisher_try_claim(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return claim_bytes(self, args, n, names, false);
}
