/* SPDX-License-Identifier: Apache-2.0 */
/* Appends to a journal (spec/journal.md 3.1, 3.2). Numbers in parentheses are sections of that page; "append 5" is step
   5 of its operation append. */
#include "arguments.h"
#include "journal_writer.h"
#include "sbe/sbe.h"

#include <errno.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)
#define TIME_NOW INT64_MIN /* no time was given */
#define PIECE INT64_C(4096) /* the crc is computed in pieces of so many bytes, while they are in the cache */

/* Whether the writer can be used */

bool journal_explain_unusable(JournalWriter *self)
{
    if (self->closed || self->forked) {
        raise_error("ClosedError", "(si)", "writer", (int)self->forked);
    } else if (self->busy) {
        raise_error("TwoThreadsError", "(s)", "writer");
    } else if (self->claim != NULL) {
        raise_error("ViewAliveError", "(s)", "a claim of this writer is open; commit or abort it first");
    } else if (!epoch_holds(&self->epoch)) {
        if (self->error != 0 || LOAD32_ACQUIRE(self->control + JOURNAL_CONTROL_FAILED) != 0) /* a sync (5) */
            raise_error("IoError", "(siO)", "fdatasync", self->error != 0 ? self->error : EIO, self->path);
        else
            raise_error("SlotLostError", "(si)", "writer", 0);
    } else {
        return true;
    }
    return false;
}

PyObject *journal_refuse(JournalWriter *self)
{
    if (self->closed || self->forked || self->busy || self->claim != NULL) {
        PyErr_Clear();
        journal_explain_unusable(self);
    }
    return NULL;
}

PyObject *journal_too_large(const JournalWriter *self, int64_t length)
{
    return raise_error("MessageTooLargeError", "(LLs)", (long long)length, (long long)journal_longest(self), "journal");
}

int64_t journal_clock(const JournalWriter *self)
{
    struct timespec t;
    if (UNLIKELY(self->now != 0))
        return self->now;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec;
}

/* The steps */

/* Add the bytes up to the end to the crc of the span. */
static void sum_up(JournalWriter *self)
{
    if (self->summed != self->end)
        self->crc = crc_add(self->crc, self->data + (self->summed & self->mask), (size_t)(self->end - self->summed));
    self->summed = self->end;
}

/* Store `claimed`, then the fence (append 3). */
static void store_claimed(JournalWriter *self, int64_t to)
{
    FENCE_COMPILER(); /* the previous record's published is stored first, wherever a kill comes */
    STORE64_RELAXED(self->control + JOURNAL_CONTROL_CLAIMED, to);
    FENCE_RELEASE(); /* before any byte changes */
    self->claimed = to;
}

COLD void journal_announce_more(JournalWriter *self, int64_t n)
{
    int64_t to = self->end + n + JOURNAL_ANNOUNCE_AHEAD, most = (self->end & ~self->mask) + self->size - JOURNAL_UNIT;
    store_claimed(self, to < most ? to : most);
}

/* Store `published` behind n bytes, and move the end (append 6). */
static inline void advance(JournalWriter *self, int64_t n)
{
    FENCE_COMPILER(); /* the length is stored first, wherever a kill comes */
    STORE64_RELEASE(self->control + JOURNAL_CONTROL_PUBLISHED, self->end + n); /* pairs with read 3.3 (acquire) */
    STORE64_RELAXED(self->control + JOURNAL_CONTROL_MESSAGES, self->count);
    self->end += n;
    self->since += n;
}

void journal_commit(JournalWriter *self, int64_t length, int64_t n, int64_t messages, int64_t latest)
{
    uint8_t *record = journal_record_at_end(self);
    STORE32_RELEASE(record + RECORD_LENGTH, length); /* append 5; pairs with the tail of 3.3 (acquire) */
    self->count = (int64_t)((uint64_t)self->count + (uint64_t)messages);
    if (latest > self->latest)
        self->latest = latest;
    advance(self, n);
    if (self->end - self->summed >= PIECE)
        sum_up(self);
}

