/* SPDX-License-Identifier: Apache-2.0 */
/* File: a descriptor that closes itself, and its open-file-description locks (spec 5.1). */
#ifndef FLYRING_FILE_H
#define FLYRING_FILE_H

#include "errors.h"
#include "fork.h"

typedef struct {
    PyObject_HEAD
    int fd; /* -1: closed */
    int64_t mark; /* the file offset, which nothing else uses: it says that the number is still ours; 0: no mark */
    fork_node node;
} File;

extern PyTypeObject *file_type;
/* Whether the number still stands for what was opened: other code may have closed it (closefrom). */
bool file_is_ours(const File *file);
/* One byte of the file: true if the lock was got. Never blocks. */
bool lock_try(File *file, int64_t at);
void lock_release(File *file, int64_t at);
/* Whether another description has it. */
bool lock_is_held(const File *file, int64_t at);
/* Whether no other description has it, and that could be asked. */
bool lock_is_free(const File *file, int64_t at);
/* Whether the file has lost its name. */
bool file_is_nameless(const File *file);
/* 6.13, of a publisher or subscriber and a description of its channel's file: ChannelReplacedError if another channel
   has the name. Where the file has lost its name the method _check_replaced is called: Python code runs. False with an
   exception. */
bool check_replaced(PyObject *self, const File *file);
/* Unlocks everything and closes. */
void file_shut(File *file);

PyTypeObject *make_file_type(PyObject *module), *make_held_type(PyObject *module);

#endif
