/* SPDX-License-Identifier: Apache-2.0 */
/* JournalReader: a reader of a journal, and with a slot a consumer (spec/journal.md 3.3, 6). Shared by journal_read.c
   (one message, poll, take) and journal_reader.c (creation, close, methods). flyring/journal_reader.py finds and opens
   segments: the core calls its `_advance` when it has nothing to hand out. */
#ifndef FLYRING_JOURNAL_READER_H
#define FLYRING_JOURNAL_READER_H

#include "journal_message.h"
#include "journal_walk.h"
#include "reader.h"

typedef struct {
    Reader base; /* its one "ring" is the journal */
    int64_t size; /* Z */
    const uint8_t *control;
    /* Where it is. */
    int64_t cursor, number;
    int64_t span, span_count; /* where the span at the cursor begins, and the messages before it */
    bool fresh; /* the span's beginning is not known (journal.h) */
    /* Cold: [cursor, proven) lies in the walk's window, and was found right; reading goes on at `after`. */
    JournalWalk *walk;
    int64_t proven, after; /* -1: none */
    /* Tail: the mapped segment. */
    Memory *tail; /* NULL: none */
    int64_t tail_segment;
    int64_t tail_until; /* below it the tail's rules hold, because there is no check yet */
    int64_t cold_until; /* below it a span is read cold */
    int64_t looked; /* the cursor when cold_until was found */
    int looks_left; /* so many looks at the tail that find nothing need not load `published` */
    int64_t ceiling; /* `published` counts up to here (10) */
    int64_t quiet; /* there is nothing to read until more than this is published: a part that is damaged */
    bool durable; /* reads up to `synced` */
    bool foreign; /* the journal is of another boot */
    bool blocked; /* and its walk has ended (3.3, another boot) */
    uint8_t boot[16]; /* this boot */
    int64_t lost, cuts;
    sender unknown; /* the sender of its messages */
    /* Of a consumer. */
    uint8_t *slot; /* NULL: it has none */
    int64_t stored; /* the gate */
    File *lock;
} JournalReader;

typedef struct {
    const uint8_t *payload;
    int64_t length, time, next;
    int32_t type;
} journal_record;

/* journal_read.c */

extern const reader_kind journal_reader_kind;
/* Store the gate, and the count that proves it (6). */
void journal_store_gate(JournalReader *self, int64_t position, int64_t number);
/* Whether the boot of the journal is this one. */
static inline bool journal_is_of_this_boot(const JournalReader *self)
{
    uint8_t boot[16];
    copy_words(boot, self->control + JOURNAL_CONTROL_BOOT_ID, sizeof boot);
    return memcmp(boot, self->boot, sizeof boot) == 0;
}
/* Where reading may go now (3.3): behind this position there is nothing yet. */
int64_t journal_read_limit(const JournalReader *self);
/* Decide at the begin of a turn which spans are read cold. */
void journal_begin_turn(JournalReader *self);
/* Find the next message at or behind the cursor: 1 found, 0 none, -1 an exception. It may run Python code. */
int journal_next(JournalReader *self, journal_record *found);
/* Let go of the mapped segment. */
void journal_unmap(JournalReader *self);
PyObject *journal_take(JournalReader *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *journal_peek(JournalReader *self, PyObject *ignored);

PyTypeObject *make_journal_reader_type(PyObject *module);

#endif