/* Publish padding of n bytes at the end: only its first 8 bytes are in the crc (3.2). `length`: of its record. */
static void commit_padding(JournalWriter *self, int64_t length, int64_t n)
{
    sum_up(self);
    uint8_t *record = journal_record_at_end(self);
    STORE32_RELAXED(record + RECORD_TYPE, TYPE_PADDING);
    STORE32_RELEASE(record + RECORD_LENGTH, length); /* pairs with the tail of 3.3 (acquire) */
    self->crc = crc_add(self->crc, record, RECORD_HEADER_LENGTH);
    advance(self, n);
    self->summed = self->end;
}

/* Make a check at the end (3.2), where its segment is mapped and has room. */
static void make_check(JournalWriter *self)
{
    uint8_t bytes[JOURNAL_MARK_BYTES], *record = journal_record_at_end(self);
    int64_t at = self->end;
    sum_up(self);
    journal_check check = {self->count, self->latest, crc_end(self->crc)};
    journal_make_check(bytes, at, &check);
    if (self->claimed < at + JOURNAL_CHECK_SIZE)
        store_claimed(self, at + JOURNAL_CHECK_SIZE);
    memcpy(record + RECORD_TYPE, bytes + RECORD_TYPE, sizeof bytes - RECORD_TYPE);
    STORE32_RELEASE(record + RECORD_LENGTH, JOURNAL_CHECK_SIZE); /* pairs with the tail of 3.3 (acquire) */
    advance(self, JOURNAL_CHECK_SIZE);
    STORE64_RELEASE(self->control + JOURNAL_CONTROL_CHECKED, at); /* pairs with sync 2 (acquire) */
    self->since = 0;
    self->summed = self->end;
    self->crc = CRC_BEGIN;
    self->checked_at = journal_clock(self);
}

void journal_abort(JournalWriter *self, int64_t length)
{
    commit_padding(self, length, journal_align(length));
    if (UNLIKELY(self->since >= JOURNAL_CHECK_EVERY))
        make_check(self);
}

void journal_forget_segment(JournalWriter *self)
{
    Memory *mapped = self->mapped;
    self->mapped = NULL;
    self->data = NULL;
    if (mapped != NULL)
        memory_unuse(mapped);
}

/* Let Python make the segment at this position ready, and map it. NULL with an exception. */
static Memory *prepared(JournalWriter *self, int64_t position)
{
    self->busy = true; /* it runs Python code */
    Py_INCREF((PyObject *)self);
    PyObject *made = PyObject_CallMethod((PyObject *)self, "_enter", "L", (long long)position);
    self->busy = false;
    bool valid = made != NULL && PyObject_TypeCheck(made, memory_type) && ((Memory *)made)->writable &&
                 memory_covers((Memory *)made, 0, HEADER_LENGTH + self->size);
    if (valid && !epoch_holds(&self->epoch)) /* closed, forked or lost meanwhile */
        valid = journal_explain_unusable(self);
    if (!valid) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a Memory");
        Py_CLEAR(made);
    }
    Py_DECREF((PyObject *)self);
    return (Memory *)made;
}

/* Go to the next segment: padding up to the segment's end, and the first check of the next one (append 1, 2). */
static COLD bool enter_segment(JournalWriter *self)
{
    int64_t next = (self->end + self->mask) & ~self->mask;
    if (next > MAX_POSITION - 2 * self->size) {
        raise_error("CorruptJournalError", "(Ls)", (long long)self->end, "its position nears 2^62");
        return false;
    }
    if (self->data == NULL && (self->end & self->mask) != 0) { /* a new writer's first segment */
        Memory *here = prepared(self, self->end & ~self->mask);
        if (here == NULL)
            return false;
        memory_use(here);
        Py_DECREF((PyObject *)here);
        self->mapped = here;
        self->segment = self->end & ~self->mask;
        self->data = here->base + HEADER_LENGTH;
        return true;
    }
    Memory *memory = prepared(self, next);
    if (memory == NULL)
        return false;
    if (self->end != next) {
        if (self->claimed < next)
            store_claimed(self, next);
        commit_padding(self, next - self->end, next - self->end);
    }
    memory_use(memory);
    Py_DECREF((PyObject *)memory);
    sum_up(self); /* nothing is left of the segment before */
    journal_forget_segment(self);
    self->mapped = memory;
    self->segment = next;
    self->data = memory->base + HEADER_LENGTH;
    make_check(self);
    wake_if_asleep(&self->work_waker, 1);
    return true;
}

