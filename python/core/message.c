/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

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
    self->from = NULL;
    self->sender = NULL;
    self->held = NULL;
    return self;
}

static void release_owner(Message *self)
{
    if (self->held != NULL)
        *self->held = NULL;
    self->held = NULL;
    Py_CLEAR(self->owner);
}

void message_expire(Message *self)
{
    self->data = NULL;
    if (self->from != NULL && (self->held != NULL || Py_REFCNT((PyObject *)self) > 1)) {
        PyObject *kind, *value, *traceback; /* the message is kept, so it must have its sender now */
        PyErr_Fetch(&kind, &value, &traceback);
        Py_XDECREF(self->sender);
        self->sender = Py_XNewRef(sender_object(self->from));
        PyErr_Restore(kind, value, traceback); /* without memory for it, the message has no sender */
    }
    self->from = NULL;
    if (self->exports == 0)
        release_owner(self);
}

static int message_get_buffer(Message *self, Py_buffer *view, int flags)
{
    if (self->data == NULL) {
        view->obj = NULL;
        raise_error("ClosedError", "(sis)", "message", 0,
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
        release_owner(self); /* the caller holds a reference to the message itself */
}

static void message_dealloc(Message *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (self->owner != NULL)
        release_owner(self);
    Py_XDECREF(self->sender);
    PyObject_Free(self);
    Py_DECREF(type);
}

static Py_ssize_t message_length(Message *self)
{
    return self->length;
}

/* A message is true even if it is empty, because "while (message := take())" must not end there. */
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
    if (PyObject_GetBuffer(other, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (self->data == NULL) { /* tested now, because getting the buffer may have run Python code */
        PyBuffer_Release(&view);
        return raise_error("ClosedError", "(sis)", "message", 0,
                           "it was valid until its handler returned; compare it there, or use take");
    }
    bool equal = view.len == self->length && memcmp(view.buf, self->data, (size_t)view.len) == 0;
    PyBuffer_Release(&view);
    return Py_NewRef(equal == (operation == Py_EQ) ? Py_True : Py_False);
}

static PyObject *message_data(Message *self, void *ignored)
{
    (void)ignored;
    return PyMemoryView_FromObject((PyObject *)self);
}

static PyObject *message_sender(Message *self, void *ignored)
{
    (void)ignored;
    PyObject *sender = self->owner != NULL && self->from != NULL ? sender_object(self->from) : self->sender;
    if (sender == NULL && !PyErr_Occurred())
        return raise_error("ClosedError", "(sis)", "message", 0, "it has expired");
    return Py_XNewRef(sender);
}

static PyObject *message_repr(Message *self)
{
    return PyUnicode_FromFormat("<flyring.Message type=%d ring=%d position=%lld: %zd bytes%s>", (int)self->type,
                                (int)self->ring, (long long)self->position, self->length,
                                self->data == NULL ? ", expired" : "");
}

static PyMemberDef members[] = {
    {"type", T_INT, offsetof(Message, type), READONLY, "the type that the publisher gave, 1 or more"},
    {"ring", T_INT, offsetof(Message, ring), READONLY, "the number of the ring, and of its publisher's slot"},
    {"position", T_LONGLONG, offsetof(Message, position), READONLY, "where its record starts in the ring, in bytes"},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"sender", (getter)message_sender, NULL, "its publisher, as a flyring.Sender", NULL},
    {"data", (getter)message_data, NULL, "the payload as a read-only memoryview; ClosedError if it has expired", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "One message: its payload, type, ring, position and sender (spec/api.md).\n\n"
                "The payload is read through the buffer protocol, ``bytes(message)`` or ``message.data``. ``==``\n"
                "compares the payload with another message or any bytes-like object.\n\n"
                "A message from ``poll`` lies in the ring (that of a lossy subscriber in a private copy). It is\n"
                "valid until its handler returns; after that its payload raises ClosedError. A message from\n"
                "``take`` owns its bytes. A message from ``peek`` lies in the ring and may be overwritten at any\n"
                "time."},
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
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

PyTypeObject *make_message_type(PyObject *module)
{
    return message_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
