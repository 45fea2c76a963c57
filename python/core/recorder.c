/* SPDX-License-Identifier: Apache-2.0 */
/* Recorder: the hot loop of `flyring record` (spec/journal.md 9). Numbers in comments are sections of that page.

   A step moves messages of the source's rings into the journal. It ends early when the journal enters another segment:
   the caller repeats the sources and senders there, then goes on. Gates are stored by store_gates alone. */
#include "recorder.h"
#include "arguments.h"
#include "journal_writer.h"
#include "lossy.h"
#include "subscriber.h"

#define HEAD_BYTES RECORDING_MESSAGE_PAYLOAD /* in front of a message's payload */
#define NOT_KNOWN INT64_C(-1)

typedef struct {
    int64_t next; /* messages below this position of the ring are in the journal; -1: none is */
    int64_t number; /* the number of the next message, of the ring; -1: not known */
    int64_t epoch; /* of the sender that was recorded last; -1: none */
    int64_t announced; /* the number that a reader of the recording gets by counting; -1: it does not know it */
    int64_t lost; /* messages that were lost */
    sender before; /* of the last message in the journal, until the reader knows the sender of what follows */
} recorded_ring;

typedef struct {
    PyObject_HEAD
    Reader *reader;
    JournalWriter *writer;
    recorded_ring *rings; /* of each chosen ring */
    int64_t segment; /* of the journal, in which the state is recorded */
    int64_t messages, bytes, doubles, lost; /* totals: recorded, their payloads, not recorded again, lost */
    int64_t time; /* of receipt */
    int source, next; /* next: the index of the ring with which the next step begins */
    bool lossy;
} Recorder;

/* What one message or loss is, found in a ring. */
typedef struct {
    const uint8_t *payload;
    int64_t length, position, bytes; /* bytes: of the record in the ring */
    int64_t number; /* of the message; -1: not known */
    int32_t type;
} found_message;

static inline void store16(uint8_t *at, int32_t value)
{
    uint16_t word = (uint16_t)value;
    memcpy(at, &word, sizeof word);
}

enum { FAILED = -1, STOPPED = 0, DONE = 1 };

/* Appending to the recording */

/* Find room for a record of n bytes: STOPPED if the journal has entered another segment. */
static inline int room_for(Recorder *self, int64_t n)
{
    JournalWriter *writer = self->writer;
    int64_t offset = writer->end & writer->mask;
    if (UNLIKELY(n > writer->size / JOURNAL_MESSAGE_DIVISOR)) {
        journal_too_large(writer, n - JOURNAL_RECORD_PAYLOAD);
        return FAILED;
    }
    if (UNLIKELY(writer->data == NULL || offset == 0 || offset + n > writer->size - JOURNAL_UNIT) &&
        !journal_reserve(writer, n))
        return FAILED;
    if (UNLIKELY((writer->end & ~writer->mask) != self->segment))
        return STOPPED;
    journal_announce(writer, n);
    return DONE;
}

static inline bool commit(Recorder *self, int32_t type, int64_t length)
{
    JournalWriter *writer = self->writer;
    journal_set_head(writer, self->time, type);
    journal_commit(writer, JOURNAL_RECORD_PAYLOAD + length, journal_align(JOURNAL_RECORD_PAYLOAD + length), 1,
                   self->time);
    if (UNLIKELY(writer->since >= JOURNAL_CHECK_EVERY)) {
        if (!journal_settle(writer, self->time))
            return false;
        self->time = journal_clock(writer);
    }
    return true;
}

/* Append a record that is not a message. */
static int append(Recorder *self, int32_t type, const uint8_t *bytes, int64_t length)
{
    int room = room_for(self, journal_align(JOURNAL_RECORD_PAYLOAD + length));
    if (room != DONE)
        return room;
    memcpy(journal_record_at_end(self->writer) + JOURNAL_RECORD_PAYLOAD, bytes, (size_t)length);
    return commit(self, type, length) ? DONE : FAILED;
}

static const sender *sender_of(const Recorder *self, int i)
{
    return self->lossy ? &lossy_rings((Lossy *)self->reader)[i].from
                       : subscriber_rings((Subscriber *)self->reader)[i].from;
}

