/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: space in the ring, which is filled in place through the buffer protocol, then committed or aborted. */
#include "arguments.h"
#include "journal_writer.h"

PyTypeObject *claim_type;

Claim *claim_new(Publisher *publisher, JournalWriter *journal, Py_ssize_t length)
{
    Claim *self = PyObject_New(Claim, claim_type);
    if (self == NULL)
        return NULL;
    self->publisher = (Publisher *)Py_XNewRef((PyObject *)publisher);
    self->journal = (JournalWriter *)Py_XNewRef((PyObject *)journal);
    self->data = NULL;
    self->length = length;
    self->exports = 0;
    return self;
}

bool claim_is_forked(const Claim *self)
{
    return self->publisher != NULL ? self->publisher->forked : self->journal->forked;
}

PyObject *publisher_close_claim(Publisher *self, bool commit)
{
    Claim *claim = self->claim;
    ring_writer *ring = &self->writer.ring;
    if (self->busy && !self->closed && !self->forked) { /* another thread flushes, so the claim stays open */
        publisher_in_use(self);
        return NULL;
    }
    if (publisher_in_use(self)) { /* checked before each commit, too (5.4) */
        claim->data = NULL;
        self->claim = NULL;
        return NULL;
    }
    int64_t length = RECORD_HEADER_LENGTH + claim->length;
    if (!commit)
        ring_set_type(ring, TYPE_PADDING);
    ring_commit(ring, length);
    ring_advance(ring, ring_record_size(ring, length), commit ? 1 : 0);
    if (commit)
        publisher_wake(self); /* publish 10 */
    claim->data = NULL;
    self->claim = NULL;
    return PyLong_FromLongLong(ring->end);
}

void publisher_drop_claim(Publisher *self)
{
    bool busy = self->busy;
    self->busy = false; /* a flush only reads gates, so an abort is safe */
    PyObject *position = publisher_close_claim(self, false);
    if (position == NULL)
        PyErr_Clear(); /* closed or lost meanwhile, so there is nothing to abort */
    Py_XDECREF(position);
    self->busy = busy;
}

static int claim_get_buffer(Claim *self, Py_buffer *view, int flags)
{
    if (self->data == NULL || claim_is_forked(self)) {
        view->obj = NULL;
        raise_error("ClosedError", "(si)", "claim", (int)claim_is_forked(self));
        return -1;
    }
    if (PyBuffer_FillInfo(view, (PyObject *)self, self->data, self->length, 0, flags) < 0)
        return -1;
    self->exports++;
    return 0;
}

static void claim_release_buffer(Claim *self, Py_buffer *view)
{
    (void)view;
    self->exports--;
}

PyObject *claim_close(Claim *self, bool commit)
{
    if (self->data == NULL)
        return raise_error("ClosedError", "(s)", "claim");
    if (self->exports != 0 && !claim_is_forked(self))
        return raise_error(
            "ViewAliveError", "(s)",
            "a memoryview or array of this claim is still alive; release it first (the claim stays open)");
    return self->publisher != NULL ? publisher_close_claim(self->publisher, commit)
                                   : journal_close_claim(self->journal, commit);
}

static PyObject *claim_commit(Claim *self, PyObject *ignored)
{
    (void)ignored;
    return claim_close(self, true);
}

static PyObject *claim_abort(Claim *self, PyObject *ignored)
{
    (void)ignored;
    return claim_close(self, false);
}

static PyObject *claim_enter(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_NewRef(self);
}

PyObject *claim_exit(Claim *self, PyObject *const *args, Py_ssize_t n)
{
    if (self->data != NULL) {
        PyObject *position = claim_close(self, n == 0 || args[0] == Py_None);
        if (position == NULL)
            return NULL;
        Py_DECREF(position);
    }
    return Py_NewRef(Py_None);
}

void claim_drop(Claim *self)
{
    if (self->data != NULL) { /* there are no exports, because each holds a reference */
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback);
        if (self->publisher != NULL)
            publisher_drop_claim(self->publisher);
        else
            journal_drop_claim(self->journal);
        PyErr_Restore(kind, value, traceback);
    }
    Py_XDECREF((PyObject *)self->publisher);
    Py_XDECREF((PyObject *)self->journal);
}

static void claim_dealloc(Claim *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    claim_drop(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static Py_ssize_t claim_length(Claim *self)
{
    return self->length;
}

static int claim_is_true(Claim *self)
{
    (void)self;
    return 1;
}

static PyObject *claim_data(Claim *self, void *ignored)
{
    (void)ignored;
    return PyMemoryView_FromObject((PyObject *)self);
}

/* claim[i], claim[i:j] and their assignment go through a temporary memoryview. */

static PyObject *claim_get_item(PyObject *self, PyObject *key)
{
    PyObject *view = PyMemoryView_FromObject(self);
    if (view == NULL)
        return NULL;
    PyObject *item = PyObject_GetItem(view, key);
    Py_DECREF(view);
    return item;
}

static int claim_set_item(PyObject *self, PyObject *key, PyObject *value)
{
    if (value == NULL) {
        PyErr_SetString(PyExc_TypeError, "the bytes of a claim cannot be deleted");
        return -1;
    }
    PyObject *view = PyMemoryView_FromObject(self);
    if (view == NULL)
        return -1;
    int result = PyObject_SetItem(view, key, value);
    Py_DECREF(view);
    return result;
}

static PyMethodDef methods[] = {
    {"commit", (PyCFunction)claim_commit, METH_NOARGS,
     "commit($self, /)\n--\n\n"
     "Publishes the claim. Returns the ring's new end position, in bytes; of a journal the message's position.\n\n"
     "Raises ViewAliveError if a memoryview or array of the claim is alive (the claim stays open); ClosedError\n"
     "if the claim has ended or the publisher is closed; SlotLostError."},
    {"abort", (PyCFunction)claim_abort, METH_NOARGS,
     "abort($self, /)\n--\n\n"
     "Gives the claim up; its space becomes padding. Returns the ring's new end position, in bytes. Raises the\n"
     "errors of ``commit``."},
    {"__enter__", claim_enter, METH_NOARGS, NULL},
    {"__exit__", FAST(claim_exit), "Commits the claim if it is still open. After an exception, aborts it."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"data", (getter)claim_data, NULL, "the space as a writable memoryview, to be released before commit", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Space in the ring for one message, to be filled in place and then committed or aborted\n"
                "(spec/api.md).\n\n"
                "Fill the space through ``claim[i:j] = bytes``, ``struct.pack_into(..., claim, 0, ...)``,\n"
                "``numpy.frombuffer(claim)`` or ``claim.data``. A claim is a context manager: the end of the\n"
                "``with`` block commits it, and an exception aborts it."},
    {Py_tp_dealloc, claim_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_mp_length, claim_length},
    {Py_nb_bool, claim_is_true},
    {Py_mp_subscript, claim_get_item},
    {Py_mp_ass_subscript, claim_set_item},
    {Py_bf_getbuffer, claim_get_buffer},
    {Py_bf_releasebuffer, claim_release_buffer},
    {0, NULL},
};

static PyType_Spec spec = {"flyring.Claim", sizeof(Claim), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

PyTypeObject *make_claim_type(PyObject *module)
{
    return claim_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
