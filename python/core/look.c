/* SPDX-License-Identifier: Apache-2.0 */
/* look: one call reads all slots and rings of a channel, because 16 rings and 16 slots have a thousand words. Takes no
   lock and stores nothing. Slots and rings beyond the end of a truncated file are left out. */
#include "look.h"
#include "ring.h"

#include <errno.h>

typedef struct {
    const uint8_t *base;
    int64_t length; /* bytes mapped */
    geometry shape;
    int64_t now; /* ns, of the clock of blocked_since */
    bool *live; /* of each publisher slot, then of each subscriber slot: whether its lock is held */
    PyObject *publisher, *subscriber, *gate, *job; /* the classes of stats.py */
} Look;

typedef struct {
    int64_t epoch, attached_at;
    int32_t pid;
    int name_length;
    char name[64]; /* MAX_NAME_LENGTH */
} slot_fields;

static int64_t word(const Look *self, int64_t offset)
{
    return LOAD64_ACQUIRE((void *)(self->base + offset));
}

static int32_t half(const Look *self, int64_t offset)
{
    return LOAD32_ACQUIRE((void *)(self->base + offset));
}

static int64_t positive(int64_t value)
{
    return value > 0 ? value : 0;
}

static int64_t added(int64_t a, int64_t b) /* wraps */
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static bool has_ring(const Look *self, int32_t ring)
{
    return ring_data_offset(&self->shape, ring) + self->shape.stride <= self->length;
}

static int64_t end_word(const Look *self, int32_t ring)
{
    bool foreign = self->shape.foreign == FEATURE_FOREIGN_PUBLISHER; /* 6.15: it has only its tail */
    return ring_trailer_offset(&self->shape, ring) + (foreign ? TRAILER_CLAIMED : TRAILER_PUBLISHED);
}

static int64_t gate_of(const Look *self, int32_t ring, int32_t slot)
{
    return ring_trailer_offset(&self->shape, ring) + slot_gate_offset(&self->shape, slot);
}

static bool has_gate(const Look *self, int32_t ring, int32_t slot)
{
    return !self->shape.service || service_reader(&self->shape, ring) == slot;
}

/* Tests which of the slots from `begin` up to `end` have an owner. The kernel names one lock of a range, so a call finds
   an owner, or that a whole run of slots has none. That takes a call for each owner, and at most one for each run
   without. Returns whether it went well. */
static bool test_locks(Look *self, const File *file, int32_t begin, int32_t end)
{
    while (begin < end) {
        int64_t first = publisher_slot_offset(&self->shape, begin) + CONTROL_SLOT_LOCK, at = first;
        int64_t length = (int64_t)(end - begin - 1) * CONTROL_SLOT_LENGTH + 1;
        int held = lock_find(file, &at, &length);
        if (held <= 0)
            return held == 0;
        int32_t slot = begin;
        if (at >= first && (at - first) % CONTROL_SLOT_LENGTH == 0 && length == 1) {
            slot += (int32_t)((at - first) / CONTROL_SLOT_LENGTH);
        } else { /* a program that is no Flyring has locked something else: only a test of the byte tells */
            held = lock_test(file, first, 1);
            if (held < 0)
                return false;
        }
        self->live[slot] = held > 0;
        /* The longer part in this loop, so that the stack stays small. */
        bool left = slot - begin > end - slot - 1;
        if (!(left ? test_locks(self, file, slot + 1, end) : test_locks(self, file, begin, slot)))
            return false;
        begin = left ? begin : slot + 1;
        end = left ? slot : end;
    }
    return true;
}

/* 6.12. The epoch is -1 if the fields keep changing, or the owner died while it changed them. */
static slot_fields fields_of(const Look *self, int64_t slot)
{
    for (int i = 0; i < 1000; i++) {
        slot_fields fields = {0};
        int64_t epoch = word(self, slot + PUBLISHER_SLOT_EPOCH); /* pairs with change_slot of slots.py (release) */
        int32_t length = half(self, slot + PUBLISHER_SLOT_NAME_LENGTH);
        if (length == -1)
            continue;
        fields.epoch = epoch >= 1 && epoch <= MAX_EPOCH ? epoch : 0; /* 9 */
        fields.name_length = length > 0 && length <= MAX_NAME_LENGTH ? length : 0; /* 9 */
        memcpy(fields.name, self->base + slot + PUBLISHER_SLOT_NAME, sizeof fields.name);
        fields.pid = half(self, slot + PUBLISHER_SLOT_PID);
        fields.attached_at = word(self, slot + PUBLISHER_SLOT_ATTACHED_AT);
        FENCE_SEQ_CST();
        if (half(self, slot + PUBLISHER_SLOT_NAME_LENGTH) == length && word(self, slot + PUBLISHER_SLOT_EPOCH) == epoch)
            return fields;
    }
    return (slot_fields){.epoch = -1};
}

