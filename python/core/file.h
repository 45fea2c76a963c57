/* SPDX-License-Identifier: Apache-2.0 */
/* File: an object that owns a descriptor, and its open-file-description locks (spec/channel.md 5.1). */
#ifndef FLYRING_FILE_H
#define FLYRING_FILE_H

#include "errors.h"
#include "fork.h"

typedef struct {
    PyObject_HEAD
    int fd; /* -1: closed */
    int64_t mark; /* a random file offset, by which file_is_ours recognises the description; 0: no mark */
    fork_node node;
} File;

extern PyTypeObject *file_type;
/* Whether the descriptor's number still belongs to this file: other code may have closed it (closefrom). */
bool file_is_ours(const File *file);
/* Try to lock one byte of the file, without waiting. Returns whether it is locked now. */
bool lock_try(File *file, int64_t at);
void lock_release(File *file, int64_t at);
/* Test for locks on these bytes: 1 another description holds one there, 0 none does, -1 with errno. */
int lock_test(const File *self, int64_t at, int64_t length);
/* The same; stores the place of a lock on these bytes, which need not be the first. */
int lock_find(const File *self, int64_t *at, int64_t *length);
/* Whether another description holds the lock on this byte. */
bool lock_is_held(const File *file, int64_t at);
/* Whether no other description holds the lock; false also if that could not be tested. */
bool lock_is_free(const File *file, int64_t at);
/* Whether the file has no name any more. */
bool file_is_nameless(const File *file);
/* Check that no other channel has the name of this publisher's or subscriber's channel (6.13). If the file has no name
   any more, this calls the method _check_replaced, which is Python code. False with an exception. */
bool check_replaced(PyObject *self, const File *file);
/* Release all locks, and close. */
void file_shut(File *file);

PyTypeObject *make_file_type(PyObject *module), *make_held_type(PyObject *module);

#endif
