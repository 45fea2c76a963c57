/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a journal, and the walk over them (spec/journal.md 3). Does not use Python. Numbers in comments are
   sections of that page. */
#ifndef FLYRING_JOURNAL_H
#define FLYRING_JOURNAL_H

#include "atomics.h"
#include "hash.h"
#include "layout.h"

#define JOURNAL_UNIT INT64_C(64) /* A */
#define JOURNAL_MARK_BYTES 64 /* of a check or a cut */
#define JOURNAL_MESSAGE_DIVISOR 4 /* a message has at most a fourth of a segment */

static inline int64_t journal_align(int64_t length)
{
    return (length + JOURNAL_UNIT - 1) & -JOURNAL_UNIT;
}

/* Whether a record header can be there (3, sound). `offset`: of the record in its segment; `size`: of a segment. */
static inline bool journal_is_sound(int64_t size, int64_t offset, int64_t length, int32_t type)
{
    if (type > 0)
        return length >= JOURNAL_RECORD_PAYLOAD && length <= size / JOURNAL_MESSAGE_DIVISOR &&
               offset + journal_align(length) <= size;
    if (type == TYPE_PADDING)
        return length >= RECORD_HEADER_LENGTH && length <= size && offset + journal_align(length) <= size;
    return (type == JOURNAL_TYPE_CHECK || type == JOURNAL_TYPE_CUT) && length == JOURNAL_CHECK_SIZE &&
           offset + length <= size;
}

typedef struct {
    int64_t count, time;
    uint32_t span_crc;
} journal_check;

typedef struct {
    int64_t count, next, reached;
    int32_t reason;
} journal_cut;

/* Read a check or a cut of 64 private bytes. False unless it is right by its own crc and position (3.2, 7.1). */
bool journal_read_check(const uint8_t *record, int64_t position, journal_check *check);
bool journal_read_cut(const uint8_t *record, int64_t position, int64_t size, journal_cut *cut);
/* Make the 64 bytes of a check. */
void journal_make_check(uint8_t *record, int64_t position, const journal_check *check);

/* A segment's file, read with pread into private memory, so that a bad sector is an error and no signal (3.3, cold). */
typedef struct {
    int fd; /* borrowed */
    int64_t segment, size; /* the position of its first byte; Z */
    uint8_t *bytes; /* those of the positions `from` to `to` */
    int64_t room, from, to;
    int64_t limit; /* bytes from here on may still change: they are not read ahead */
    int error; /* of the last read: errno, or 0 if the file is too short */
} journal_window;

void journal_window_use(journal_window *self, int fd, int64_t segment);
void journal_window_forget(journal_window *self);
void journal_window_free(journal_window *self);
/* The bytes [at, at + n), which must lie in the segment. Keeps those from `keep` on. NULL: see `error`. */
const uint8_t *journal_window_get(journal_window *self, int64_t keep, int64_t at, int64_t n);

typedef enum {
    SCAN_RIGHT, /* a check that is right lies at `at` */
    SCAN_LIMIT, /* the walk came to the limit */
    SCAN_NOTHING, /* no record was written here yet */
    SCAN_END, /* the segment's end: the next segment begins with the check */
    SCAN_WRONG, /* a record that cannot be here, or a check that is not right */
    SCAN_CUT, /* a cut lies at `at` */
    SCAN_FAILED, /* the file could not be read */
} scan_result;

/* A walk over one span. */
typedef struct {
    int64_t start, at; /* of the span; of the next record */
    int64_t begun, begun_time; /* how many messages lie before `start`; the largest time of those met there */
    int64_t count, time; /* how many messages lie before `at`; the largest time of those that were met */
    int64_t summed; /* the bytes before this position are in `crc` */
    uint32_t crc;
    bool fresh; /* the span's beginning is not known, so its check is proven by its own crc only */
    journal_check check;
    journal_cut cut;
} journal_scan;

/* Begin at a span. `count`: the messages before it. */
void journal_scan_begin(journal_scan *self, int64_t at, int64_t count, int64_t time, bool fresh);
/* Walk to the span's end. */
scan_result journal_scan_on(journal_scan *self, journal_window *window, int64_t limit);
/* Judge 64 private bytes at the begin of the next segment, after SCAN_END. */
scan_result journal_scan_judge(journal_scan *self, const uint8_t *record, int64_t size);
/* Find the next check that is right by its own crc, in this segment, from `from` on (3.3, damaged). Returns its
   position, or -1. */
int64_t journal_find_check(journal_window *window, int64_t from, int64_t limit, journal_check *check);

/* What a walk within a span looks for. */
enum { SEEK_POSITION, SEEK_NUMBER, SEEK_TIME };

#endif
