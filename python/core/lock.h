/* SPDX-License-Identifier: Apache-2.0 */
/* LockFile: an open file description that carries one slot's lock and nothing else (spec 5.1). */
#ifndef FLYRING_LOCK_H
#define FLYRING_LOCK_H

#include "errors.h"
#include "fork.h"

typedef struct {
    PyObject_HEAD
    int fd; /* -1: closed */
    uint64_t device, inode; /* of the file: the number may be another file's by now, after a closefrom */
    fork_node node;
} LockFile;

extern PyTypeObject *lock_file_type;
/* One byte of the file: true if the lock was got. Never blocks. */
bool lock_try(LockFile *lock, int64_t at);
void lock_release(LockFile *lock, int64_t at);
/* Unlocks everything and closes. */
void lock_shut(LockFile *lock);

PyTypeObject *make_lock_file_type(PyObject *module);

#endif