/* The sender of the next message (9). The reader of a resumed recorder may not know it: the ring has a new owner,
   and messages of the old one are left. */
static const sender *next_sender(Recorder *self, int i)
{
    const sender *from = sender_of(self, i);
    sender *before = &self->rings[i].before;
    if (from->epoch != 0)
        before->epoch = 0;
    return before->epoch != 0 ? before : from;
}

static int append_sender(Recorder *self, int i, int64_t position, int64_t number)
{
    _Alignas(8) uint8_t bytes[RECORDING_SENDER_NAME + MAX_NAME_LENGTH];
    const sender *from = next_sender(self, i);
    store16(bytes + RECORDING_SENDER_SOURCE, self->source);
    store16(bytes + RECORDING_SENDER_RING, from->ring);
    STORE32_RELAXED(bytes + RECORDING_SENDER_NAME_LENGTH, from->name_length);
    STORE64_RELAXED(bytes + RECORDING_SENDER_EPOCH, from->epoch);
    STORE64_RELAXED(bytes + RECORDING_SENDER_POSITION, position);
    STORE64_RELAXED(bytes + RECORDING_SENDER_NUMBER, number);
    memcpy(bytes + RECORDING_SENDER_NAME, from->name, (size_t)from->name_length);
    int done = append(self, RECORDING_TYPE_SENDER, bytes, RECORDING_SENDER_NAME + from->name_length);
    if (done == DONE) {
        self->rings[i].epoch = from->epoch;
        self->rings[i].announced = number;
    }
    return done;
}

static int append_loss(Recorder *self, int i, int64_t position, int64_t messages)
{
    _Alignas(8) uint8_t bytes[RECORDING_LOSS_LENGTH] = {0};
    recorded_ring *ring = &self->rings[i];
    store16(bytes + RECORDING_LOSS_SOURCE, self->source);
    store16(bytes + RECORDING_LOSS_RING, sender_of(self, i)->ring);
    STORE64_RELAXED(bytes + RECORDING_LOSS_FROM, ring->next);
    STORE64_RELAXED(bytes + RECORDING_LOSS_TO, position);
    STORE64_RELAXED(bytes + RECORDING_LOSS_MESSAGES, messages);
    int done = append(self, RECORDING_TYPE_LOSS, bytes, RECORDING_LOSS_LENGTH);
    if (done == DONE) {
        ring->lost += messages;
        self->lost += messages;
        ring->number += messages;
        ring->announced = ring->number;
        ring->before.epoch = 0;
    }
    return done;
}

/* Whether the bytes that were copied are those of the message: DONE, or STOPPED if they were overwritten meanwhile. */
static int still_there(Recorder *self, int i)
{
    if (self->lossy)
        return lossy_lapped((Lossy *)self->reader, &lossy_rings((Lossy *)self->reader)[i]) ? STOPPED : DONE;
    return subscriber_still_ours((Subscriber *)self->reader) ? DONE : FAILED;
}

/* Append one message, and what comes before it. `lapped`: it was overwritten meanwhile, and nothing is appended. */
static int append_message(Recorder *self, int i, const found_message *found, bool *lapped)
{
    recorded_ring *ring = &self->rings[i];
    if (UNLIKELY(found->position < ring->next)) { /* a killed recorder wrote it already */
        self->doubles++;
        return DONE;
    }
    int done;
    if (UNLIKELY(found->number != ring->number)) {
        if (ring->number >= 0 && found->number > ring->number) {
            if ((done = append_loss(self, i, found->position, found->number - ring->number)) != DONE)
                return done;
        } else {
            ring->number = found->number;
            ring->before.epoch = 0;
        }
    }
    if (UNLIKELY(next_sender(self, i)->epoch != ring->epoch || ring->announced != ring->number) &&
        (done = append_sender(self, i, found->position, ring->number)) != DONE)
        return done;
    int64_t length = HEAD_BYTES + found->length, n = journal_align(JOURNAL_RECORD_PAYLOAD + length);
    if (UNLIKELY((done = room_for(self, n)) != DONE))
        return done;
    uint8_t *to = journal_record_at_end(self->writer) + JOURNAL_RECORD_PAYLOAD;
    copy_words(to + HEAD_BYTES, found->payload, found->length);
    done = still_there(self, i);
    if (UNLIKELY(done != DONE)) { /* nothing was written here: the bytes are zero again before anything follows */
        memset(to + HEAD_BYTES, 0, (size_t)found->length);
        *lapped = done == STOPPED;
        return done;
    }
    store16(to + RECORDING_MESSAGE_SOURCE, self->source);
    store16(to + RECORDING_MESSAGE_RING, sender_of(self, i)->ring);
    STORE32_RELAXED(to + RECORDING_MESSAGE_TYPE, found->type);
    STORE64_RELAXED(to + RECORDING_MESSAGE_POSITION, found->position);
    if (UNLIKELY(!commit(self, RECORDING_TYPE_MESSAGE, length)))
        return FAILED;
    ring->next = found->position + 1;
    if (ring->number >= 0)
        ring->announced = ++ring->number;
    self->messages++;
    self->bytes += found->length;
    return DONE;
}

