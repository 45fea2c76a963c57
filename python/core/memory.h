/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: the mapping of a channel's file. It keeps no descriptor. */
#ifndef FLYRING_MEMORY_H
#define FLYRING_MEMORY_H

#include "file.h"

typedef struct {
    PyObject_HEAD
    uint8_t *base; /* NULL: not mapped */
    int64_t length;
    size_t guard; /* bytes in front of it and behind it that nobody may touch: for fuzzing */
    int users; /* publishers and subscribers: the mapping stays while there are any */
    bool writable, closed, forked;
    PyObject *path; /* for errors */
    fork_node node;
} Memory;

extern PyTypeObject *memory_type;
/* Raises and returns false if closed, or not the whole of [offset, offset + length) is mapped. */
bool memory_covers(Memory *memory, int64_t offset, int64_t length);
void memory_use(Memory *memory);
void memory_unuse(Memory *memory);

PyTypeObject *make_memory_type(PyObject *module);

#endif