static PyObject *name_of(const slot_fields *fields)
{
    return PyUnicode_DecodeASCII(fields->name, fields->name_length, "replace");
}

/* The position and count of 6.10. False if the publisher stopped or died between its stores. */
static bool consistent(const Look *self, int32_t ring, int64_t *position, int64_t *count)
{
    int64_t trailer = ring_trailer_offset(&self->shape, ring);
    for (int i = 0; i < LOSSY_TRIES; i++) {
        int64_t done = word(self, trailer + TRAILER_MESSAGES_DONE); /* pairs with publish 7, the last */
        *position = word(self, trailer + TRAILER_PUBLISHED); /* pairs with publish 7 */
        *count = word(self, trailer + TRAILER_MESSAGES_BEGUN);
        if (done == *count)
            return true;
    }
    return false;
}

/* How many messages lie below a gate's position (6.5), or -1. */
static int64_t count_below(const Look *self, int32_t ring, int64_t gate)
{
    const geometry *shape = &self->shape;
    int64_t trailer = ring_trailer_offset(shape, ring), end = INT64_MAX, count = 0, bad, messages;
    for (int i = 0; i < BOUNDARIES; i++) {
        int64_t at = trailer + TRAILER_BOUNDARY + TRAILER_BOUNDARY_STRIDE * i;
        int64_t boundary = word(self, at), messages_there = word(self, at + TRAILER_BOUNDARY_COUNT);
        FENCE_SEQ_CST(); /* pairs with the release fence of publish 8 */
        if (boundary < gate || word(self, at) != boundary || boundary > end)
            continue;
        if (added(boundary, shape->capacity) >= added(word(self, trailer + TRAILER_CLAIMED), RECORD_HEADER_LENGTH)) {
            end = boundary;
            count = messages_there;
        }
    }
    if (end == INT64_MAX && !consistent(self, ring, &end, &count))
        return COUNT_UNKNOWN;
    if (gate % shape->alignment != 0 || end < gate || end - gate > shape->capacity)
        return COUNT_UNKNOWN;
    int64_t stop = walk_records(self->base + ring_data_offset(shape, ring), shape->capacity, shape->alignment, gate,
                                end, true, &messages, &bad);
    return bad == 0 && stop == end && count >= messages ? count - messages : COUNT_UNKNOWN;
}

/* How many jobs of a ring no worker has taken; -1: not known. */
static int64_t untaken(const Look *self, int32_t ring, int64_t gate)
{
    int64_t position, now, count = count_below(self, ring, gate);
    if (count < 0 || !consistent(self, ring, &position, &now))
        return COUNT_UNKNOWN;
    return positive(now - count);
}

/* The slots whose gate leaves no room for a record of `wanted` bytes (6.2, 5), as a tuple. */
static PyObject *holders_of(const Look *self, int32_t ring, int64_t wanted)
{
    PyObject *list = PyList_New(0);
    uint64_t needed = (uint64_t)word(self, end_word(self, ring)) + (uint64_t)wanted + RECORD_HEADER_LENGTH;
    for (int32_t slot = 0; list != NULL && slot < self->shape.subscribers; slot++) {
        int64_t gate = has_gate(self, ring, slot) ? word(self, gate_of(self, ring, slot)) : NOT_GATING;
        if (gate < 0 || (uint64_t)gate + (uint64_t)self->shape.capacity >= needed)
            continue;
        PyObject *number = PyLong_FromLong(slot);
        if (number == NULL || PyList_Append(list, number) < 0)
            Py_CLEAR(list);
        Py_XDECREF(number);
    }
    PyObject *tuple = list == NULL ? NULL : PyList_AsTuple(list);
    Py_XDECREF(list);
    return tuple;
}

/* How many subscribers with an owner read a ring; of a queue, its live workers. */
static int32_t readers_of(const Look *self, int32_t ring)
{
    int32_t count = 0;
    for (int32_t slot = self->shape.queue ? 1 : 0; slot < self->shape.subscribers; slot++) {
        bool live = self->live[self->shape.publishers + slot] || self->shape.foreign == FEATURE_FOREIGN_SUBSCRIBER;
        count +=
            live && has_gate(self, ring, slot) && (self->shape.queue || word(self, gate_of(self, ring, slot)) >= 0);
    }
    return count;
}