/* One ring's turn: how the source's kinds find and consume a message */

static int turn_of_subscriber(Recorder *self, int i, int64_t until)
{
    Subscriber *subscriber = (Subscriber *)self->reader;
    ring_reader *ring = &subscriber_rings(subscriber)[i];
    if (UNLIKELY(ring->corrupt))
        return DONE;
    record next;
    int more;
    while (self->writer->end < until && (more = subscriber_next(subscriber, ring, &next)) != 0) {
        if (UNLIKELY(more < 0))
            return FAILED;
        bool lapped = false;
        found_message found = {next.payload,
                               next.length,
                               ring->cursor,
                               next.next - ring->cursor,
                               ring->count < 0 ? NOT_KNOWN : ring->count,
                               next.type};
        int done = append_message(self, i, &found, &lapped);
        if (UNLIKELY(done != DONE))
            return done;
        ring->cursor = next.next;
        count_messages(ring, 1);
    }
    return DONE;
}

static int turn_of_lossy(Recorder *self, int i, int64_t until)
{
    Lossy *lossy = (Lossy *)self->reader;
    lossy_ring *ring = &lossy_rings(lossy)[i];
    if (UNLIKELY(ring->corrupt))
        return DONE;
    lossy_turn turn = lossy_begin_turn(lossy, ring);
    lossy_record next;
    int more;
    while (self->writer->end < until && (more = lossy_next(lossy, ring, &turn, &next)) != 0) {
        if (UNLIKELY(more < 0))
            return FAILED;
        bool lapped = lossy_lapped(lossy, ring); /* type and length are of this record */
        found_message found = {next.payload, next.length, ring->cursor, next.bytes, ring->messages, next.type};
        int done = lapped ? STOPPED : append_message(self, i, &found, &lapped);
        if (UNLIKELY(lapped)) {
            more = lossy_jump(lossy, ring, &turn);
            if (more < 0)
                return FAILED;
            if (more == 0)
                return DONE;
            continue;
        }
        if (UNLIKELY(done != DONE))
            return done;
        lossy_consume(ring, next.bytes, 1);
    }
    return DONE;
}

static int turns(Recorder *self, int64_t most)
{
    for (int k = 0; k < self->reader->count; k++) {
        int i = self->next;
        int64_t until = self->writer->end + most;
        int done = self->lossy ? turn_of_lossy(self, i, until) : turn_of_subscriber(self, i, until);
        if (done != DONE)
            return done; /* the same ring goes on */
        self->next = i + 1 == self->reader->count ? 0 : i + 1;
    }
    return DONE;
}

/* The object */

