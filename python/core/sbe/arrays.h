/* SPDX-License-Identifier: Apache-2.0 */
/* poll_arrays (spec/messages.md 3): runs of typed records with the same header and length. Here a run is one Message,
   from its first payload to the end of its last. flyring/sbe/dtype.py makes a numpy array of it. */
#ifndef FLYRING_ARRAYS_H
#define FLYRING_ARRAYS_H

#include "message.h"

enum { BLOCK_LENGTH, TEMPLATE_ID, SCHEMA_ID, VERSION, HEADER_FIELDS };

/* The kind of the next record: the begin of a run, an invalid message, one for `otherwise`, or one to skip. */
typedef enum { ARRAY_RUN, ARRAY_BAD, ARRAY_OTHER, ARRAY_SKIPPED } array_kind;

/* The arguments of one poll_arrays, and what it found last. */
typedef struct {
    /* From the message class. */
    const struct Layout *layout; /* sbe.h */
    int32_t template_id; /* the records' type */
    struct {
        int64_t offset;
        int size; /* 1, 2, 4 or 8 bytes */
    } fields[HEADER_FIELDS];
    bool packed; /* the four fields are the first 8 bytes of the header, as usual */
    PyObject *view; /* (run, messages, header length, stride, block length, version) -> array */
    PyObject *handler, *otherwise; /* otherwise: NULL if there is none */
    /* The record or run that was found last. */
    array_kind kind;
    char reason[100]; /* why an ARRAY_BAD is invalid */
    Py_ssize_t count; /* the number of messages in the run */
    int64_t stride; /* bytes from one to the next */
    uint64_t values[HEADER_FIELDS]; /* the numbers in the run's header */
    uint64_t header[HEADER_FIELDS]; /* the same numbers as they lie in memory */
    uint64_t first; /* if packed: the header's 8 bytes as they lie in memory */
} array_poll;

/* Read one number of a header as it lies in memory. */
static inline uint64_t array_field(const array_poll *poll, int field, const uint8_t *payload)
{
    const uint8_t *at = payload + poll->fields[field].offset;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (poll->fields[field].size) {
    case 0: /* a constant has no bytes */
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

/* Whether records of this type are handed out. */
static inline bool array_wanted(const array_poll *poll, int32_t type)
{
    return type == poll->template_id || poll->otherwise != NULL;
}

/* Return the kind of a record with this type and payload. ARRAY_RUN begins a run. */
array_kind array_begin(array_poll *poll, int32_t type, const uint8_t *payload, int64_t length);

/* Whether a payload of the same length as the run's first one has the same header. */
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

/* Call handler or otherwise with `message`, which was found, or raise BadMessageError. Returns the handler's result. */
PyObject *array_give(const array_poll *poll, Message *message);
/* Parse the arguments of the method _poll_arrays, without limit and timeout. False with an exception. */
bool array_poll_parse(array_poll *poll, PyObject *const *args, Py_ssize_t n);

#endif
