/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: the mapping of a channel's file. It holds no descriptor. */
#ifndef FLYRING_MEMORY_H
#define FLYRING_MEMORY_H

#include "file.h"

typedef struct {
    PyObject_HEAD
    uint8_t *base; /* NULL: not mapped */
    int64_t length;
    size_t guard; /* inaccessible bytes before and behind the mapping, for fuzzing */
    int users; /* the number of publishers and subscribers that use the mapping, which stays until this is 0 */
    bool writable, closed, forked;
    PyObject *path; /* for errors */
    fork_node node;
} Memory;

extern PyTypeObject *memory_type;
/* Raises and returns false if the memory is closed, or [offset, offset + length) is not completely mapped. */
bool memory_covers(Memory *memory, int64_t offset, int64_t length);
void memory_use(Memory *memory);
void memory_unuse(Memory *memory);

/* Walk committed records, for recover (spec/channel.md 6.8, 3) and for the count of a position (6.5). Returns where
   they stop, how many are messages, and in `bad` the length of a record that cannot be there, or 0. Does not use
   Python. */
int64_t walk_records(const uint8_t *ring, int64_t capacity, int64_t alignment, int64_t at, int64_t end,
                     bool check_types, int64_t *messages, int64_t *bad);

PyTypeObject *make_memory_type(PyObject *module);

#endif
