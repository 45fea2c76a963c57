/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over the records of a segment's file, span by span (spec/journal.md 3.2, 3.3). Does not use Python. */
#define _GNU_SOURCE /* pread of 64-bit offsets */
#include "journal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_AHEAD (INT64_C(256) << 10)
#define FILE_HEADER HEADER_LENGTH

static inline int32_t word32(const uint8_t *at)
{
    int32_t word;
    memcpy(&word, at, 4);
    return word;
}

static inline int64_t word64(const uint8_t *at)
{
    int64_t word;
    memcpy(&word, at, 8);
    return word;
}

static uint32_t crc_of(const uint8_t *bytes, size_t length)
{
    return crc_end(crc_add(CRC_BEGIN, bytes, length));
}

/* Checks and cuts */

static bool is_own(const uint8_t *record, int64_t position, int32_t type)
{
    return word32(record + JOURNAL_CHECK_LENGTH) == JOURNAL_CHECK_SIZE && word32(record + JOURNAL_CHECK_TYPE) == type &&
           word64(record + JOURNAL_CHECK_POSITION) == position &&
           (uint32_t)word32(record + JOURNAL_CHECK_CRC) == crc_of(record, JOURNAL_CHECK_CRC);
}

bool journal_read_check(const uint8_t *record, int64_t position, journal_check *check)
{
    if (!is_own(record, position, JOURNAL_TYPE_CHECK))
        return false;
    check->count = word64(record + JOURNAL_CHECK_COUNT);
    check->time = word64(record + JOURNAL_CHECK_TIME);
    check->span_crc = (uint32_t)word32(record + JOURNAL_CHECK_SPAN_CRC);
    return check->count >= 0;
}

bool journal_read_cut(const uint8_t *record, int64_t position, int64_t size, journal_cut *cut)
{
    if (!is_own(record, position, JOURNAL_TYPE_CUT))
        return false;
    cut->count = word64(record + JOURNAL_CUT_COUNT);
    cut->next = word64(record + JOURNAL_CUT_NEXT);
    cut->reached = word64(record + JOURNAL_CUT_REACHED);
    cut->reason = word32(record + JOURNAL_CUT_REASON);
    return cut->count >= 0 && cut->next > position && cut->next < MAX_POSITION &&
           (cut->next & (size - 1)) == 0; /* a position above it, of a segment (10) */
}

void journal_make_check(uint8_t *record, int64_t position, const journal_check *check)
{
    const int32_t length = JOURNAL_CHECK_SIZE, type = JOURNAL_TYPE_CHECK;
    memset(record, 0, JOURNAL_CHECK_SIZE);
    memcpy(record + JOURNAL_CHECK_LENGTH, &length, 4);
    memcpy(record + JOURNAL_CHECK_TYPE, &type, 4);
    memcpy(record + JOURNAL_CHECK_POSITION, &position, 8);
    memcpy(record + JOURNAL_CHECK_COUNT, &check->count, 8);
    memcpy(record + JOURNAL_CHECK_TIME, &check->time, 8);
    memcpy(record + JOURNAL_CHECK_SPAN_CRC, &check->span_crc, 4);
    uint32_t crc = crc_of(record, JOURNAL_CHECK_CRC);
    memcpy(record + JOURNAL_CHECK_CRC, &crc, 4);
}

/* The window */

void journal_window_use(journal_window *self, int fd, int64_t segment)
{
    self->fd = fd;
    self->segment = segment;
    self->from = self->to = segment;
    self->error = 0;
}

void journal_window_forget(journal_window *self)
{
    self->to = self->from;
}

void journal_window_free(journal_window *self)
{
    free(self->bytes);
    self->bytes = NULL;
    self->room = 0;
}

/* Read the bytes from `to` up to `end`. */
static bool read_to(journal_window *self, int64_t end)
{
    while (self->to < end) {
        ssize_t got = pread(self->fd, self->bytes + (self->to - self->from), (size_t)(end - self->to),
                            FILE_HEADER + (self->to - self->segment));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            self->error = got < 0 ? errno : 0;
            return false;
        }
        self->to += got;
    }
    return true;
}

const uint8_t *journal_window_get(journal_window *self, int64_t keep, int64_t at, int64_t n)
{
    int64_t end = at + n, segment_end = self->segment + self->size;
    if (LIKELY(keep >= self->from && end <= self->to))
        return self->bytes + (at - self->from);
    if (keep < self->segment || keep > at || n < 0 || end > segment_end) {
        self->error = 0;
        return NULL;
    }
    int64_t ahead = keep + READ_AHEAD;
    ahead = ahead < self->limit ? ahead : self->limit;
    ahead = ahead < segment_end ? ahead : segment_end;
    ahead = ahead > end ? ahead : end;
    if (keep >= self->from && keep < self->to) {
        memmove(self->bytes, self->bytes + (keep - self->from), (size_t)(self->to - keep));
        self->from = keep;
    } else {
        self->from = self->to = keep;
    }
    if (ahead - keep > self->room) {
        uint8_t *bytes = realloc(self->bytes, (size_t)(ahead - keep));
        if (bytes == NULL) {
            self->error = ENOMEM;
            return NULL;
        }
        self->bytes = bytes;
        self->room = ahead - keep;
    }
    if (!read_to(self, ahead) && self->to < end) /* what lies behind the wanted bytes may be unreadable */
        return NULL;
    return self->bytes + (at - self->from);
}

