/* SPDX-License-Identifier: Apache-2.0 */
/* Message: in place during a poll (a read-only exporter that counts its exports), or a copy that owns its bytes. */
#include "core.h"

#include <structmember.h>

PyTypeObject *message_type;

Message *message_in_place(PyObject *owner)
{
    Message *self = PyObject_NewVar(Message, message_type, 0);
    if (self == NULL)
        return NULL;
    self->owner = Py_NewRef(owner);
    self->data = NULL;
    self->length = 0;
    self->exports = 0;
    self->position = 0;
    self->type = self->ring = 0;
    return self;
}

Message *message_copy(const uint8_t *bytes, Py_ssize_t length, int32_t type, int32_t ring, int64_t position)
{
    Message *self = PyObject_NewVar(Message, message_type, length);
    if (self == NULL)
        return NULL;
    memcpy(self->bytes, bytes, (size_t)length);
    self->owner = NULL;
    self->data = self->bytes;
    self->length = length;
    self->exports = 0;
    self->position = position;
    self->type = type;
    self->ring = ring;
    return self;
}

void message_expire(Message *self)
{
    self->data = NULL;
    if (self->exports == 0)
        Py_CLEAR(self->owner);
}

static int message_get_buffer(Message *self, Py_buffer *view, int flags)
{
    if (self->data == NULL) {
        view->obj = NULL;
        core_raise("ClosedError", "(sis)", "message", 0,
                   "it was valid until its handler returned; copy it there, or use take");
        return -1;
    }
    if (PyBuffer_FillInfo(view, (PyObject *)self, (void *)self->data, self->length, 1, flags) < 0)
        return -1;
    self->exports++;
    return 0;
}

static void message_release_buffer(Message *self, Py_buffer *view)
{
    (void)view;
    self->exports--;
    if (self->exports == 0 && self->data == NULL)
        Py_CLEAR(self->owner); /* the caller holds a reference to the message itself */
}

static void message_dealloc(Message *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF(self->owner);
    PyObject_Free(self);
    Py_DECREF(type);
}

static Py_ssize_t message_length(Message *self)
{
    return self->length;
}

/* A message is true even if it is empty: "while (message := take())" must not end there. */
static int message_is_true(Message *self)
{
    (void)self;
    return 1;
}

/* == and != compare payloads, with another message or with any bytes-like object. */
static PyObject *message_compare(Message *self, PyObject *other, int operation)
{
    Py_buffer view;
    if ((operation != Py_EQ && operation != Py_NE) || !PyObject_CheckBuffer(other))
        return Py_NewRef(Py_NotImplemented);
    if (self->data == NULL)
        return core_raise("ClosedError", "(sis)", "message", 0,
                          "it was valid until its handler returned; compare it there, or use take");
    if (PyObject_GetBuffer(other, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    bool equal = view.len == self->length && memcmp(view.buf, self->data, (size_t)view.len) == 0;
    PyBuffer_Release(&view);
    return Py_NewRef(equal == (operation == Py_EQ) ? Py_True : Py_False);
}

static PyObject *message_data(Message *self, void *ignored)
{
    (void)ignored;
    return PyMemoryView_FromObject((PyObject *)self);
}

static PyObject *message_repr(Message *self)
{
    return PyUnicode_FromFormat("<flyring.Message type=%d ring=%d position=%lld: %zd bytes%s>", (int)self->type,
                                (int)self->ring, (long long)self->position, self->length,
                                self->data == NULL ? ", expired" : "");
}

static PyMemberDef members[] = {
    {"type", T_INT, offsetof(Message, type), READONLY, "the publisher's type, 1 or more"},
    {"ring", T_INT, offsetof(Message, ring), READONLY, "the ring, and so the publisher, that it came from"},
    {"position", T_LONGLONG, offsetof(Message, position), READONLY, "bytes: where its record starts in the ring"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"data", (getter)message_data, NULL, "the payload as a read-only memoryview; ClosedError if expired", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "One message: payload (buffer protocol, bytes(message), .data, ==), type, ring, position (spec/api.md).\n\n"
     "From poll it lies in the ring and is valid until its handler returns; from take it owns its bytes."},
    {Py_tp_dealloc, message_dealloc},
    {Py_tp_members, members},
    {Py_tp_getset, getters},
    {Py_tp_repr, message_repr},
    {Py_tp_richcompare, message_compare},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_sq_length, message_length},
    {Py_nb_bool, message_is_true},
    {Py_bf_getbuffer, message_get_buffer},
    {Py_bf_releasebuffer, message_release_buffer},
    {0, NULL},
};

static PyType_Spec spec = {"flyring.Message", offsetof(Message, bytes), 1,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

PyTypeObject *make_message_type(PyObject *module)
{
    return message_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
