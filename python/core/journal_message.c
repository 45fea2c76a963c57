/* SPDX-License-Identifier: Apache-2.0 */
#include "journal_message.h"

#include <structmember.h>

PyTypeObject *journal_message_type;

static JournalMessage *new_message(Py_ssize_t length)
{
    JournalMessage *self = PyObject_NewVar(JournalMessage, journal_message_type, length);
    if (self == NULL)
        return NULL;
    Message *message = &self->message;
    message->owner = NULL;
    message->data = NULL;
    message->length = message->exports = 0;
    message->position = 0;
    message->type = message->ring = 0;
    message->from = NULL;
    message->sender = NULL;
    message->held = NULL;
    self->time = self->number = 0;
    return self;
}

Message *journal_message_in_place(PyObject *owner)
{
    JournalMessage *self = new_message(0);
    if (self != NULL)
        self->message.owner = Py_NewRef(owner);
    return (Message *)self;
}

JournalMessage *journal_message_new(Py_ssize_t length, int32_t type, int64_t position, int64_t time, int64_t number,
                                    PyObject *sender)
{
    JournalMessage *self = new_message(length);
    if (self == NULL)
        return NULL;
    message_fill(&self->message, self->bytes, length, type, 0, position, sender);
    self->time = time;
    self->number = number;
    return self;
}

static void message_dealloc(JournalMessage *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF(self->message.owner);
    Py_XDECREF(self->message.sender);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *message_repr(JournalMessage *self)
{
    const Message *message = &self->message;
    return PyUnicode_FromFormat("<flyring.JournalMessage type=%d number=%lld position=%lld: %zd bytes%s>",
                                (int)message->type, (long long)self->number, (long long)message->position,
                                message->length, message->data == NULL ? ", expired" : "");
}

static PyMemberDef members[] = {
    {"time", T_LONGLONG, offsetof(JournalMessage, time), READONLY,
     "when it was appended, in ns since 1970, or the time that its writer gave"},
    {"number", T_LONGLONG, offsetof(JournalMessage, number), READONLY,
     "how many messages lie before it in the journal"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "One message of a journal: a ``flyring.Message`` with a time and a number (spec/api.md, Journal).\n\n"
     "``position`` is where its record begins, by which a reader may begin with it later. ``ring`` is 0, and\n"
     "the ``sender`` is not known. A message from ``poll`` is valid until its handler returns; one from\n"
     "``take``, ``pop`` or ``peek`` owns its bytes."},
    {Py_tp_dealloc, message_dealloc},
    {Py_tp_members, members},
    {Py_tp_repr, message_repr},
    {0, NULL},
};

static PyType_Spec spec = {"flyring.JournalMessage", offsetof(JournalMessage, bytes), 1,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

PyTypeObject *make_journal_message_type(PyObject *module)
{
    return journal_message_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, (PyObject *)message_type);
}