static PyObject *recorder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *reader, *writer;
    int source;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!i:Recorder", reader_type, &reader, journal_writer_type, &writer, &source))
        return NULL;
    const reader_kind *kind = ((Reader *)reader)->kind;
    if ((kind != &subscriber_kind && kind != &lossy_kind) || source < 0 || source > UINT16_MAX) {
        PyErr_SetString(PyExc_ValueError, "not a subscriber of rings and a source");
        return NULL;
    }
    if (!reader_may_close((Reader *)reader))
        return NULL;
    Recorder *self = (Recorder *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->reader = (Reader *)Py_NewRef(reader);
    self->writer = (JournalWriter *)Py_NewRef(writer);
    self->source = source;
    self->lossy = kind == &lossy_kind;
    self->segment = NOT_KNOWN;
    self->reader->store_every = INT64_MAX; /* 9: the gate follows what is in the journal */
    self->rings = PyMem_Calloc((size_t)self->reader->count, sizeof *self->rings);
    if (self->rings == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    for (int i = 0; i < self->reader->count; i++)
        self->rings[i] =
            (recorded_ring){.next = NOT_KNOWN, .number = NOT_KNOWN, .epoch = NOT_KNOWN, .announced = NOT_KNOWN};
    return (PyObject *)self;
}

static void recorder_dealloc(Recorder *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->reader);
    Py_XDECREF((PyObject *)self->writer);
    PyMem_Free(self->rings);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Set what the journal has of a ring. */
static PyObject *recorder_resume(Recorder *self, PyObject *args)
{
    PyObject *number;
    long long next, messages, epoch;
    const char *name;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "OLLLs#:resume", &number, &next, &messages, &epoch, &name, &length))
        return NULL;
    int i = reader_find_ring(self->reader, number);
    if (i < 0)
        return NULL;
    recorded_ring *ring = &self->rings[i];
    ring->next = next;
    ring->number = messages;
    const lossy_ring *from = self->lossy ? &lossy_rings((Lossy *)self->reader)[i] : NULL;
    /* Above the last message, a lossy reader may have begun behind an owner record, which counts as no loss. */
    if (length <= MAX_NAME_LENGTH && (from == NULL || (from->started && from->cursor < next))) {
        ring->before = (sender){.epoch = epoch, .ring = sender_of(self, i)->ring, .name_length = (int32_t)length};
        memcpy(ring->before.name, name, (size_t)length);
    }
    return Py_NewRef(Py_None);
}

static PyObject *recorder_step(Recorder *self, PyObject *args)
{
    long long segment, most;
    if (!PyArg_ParseTuple(args, "LL:step", &segment, &most))
        return NULL;
    if (!self->reader->kind->usable(self->reader) || !journal_usable(self->writer))
        return NULL;
    int64_t before = self->messages;
    self->segment = segment;
    self->time = journal_clock(self->writer);
    reader_begin(self->reader); /* the journal may run Python code */
    Py_INCREF((PyObject *)self);
    int64_t end = self->writer->end;
    int done = turns(self, most);
    self->reader->use = IDLE;
    if (self->writer->end != end && !self->writer->closed) {
        PyObject *kind = NULL, *value = NULL, *traceback = NULL;
        PyErr_Fetch(&kind, &value, &traceback);
        bool settled = journal_usable(self->writer) && journal_settle(self->writer, self->time);
        if (kind != NULL) {
            PyErr_Clear();
            PyErr_Restore(kind, value, traceback);
        } else if (!settled) {
            done = FAILED;
        }
    }
    int64_t messages = self->messages - before;
    Py_DECREF((PyObject *)self);
    return done == FAILED ? NULL : PyLong_FromLongLong(messages);
}

/* Append the sender records of all rings, for a segment's begin. Returns whether they are all in this segment. */
static PyObject *recorder_note_senders(Recorder *self, PyObject *args)
{
    long long segment;
    if (!PyArg_ParseTuple(args, "L:note_senders", &segment))
        return NULL;
    if (!self->reader->kind->usable(self->reader) || !journal_usable(self->writer))
        return NULL;
    self->segment = segment;
    self->time = journal_clock(self->writer);
    int done = DONE;
    reader_begin(self->reader);
    for (int i = 0; i < self->reader->count && done == DONE; i++) {
        if (self->rings[i].next >= 0)
            done = append_sender(self, i, self->rings[i].next, self->rings[i].number);
        else
            self->rings[i].epoch = NOT_KNOWN; /* a sender record that has no message yet lies in front of the state */
    }
    self->reader->use = IDLE;
    return done == FAILED ? NULL : PyBool_FromLong(done == DONE);
}