static PyObject *publisher_of(const Look *self, int32_t k)
{
    const geometry *shape = &self->shape;
    int64_t slot = publisher_slot_offset(shape, k), trailer = ring_trailer_offset(shape, k), since = 0, wanted = 0;
    bool foreign = shape->foreign == FEATURE_FOREIGN_PUBLISHER, live = !foreign && self->live[k];
    bool there = has_ring(self, k);
    slot_fields fields = fields_of(self, slot);
    const char *state = shape->queue && k == shape->publishers - 1      ? "returns"
                        : foreign                                       ? "foreign"
                        : live                                          ? "live"
                        : fields.epoch == 0                             ? "unused"
                        : half(self, slot + PUBLISHER_SLOT_CLOSED) != 0 ? "closed"
                                                                        : "away";
    if (live && there) {
        since = positive(word(self, slot + PUBLISHER_SLOT_BLOCKED_SINCE)); /* pairs with recompute 5 */
        wanted = positive(word(self, slot + PUBLISHER_SLOT_BLOCKED_LENGTH));
    }
    PyObject *holders = since > 0 ? holders_of(self, k, wanted) : PyTuple_New(0);
    if (holders == NULL)
        return NULL;
    if (PyTuple_Size(holders) == 0) /* there is room by now, but the publisher has not noticed yet */
        since = wanted = 0;
    PyObject *values =
        Py_BuildValue("isLNiLLLLLLLLNi", (int)k, state, (long long)fields.epoch, name_of(&fields), (int)fields.pid,
                      (long long)fields.attached_at, (long long)word(self, slot + PUBLISHER_SLOT_START),
                      there ? (long long)word(self, end_word(self, k)) : -1LL,
                      there ? (long long)word(self, trailer + TRAILER_CLAIMED) : -1LL,
                      there && !foreign ? (long long)word(self, trailer + TRAILER_MESSAGES_DONE) : -1LL,
                      (long long)since, since > 0 ? (long long)positive(self->now - since) : 0LL, (long long)wanted,
                      holders, there ? (int)readers_of(self, k) : -1);
    PyObject *made = values == NULL ? NULL : PyObject_CallObject(self->publisher, values);
    Py_XDECREF(values);
    return made;
}

/* The job that worker `slot` has in hand (queue.md 6), or None. */
static PyObject *job_of(const Look *self, int32_t slot)
{
    int64_t alignment = self->shape.alignment;
    for (int32_t ring = 0; ring < self->shape.publishers && has_ring(self, ring); ring++) {
        int64_t gate = gate_of(self, ring, slot), position = word(self, gate); /* pairs with take 2 and 5 */
        int64_t end = word(self, gate + GATE_TAKEN_END); /* behind the gate; pairs with take 2 */
        int64_t shared = word(self, gate_of(self, ring, 0)); /* pairs with take 3 */
        if (position < 0 || position >= end || end > shared || end >= MAX_POSITION || position % alignment != 0 ||
            end % alignment != 0)
            continue;
        int64_t since = positive(word(self, subscriber_slot_offset(&self->shape, slot) + SUBSCRIBER_SLOT_BUSY_SINCE));
        int32_t attempts = half(self, gate + GATE_ATTEMPTS);
        return PyObject_CallFunction(self->job, "iLLiLL", (int)ring, (long long)position, (long long)end,
                                     attempts > 0 ? (int)attempts : 0, (long long)since,
                                     since > 0 ? (long long)positive(self->now - since) : 0LL);
    }
    return Py_NewRef(Py_None);
}

/* One GateStats, which is a tuple; made without its Python constructor, because there may be hundreds. */
static PyObject *gate_stats(const Look *self, int32_t ring, int64_t position, int64_t lag, int64_t behind)
{
    PyObject *values = Py_BuildValue("((iLLL))", (int)ring, (long long)position, (long long)lag, (long long)behind);
    newfunc make = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    PyObject *made = values == NULL ? NULL : make((PyTypeObject *)self->gate, values, NULL);
    Py_XDECREF(values);
    return made;
}

