/* SPDX-License-Identifier: Apache-2.0 */
/* JournalWriter: creation, close, methods. */
#include "journal_writer.h"
#include "arguments.h"
#include "sbe/sbe.h"

PyTypeObject *journal_writer_type;

static void writer_forked(fork_node *node)
{
    JournalWriter *self = (JournalWriter *)((char *)node - offsetof(JournalWriter, node));
    self->forked = true;
    epoch_drop(&self->epoch);
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *memory, *lock, *path;
    long long size, epoch, end, count, latest, since, checked_at, now;
    unsigned int crc;
    int default_type, wakes;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!LLLLLLIiLLp:JournalWriter", memory_type, &memory, file_type, &lock,
                          &PyUnicode_Type, &path, &size, &epoch, &end, &count, &latest, &since, &crc, &default_type,
                          &checked_at, &now, &wakes))
        return NULL;
    Memory *control = (Memory *)memory;
    if (!memory_covers(control, HEADER_LENGTH, JOURNAL_CONTROL_CONSUMERS))
        return NULL;
    if (!control->writable || size < JOURNAL_MIN_SEGMENT_SIZE || size > JOURNAL_MAX_SEGMENT_SIZE ||
        (size & (size - 1)) != 0 || end < 0 || end >= MAX_POSITION || end % JOURNAL_UNIT != 0 || default_type < 1) {
        PyErr_SetString(PyExc_ValueError, "not a writable mapping, a segment size and a position");
        return NULL;
    }
    JournalWriter *self = (JournalWriter *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    memory_use(control);
    self->memory = control;
    self->control = control->base + HEADER_LENGTH;
    self->lock = (File *)Py_NewRef(lock);
    self->path = Py_NewRef(path);
    self->size = size;
    self->mask = size - 1;
    self->end = self->claimed = self->summed = end;
    self->count = count;
    self->latest = latest;
    self->since = since;
    self->crc = crc;
    self->default_type = default_type;
    self->checked_at = checked_at;
    self->now = now;
    uint8_t *words = self->control;
    self->data_waker =
        waker_make((waiting_words){words + JOURNAL_CONTROL_DATA_SEQUENCE, words + JOURNAL_CONTROL_DATA_ASLEEP}, wakes);
    self->work_waker =
        waker_make((waiting_words){words + JOURNAL_CONTROL_WORK_SEQUENCE, words + JOURNAL_CONTROL_WORK_ASLEEP}, wakes);
    epoch_watch(&self->epoch, words + JOURNAL_CONTROL_SLOT + PUBLISHER_SLOT_EPOCH, epoch);
    fork_add(&self->node, writer_forked);
    return (PyObject *)self;
}

/* Raises and returns false if the writer cannot be closed now. */
static bool may_close(JournalWriter *self)
{
    if (self->forked || self->closed)
        return true;
    if (self->busy) {
        raise_error("TwoThreadsError", "(s)", "writer");
        return false;
    }
    if (self->claim != NULL && self->claim->exports != 0) {
        raise_error("ViewAliveError", "(s)",
                    "a memoryview or array of this writer's claim is still alive; release it before close");
        return false;
    }
    return true;
}

static void forget_words(JournalWriter *self)
{
    Memory *memory = self->memory;
    self->memory = NULL;
    if (memory != NULL)
        memory_unuse(memory);
}

/* Give the slot back, and let go of all that is mapped: a closed writer may live on. */
static void shut(JournalWriter *self)
{
    if (self->closed)
        return;
    if (!self->forked && epoch_holds(&self->epoch)) {
        if (self->claim != NULL)
            journal_drop_claim(self);
        uint8_t *slot = self->control + JOURNAL_CONTROL_SLOT;
        STORE32_RELEASE(slot + PUBLISHER_SLOT_CLOSED, 1); /* channel.md 5.2, close */
        wake_all(self->data_waker.words);
    }
    if (self->claim != NULL) {
        self->claim->data = NULL;
        self->claim = NULL;
    }
    self->closed = true;
    epoch_drop(&self->epoch);
    file_shut(self->lock); /* last: channel.md 5.1 */
    if (!self->forked) { /* a forked child may still have exports */
        journal_forget_segment(self);
        forget_words(self);
    }
}