/* The cursors of the rings, for store_gates. */
static PyObject *recorder_cursors(Recorder *self, PyObject *ignored)
{
    (void)ignored;
    PyObject *list = PyList_New(self->reader->count);
    for (int i = 0; list != NULL && i < self->reader->count; i++) {
        ring_place place = self->reader->kind->ring_at(self->reader, i);
        int64_t count = self->lossy ? lossy_rings((Lossy *)self->reader)[i].messages
                                    : subscriber_rings((Subscriber *)self->reader)[i].count;
        PyObject *one = Py_BuildValue("(iLL)", (int)place.number, (long long)place.cursor, (long long)count);
        if (one == NULL || PyList_SetItem(list, i, one) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* Store gates at cursors of an earlier moment. */
static PyObject *recorder_store_gates(Recorder *self, PyObject *cursors)
{
    if (self->lossy)
        return Py_NewRef(Py_None);
    Subscriber *subscriber = (Subscriber *)self->reader;
    if (!PyList_Check(cursors) || PyList_Size(cursors) != self->reader->count) {
        PyErr_SetString(PyExc_TypeError, "a list from cursors");
        return NULL;
    }
    if (!subscriber_usable(subscriber))
        return NULL;
    for (int i = 0; i < self->reader->count; i++) {
        ring_reader *ring = &subscriber_rings(subscriber)[i];
        int number;
        long long cursor, count;
        if (!PyArg_ParseTuple(PyList_GetItem(cursors, i), "iLL:cursor", &number, &cursor, &count))
            return NULL;
        if (number == ring->number && cursor > ring->stored && cursor <= ring->cursor && !ring->corrupt)
            store_gate_at(subscriber, ring, cursor, count);
    }
    return subscriber_still_ours(subscriber) ? Py_NewRef(Py_None) : NULL;
}

/* Bytes that were read, and whose gates are not stored. */
static PyObject *get_held(Recorder *self, void *ignored)
{
    (void)ignored;
    int64_t most = 0;
    for (int i = 0; !self->lossy && i < self->reader->count; i++) {
        const ring_reader *ring = &subscriber_rings((Subscriber *)self->reader)[i];
        if (ring->cursor - ring->stored > most)
            most = ring->cursor - ring->stored;
    }
    return PyLong_FromLongLong(most);
}

#define TOTAL(name) \
    static PyObject *get_##name(Recorder *self, void *ignored) \
    { \
        (void)ignored; \
        return PyLong_FromLongLong(self->name); \
    }

TOTAL(messages)
TOTAL(bytes)
TOTAL(doubles)
TOTAL(lost)

static PyMethodDef methods[] = {
    {"resume", (PyCFunction)recorder_resume, METH_VARARGS,
     "resume($self, ring, next, number, epoch, name, /)\n--\n\nThe journal has the ring's messages below the position "
     "``next``,\n"
     "and ``number`` is that of the next one (-1: not known). ``epoch`` and ``name`` are the last one's sender."},
    {"step", (PyCFunction)recorder_step, METH_VARARGS,
     "step($self, segment, limit, /)\n--\n\nRecords what is there: about ``limit`` bytes of the journal for each "
     "ring.\n"
     "Ends early when the journal has entered another segment than ``segment``. Returns how many messages."},
    {"note_senders", (PyCFunction)recorder_note_senders, METH_VARARGS,
     "note_senders($self, segment, /)\n--\n\nRecords the senders of all rings. False: the journal has entered another\n"
     "segment than ``segment``."},
    {"cursors", (PyCFunction)recorder_cursors, METH_NOARGS,
     "cursors($self, /)\n--\n\nHow far it has read: (ring, position, number) of each ring."},
    {"store_gates", (PyCFunction)recorder_store_gates, METH_O,
     "store_gates($self, cursors, /)\n--\n\nStores the gates of a kept subscriber where ``cursors`` was."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"messages", (getter)get_messages, NULL, "how many messages were recorded", NULL},
    {"bytes", (getter)get_bytes, NULL, "the bytes of their payloads", NULL},
    {"doubles", (getter)get_doubles, NULL, "messages that the journal had already", NULL},
    {"lost", (getter)get_lost, NULL, "messages that were lost, and recorded as such", NULL},
    {"held", (getter)get_held, NULL, "the bytes that were read of a ring, and whose gate is not stored", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, recorder_new},
    {Py_tp_dealloc, recorder_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Recorder", sizeof(Recorder), 0, Py_TPFLAGS_DEFAULT, slots};

PyTypeObject *make_recorder_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