/* The gates of a slot. Each gate is loaded before `published`, so that no lag is too small. */
static PyObject *gates_of(const Look *self, int32_t slot)
{
    const geometry *shape = &self->shape;
    PyObject *list = PyList_New(0);
    for (int32_t ring = 0; list != NULL && ring < shape->publishers && has_ring(self, ring); ring++) {
        if (!has_gate(self, ring, slot))
            continue;
        int64_t gate = gate_of(self, ring, slot), position = word(self, gate), count = word(self, gate + GATE_COUNT);
        if (position < 0)
            continue;
        int64_t published = word(self, end_word(self, ring));
        int64_t done = word(self, ring_trailer_offset(shape, ring) + TRAILER_MESSAGES_DONE);
        int64_t behind =
            count >= 0 && shape->foreign == 0 && !shape->queue ? positive(added(done, -count)) : COUNT_UNKNOWN;
        if (shape->queue && slot == 0) /* slot 0 has no count, so count the jobs that no worker has taken */
            behind = untaken(self, ring, position);
        PyObject *one = gate_stats(self, ring, position, published < position ? 0 : published - position, behind);
        if (one == NULL || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    PyObject *tuple = list == NULL ? NULL : PyList_AsTuple(list);
    Py_XDECREF(list);
    return tuple;
}

static PyObject *subscriber_of(const Look *self, int32_t k)
{
    const geometry *shape = &self->shape;
    int64_t slot = subscriber_slot_offset(shape, k), outstanding = -1, expired = -1;
    bool foreign = shape->foreign == FEATURE_FOREIGN_SUBSCRIBER;
    slot_fields fields = fields_of(self, slot);
    const char *state = shape->queue && k == 0              ? "shared"
                        : foreign                           ? "foreign"
                        : self->live[shape->publishers + k] ? "live"
                        : fields.epoch == 0                 ? "unused"
                                                            : "away";
    if (shape->service && k > 0 && has_ring(self, shape->publishers / 2 + k - 1)) { /* service.md 11 */
        int64_t gate = gate_of(self, shape->publishers / 2 + k - 1, k);
        outstanding = positive(half(self, gate + GATE_OUTSTANDING));
        expired = positive(word(self, gate + GATE_EXPIRED));
    }
    PyObject *job = shape->queue && k > 0 ? job_of(self, k) : Py_NewRef(Py_None);
    PyObject *gates = job == NULL ? NULL : gates_of(self, k);
    if (gates == NULL) {
        Py_XDECREF(job);
        return NULL;
    }
    PyObject *values =
        Py_BuildValue("isLNiLNNLNNLL", (int)k, state, (long long)fields.epoch, name_of(&fields), (int)fields.pid,
                      (long long)fields.attached_at, PyBool_FromLong(half(self, slot + SUBSCRIBER_SLOT_KEPT) != 0),
                      PyBool_FromLong(half(self, slot + SUBSCRIBER_SLOT_EVICTING) != 0),
                      (long long)positive(word(self, slot + SUBSCRIBER_SLOT_DISCARDED)), job, gates,
                      (long long)outstanding, (long long)expired);
    PyObject *made = values == NULL ? NULL : PyObject_CallObject(self->subscriber, values);
    Py_XDECREF(values);
    return made;
}

/* A tuple of the first `count` publishers or subscribers. */
static PyObject *slots_of(const Look *self, PyObject *(*make)(const Look *, int32_t), int32_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int32_t k = 0; tuple != NULL && k < count; k++) {
        PyObject *one = make(self, k);
        if (one == NULL || PyTuple_SetItem(tuple, k, one) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *look(PyObject *module, PyObject *args)
{
    (void)module;
    File *file;
    Memory *memory;
    PyObject *dimensions, *result = NULL;
    long long now;
    Look self = {0};
    if (!PyArg_ParseTuple(args, "O!O!O!LOOO!O:look", file_type, &file, memory_type, &memory, &PyTuple_Type, &dimensions,
                          &now, &self.publisher, &self.subscriber, &PyType_Type, &self.gate, &self.job))
        return NULL;
    if (!geometry_parse(dimensions, INT64_MAX, &self.shape) || !memory_covers(memory, 0, 0))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)self.gate, &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "the class of gates is not a tuple");
        return NULL;
    }
    self.base = memory->base;
    self.length = memory->length;
    self.now = now;
    int32_t publishers = self.shape.publishers, slots = publishers + self.shape.subscribers;
    int64_t whole = positive((memory->length - publisher_slot_offset(&self.shape, 0)) / CONTROL_SLOT_LENGTH);
    int32_t there = whole < slots ? (int32_t)whole : slots; /* fewer in a truncated file */
    self.live = PyMem_Calloc((size_t)slots, sizeof *self.live);
    if (self.live == NULL)
        return PyErr_NoMemory();
    memory_use(memory); /* the classes are Python code, during which another thread may close the memory */
    errno = EBADF;
    if (!file_is_ours(file) || !test_locks(&self, file, 0, there)) {
        PyErr_SetFromErrno(PyExc_OSError);
    } else {
        PyObject *first = slots_of(&self, publisher_of, there < publishers ? there : publishers);
        PyObject *second = first == NULL ? NULL : slots_of(&self, subscriber_of, positive(there - publishers));
        if (second != NULL)
            result = PyTuple_Pack(2, first, second);
        Py_XDECREF(first);
        Py_XDECREF(second);
    }
    memory_unuse(memory);
    PyMem_Free(self.live);
    return result;
}