static void writer_dealloc(JournalWriter *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    fork_remove(&self->node);
    if (self->lock != NULL)
        shut(self);
    journal_forget_segment(self);
    forget_words(self);
    Py_XDECREF((PyObject *)self->lock);
    Py_XDECREF(self->path);
    Py_XDECREF(self->message_class);
    Py_XDECREF((PyObject *)self->message_layout);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *writer_may_close(JournalWriter *self, PyObject *ignored)
{
    (void)ignored;
    return may_close(self) ? Py_NewRef(Py_None) : NULL;
}

/* Abort the open claim, before the sync of a close. */
static PyObject *writer_drop_claim(JournalWriter *self, PyObject *ignored)
{
    (void)ignored;
    if (self->claim != NULL)
        journal_drop_claim(self);
    return Py_NewRef(Py_None);
}

/* Whether it is open and has its slot. */
static PyObject *writer_is_owner(JournalWriter *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(!self->closed && !self->forked && epoch_holds(&self->epoch));
}

static PyObject *writer_shut(JournalWriter *self, PyObject *ignored)
{
    (void)ignored;
    if (!may_close(self))
        return NULL;
    shut(self);
    return Py_NewRef(Py_None);
}

static PyObject *writer_check(JournalWriter *self, PyObject *ignored)
{
    (void)ignored;
    return journal_usable(self) ? Py_NewRef(Py_None) : NULL;
}

/* Make a check if there is anything since the last one. */
static PyObject *writer_make_check(JournalWriter *self, PyObject *ignored)
{
    (void)ignored;
    return journal_usable(self) && journal_check_now(self) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *writer_fail(JournalWriter *self, PyObject *number)
{
    long error = PyLong_AsLong(number);
    if (error == -1 && PyErr_Occurred())
        return NULL;
    self->error = (int)error;
    return Py_NewRef(Py_None);
}

#define NUMBER_GETTER(name, value) \
    static PyObject *get_##name(JournalWriter *self, void *ignored) \
    { \
        (void)ignored; \
        return PyLong_FromLongLong((long long)(value)); \
    }

NUMBER_GETTER(position, self->end)
NUMBER_GETTER(number, self->count)
NUMBER_GETTER(epoch, self->epoch.value)
NUMBER_GETTER(longest, journal_longest(self))
NUMBER_GETTER(since, self->since)

static PyObject *get_closed(JournalWriter *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->closed || self->forked);
}

static PyMethodDef methods[] = {
    {"append", KEYWORDS(journal_append),
     "append($self, /, data, type=1, time=None)\n--\n\n"
     "Appends one message: bytes, a buffer, or a typed message. Returns the position of the message, in bytes.\n\n"
     "``type``: 1 to 2^31-1; by default 1, in a journal with a schema 65536; that of a typed message is its\n"
     "template id. ``time``: ns since 1970; None: now. When this returns, the message is there however the\n"
     "process ends; it is on the disk after the next sync.\n\n"
     "Raises MessageTooLargeError; NoSpaceError and IoError if the next segment cannot be made, which change\n"
     "nothing; IoError also after a sync that failed, which ends the writer; SlotLostError."},
    {"append_many", KEYWORDS(journal_append_many),
     "append_many($self, /, messages, type=1, time=None)\n--\n\n"
     "Appends messages in order, with one time and one wake-up. Returns how many. Lengths are checked first, so\n"
     "MessageTooLargeError means that none was appended. After another error those before it are appended;\n"
     "``number`` tells how many."},
    {"claim", KEYWORDS(journal_claim),
     "claim($self, /, length, type=1)\n--\n\n"
     "Returns a Claim: space for one message of ``length`` bytes, to be filled in place. ``claim(Message,\n"
     "variable_length=0)`` returns a typed message. Its ``commit`` returns the message's position. At most one\n"
     "claim is open: any other method that appends raises ViewAliveError until it has ended."},
    {"_may_close", (PyCFunction)writer_may_close, METH_NOARGS, NULL},
    {"_shut", (PyCFunction)writer_shut, METH_NOARGS, NULL},
    {"_drop_claim", (PyCFunction)writer_drop_claim, METH_NOARGS, NULL},
    {"_is_owner", (PyCFunction)writer_is_owner, METH_NOARGS, NULL},
    {"_check", (PyCFunction)writer_check, METH_NOARGS, "raises the error if it cannot be used now"},
    {"_make_check", (PyCFunction)writer_make_check, METH_NOARGS, NULL},
    {"_fail", (PyCFunction)writer_fail, METH_O, "_fail(errno): the sync error that ended it"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"position", (getter)get_position, NULL, "where the next record begins, in bytes since the journal's creation",
     NULL},
    {"number", (getter)get_number, NULL, "how many messages the journal has had, those that were trimmed included",
     NULL},
    {"epoch", (getter)get_epoch, NULL, "how many owners the writer's slot has had, this one included", NULL},
    {"max_message_length", (getter)get_longest, NULL, "the longest payload in bytes", NULL},
    {"closed", (getter)get_closed, NULL, "True after ``close``, and in a forked child process", NULL},
    {"_since", (getter)get_since, NULL, "bytes since the last check", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, writer_new},
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.JournalWriter", sizeof(JournalWriter), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyTypeObject *make_journal_writer_type(PyObject *module)
{
    return journal_writer_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
