/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include <structmember.h>

PyTypeObject *answer_type;

bool server_lives(const geometry *shape, const uint8_t *base, const File *lock, int64_t e)
{
    return e > 0 && e <= MAX_EPOCH && lock_is_held(lock, subscriber_slot_offset(shape, 0) + CONTROL_SLOT_LOCK) &&
           LOAD64_ACQUIRE(base + shape->control + CONTROL_SERVING) == e; /* pairs with take server 2, 7 */
}

Answer *answer_new(const uint8_t *bytes, int64_t length, int32_t type, int32_t ring, int64_t position, bool repeat,
                   PyObject *sender)
{
    Answer *self = PyObject_NewVar(Answer, answer_type, (Py_ssize_t)length);
    if (UNLIKELY(self == NULL))
        return NULL;
    message_fill(&self->message, self->bytes, (Py_ssize_t)length, type, ring, position, sender);
    self->repeat = repeat;
    if (length != 0)
        memcpy(self->bytes, bytes, (size_t)length);
    return self;
}

/* message_behind(message, bytes): returns a copy without the first bytes. */
PyObject *message_behind(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object;
    Py_ssize_t skipped;
    if (!PyArg_ParseTuple(args, "On:message_behind", &object, &skipped))
        return NULL;
    if (!is_message(object) || ((Message *)object)->data == NULL || skipped < 0 ||
        skipped > ((Message *)object)->length) {
        PyErr_SetString(PyExc_ValueError, "no message, or shorter than that");
        return NULL;
    }
    PyObject *from = PyObject_GetAttrString(object, "sender");
    const Message *message = (Message *)object;
    Message *copy = NULL;
    if (from != NULL && message->data != NULL)
        copy = message_new(message->length - skipped, message->type, message->ring, message->position, from);
    if (copy != NULL)
        memcpy(copy->bytes, message->data + skipped, (size_t)copy->length);
    Py_XDECREF(from);
    return (PyObject *)copy;
}

static void answer_dealloc(Answer *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF(self->message.sender);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *answer_repeat(Answer *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->repeat);
}

static PyGetSetDef getters[] = {
    {"repeat", (getter)answer_repeat, NULL, "whether the request may have run more than once", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "The reply to a call, or one item of a stream. A message that owns its bytes (spec/api.md)."},
    {Py_tp_dealloc, answer_dealloc},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring.Answer", sizeof(Answer), 1, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

PyTypeObject *make_answer_type(PyObject *module)
{
    return answer_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, (PyObject *)message_type);
}
