/* SPDX-License-Identifier: Apache-2.0 */
/* JournalWalk: a walk over a journal's segments for Python, and the bytes that a reader hands out. */
#ifndef FLYRING_JOURNAL_WALK_H
#define FLYRING_JOURNAL_WALK_H

#include "file.h"
#include "journal.h"

typedef struct {
    PyObject_HEAD
    journal_window window;
    journal_scan scan;
    File *file; /* whose descriptor the window has; NULL: none */
} JournalWalk;

extern PyTypeObject *journal_walk_type;
/* Use no file, and let go of that which was used. */
void journal_walk_forget(JournalWalk *self);
PyTypeObject *make_journal_walk_type(PyObject *module);

#endif
