/* SPDX-License-Identifier: Apache-2.0 */
/* Claims of a journal (spec/journal.md 3.1, channel.md 6.1). */
#include "arguments.h"
#include "journal_writer.h"
#include "sbe/sbe.h"

PyObject *journal_claim(JournalWriter *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"length", "type"};
    static const signature expected = {parameters, 2, 1};
    PyObject *values[2] = {NULL, NULL};
    int32_t type = self->default_type;
    if (n > 0 && PyType_Check(args[0]))
        return journal_claim_message(self, args, n, names);
    if (!parse_arguments(&expected, args, n, names, values) ||
        (values[1] != NULL && (type = parse_type(values[1])) == 0))
        return journal_refuse(self);
    Py_ssize_t length = PyNumber_AsSsize_t(values[0], NULL); /* limited to the range of Py_ssize_t */
    if (length == -1 && PyErr_Occurred())
        return journal_refuse(self);
    if (length < 0) {
        raise_error("InvalidArgumentError", "(ss)", "length", "must be 0 or more bytes");
        return journal_refuse(self);
    }
    if (length > journal_longest(self)) {
        journal_too_large(self, length);
        return journal_refuse(self);
    }
    if (!journal_usable(self))
        return NULL;
    Claim *claim = claim_new(NULL, self, length);
    int64_t record = journal_align(JOURNAL_RECORD_PAYLOAD + length);
    if (claim == NULL || !journal_reserve(self, record)) {
        Py_XDECREF((PyObject *)claim);
        return NULL;
    }
    journal_announce(self, record);
    self->claim_type = type;
    claim->data = journal_record_at_end(self) + JOURNAL_RECORD_PAYLOAD;
    self->claim = claim;
    return (PyObject *)claim;
}

PyObject *journal_close_claim(JournalWriter *self, bool commit)
{
    Claim *claim = self->claim;
    int64_t length = JOURNAL_RECORD_PAYLOAD + claim->length, position = self->end, clock = 0;
    self->claim = NULL;
    if (!journal_usable(self)) { /* checked before each commit, too (channel.md 5.4) */
        if (self->busy && !self->closed && !self->forked)
            self->claim = claim; /* another thread uses the writer: the claim stays open */
        else
            claim->data = NULL;
        return NULL;
    }
    claim->data = NULL;
    if (commit) {
        clock = journal_clock(self); /* a claim's time is taken at the commit */
        journal_set_head(self, clock, self->claim_type);
        journal_commit(self, length, journal_align(length), 1, clock);
        if (!journal_settle(self, clock))
            return NULL;
    } else {
        journal_abort(self, length);
    }
    return PyLong_FromLongLong(position);
}

void journal_drop_claim(JournalWriter *self)
{
    bool busy = self->busy;
    self->busy = false; /* no append runs while a claim is open */
    PyObject *position = journal_close_claim(self, false);
    if (position == NULL)
        PyErr_Clear(); /* closed or lost meanwhile, so there is nothing to abort */
    Py_XDECREF(position);
    self->busy = busy;
}
