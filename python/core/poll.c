/* SPDX-License-Identifier: Apache-2.0 */
/* poll and take (spec 6.9). */
#include "subscriber.h"

typedef struct {
    const uint8_t *payload;
    int64_t length, next; /* of the payload; where the next record starts */
    int32_t type;
} record;

/* 6.9, 2: the ring is out until the subscriber closes. */
static void ring_is_corrupt(Subscriber *self, ring_reader *ring, const char *reason, int64_t value)
{
    char text[100];
    PyOS_snprintf(text, sizeof text, reason, (long long)value);
    ring->corrupt = true;
    if (!self->kept)
        store_gate(ring, NOT_GATING);
    core_raise("CorruptRingError", "(iLs)", ring->ring, (long long)ring->cursor, text);
}

/* The next message at or after the cursor, which moves over what is not a message: 1 found, 0 none, -1 corrupt. */
static inline int next_message(Subscriber *self, ring_reader *ring, record *found)
{
    for (int64_t stop = ring->cursor + self->capacity; ring->cursor < stop;) { /* a hostile ring might be all padding */
        const uint8_t *at = ring->data + (ring->cursor & self->mask);
        int64_t length = LOAD32_ACQUIRE((void *)(at + RECORD_LENGTH)); /* 6.9, 1: once; pairs with publish 6 */
        if (length <= 0)
            return 0;
        int64_t n = (length + self->alignment - 1) & -self->alignment;
        if (UNLIKELY(length < RECORD_HEADER_LENGTH || (ring->cursor & self->mask) + n > self->capacity)) {
            ring_is_corrupt(self, ring, "a record of %lld bytes cannot be here", length);
            return -1;
        }
        found->type = LOAD32_RELAXED((void *)(at + RECORD_TYPE));
        if (LIKELY(found->type > 0)) {
            found->payload = at + RECORD_PAYLOAD;
            found->length = length - RECORD_HEADER_LENGTH;
            found->next = ring->cursor + n;
            return 1;
        }
        if (found->type != TYPE_PADDING && found->type != TYPE_OWNER) {
            ring_is_corrupt(self, ring, "there is no record type %lld", found->type);
            return -1;
        }
        ring->cursor += n;
        if (ring->cursor - ring->stored >= self->store_every)
            store_gate(ring, ring->cursor);
    }
    return 0;
}

/* A shell for messages in place. */
static Message *borrow_shell(Subscriber *self)
{
    Message *message = self->spare;
    self->spare = NULL;
    if (message == NULL)
        return message_in_place((PyObject *)self);
    message->owner = Py_NewRef((PyObject *)self);
    return message;
}

static void return_shell(Subscriber *self, Message *message)
{
    message_expire(message);
    if (self->spare == NULL && Py_REFCNT((PyObject *)message) == 1)
        self->spare = message;
    else
        Py_DECREF((PyObject *)message);
}

/* 6.9 on one ring: how many messages were handed out, at most `limit`; -1 with an exception. */
static Py_ssize_t poll_ring(Subscriber *self, ring_reader *ring, PyObject *handler, Py_ssize_t limit, Message **shell)
{
    Py_ssize_t done = 0;
    record found;
    int more = 0;
    while (done < limit && (more = next_message(self, ring, &found)) == 1) {
        Message *message = *shell;
        int64_t start = ring->cursor;
        message->data = found.payload;
        message->length = (Py_ssize_t)found.length;
        message->position = start;
        message->type = found.type;
        message->ring = ring->ring;
        ring->cursor = found.next; /* consumed, even if the handler raises */
        done++;
        PyObject *result = PyObject_CallFunctionObjArgs(handler, (PyObject *)message, NULL);
        Py_XDECREF(result);
        if (UNLIKELY(self->forked)) { /* the handler forked, and this is the child: nothing here is ours */
            if (result != NULL)
                core_raise("ClosedError", "(si)", "subscriber", 1);
            return -1;
        }
        if (UNLIKELY(message->exports != 0)) {
            self->pinned = (Message *)Py_NewRef((PyObject *)message);
            self->pinned_ring = ring;
            store_gate(ring, start);
            if (result != NULL)
                subscriber_view_alive();
            return -1;
        }
        if (UNLIKELY(result == NULL)) {
            store_gate(ring, ring->cursor);
            return -1;
        }
        if (UNLIKELY(Py_REFCNT((PyObject *)message) != 1)) { /* somebody keeps it: it must not become another message */
            message_expire(message);
            Py_DECREF((PyObject *)message);
            *shell = borrow_shell(self);
            if (*shell == NULL) {
                store_gate(ring, ring->cursor);
                return -1;
            }
        }
        if (ring->cursor - ring->stored >= self->store_every)
            store_gate(ring, ring->cursor);
    }
    if (more < 0)
        return -1;
    store_gate(ring, ring->cursor); /* 6.9, 4: at the end */
    return done;
}