/* The walk */

void journal_scan_begin(journal_scan *self, int64_t at, int64_t count, int64_t time, bool fresh)
{
    self->start = self->at = self->summed = at;
    self->count = self->begun = count;
    self->time = self->begun_time = time;
    self->crc = CRC_BEGIN;
    self->fresh = fresh;
}

/* Add the records up to `at` to the crc. */
static bool sum_up(journal_scan *self, journal_window *window)
{
    if (self->summed == self->at)
        return true;
    const uint8_t *bytes = journal_window_get(window, self->start, self->summed, self->at - self->summed);
    if (bytes == NULL)
        return false;
    self->crc = crc_add(self->crc, bytes, (size_t)(self->at - self->summed));
    self->summed = self->at;
    return true;
}

static scan_result failed(const journal_window *window)
{
    return window->error != 0 ? SCAN_FAILED : SCAN_WRONG; /* a file that was cut short is damaged */
}

/* Judge the check or cut of these 64 bytes at `at`; all before it is in the crc. */
static scan_result judge(journal_scan *self, const uint8_t *record, int64_t size)
{
    if (word32(record + RECORD_TYPE) == JOURNAL_TYPE_CUT)
        return journal_read_cut(record, self->at, size, &self->cut) && (self->at == self->start || self->fresh) &&
                       (self->cut.count == self->count || self->fresh)
                   ? SCAN_CUT
                   : SCAN_WRONG;
    if (!journal_read_check(record, self->at, &self->check))
        return SCAN_WRONG;
    if (self->fresh)
        return SCAN_RIGHT;
    return self->check.span_crc == crc_end(self->crc) && self->check.count == self->count ? SCAN_RIGHT : SCAN_WRONG;
}

scan_result journal_scan_judge(journal_scan *self, const uint8_t *record, int64_t size)
{
    return word32(record) == 0 ? SCAN_NOTHING : judge(self, record, size);
}

scan_result journal_scan_on(journal_scan *self, journal_window *window, int64_t limit)
{
    int64_t size = window->size;
    int64_t longest = JOURNAL_CHECK_EVERY + size / JOURNAL_MESSAGE_DIVISOR + JOURNAL_UNIT; /* a span (10) */
    window->limit = limit;
    for (;;) {
        int64_t offset = self->at - window->segment;
        if (self->at >= limit)
            return sum_up(self, window) ? SCAN_LIMIT : failed(window);
        if (offset >= size)
            return sum_up(self, window) ? SCAN_END : failed(window);
        const uint8_t *record = journal_window_get(window, self->start, self->at, RECORD_HEADER_LENGTH);
        if (record == NULL)
            return failed(window);
        int32_t length = word32(record + RECORD_LENGTH), type = word32(record + RECORD_TYPE);
        if (length == 0)
            return sum_up(self, window) ? SCAN_NOTHING : failed(window);
        if (!journal_is_sound(size, offset, length, type))
            return SCAN_WRONG;
        int64_t n = journal_align(length);
        if (type == JOURNAL_TYPE_CHECK || type == JOURNAL_TYPE_CUT) {
            if (!sum_up(self, window) || (record = journal_window_get(window, self->start, self->at, n)) == NULL)
                return failed(window);
            return judge(self, record, size);
        }
        if (type == TYPE_PADDING) { /* only its first 8 bytes count (3.2) */
            if (!sum_up(self, window) ||
                (record = journal_window_get(window, self->start, self->at, RECORD_HEADER_LENGTH)) == NULL)
                return failed(window);
            self->crc = crc_add(self->crc, record, RECORD_HEADER_LENGTH);
            self->at += n;
            self->summed = self->at;
        } else {
            if (self->at - self->start > longest) /* no writer waits so long with a check */
                return SCAN_WRONG;
            if ((record = journal_window_get(window, self->start, self->at, n)) == NULL)
                return failed(window);
            int64_t time = word64(record + JOURNAL_RECORD_TIME);
            self->time = time > self->time ? time : self->time;
            self->count = (int64_t)((uint64_t)self->count + 1);
            self->at += n;
        }
        if (self->at - self->start > 2 * longest)
            return SCAN_WRONG;
    }
}

int64_t journal_find_check(journal_window *window, int64_t from, int64_t limit, journal_check *check)
{
    int64_t end = window->segment + window->size;
    end = end < limit ? end : limit;
    window->limit = limit;
    for (int64_t at = from; at + JOURNAL_UNIT <= end; at += JOURNAL_UNIT) {
        const uint8_t *record = journal_window_get(window, at, at, JOURNAL_UNIT);
        if (record == NULL) /* an unreadable part: what lies behind it may be readable */
            continue;
        if (word32(record) == JOURNAL_CHECK_SIZE && journal_read_check(record, at, check))
            return at;
    }
    return -1;
}
