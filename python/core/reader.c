/* SPDX-License-Identifier: Apache-2.0 */
/* What reliable and lossy subscribers share. */
#include "reader.h"

Message *reader_borrow_shell(Reader *self)
{
    Message *message = self->spare;
    self->spare = NULL;
    if (message == NULL)
        return message_in_place((PyObject *)self);
    message->owner = Py_NewRef((PyObject *)self);
    return message;
}

void reader_return_shell(Reader *self, Message *message)
{
    message_expire(message);
    if (self->spare == NULL && Py_REFCNT((PyObject *)message) == 1)
        self->spare = message;
    else
        Py_DECREF((PyObject *)message);
}

bool reader_other_shell(Reader *self, Message **shell)
{
    Message *message = *shell;
    sender *from = message->from;
    message_expire(message);
    *shell = reader_borrow_shell(self);
    if (*shell != NULL) {
        (*shell)->ring = message->ring;
        (*shell)->from = from;
    }
    Py_DECREF((PyObject *)message);
    return *shell != NULL;
}

PyObject *reader_view_alive(void)
{
    return core_raise("ViewAliveError", "(s)",
                      "a memoryview or array of a message is still alive after its handler returned; "
                      "release it, or copy the message (bytes) instead");
}

bool reader_may_close(Reader *self)
{
    if (self->use != BUSY || self->forked)
        return true;
    if (self->thread == PyThread_get_thread_ident())
        core_raise("ViewAliveError", "(s)", "close inside of a handler would unmap its message; return first");
    else
        core_raise("TwoThreadsError", "(s)", "subscriber");
    return false;
}

PyObject *reader_no_such_ring(void)
{
    return core_raise("InvalidArgumentError", "(ss)", "ring", "this subscriber did not choose that ring");
}

PyObject *reader_rings(int count, int32_t (*ring)(Reader *, int), Reader *self)
{
    PyObject *rings = PyTuple_New(count);
    for (int i = 0; rings != NULL && i < count; i++) {
        PyObject *number = PyLong_FromLong(ring(self, i));
        if (number == NULL || PyTuple_SetItem(rings, i, number) < 0)
            Py_CLEAR(rings);
    }
    return rings;
}

/* After WAITING: false with an exception, one of our own if `fine`. */
static bool end_of_wait(Reader *self, bool fine)
{
    self->use = IDLE;
    if (self->closed) { /* by another thread meanwhile, which left the memory to us */
        self->kind->let_go(self);
        if (fine)
            core_raise("ClosedError", "(s)", "subscriber");
        return false;
    }
    return fine;
}

/* 6.13: false with an exception. To be called after each poll that found nothing. */
static bool look_now_and_then(Reader *self)
{
    if (++self->idle < POLLS_TO_LOOK)
        return true;
    self->idle = 0;
    self->use = WAITING;
    bool fine = core_look((PyObject *)self);
    return end_of_wait(self, fine);
}

/* A look without the GIL counts as a poll, too; it does not take the GIL for 6.13, for a slice lasts 2 ms at most. */
static bool ready(void *context)
{
    Reader *self = context;
    if (self->kind->ready(self))
        return true;
    if (self->idle < POLLS_TO_LOOK)
        self->idle++;
    return false;
}

/* 1 look again, 0 time is up, -1 an exception. */
static int wait_for_more(Reader *self, wait_state *state)
{
    self->use = WAITING;
    int result = wait_some(state, ready, self);
    if (!end_of_wait(self, result != -1) || !self->kind->usable(self))
        return -1;
    return result == -2 ? 0 : 1;
}

PyObject *reader_poll(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"handler", "limit", "timeout"};
    static const signature expected = {parameters, 3, 1};
    PyObject *values[3] = {NULL, NULL, NULL};
    Py_ssize_t limit = DEFAULT_POLL_LIMIT;
    int64_t timeout = WAIT_NOT;
    if (!parse_arguments(&expected, args, n, names, values))
        return NULL;
    if (!PyCallable_Check(values[0])) {
        PyErr_SetString(PyExc_TypeError, "handler must be callable");
        return NULL;
    }
    if ((values[1] != NULL && !reader_limit(values[1], &limit)) ||
        (values[2] != NULL && (timeout = wait_timeout(values[2])) < 0))
        return NULL;
    return reader_poll_by(self, self->kind->poll, values[0], limit, timeout);
}

bool reader_limit(PyObject *object, Py_ssize_t *limit)
{
    *limit = PyNumber_AsSsize_t(object, PyExc_OverflowError);
    if (*limit == -1 && PyErr_Occurred())
        return false;
    if (*limit < 1)
        core_raise("InvalidArgumentError", "(ss)", "limit", "must be 1 or more messages");
    return *limit >= 1;
}

PyObject *reader_poll_by(Reader *self, poll_function *poll, void *how, Py_ssize_t limit, int64_t timeout)
{
    if (!self->kind->usable(self))
        return NULL;
    Py_INCREF((PyObject *)self); /* a handler may drop the last reference */
    Py_ssize_t done = poll(self, how, limit);
    if (done == 0 && timeout != WAIT_NOT) {
        wait_state state;
        wait_begin(&state, self->wait, timeout);
        for (int again = 1; done == 0 && again > 0;) {
            if (!look_now_and_then(self))
                done = -1;
            else if ((again = wait_for_more(self, &state)) < 0)
                done = -1;
            else if (again > 0)
                done = poll(self, how, limit);
        }
    } else if (done == 0 && !look_now_and_then(self)) {
        done = -1;
    }
    if (done > 0)
        self->idle = 0;
    Py_DECREF((PyObject *)self);
    return done < 0 ? NULL : PyLong_FromSsize_t(done);
}

int64_t reader_take_timeout(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"timeout"};
    static const signature expected = {parameters, 1, 0};
    PyObject *values[1] = {NULL};
    if (!parse_arguments(&expected, args, n, names, values))
        return -1;
    return values[0] == NULL ? WAIT_NOT : wait_timeout(values[0]);
}

PyObject *reader_take_waiting(Reader *self, int64_t timeout)
{
    if (PyErr_Occurred() || !look_now_and_then(self))
        return NULL;
    if (timeout == WAIT_NOT)
        return Py_NewRef(Py_None);
    wait_state state;
    wait_begin(&state, self->wait, timeout);
    for (;;) {
        int again = wait_for_more(self, &state);
        if (again < 0)
            return NULL;
        PyObject *message = self->kind->take(self);
        if (message != NULL || PyErr_Occurred())
            return message;
        if (!look_now_and_then(self))
            return NULL;
        if (again == 0)
            return Py_NewRef(Py_None);
    }
}
