/* SPDX-License-Identifier: Apache-2.0 */
/* JournalMessage: a message of a journal, which also has its time and number. */
#ifndef FLYRING_JOURNAL_MESSAGE_H
#define FLYRING_JOURNAL_MESSAGE_H

#include "message.h"

typedef struct {
    Message message;
    int64_t time, number;
    uint8_t bytes[];
} JournalMessage;

/* Make a message without bytes, to be handed out in place by `owner`. */
Message *journal_message_in_place(PyObject *owner);
/* Make a message that owns its bytes, which the caller fills. `sender` is borrowed. */
JournalMessage *journal_message_new(Py_ssize_t length, int32_t type, int64_t position, int64_t time, int64_t number,
                                    PyObject *sender);

PyTypeObject *make_journal_message_type(PyObject *module);

#endif
