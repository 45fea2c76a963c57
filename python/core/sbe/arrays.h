/* SPDX-License-Identifier: Apache-2.0 */
/* poll_arrays (spec/messages.md 3): runs of equal typed records. What numpy makes of a run is Python's affair
   (flyring/sbe/dtype.py): here a run is one Message that reaches from its first payload to the end of its last. */
#ifndef FLYRING_ARRAYS_H
#define FLYRING_ARRAYS_H

#include "message.h"

enum { BLOCK_LENGTH, TEMPLATE_ID, SCHEMA_ID, VERSION, HEADER_FIELDS };

/* What is found next: messages of the template, one that is not valid, one for `otherwise`, one that is skipped. */
typedef enum { ARRAY_RUN, ARRAY_BAD, ARRAY_OTHER, ARRAY_SKIPPED } array_kind;

/* One poll_arrays, and what it found last. */
typedef struct {
    /* Of the message class. */
    const struct Layout *layout; /* sbe.h */
    int32_t template_id; /* the records' type */
    struct {
        int64_t offset;
        int size; /* 1, 2, 4 or 8 bytes */
    } fields[HEADER_FIELDS];
    bool packed; /* the four fields are the first 8 bytes of the header, as usual */
    PyObject *view; /* (run, messages, header length, stride, block length, version) -> array */
    PyObject *handler, *otherwise; /* otherwise: NULL if there is none */
    /* Found. */
    array_kind kind;
    char reason[100]; /* of ARRAY_BAD */
    Py_ssize_t count; /* messages of the run */
    int64_t stride; /* bytes from one to the next */
    uint64_t values[HEADER_FIELDS]; /* of the run's header */
    uint64_t header[HEADER_FIELDS]; /* the same, as they lie in memory */
    uint64_t first; /* if packed: the 8 bytes in memory */
} array_poll;

/* One number of a header, as it lies in memory. */
static inline uint64_t array_field(const array_poll *poll, int field, const uint8_t *payload)
{
    const uint8_t *at = payload + poll->fields[field].offset;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (poll->fields[field].size) {
    case 0: /* a constant is not there */
        return 0;
    case 1:
        return *at;
    case 2:
        memcpy(&two, at, 2);
        return two;
    case 4:
        memcpy(&four, at, 4);
        return four;
    default:
        memcpy(&eight, at, 8);
        return eight;
    }
}

/* Whether messages of this type are handed out. */
static inline bool array_wanted(const array_poll *poll, int32_t type)
{
    return type == poll->template_id || poll->otherwise != NULL;
}

/* What a record with this type and payload is; an ARRAY_RUN begins a run. */
array_kind array_begin(array_poll *poll, int32_t type, const uint8_t *payload, int64_t length);

/* Whether a payload as long as the run's first one has the same header, too. */
static inline bool array_goes_on(const array_poll *poll, const uint8_t *payload)
{
    uint64_t word;
    if (LIKELY(poll->packed)) {
        memcpy(&word, payload, 8);
        return word == poll->first;
    }
    for (int field = 0; field < HEADER_FIELDS; field++) {
        if (array_field(poll, field, payload) != poll->header[field])
            return false;
    }
    return true;
}

/* Calls handler or otherwise for what was found, which is `message`, or raises BadMessageError: its result. */
PyObject *array_give(const array_poll *poll, Message *message);
/* The arguments of the method _poll_arrays, without limit and timeout: false with an exception. */
bool array_poll_parse(array_poll *poll, PyObject *const *args, Py_ssize_t n);

#endif
