/* SPDX-License-Identifier: Apache-2.0 */
/* Message: in place during a poll, or a copy that owns its bytes. It exports its payload read-only, and counts the
   exports of a message in place. */
#ifndef FLYRING_MESSAGE_H
#define FLYRING_MESSAGE_H

#include "sender.h"

typedef struct Message {
    PyObject_VAR_HEAD /* size: bytes stored in `bytes`; 0 if in place */
    PyObject *owner; /* in place: the subscriber, which keeps the memory; NULL: it owns its bytes, or expired */
    const uint8_t *data; /* NULL: expired */
    Py_ssize_t length;
    Py_ssize_t exports;
    int64_t position;
    int32_t type, ring;
    PyObject *sender; /* flyring.Sender, or NULL */
    sender *from; /* with an owner: the sender that the owner keeps; NULL: see `sender` */
    struct Message **held; /* of a message from peek: the owner's borrowed pointer to this message; else NULL */
    uint8_t bytes[];
} Message;

/* The others are subtypes of message_type. */
extern PyTypeObject *message_type, *job_type, *answer_type, *request_type, *journal_message_type;
/* Make a message without bytes, to be handed out in place by `owner`. */
Message *message_in_place(PyObject *owner);
/* Fill the fields of a message that owns its bytes. `sender` is borrowed. */
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

/* Make a message that owns its bytes, which the caller fills. `sender` is borrowed. */
static inline Message *message_new(Py_ssize_t length, int32_t type, int32_t ring, int64_t position, PyObject *sender)
{
    Message *self = PyObject_NewVar(Message, message_type, length);
    if (LIKELY(self != NULL))
        message_fill(self, self->bytes, length, type, ring, position, sender);
    return self;
}
/* Expire a message after its handler: it makes no new exports. It keeps its owner until the last export is gone. */
void message_expire(Message *message);

/* True also for a job, a request, an answer and a message of a journal. */
static inline bool is_message(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return LIKELY(type == message_type) || type == job_type || type == answer_type || type == request_type ||
           type == journal_message_type;
}

PyTypeObject *make_message_type(PyObject *module);

#endif