bool journal_reserve(JournalWriter *self, int64_t n)
{
    for (;;) {
        int64_t offset = self->end & self->mask;
        if (LIKELY(self->data != NULL && offset != 0 && offset + n <= self->size - JOURNAL_UNIT))
            return true;
        if (!enter_segment(self))
            return false;
    }
}

bool journal_check_now(JournalWriter *self)
{
    if (self->since == 0)
        return true;
    if (self->data == NULL && !enter_segment(self)) /* at a segment's begin it makes the check */
        return false;
    if ((self->end & self->mask) == 0)
        return enter_segment(self);
    if (self->since != 0)
        make_check(self);
    return true;
}

/* Sync, because each append does (append 9). False with an exception: what was appended stays. */
COLD static bool sync_each(JournalWriter *self)
{
    if (!journal_check_now(self))
        return false;
    self->busy = true;
    Py_INCREF((PyObject *)self);
    PyObject *done = PyObject_CallMethod((PyObject *)self, "_sync_each", NULL);
    self->busy = false;
    Py_XDECREF(done);
    Py_DECREF((PyObject *)self);
    return done != NULL;
}

/* Make the check that an interval of syncs asks for, and wake the helper (append 7). `clock`: of now, 0: not read. */
static COLD void check_due(JournalWriter *self, int64_t every, int64_t clock)
{
    if (clock == 0)
        clock = journal_clock(self);
    if (self->since != 0 && (clock - self->checked_at >= every || clock < self->checked_at)) {
        make_check(self);
        wake_if_asleep(&self->work_waker, 1);
    }
}

bool journal_settle(JournalWriter *self, int64_t clock)
{
    int64_t every = LOAD64_RELAXED(self->control + JOURNAL_CONTROL_SYNC_EVERY);
    if (UNLIKELY(self->since >= JOURNAL_CHECK_EVERY))
        make_check(self);
    if (UNLIKELY(every > 0))
        check_due(self, every, clock);
    wake_if_asleep(&self->data_waker, 1); /* append 8: readers do not wait for the disk */
    return LIKELY(every != JOURNAL_SYNC_EACH) || sync_each(self);
}

/* append */

/* A time that the caller gave. False with an exception. */
static bool parse_time(PyObject *object, int64_t *time)
{
    if (object == NULL || object == Py_None)
        return true;
    *time = PyLong_AsLongLong(object);
    if (*time == -1 && PyErr_Occurred())
        return false;
    if (*time < 0)
        raise_error("InvalidArgumentError", "(ss)", "time", "must be ns since 1970, 0 or more");
    return *time >= 0;
}

/* Copy a large payload without the GIL. False with an exception: closed or lost meanwhile; readers do not see it. */
static COLD bool copy_large(JournalWriter *self, uint8_t *to, const void *bytes, int64_t length)
{
    self->busy = true;
    Py_INCREF((PyObject *)self);
    Py_BEGIN_ALLOW_THREADS
    memcpy(to, bytes, (size_t)length);
    Py_END_ALLOW_THREADS
    self->busy = false;
    bool fine = journal_usable(self);
    Py_DECREF((PyObject *)self);
    return fine;
}

