/* SPDX-License-Identifier: Apache-2.0 */
/* The message objects of a reader, and the actions that its handlers return. */
#include "reader_parts.h"
#include "sbe/arrays.h"

static PyObject *actions[ABORT + 1]; /* the members of flyring.Action */

bool reader_load_actions(void)
{
    static const char *const names[] = {"CONTINUE", "COMMIT", "BREAK", "ABORT"};
    PyObject *module = PyImport_ImportModule("flyring.action");
    PyObject *type = module == NULL ? NULL : PyObject_GetAttrString(module, "Action");
    for (int i = HANDED; type != NULL && i <= ABORT; i++)
        actions[i] = PyObject_GetAttrString(type, names[i]);
    Py_XDECREF(type);
    Py_XDECREF(module);
    return actions[ABORT] != NULL;
}

Message *reader_acquire_message(Reader *self)
{
    Message *message = self->spare;
    self->spare = NULL;
    if (message == NULL)
        return self->kind->make_message != NULL ? self->kind->make_message((PyObject *)self)
                                                : message_in_place((PyObject *)self);
    message->owner = Py_NewRef((PyObject *)self);
    return message;
}

void reader_release_message(Reader *self, Message *message)
{
    message_expire(message);
    if (self->spare == NULL && Py_REFCNT((PyObject *)message) == 1)
        self->spare = message;
    else
        Py_DECREF((PyObject *)message);
}

bool reader_replace_message(Reader *self, Message **current)
{
    Message *message = *current;
    sender *from = message->from;
    message_expire(message);
    *current = reader_acquire_message(self);
    if (*current != NULL) {
        (*current)->ring = message->ring;
        (*current)->from = from;
    }
    Py_DECREF((PyObject *)message);
    return *current != NULL;
}

int reader_hand_out_array(Reader *self, void *poll, Message **current)
{
    Message *message = *current;
    return reader_handed_out(self, message, array_give(poll, message), current);
}

void reader_not_an_action(PyObject *type)
{
    PyObject *text = PyUnicode_FromFormat("a handler returned an object of type %U; return None, or one of "
                                          "flyring.Action. The message counts as consumed",
                                          type);
    if (text != NULL)
        raise_error("InvalidArgumentError", "(sO)", "action", text);
    Py_XDECREF(text);
}

/* Raise that the handler returned an object of this type (NULL: without a name). Returns RAISED. */
static int not_an_action(PyObject *type)
{
    if (type != NULL)
        reader_not_an_action(type);
    return RAISED;
}

int reader_action(const PyObject *result)
{
    for (int action = HANDED; action <= ABORT; action++) {
        if (result == actions[action])
            return action;
    }
    return -1;
}

COLD int reader_settle_result(Reader *self, Message *message, PyObject *result, Message **current)
{
    int action = HANDED;
    while (result != NULL && action <= ABORT && result != actions[action])
        action++;
    PyObject *type = action > ABORT ? PyType_GetName(Py_TYPE(result)) : NULL;
    Py_XDECREF(result); /* it may hold the last export */
    int settled = reader_settle(self, message, PyErr_Occurred() != NULL, current);
    if (settled == HANDED)
        settled = action > ABORT ? not_an_action(type) : action;
    Py_XDECREF(type);
    return settled;
}

COLD Py_ssize_t reader_end_poll(Reader *self, int ring, Py_ssize_t ended, Py_ssize_t total)
{
    Py_ssize_t done = -(ended + 2);
    if ((done & 1) != 0)
        self->next = ring; /* the next poll begins with the message that was aborted */
    total += done / 2;
    self->ended = total == 0;
    return total;
}
