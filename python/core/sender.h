/* SPDX-License-Identifier: Apache-2.0 */
/* Who sent what a reader hands out (spec 6.14): kept for each ring as it is in the file; Python's Sender is made only
   when somebody asks. */
#ifndef FLYRING_SENDER_H
#define FLYRING_SENDER_H

#include "core.h"
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

/* Copies `length` bytes that somebody may be overwriting: relaxed 8-byte loads. `from` must be aligned to 8, and so
   much mapped that whole words can be read: payloads are, for records are multiples of 8. */
static inline void copy_words(uint8_t *to, const uint8_t *from, int64_t length)
{
    int64_t at = 0;
    for (; at + 8 <= length; at += 8) {
        int64_t word = LOAD64_RELAXED(from + at);
        memcpy(to + at, &word, 8);
    }
    if (at < length) {
        int64_t word = LOAD64_RELAXED(from + at);
        memcpy(to + at, &word, (size_t)(length - at));
    }
}

#endif
