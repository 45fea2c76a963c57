/* SPDX-License-Identifier: Apache-2.0 */
/* JournalReader: creation, close, methods, and what its Python part sets (spec/journal.md 3.3, 6). */
#include "journal_reader.h"

static const int64_t no_epoch; /* what a reader without a slot watches */

static PyObject *journal_reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *memory, *file, *walk, *wait, *lock;
    Py_buffer boot;
    int durable, strategy;
    long long slot, epoch, lost;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!y*pOOLLL:JournalReader", memory_type, &memory, file_type, &file,
                          journal_walk_type, &walk, &boot, &durable, &wait, &lock, &slot, &epoch, &lost))
        return NULL;
    uint8_t this_boot[16] = {0};
    bool valid = boot.len == sizeof this_boot;
    if (valid)
        memcpy(this_boot, boot.buf, sizeof this_boot);
    PyBuffer_Release(&boot);
    Memory *control = (Memory *)memory;
    if (wait_parse(wait, &strategy) < 0 || !memory_covers(control, HEADER_LENGTH, JOURNAL_CONTROL_CONSUMERS))
        return NULL;
    bool consumes = lock != Py_None;
    if (!valid || (consumes && (!PyObject_TypeCheck(lock, file_type) || !control->writable || slot % 8 != 0 ||
                                slot < HEADER_LENGTH || slot + JOURNAL_CONSUMER_SIZE > control->length))) {
        PyErr_SetString(PyExc_ValueError, "not a boot id, or not a consumer's slot of a writable mapping");
        return NULL;
    }
    geometry shape = {.publishers = 1,
                      .control = HEADER_LENGTH,
                      .capacity = ((JournalWalk *)walk)->window.size,
                      .alignment = JOURNAL_UNIT}; /* the words that Reader uses lie where a channel's do */
    JournalReader *self = (JournalReader *)reader_new(
        type, &journal_reader_kind, control, control->writable ? control : NULL, (File *)file, &shape, 1, strategy);
    if (self == NULL)
        return NULL;
    self->size = shape.capacity;
    self->control = control->base + HEADER_LENGTH;
    self->walk = (JournalWalk *)Py_NewRef(walk);
    self->durable = durable;
    self->proven = self->after = self->quiet = -1;
    self->ceiling = INT64_MAX;
    self->lost = lost;
    self->fresh = true;
    memcpy(self->boot, this_boot, sizeof this_boot);
    if (consumes) {
        self->lock = (File *)Py_NewRef(lock);
        self->slot = control->base + slot;
        self->stored = LOAD64_ACQUIRE(self->slot + JOURNAL_CONSUMER_GATE);
        epoch_watch(&self->base.epoch, self->slot + SUBSCRIBER_SLOT_EPOCH, epoch);
    } else {
        epoch_watch(&self->base.epoch, (const uint8_t *)&no_epoch, 0);
    }
    return (PyObject *)self;
}

static void journal_reader_dealloc(JournalReader *self)
{
    if (self->walk != NULL)
        reader_shut(&self->base);
    journal_unmap(self);
    Py_XDECREF((PyObject *)self->walk);
    Py_XDECREF((PyObject *)self->lock);
    Py_XDECREF(self->unknown.object);
    reader_dealloc(&self->base);
}

/* For Python: where it is, and what comes next */

static PyObject *reader_place(JournalReader *self, PyObject *args)
{
    long long cursor, number, span, count;
    int fresh;
    if (!PyArg_ParseTuple(args, "LLLLp:_place", &cursor, &number, &span, &count, &fresh))
        return NULL;
    self->cursor = cursor;
    self->number = number;
    self->span = span;
    self->span_count = count;
    self->fresh = fresh;
    self->proven = self->after = self->quiet = -1;
    journal_unmap(self);
    return Py_NewRef(Py_None);
}

static PyObject *reader_prove(JournalReader *self, PyObject *args)
{
    long long proven, after;
    if (!PyArg_ParseTuple(args, "LL:_prove", &proven, &after))
        return NULL;
    const journal_window *window = &self->walk->window;
    if (proven < self->cursor || after < proven || self->cursor < window->from ||
        proven > window->segment + self->size) {
        PyErr_SetString(PyExc_ValueError, "not a part of the walk's span");
        return NULL;
    }
    self->proven = proven;
    self->after = after;
    return Py_NewRef(Py_None);
}

static PyObject *reader_map(JournalReader *self, PyObject *args)
{
    PyObject *memory;
    long long segment, until;
    if (!PyArg_ParseTuple(args, "OLL:_map", &memory, &segment, &until))
        return NULL;
    if (memory != Py_None) {
        if (!PyObject_TypeCheck(memory, memory_type) ||
            !memory_covers((Memory *)memory, 0, HEADER_LENGTH + self->size)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a Memory");
            return NULL;
        }
        memory_use((Memory *)memory);
        journal_unmap(self);
        self->tail = (Memory *)memory;
        self->tail_segment = segment;
    }
    self->tail_until = until;
    return Py_NewRef(Py_None);
}

static PyObject *reader_set_foreign(JournalReader *self, PyObject *args)
{
    int foreign, blocked;
    if (!PyArg_ParseTuple(args, "pp:_set_foreign", &foreign, &blocked))
        return NULL;
    self->foreign = foreign;
    self->blocked = blocked;
    return Py_NewRef(Py_None);
}

static PyObject *reader_lose(JournalReader *self, PyObject *number)
{
    int64_t messages = PyLong_AsLongLong(number);
    if (messages == -1 && PyErr_Occurred())
        return NULL;
    self->lost = (int64_t)((uint64_t)self->lost + (uint64_t)messages);
    return Py_NewRef(Py_None);
}

