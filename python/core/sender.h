/* SPDX-License-Identifier: Apache-2.0 */
/* The sender of what a reader hands out (spec 6.14), kept for each ring as it is in the file. Python's Sender object is
   made when it is asked for. */
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

/* From the publisher's slot, read after the cursor was set. */
void sender_from_slot(sender *self, const uint8_t *slot, int64_t cursor);
/* From the payload of an owner record, of `length` bytes. */
void sender_from_record(sender *self, const uint8_t *payload, int64_t length);
/* A borrowed reference, or NULL with an exception. The first time after a change it runs Python code. */
PyObject *sender_object(sender *self);

/* When the module is loaded, after errors_load: false with an exception. */
bool sender_load(void);

#endif
