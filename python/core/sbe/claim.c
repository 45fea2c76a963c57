/* SPDX-License-Identifier: Apache-2.0 */
/* claim(Message): a message to be written in place in the ring. */
#include "arguments.h"
#include "sbe.h"

/* The layout of a class that is claimed; `last_class` and `last_layout` keep those of the last one. NULL with an
   exception. */
static Layout *layout_to_claim(PyObject **last_class, Layout **last_layout, PyObject *class)
{
    if (LIKELY(*last_class == class))
        return *last_layout;
    Layout *layout = layout_of(class, message_flyweight_type);
    if (layout == NULL)
        return NULL;
    if (layout->type == 0) {
        raise_error("InvalidArgumentError", "(ss)", "message",
                    "its template id cannot be the type of a record, which is 1 to 2147483647");
        return NULL;
    }
    PyObject *class_before = *last_class, *layout_before = (PyObject *)*last_layout;
    *last_class = Py_NewRef(class);
    *last_layout = (Layout *)Py_NewRef((PyObject *)layout);
    Py_XDECREF(class_before);
    Py_XDECREF(layout_before);
    return layout;
}

PyObject *publisher_claim_message(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names, bool must)
{
    static const char *const parameters[] = {"message", "variable_length", "timeout"};
    const signature expected = {parameters, must ? 3 : 2, 1};
    PyObject *values[3] = {args[0], NULL, NULL};
    int64_t timeout = must ? WAIT_UNLIMITED : WAIT_NOT, variable = 0;
    if (UNLIKELY(n != 1 || names != NULL)) {
        values[0] = NULL;
        if (!parse_arguments(&expected, args, n, names, values) ||
            !parse_count(values[1], "variable_length", &variable) ||
            (values[2] != NULL && (timeout = wait_timeout(values[2])) < 0))
            return publisher_refuse(self);
    }
    Layout *layout = layout_to_claim(&self->message_class, &self->message_layout, values[0]);
    if (UNLIKELY(layout == NULL))
        return publisher_refuse(self);
    ring_writer *ring = &self->writer.ring;
    int64_t length = layout->header_length + layout->block_length; /* no overflow: both are below 2^31 */
    int64_t longest = ring->longest - RECORD_HEADER_LENGTH;
    if (UNLIKELY(length > longest || variable > longest - length))
        return publisher_refuse_length(self, length + (variable < longest ? variable : longest));
    if (UNLIKELY(!publisher_usable(self)))
        return NULL;
    length += variable;
    /* Made before reserving room, because no Python code may run between that and the claim. */
    Py_INCREF((PyObject *)layout);
    MessageFlyweight *message = message_of(values[0], layout);
    Py_DECREF((PyObject *)layout);
    if (message == NULL || !message_make_frames(message))
        goto failed;
    int64_t record = ring_record_size(ring, RECORD_HEADER_LENGTH + length);
    if (UNLIKELY(ring->end + record > ring->cleared || self->writer.owner_pending)) {
        int room = publisher_reserve_within(self, record, timeout);
        if (room == 0) {
            Py_DECREF((PyObject *)message);
            return must ? publisher_back_pressured(self) : Py_NewRef(Py_None);
        }
        if (room < 0)
            goto failed;
        ring_announce(ring, record);
    }
    ring_set_type(ring, layout->type);
    message->claim.publisher = (Publisher *)Py_NewRef((PyObject *)self);
    message->claim.length = (Py_ssize_t)length;
    message->claim.data = ring->data + (ring->end & ring->mask) + RECORD_PAYLOAD;
    self->claim = &message->claim;
    memcpy(message->claim.data, layout->header, (size_t)layout->header_length);
    message_begin(message, &message->claim.data, 0, length, layout->header_length, layout->block_length,
                  layout->version, true);
    return (PyObject *)message;
failed:
    Py_XDECREF((PyObject *)message);
    return NULL;
}

PyObject *journal_claim_message(JournalWriter *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"message", "variable_length"};
    static const signature expected = {parameters, 2, 1};
    PyObject *values[2] = {NULL, NULL};
    int64_t variable = 0;
    if (!parse_arguments(&expected, args, n, names, values) || !parse_count(values[1], "variable_length", &variable))
        return journal_refuse(self);
    Layout *layout = layout_to_claim(&self->message_class, &self->message_layout, values[0]);
    if (layout == NULL)
        return journal_refuse(self);
    int64_t length = layout->header_length + layout->block_length, longest = journal_longest(self);
    if (length > longest || variable > longest - length) {
        journal_too_large(self, length + (variable < longest ? variable : longest));
        return journal_refuse(self);
    }
    if (!journal_usable(self))
        return NULL;
    length += variable;
    Py_INCREF((PyObject *)layout);
    MessageFlyweight *message = message_of(values[0], layout);
    Py_DECREF((PyObject *)layout);
    int64_t record = journal_align(JOURNAL_RECORD_PAYLOAD + length);
    if (message == NULL || !message_make_frames(message) || !journal_usable(self) || !journal_reserve(self, record)) {
        Py_XDECREF((PyObject *)message);
        return NULL;
    }
    journal_announce(self, record);
    self->claim_type = layout->type;
    message->claim.journal = (JournalWriter *)Py_NewRef((PyObject *)self);
    message->claim.length = (Py_ssize_t)length;
    message->claim.data = journal_record_at_end(self) + JOURNAL_RECORD_PAYLOAD;
    self->claim = &message->claim;
    memcpy(message->claim.data, layout->header, (size_t)layout->header_length);
    message_begin(message, &message->claim.data, 0, length, layout->header_length, layout->block_length,
                  layout->version, true);
    return (PyObject *)message;
}