static PyObject *reader_cut(JournalReader *self, PyObject *ignored)
{
    (void)ignored;
    self->cuts++;
    return Py_NewRef(Py_None);
}

static PyObject *reader_limit_to(JournalReader *self, PyObject *number)
{
    int64_t ceiling = PyLong_AsLongLong(number);
    if (ceiling == -1 && PyErr_Occurred())
        return NULL;
    self->ceiling = ceiling;
    return Py_NewRef(Py_None);
}

static PyObject *reader_wait_beyond(JournalReader *self, PyObject *number)
{
    int64_t quiet = PyLong_AsLongLong(number);
    if (quiet == -1 && PyErr_Occurred())
        return NULL;
    self->quiet = quiet;
    return Py_NewRef(Py_None);
}

static PyObject *reader_limit(JournalReader *self, PyObject *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(journal_read_limit(self));
}

/* Store the gate, also where it is already, with the count and loss of now. */
static PyObject *reader_store(JournalReader *self, PyObject *ignored)
{
    (void)ignored;
    if (self->slot != NULL && epoch_holds(&self->base.epoch))
        journal_store_gate(self, self->cursor, self->number);
    return Py_NewRef(Py_None);
}

/* For forget, under the control lock: removes the name. Raises if the consumer cannot be used: then another process may
   have the slot. */
static PyObject *reader_unkeep(JournalReader *self, PyObject *ignored)
{
    (void)ignored;
    if (!journal_reader_kind.usable(&self->base))
        return NULL;
    if (self->slot != NULL)
        STORE32_RELEASE(self->slot + SUBSCRIBER_SLOT_KEPT, 0); /* pairs with trim (acquire) */
    return Py_NewRef(Py_None);
}

/* False with an exception if it cannot be used. */
static PyObject *reader_check(JournalReader *self, PyObject *ignored)
{
    (void)ignored;
    return journal_reader_kind.usable(&self->base) ? Py_NewRef(Py_None) : NULL;
}

#define NUMBER_GETTER(name, value) \
    static PyObject *get_##name(JournalReader *self, void *ignored) \
    { \
        (void)ignored; \
        return PyLong_FromLongLong((long long)(value)); \
    }

NUMBER_GETTER(position, self->cursor)
NUMBER_GETTER(number, self->number)
NUMBER_GETTER(lost, self->lost)
NUMBER_GETTER(cuts, self->cuts)
NUMBER_GETTER(span, self->span)
NUMBER_GETTER(span_count, self->span_count)
NUMBER_GETTER(mapped, self->tail == NULL ? -1 : self->tail_segment)
NUMBER_GETTER(epoch, self->base.epoch.value)

static PyObject *get_fresh(JournalReader *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->fresh);
}

static PyObject *get_foreign(JournalReader *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->foreign);
}

static PyObject *get_durable(JournalReader *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->durable);
}

static PyMethodDef methods[] = {
    READER_FAST_METHODS(journal_take),
    {"_peek", (PyCFunction)journal_peek, METH_NOARGS, NULL},
    {"_check", (PyCFunction)reader_check, METH_NOARGS, "raises the error if it cannot be used now"},
    {"_place", (PyCFunction)reader_place, METH_VARARGS, "_place(position, number, span, count before the span, fresh)"},
    {"_prove", (PyCFunction)reader_prove, METH_VARARGS,
     "_prove(until, after): up to there the walk's span was found right; reading goes on at `after`"},
    {"_map", (PyCFunction)reader_map, METH_VARARGS,
     "_map(memory or None, segment, until): reads that segment as the tail, below `until` in any case"},
    {"_set_foreign", (PyCFunction)reader_set_foreign, METH_VARARGS, "_set_foreign(foreign, blocked)"},
    {"_lose", (PyCFunction)reader_lose, METH_O, "_lose(messages)"},
    {"_count_cut", (PyCFunction)reader_cut, METH_NOARGS, NULL},
    {"_limit_to", (PyCFunction)reader_limit_to, METH_O, "_limit_to(position): `published` counts up to there"},
    {"_wait_beyond", (PyCFunction)reader_wait_beyond, METH_O,
     "_wait_beyond(position): reads nothing until more than that is published"},
    {"_limit", (PyCFunction)reader_limit, METH_NOARGS, "_limit() -> up to where it may read now"},
    {"_store", (PyCFunction)reader_store, METH_NOARGS, "stores the gate"},
    {"_unkeep", (PyCFunction)reader_unkeep, METH_NOARGS, "a consumer's slot loses its name"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"position", (getter)get_position, NULL,
     "where the next record lies that it has not read, in bytes since the journal's creation", NULL},
    {"number", (getter)get_number, NULL, "how many messages lie before that position", NULL},
    {"lost", (getter)get_lost, NULL,
     "how many messages it lost: they were trimmed before it read them, or skipped as damaged", NULL},
    {"cuts", (getter)get_cuts, NULL, "how many places it passed where a power loss or a failed sync took the end",
     NULL},
    {"durable", (getter)get_durable, NULL, "whether it reads only what is synced", NULL},
    {"_span", (getter)get_span, NULL, NULL, NULL},
    {"_span_count", (getter)get_span_count, NULL, NULL, NULL},
    {"_fresh", (getter)get_fresh, NULL, NULL, NULL},
    {"_foreign", (getter)get_foreign, NULL, NULL, NULL},
    {"_mapped", (getter)get_mapped, NULL, NULL, NULL},
    {"_epoch", (getter)get_epoch, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, journal_reader_new},
    {Py_tp_dealloc, journal_reader_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    READER_ITERATION,
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.JournalReader", sizeof(JournalReader), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyTypeObject *make_journal_reader_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, (PyObject *)reader_type);
}