static PyObject *append_bytes(JournalWriter *self, const void *bytes, int64_t length, int32_t type, int64_t time)
{
    if (UNLIKELY(!journal_usable(self))) {
        if (length > journal_longest(self) && !self->closed && !self->forked && !self->busy && self->claim == NULL) {
            PyErr_Clear(); /* too large comes before slot lost (spec/api.md) */
            journal_too_large(self, length);
        }
        return NULL;
    }
    if (UNLIKELY(length > journal_longest(self)))
        return journal_too_large(self, length);
    int64_t clock = 0, n = journal_align(JOURNAL_RECORD_PAYLOAD + length);
    if (UNLIKELY(self->data == NULL || (self->end & self->mask) == 0 ||
                 (self->end & self->mask) + n > self->size - JOURNAL_UNIT) &&
        !journal_reserve(self, n))
        return NULL;
    if (LIKELY(time == TIME_NOW))
        time = clock = journal_clock(self);
    journal_announce(self, n);
    uint8_t *record = journal_record_at_end(self);
    if (UNLIKELY(length >= LARGE_COPY)) {
        if (!copy_large(self, record + JOURNAL_RECORD_PAYLOAD, bytes, length))
            return NULL;
    } else {
        memcpy(record + JOURNAL_RECORD_PAYLOAD, bytes, (size_t)length); /* append 4 */
    }
    journal_set_head(self, time, type);
    int64_t position = self->end;
    journal_commit(self, JOURNAL_RECORD_PAYLOAD + length, n, 1, time);
    return LIKELY(journal_settle(self, clock)) ? PyLong_FromLongLong(position) : NULL;
}

PyObject *journal_append(JournalWriter *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"data", "type", "time"};
    static const signature expected = {parameters, 3, 1};
    PyObject *values[3] = {NULL, NULL, NULL};
    int32_t type = self->default_type;
    int64_t time = TIME_NOW;
    if (LIKELY(n == 1 && names == NULL)) {
        values[0] = args[0];
    } else {
        if (!parse_arguments(&expected, args, n, names, values) ||
            (values[1] != NULL && (type = parse_type(values[1])) == 0) || !parse_time(values[2], &time))
            return journal_refuse(self);
    }
    if (LIKELY(PyBytes_CheckExact(values[0])))
        return append_bytes(self, PyBytes_AsString(values[0]), PyBytes_Size(values[0]), type, time);
    Py_buffer view;
    if (PyObject_GetBuffer(values[0], &view, PyBUF_SIMPLE) < 0) {
        PyObject *copy = message_to_offer(values[0], values[1], &type);
        if (copy == NULL)
            return journal_refuse(self);
        PyObject *position = append_bytes(self, PyBytes_AsString(copy), PyBytes_Size(copy), type, time);
        Py_DECREF(copy);
        return position;
    }
    PyObject *position = append_bytes(self, view.buf, view.len, type, time);
    PyBuffer_Release(&view);
    return position;
}

/* append_many */

typedef struct {
    const void *bytes;
    int64_t length;
    int32_t type;
    Py_buffer view; /* held if view.obj is not NULL */
    PyObject *copy; /* of a typed message, or NULL */
} given;

static void release(given *all, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (all[i].view.obj != NULL)
            PyBuffer_Release(&all[i].view);
        Py_XDECREF(all[i].copy);
    }
    PyMem_Free(all);
}

static bool take_given(given *one, PyObject *item, PyObject *type_given, int32_t type)
{
    one->type = type;
    if (PyBytes_CheckExact(item)) { /* the tuple keeps it alive */
        one->bytes = PyBytes_AsString(item);
        one->length = PyBytes_Size(item);
        return true;
    }
    if (PyObject_GetBuffer(item, &one->view, PyBUF_SIMPLE) == 0) {
        one->bytes = one->view.buf;
        one->length = one->view.len;
        return true;
    }
    one->view.obj = NULL;
    one->copy = message_to_offer(item, type_given, &one->type);
    if (one->copy == NULL)
        return false;
    one->bytes = PyBytes_AsString(one->copy);
    one->length = PyBytes_Size(one->copy);
    return true;
}

