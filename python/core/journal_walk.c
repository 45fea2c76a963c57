/* SPDX-License-Identifier: Apache-2.0 */
/* JournalWalk: what journal_scan.c does, for the parts in Python that open, recover, seek and check. */
#include "journal_walk.h"
#include "arguments.h"

#include <errno.h>
#include <structmember.h>
#include <unistd.h>

PyTypeObject *journal_walk_type;

#define MOST_SPANS 64 /* in one call of `spans`: some MiB, behind which Python tells of the progress */

static PyObject *walk_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    long long size;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "L:JournalWalk", &size))
        return NULL;
    if (size < JOURNAL_MIN_SEGMENT_SIZE || size > JOURNAL_MAX_SEGMENT_SIZE || (size & (size - 1)) != 0) {
        PyErr_SetString(PyExc_ValueError, "not the size of a segment");
        return NULL;
    }
    JournalWalk *self = (JournalWalk *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->window.size = size;
    self->window.fd = -1;
    return (PyObject *)self;
}

static void walk_dealloc(JournalWalk *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    journal_window_free(&self->window);
    Py_XDECREF((PyObject *)self->file);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *walk_use(JournalWalk *self, PyObject *args)
{
    PyObject *file;
    long long segment;
    if (!PyArg_ParseTuple(args, "O!L:use", file_type, &file, &segment))
        return NULL;
    if (segment < 0 || (segment & (self->window.size - 1)) != 0) {
        PyErr_SetString(PyExc_ValueError, "not the position of a segment");
        return NULL;
    }
    PyObject *before = (PyObject *)self->file;
    self->file = (File *)Py_NewRef(file);
    journal_window_use(&self->window, self->file->fd, segment);
    Py_XDECREF(before);
    return Py_NewRef(Py_None);
}

void journal_walk_forget(JournalWalk *self)
{
    journal_window_use(&self->window, -1, 0);
    PyObject *before = (PyObject *)self->file;
    self->file = NULL;
    Py_XDECREF(before);
}

static PyObject *walk_forget(JournalWalk *self, PyObject *ignored)
{
    (void)ignored;
    journal_walk_forget(self);
    return Py_NewRef(Py_None);
}

static PyObject *walk_begin(JournalWalk *self, PyObject *args)
{
    long long at, count, time = 0;
    int fresh = 0;
    if (!PyArg_ParseTuple(args, "LL|Lp:begin", &at, &count, &time, &fresh))
        return NULL;
    journal_scan_begin(&self->scan, at, count, time, fresh);
    return Py_NewRef(Py_None);
}

/* False with an exception unless a file is used. */
static bool is_usable(JournalWalk *self)
{
    if (self->file != NULL && file_is_ours(self->file))
        return true;
    raise_error("ClosedError", "(s)", "journal");
    return false;
}

static PyObject *result_of(const JournalWalk *self, scan_result result)
{
    if (result == SCAN_FAILED) {
        errno = self->window.error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyLong_FromLong(result);
}

static PyObject *walk_scan(JournalWalk *self, PyObject *number)
{
    int64_t limit = PyLong_AsLongLong(number);
    if ((limit == -1 && PyErr_Occurred()) || !is_usable(self))
        return NULL;
    return result_of(self, journal_scan_on(&self->scan, &self->window, limit));
}

/* Walk over spans as long as their checks are right: for recovery and check, which keep nothing of them. */
static PyObject *walk_spans(JournalWalk *self, PyObject *number)
{
    int64_t limit = PyLong_AsLongLong(number);
    if ((limit == -1 && PyErr_Occurred()) || !is_usable(self))
        return NULL;
    scan_result result = SCAN_RIGHT;
    Py_INCREF((PyObject *)self);
    Py_BEGIN_ALLOW_THREADS
    for (int i = 0; i < MOST_SPANS && result == SCAN_RIGHT; i++) {
        if (i != 0)
            journal_scan_begin(&self->scan, self->scan.at + JOURNAL_CHECK_SIZE, self->scan.check.count, self->scan.time,
                               false);
        result = journal_scan_on(&self->scan, &self->window, limit);
    }
    Py_END_ALLOW_THREADS
    PyObject *answer = result_of(self, result);
    Py_DECREF((PyObject *)self);
    return answer;
}

/* Judge the first record of the next segment, which ends the span. */
static PyObject *walk_judge(JournalWalk *self, PyObject *file)
{
    uint8_t record[JOURNAL_MARK_BYTES];
    if (!PyObject_TypeCheck(file, file_type)) {
        PyErr_SetString(PyExc_TypeError, "a File");
        return NULL;
    }
    if (!file_is_ours((File *)file))
        return raise_error("ClosedError", "(s)", "journal");
    ssize_t got = pread(((File *)file)->fd, record, sizeof record, HEADER_LENGTH);
    if (got < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    scan_result result = got == sizeof record ? journal_scan_judge(&self->scan, record, self->window.size) : SCAN_WRONG;
    return result_of(self, result);
}

static PyObject *walk_find_check(JournalWalk *self, PyObject *args)
{
    long long from, limit;
    if (!PyArg_ParseTuple(args, "LL:find_check", &from, &limit) || !is_usable(self))
        return NULL;
    if (from < self->window.segment || (from & (JOURNAL_UNIT - 1)) != 0) {
        PyErr_SetString(PyExc_ValueError, "not a position in the segment");
        return NULL;
    }
    int64_t found;
    Py_INCREF((PyObject *)self);
    Py_BEGIN_ALLOW_THREADS
    found = journal_find_check(&self->window, from, limit, &self->scan.check);
    Py_END_ALLOW_THREADS
    Py_DECREF((PyObject *)self);
    return PyLong_FromLongLong(found);
}

/* Read the head of the record at `at` in the span that was scanned. False with an exception. */
static bool head_of(JournalWalk *self, int64_t at, int32_t head[2], int64_t *time)
{
    const uint8_t *record = journal_window_get(&self->window, self->scan.start, at, JOURNAL_RECORD_PAYLOAD);
    if (record != NULL) {
        memcpy(head, record, 8);
        memcpy(time, record + JOURNAL_RECORD_TIME, 8);
        if (journal_is_sound(self->window.size, at - self->window.segment, head[0], head[1]))
            return true;
        self->window.error = EIO; /* it was read again, and has changed */
    }
    result_of(self, SCAN_FAILED);
    return false;
}

/* Find a place in the span that the last scan walked: (0 not in it, 1 found, 2 passed; position; count). The count is
   that of the place. */
static PyObject *walk_seek(JournalWalk *self, PyObject *args)
{
    int kind, found = 0;
    long long value;
    int32_t head[2];
    int64_t time, at, count = self->scan.count;
    if (!PyArg_ParseTuple(args, "iL:seek", &kind, &value) || !is_usable(self))
        return NULL;
    for (at = self->scan.start; at < self->scan.at; at += journal_align(head[0])) { /* the scan counted up to its end */
        if (!head_of(self, at, head, &time))
            return NULL;
        count -= head[1] > 0;
    }
    for (at = self->scan.start; at < self->scan.at; at += journal_align(head[0])) {
        if (!head_of(self, at, head, &time))
            return NULL;
        if (kind == SEEK_POSITION)
            found = at == value ? 1 : at > value ? 2 : 0;
        else if (head[1] > 0)
            found = kind == SEEK_NUMBER ? count >= value : time >= value;
        if (found != 0)
            break;
        count += head[1] > 0;
    }
    if (found == 0 && kind == SEEK_POSITION && at > value)
        found = 2;
    return Py_BuildValue("iLL", found, (long long)at, (long long)count);
}

/* Walk over whole records without a look at crcs: (where it stops, whether a record there cannot be). For resume 2 of
   spec/journal.md 3.4. */
static PyObject *walk_pass(JournalWalk *self, PyObject *args)
{
    long long at, limit;
    bool bad = false;
    if (!PyArg_ParseTuple(args, "LL:pass_records", &at, &limit) || !is_usable(self))
        return NULL;
    self->window.limit = limit;
    while (at < limit && at < self->window.segment + self->window.size) {
        const uint8_t *record = journal_window_get(&self->window, at, at, RECORD_HEADER_LENGTH);
        int32_t head[2];
        if (record == NULL)
            return result_of(self, SCAN_FAILED);
        memcpy(head, record, 8);
        if (head[0] == 0)
            break;
        int64_t n = journal_align(head[0]);
        if (!journal_is_sound(self->window.size, at - self->window.segment, head[0], head[1])) {
            bad = true;
            break;
        }
        at += n;
    }
    return Py_BuildValue("LO", at, bad ? Py_True : Py_False);
}

static PyObject *make_check(PyObject *type, PyObject *args)
{
    long long position, count, time;
    uint8_t record[JOURNAL_MARK_BYTES];
    (void)type;
    if (!PyArg_ParseTuple(args, "LLL:make_check", &position, &count, &time))
        return NULL;
    journal_check check = {count, time, crc_end(CRC_BEGIN)};
    journal_make_check(record, position, &check);
    return PyBytes_FromStringAndSize((const char *)record, sizeof record);
}

#define NUMBER_GETTER(name, value) \
    static PyObject *get_##name(JournalWalk *self, void *ignored) \
    { \
        (void)ignored; \
        return PyLong_FromLongLong((long long)(value)); \
    }

NUMBER_GETTER(segment, self->file == NULL ? -1 : self->window.segment)
NUMBER_GETTER(at, self->scan.at)
NUMBER_GETTER(start, self->scan.start)
NUMBER_GETTER(start_count, self->scan.begun)
NUMBER_GETTER(start_time, self->scan.begun_time)
NUMBER_GETTER(count, self->scan.count)
NUMBER_GETTER(time, self->scan.time)
NUMBER_GETTER(crc, self->scan.crc)
NUMBER_GETTER(check_count, self->scan.check.count)
NUMBER_GETTER(check_time, self->scan.check.time)
NUMBER_GETTER(cut_count, self->scan.cut.count)
NUMBER_GETTER(cut_next, self->scan.cut.next)
NUMBER_GETTER(cut_reached, self->scan.cut.reached)
NUMBER_GETTER(cut_reason, self->scan.cut.reason)

static PyMethodDef methods[] = {
    {"use", (PyCFunction)walk_use, METH_VARARGS, "use(file, segment): reads this segment from now on"},
    {"forget", (PyCFunction)walk_forget, METH_NOARGS, "forget(): uses no segment"},
    {"begin", (PyCFunction)walk_begin, METH_VARARGS,
     "begin(at, count, time=0, fresh=False): a span begins there, with so many messages before it. ``fresh``: its\n"
     "beginning is not known, so the check proves itself only"},
    {"scan", (PyCFunction)walk_scan, METH_O, "scan(limit) -> int: walks to the span's end; OSError"},
    {"spans", (PyCFunction)walk_spans, METH_O, "spans(limit) -> int: the same over many spans"},
    {"judge", (PyCFunction)walk_judge, METH_O, "judge(file) -> int: the first record of the next segment"},
    {"find_check", (PyCFunction)walk_find_check, METH_VARARGS, "find_check(from, limit) -> position, or -1"},
    {"seek", (PyCFunction)walk_seek, METH_VARARGS,
     "seek(kind, value) -> (0 not in this span, 1 found, 2 passed; position; count)"},
    {"pass_records", (PyCFunction)walk_pass, METH_VARARGS,
     "pass_records(at, limit) -> (where it stops, whether a record there cannot be)"},
    {"make_check", (PyCFunction)make_check, METH_VARARGS | METH_STATIC,
     "make_check(position, count, time) -> bytes: of an empty span"},
    {NULL, NULL, 0, NULL},
};

#define GETTER(name, text) {#name, (getter)get_##name, NULL, text, NULL}

static PyGetSetDef getters[] = {
    GETTER(segment, "the segment that is used; -1: none"),
    GETTER(at, "where the walk stands"),
    GETTER(start, "where the span begins"),
    GETTER(start_count, "how many messages lie before the span"),
    GETTER(start_time, "the largest time met before the span"),
    GETTER(count, "how many messages lie before `at`"),
    GETTER(time, "the largest time met"),
    GETTER(crc, "of the span so far, not ended"),
    GETTER(check_count, "of the check found last"),
    GETTER(check_time, "of the check found last"),
    GETTER(cut_count, "of the cut found last"),
    GETTER(cut_next, "of the cut found last"),
    GETTER(cut_reached, "of the cut found last"),
    GETTER(cut_reason, "of the cut found last"),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "JournalWalk(segment_size): a walk over the records of segments, read with pread."},
    {Py_tp_new, walk_new},
    {Py_tp_dealloc, walk_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.JournalWalk", sizeof(JournalWalk), 0, Py_TPFLAGS_DEFAULT, slots};

PyTypeObject *make_journal_walk_type(PyObject *module)
{
    return journal_walk_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
