/* SPDX-License-Identifier: Apache-2.0 */
/* JournalWriter: the one writer of a journal (spec/journal.md 3.1, 3.2). Shared by journal_append.c (the steps, append
   and append_many), journal_claim.c and journal_writer.c (creation, close, methods). flyring/journal_writer.py prepares
   segments and syncs: the core calls its `_enter` and `_sync_each`. */
#ifndef FLYRING_JOURNAL_WRITER_H
#define FLYRING_JOURNAL_WRITER_H

#include "journal.h"
#include "memory.h"
#include "publisher.h"
#include "slots.h"
#include "waiting.h"

typedef struct JournalWriter {
    PyObject_HEAD
    slot_epoch epoch;
    uint8_t *control; /* the control section */
    uint8_t *data; /* the first record of the mapped segment; NULL: none is mapped */
    int64_t segment; /* its position */
    int64_t size, mask; /* Z, Z - 1 */
    int64_t end; /* of what is published (t) */
    int64_t claimed; /* as stored */
    int64_t count; /* messages before t */
    int64_t latest; /* the largest time */
    int64_t since; /* bytes since the last check */
    int64_t summed; /* the bytes since the last check and before this position are in crc */
    uint32_t crc;
    int32_t default_type; /* of raw bytes */
    int64_t checked_at; /* when the last check was made, in ns since 1970; before the first one, `synced_at` */
    waker data_waker, work_waker;
    Claim *claim; /* the open one, borrowed */
    int32_t claim_type;
    bool busy; /* Python code runs, or a copy without the GIL; changed only with the GIL held */
    bool closed, forked;
    int64_t now; /* the clock in tests, in ns since 1970; 0: the real one */
    Memory *memory, *mapped; /* of the control file; of the segment, or NULL */
    File *lock;
    PyObject *path; /* for errors */
    int error; /* the number of the sync error that ended it; 0: none that this process knows */
    PyObject *message_class; /* as of a Publisher */
    struct Layout *message_layout;
    fork_node node;
} JournalWriter;

extern PyTypeObject *journal_writer_type;

/* journal_append.c */

/* Raises and returns false if the writer cannot be used now: closed, two threads, view alive, io, slot lost. */
bool journal_explain_unusable(JournalWriter *self);
static inline bool journal_usable(JournalWriter *self)
{
    return LIKELY(!self->busy && self->claim == NULL && epoch_holds(&self->epoch)) || journal_explain_unusable(self);
}
/* An argument is invalid, and its exception is set. Replaces that by the errors which come first. Returns NULL. */
PyObject *journal_refuse(JournalWriter *self);
/* The longest payload. */
static inline int64_t journal_longest(const JournalWriter *self)
{
    return self->size / JOURNAL_MESSAGE_DIVISOR - JOURNAL_RECORD_PAYLOAD;
}
PyObject *journal_too_large(const JournalWriter *self, int64_t length);
/* Find room for a record of n bytes (append 1 and 2). False with an exception; then nothing is changed but padding and
   the check of a new segment. */
bool journal_reserve(JournalWriter *self, int64_t n);
/* Announce n bytes at the end (append 3). */
void journal_announce_more(JournalWriter *self, int64_t n);
static inline void journal_announce(JournalWriter *self, int64_t n)
{
    if (UNLIKELY(self->end + n > self->claimed))
        journal_announce_more(self, n);
}
/* The record at the end. */
static inline uint8_t *journal_record_at_end(const JournalWriter *self)
{
    return self->data + (self->end & self->mask);
}
/* Store the time and type of the record at the end (append 4). */
static inline void journal_set_head(JournalWriter *self, int64_t time, int32_t type)
{
    uint8_t *record = journal_record_at_end(self);
    STORE64_RELAXED(record + JOURNAL_RECORD_TIME, time);
    STORE32_RELAXED(record + RECORD_TYPE, type);
}
/* Make the record at the end visible, and move the end over n bytes with so many messages (append 5 and 6). */
void journal_commit(JournalWriter *self, int64_t length, int64_t n, int64_t messages, int64_t latest);
/* Publish the claimed record of this length as padding (3.1): it wakes no reader, and no sync is due by it. */
void journal_abort(JournalWriter *self, int64_t length);
/* Do what follows a commit (append 7 to 9). `clock`: of now, 0: not read. False with an exception: it was appended, but
   the sync failed. */
bool journal_settle(JournalWriter *self, int64_t clock);
/* The wall clock in ns since 1970. */
int64_t journal_clock(const JournalWriter *self);
/* Make a check, if there is anything since the last one (sync 1). False with an exception. */
bool journal_check_now(JournalWriter *self);
void journal_forget_segment(JournalWriter *self);

PyObject *journal_append(JournalWriter *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *journal_append_many(JournalWriter *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* journal_claim.c */

PyObject *journal_claim(JournalWriter *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* Commit or abort the open claim. Returns its record's position, or NULL with an exception. No export may be alive. */
PyObject *journal_close_claim(JournalWriter *self, bool commit);
/* Abort the open claim. Raises no exception. */
void journal_drop_claim(JournalWriter *self);

PyTypeObject *make_journal_writer_type(PyObject *module);

#endif