static inline int64_t given_size(const given *one)
{
    return journal_align(JOURNAL_RECORD_PAYLOAD + one->length);
}

/* Append messages of `total` bytes as one batch: the first one's length comes last, so that no reader comes to the
   others before they are whole. */
static void write_batch(JournalWriter *self, const given *all, Py_ssize_t count, int64_t total, int64_t time)
{
    journal_announce(self, total);
    uint8_t *first = journal_record_at_end(self), *record = first;
    for (Py_ssize_t i = 0; i < count; i++) {
        STORE64_RELAXED(record + JOURNAL_RECORD_TIME, time);
        memcpy(record + JOURNAL_RECORD_PAYLOAD, all[i].bytes, (size_t)all[i].length);
        STORE32_RELAXED(record + RECORD_TYPE, all[i].type);
        if (i > 0)
            STORE32_RELAXED(record + RECORD_LENGTH, JOURNAL_RECORD_PAYLOAD + all[i].length);
        record += given_size(&all[i]);
    }
    journal_commit(self, JOURNAL_RECORD_PAYLOAD + all[0].length, total, count, time);
}

static bool append_all(JournalWriter *self, const given *all, Py_ssize_t count, int64_t time)
{
    int64_t clock = 0;
    if (time == TIME_NOW)
        time = clock = journal_clock(self);
    bool fine = true;
    Py_ssize_t done = 0;
    while (fine && done < count) {
        if (!journal_reserve(self, given_size(&all[done]))) {
            fine = false;
            break;
        }
        int64_t most = self->size - JOURNAL_UNIT - (self->end & self->mask), total = 0;
        if (most > self->size / JOURNAL_MESSAGE_DIVISOR)
            most = self->size / JOURNAL_MESSAGE_DIVISOR;
        Py_ssize_t part = 0;
        while (done + part < count && total + given_size(&all[done + part]) <= most)
            total += given_size(&all[done + part++]);
        write_batch(self, all + done, part, total, time);
        done += part;
        if (done < count && self->since >= JOURNAL_CHECK_EVERY)
            make_check(self);
    }
    if (done > 0) {
        PyObject *kind = NULL, *value = NULL, *traceback = NULL;
        PyErr_Fetch(&kind, &value, &traceback);
        bool settled = journal_settle(self, clock);
        if (kind != NULL) {
            PyErr_Clear();
            PyErr_Restore(kind, value, traceback);
        }
        fine = fine && settled;
    }
    return fine;
}

PyObject *journal_append_many(JournalWriter *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"messages", "type", "time"};
    static const signature expected = {parameters, 3, 1};
    PyObject *values[3] = {NULL, NULL, NULL};
    int32_t type = self->default_type;
    int64_t time = TIME_NOW;
    if (!parse_arguments(&expected, args, n, names, values) ||
        (values[1] != NULL && (type = parse_type(values[1])) == 0) || !parse_time(values[2], &time))
        return journal_refuse(self);
    PyObject *tuple = PySequence_Tuple(values[0]);
    if (tuple == NULL)
        return journal_refuse(self);
    Py_ssize_t count = PyTuple_Size(tuple), taken = 0;
    given *all = PyMem_Calloc((size_t)count + 1, sizeof *all);
    PyObject *result = NULL;
    if (all == NULL) {
        PyErr_NoMemory();
    } else {
        bool fine = true;
        while (fine && taken < count) {
            fine = take_given(&all[taken], PyTuple_GetItem(tuple, taken), values[1], type);
            if (fine && all[taken].length > journal_longest(self)) {
                journal_too_large(self, all[taken].length);
                fine = false;
            }
            taken++;
        }
        if (!fine)
            journal_refuse(self);
        /* Checked now, because getting the buffers may have run Python code. */
        else if (journal_usable(self) && append_all(self, all, count, time))
            result = PyLong_FromSsize_t(count);
        release(all, taken);
    }
    Py_DECREF(tuple);
    return result;
}