/* 6.9 on all rings. */
static Py_ssize_t poll_once(Subscriber *self, PyObject *handler, Py_ssize_t limit)
{
    Message *shell = borrow_shell(self);
    if (shell == NULL)
        return -1;
    Py_ssize_t total = 0;
    self->use = IN_POLL;
    self->thread = PyThread_get_thread_ident();
    for (int i = 0, at = self->next; i < self->count && total >= 0 && total < limit; i++) {
        ring_reader *ring = &self->rings[at];
        at = at + 1 == self->count ? 0 : at + 1;
        if (UNLIKELY(ring->corrupt))
            continue;
        Py_ssize_t done = poll_ring(self, ring, handler, limit - total, &shell);
        if (done != 0)
            self->next = at;
        total = done < 0 ? -1 : total + done;
    }
    self->use = IDLE;
    if (shell != NULL)
        return_shell(self, shell);
    return total;
}

static bool anything_there(void *context)
{
    Subscriber *self = context;
    if (!epoch_holds(self))
        return true;
    for (int i = 0; i < self->count; i++) {
        ring_reader *ring = &self->rings[i];
        if (!ring->corrupt && LOAD32_RELAXED(ring->data + (ring->cursor & self->mask) + RECORD_LENGTH) > 0)
            return true; /* only a hint: next_message loads it again */
    }
    return false;
}

/* 1 look again, 0 time is up, -1 an exception. */
static int subscriber_wait(Subscriber *self, wait_state *state)
{
    self->use = WAITING;
    int result = wait_some(state, anything_there, self);
    self->use = IDLE;
    if (self->closed) { /* by another thread meanwhile, which left the memory to us */
        subscriber_let_go_of_memory(self);
        if (result != -1)
            core_raise("ClosedError", "(s)", "subscriber");
        return -1;
    }
    if (result == -1 || !subscriber_usable(self))
        return -1;
    return result == -2 ? 0 : 1;
}

PyObject *subscriber_poll(Subscriber *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
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
    if (values[1] != NULL) {
        limit = PyNumber_AsSsize_t(values[1], PyExc_OverflowError);
        if (limit == -1 && PyErr_Occurred())
            return NULL;
        if (limit < 1)
            return core_raise("InvalidArgumentError", "(ss)", "limit", "must be 1 or more messages");
    }
    if (values[2] != NULL && (timeout = wait_timeout(values[2])) < 0)
        return NULL;
    if (!subscriber_usable(self))
        return NULL;
    Py_INCREF((PyObject *)self); /* a handler may drop the last reference */
    Py_ssize_t done = poll_once(self, values[0], limit);
    if (done == 0 && timeout != WAIT_NOT) {
        wait_state state;
        wait_begin(&state, self->wait, timeout);
        while (done == 0) {
            int again = subscriber_wait(self, &state);
            if (again <= 0) {
                done = again;
                break;
            }
            done = poll_once(self, values[0], limit);
        }
    }
    Py_DECREF((PyObject *)self);
    return done < 0 ? NULL : PyLong_FromSsize_t(done);
}

/* A poll of one message, copied before the gate is stored. NULL without exception: nothing there. */
static inline PyObject *take_once(Subscriber *self)
{
    for (int i = 0, at = self->next; i < self->count; i++) {
        ring_reader *ring = &self->rings[at];
        at = at + 1 == self->count ? 0 : at + 1;
        if (UNLIKELY(ring->corrupt))
            continue;
        record found;
        int more = next_message(self, ring, &found);
        if (UNLIKELY(more < 0)) {
            self->next = at;
            return NULL;
        }
        if (more == 0) {
            store_gate(ring, ring->cursor);
            continue;
        }
        Message *message = message_copy(found.payload, (Py_ssize_t)found.length, found.type, ring->ring, ring->cursor);
        if (message == NULL)
            return NULL;
        ring->cursor = found.next;
        self->next = at;
        store_gate(ring, ring->cursor);
        return (PyObject *)message;
    }
    return NULL;
}

PyObject *subscriber_take(Subscriber *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"timeout"};
    static const signature expected = {parameters, 1, 0};
    PyObject *values[1] = {NULL};
    int64_t timeout = WAIT_NOT;
    if ((n != 0 || names != NULL) && (!parse_arguments(&expected, args, n, names, values) ||
                                      (values[0] != NULL && (timeout = wait_timeout(values[0])) < 0)))
        return NULL;
    if (UNLIKELY(!subscriber_usable(self)))
        return NULL;
    PyObject *message = take_once(self);
    if (message != NULL)
        return message;
    if (PyErr_Occurred())
        return NULL;
    if (timeout != WAIT_NOT) {
        wait_state state;
        wait_begin(&state, self->wait, timeout);
        for (;;) {
            int again = subscriber_wait(self, &state);
            if (again < 0)
                return NULL;
            message = take_once(self);
            if (message != NULL)
                return message;
            if (PyErr_Occurred())
                return NULL;
            if (again == 0)
                break;
        }
    }
    return Py_NewRef(Py_None);
}
