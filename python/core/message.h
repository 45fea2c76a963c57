/* SPDX-License-Identifier: Apache-2.0 */
/* Message: in place during a poll (a read-only exporter that counts its exports), or a copy that owns its bytes. */
#ifndef FLYRING_MESSAGE_H
#define FLYRING_MESSAGE_H

#include "sender.h"

typedef struct Message {
    PyObject_VAR_HEAD /* size: bytes stored in `bytes`; 0 if in place */
    PyObject *owner; /* in place: the subscriber, which keeps the memory; NULL: the bytes are our own, or expired */
    const uint8_t *data; /* NULL: expired */
    Py_ssize_t length;
    Py_ssize_t exports;
    int64_t position;
    int32_t type, ring;
    PyObject *sender; /* flyring.Sender, or NULL */
    sender *from; /* with an owner: its own, or NULL: `sender` has it */
    struct Message **held; /* with an owner: where it has a borrowed pointer to this, having been peeked at, or NULL */
    uint8_t bytes[];
} Message;

extern PyTypeObject *message_type, *job_type, *answer_type, *request_type; /* which are derived from it */
/* One without bytes, for what `owner` hands out in place. */
Message *message_in_place(PyObject *owner);
/* The fields of one that owns its bytes. `sender` is borrowed. */
static inline void message_fill(Message *self, const uint8_t *bytes, Py_ssize_t length, int32_t type, int32_t ring,
                                int64_t position, PyObject *sender)
{
    self->owner = NULL;
    self->data = bytes;
    self->length = length;
    self->exports = 0;
    self->position = position;
    self->type = type;
    self->ring = ring;
    self->sender = Py_NewRef(sender);
    self->from = NULL;
    self->held = NULL;
}

/* One that owns its bytes, still to be filled in. `sender` is borrowed. */
static inline Message *message_new(Py_ssize_t length, int32_t type, int32_t ring, int64_t position, PyObject *sender)
{
    Message *self = PyObject_NewVar(Message, message_type, length);
    if (LIKELY(self != NULL))
        message_fill(self, self->bytes, length, type, ring, position, sender);
    return self;
}
/* After the handler: no new exports. The owner stays referenced until the last export is gone. */
void message_expire(Message *message);

/* A job is one, too, and so are a request and an answer. */
static inline bool is_message(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return LIKELY(type == message_type) || type == job_type || type == answer_type || type == request_type;
}

PyTypeObject *make_message_type(PyObject *module);

#endif
