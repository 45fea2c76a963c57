/* SPDX-License-Identifier: Apache-2.0 */
/* The sender of a reader's messages (spec/channel.md 6.14), kept for each ring as it is in the file. The Python object
   Sender is made on first use. */
#ifndef FLYRING_SENDER_H
#define FLYRING_SENDER_H

#include "errors.h"
#include "layout.h"

typedef struct sender {
    int64_t epoch; /* 0: not known */
    int32_t ring, name_length;
    char name[64];
    PyObject *object; /* flyring.Sender, or NULL: not made yet */
} sender;

/* Read the sender from the publisher's slot, after the cursor was set. */
void sender_from_slot(sender *self, const uint8_t *slot, int64_t cursor);
/* Read the sender from the payload of an owner record, of `length` bytes. */
void sender_from_record(sender *self, const uint8_t *payload, int64_t length);
/* Return the Sender object: borrowed, or NULL with an exception. Runs Python code on the first call after a change. */
PyObject *sender_object(sender *self);

/* Called when the module is loaded, after errors_load. False with an exception. */
bool sender_load(void);

#endif
