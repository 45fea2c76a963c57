/* SPDX-License-Identifier: Apache-2.0 */
/* poll, take, peek and valid of a reader without a slot (spec 6.10). */
#include "arrays.h"
#include "lossy.h"

#define LEAST_COPY 256

/* What differs between poll and poll_arrays; known when it is compiled. `how` is the handler, or an array_poll. */
typedef int next_function(Lossy *self, lossy_ring *ring, lossy_turn *turn, void *how, Py_ssize_t most,
                          lossy_record *found);
typedef int hand_out_function(Reader *self, void *how, Message **shell);

bool lossy_room_for_copy(Lossy *self, int64_t length)
{
    if (LIKELY(length <= self->copy_length))
        return true;
    int64_t wanted = LEAST_COPY;
    while (wanted < length)
        wanted *= 2;
    uint8_t *copy = PyMem_Realloc(self->copy, (size_t)wanted);
    if (copy == NULL) {
        PyErr_NoMemory();
        return false;
    }
    self->copy = copy;
    self->copy_length = wanted;
    return true;
}

bool lossy_copy(Lossy *self, const lossy_record *found)
{
    if (!lossy_room_for_copy(self, found->length))
        return false;
    copy_words(self->copy, found->payload, found->length); /* 4 */
    return true;
}

ALWAYS_INLINE int next_for_poll(Lossy *self, lossy_ring *ring, lossy_turn *turn, void *how, Py_ssize_t most,
                                lossy_record *found)
{
    (void)how;
    (void)most;
    int more = lossy_next(self, ring, turn, found);
    found->count = 1;
    return more > 0 && !lossy_copy(self, found) ? -1 : more;
}

/* One ring's turn in a poll: how many messages were handed out, at most `limit`; -1 with an exception. */
ALWAYS_INLINE Py_ssize_t poll_ring(Lossy *self, lossy_ring *ring, void *how, Py_ssize_t limit, Message **shell,
                                   next_function *next, hand_out_function *hand_out)
{
    Py_ssize_t done = 0;
    lossy_turn turn = lossy_begin_turn(self, ring);
    lossy_record found;
    int more = 1;
    (*shell)->ring = ring->from.ring;
    (*shell)->from = &ring->from;
    while (done < limit && (more = next(self, ring, &turn, how, limit - done, &found)) > 0) {
        if (lossy_lapped(self, ring)) {
            more = lossy_jump(self, ring, &turn);
            if (more <= 0)
                break;
            continue;
        }
        Message *message = *shell;
        message->data = self->copy;
        message->length = (Py_ssize_t)found.length;
        message->position = ring->cursor;
        message->type = found.type;
        lossy_consume(ring, found.bytes, found.count); /* even if the handler raises */
        done += (Py_ssize_t)found.count;
        if (hand_out(&self->base, how, shell) != HANDED)
            return -1;
    }
    return more < 0 ? -1 : done;
}

ALWAYS_INLINE Py_ssize_t poll_rings(Reader *base, void *how, Py_ssize_t limit, next_function *next,
                                    hand_out_function *hand_out)
{
    Lossy *self = (Lossy *)base;
    if (!lossy_room_for_copy(self, LEAST_COPY))
        return -1;
    Message *shell = reader_borrow_shell(base);
    if (shell == NULL)
        return -1;
    Py_ssize_t total = 0;
    reader_begin(base);
    for (int i = 0, at = self->next; i < self->count && total >= 0 && total < limit; i++) {
        lossy_ring *ring = &self->rings[at];
        at = at + 1 == self->count ? 0 : at + 1;
        if (UNLIKELY(ring->corrupt))
            continue;
        Py_ssize_t done = poll_ring(self, ring, how, limit - total, &shell, next, hand_out);
        if (done != 0)
            self->next = at;
        total = done < 0 ? -1 : total + done;
    }
    if (shell != NULL)
        reader_return_shell(base, shell);
    base->use = IDLE;
    return total;
}

static Py_ssize_t poll_once(Reader *self, void *handler, Py_ssize_t limit)
{
    return poll_rings(self, handler, limit, next_for_poll, reader_hand_out);
}

static Py_ssize_t poll_arrays_once(Reader *self, void *poll, Py_ssize_t limit)
{
    return poll_rings(self, poll, limit, lossy_next_run, array_hand_out);
}

/* The ring's next message, as one that owns its bytes. NULL with an exception, or without: the turn is over. */
static Message *take_from(Lossy *self, lossy_ring *ring)
{
    lossy_turn turn = lossy_begin_turn(self, ring);
    lossy_record found;
    while (lossy_next(self, ring, &turn, &found) > 0) {
        PyObject *from = sender_object(&ring->from);
        if (from == NULL)
            return NULL;
        Message *message = message_new((Py_ssize_t)found.length, found.type, ring->from.ring, ring->cursor, from);
        if (message == NULL)
            return NULL;
        copy_words(message->bytes, found.payload, found.length); /* 4 */
        if (!lossy_lapped(self, ring)) {
            lossy_consume(ring, found.bytes, 1);
            return message;
        }
        Py_DECREF((PyObject *)message);
        if (lossy_jump(self, ring, &turn) <= 0)
            break;
    }
    return NULL;
}

/* The ring's next message, in place. As take_from. */
static Message *peek_into(Lossy *self, lossy_ring *ring)
{
    lossy_turn turn = lossy_begin_turn(self, ring);
    lossy_record found;
    if (lossy_next(self, ring, &turn, &found) <= 0)
        return NULL;
    Message *message = message_in_place((PyObject *)self);
    if (message == NULL)
        return NULL;
    message->data = found.payload;
    message->length = (Py_ssize_t)found.length;
    message->position = ring->cursor;
    message->type = found.type;
    message->ring = ring->from.ring;
    message->from = &ring->from;
    message->held = &self->peeked;
    self->peeked = message;
    self->peeked_ring = ring;
    self->peeked_length = found.bytes;
    return message;
}

/* The first ring, after the one that was served last, that gives a message. NULL with or without an exception. */
static PyObject *from_any(Lossy *self, Message *(*get)(Lossy *, lossy_ring *))
{
    Message *message = NULL;
    reader_begin(&self->base); /* a sender may be made: this runs Python code */
    for (int i = 0, at = self->next; i < self->count && message == NULL; i++) {
        lossy_ring *ring = &self->rings[at];
        at = at + 1 == self->count ? 0 : at + 1;
        if (UNLIKELY(ring->corrupt))
            continue;
        message = get(self, ring);
        if (message != NULL)
            self->base.idle = 0;
        if (message != NULL || PyErr_Occurred()) {
            self->next = at;
            break;
        }
    }
    self->base.use = IDLE;
    return (PyObject *)message;
}

PyObject *lossy_take(Lossy *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int64_t timeout = reader_take_timeout(args, n, names);
    if (timeout < 0 || !lossy_usable(self))
        return NULL;
    PyObject *message = from_any(self, take_from);
    return message != NULL ? message : reader_take_waiting(&self->base, timeout);
}

PyObject *lossy_peek(Lossy *self, PyObject *ignored)
{
    (void)ignored;
    if (!lossy_usable(self))
        return NULL;
    PyObject *message = from_any(self, peek_into);
    return message != NULL ? message : reader_take_waiting(&self->base, WAIT_NOT);
}

PyObject *lossy_valid(Lossy *self, PyObject *ignored)
{
    (void)ignored;
    lossy_ring *ring = self->peeked_ring;
    if (self->base.closed || self->base.forked || self->base.use != IDLE) {
        lossy_usable(self); /* says why not */
        return NULL;
    }
    if (ring == NULL)
        return core_raise("InvalidArgumentError", "(ss)", "valid", "there is no message that was peeked at");
    bool valid = !lossy_lapped(self, ring);
    lossy_turn turn = lossy_begin_turn(self, ring);
    if (self->peeked != NULL) { /* with the sender that it had; views of it stay, and must go before the next call */
        reader_begin(&self->base);
        message_expire(self->peeked);
        self->base.use = IDLE;
    }
    self->peeked_ring = NULL;
    if (valid)
        lossy_consume(ring, self->peeked_length, 1);
    else if (lossy_jump(self, ring, &turn) < 0)
        return NULL;
    return PyBool_FromLong(valid);
}

/* For reader.c */

static bool kind_usable(Reader *self)
{
    return lossy_usable((Lossy *)self);
}

static PyObject *kind_take(Reader *self)
{
    return from_any((Lossy *)self, take_from);
}

static bool kind_ready(void *context)
{
    Lossy *self = context;
    for (int i = 0; i < self->count; i++) {
        if (lossy_something(self, &self->rings[i]))
            return true;
    }
    return false;
}

static void kind_let_go(Reader *self)
{
    lossy_let_go_of_memory((Lossy *)self);
}

const reader_kind lossy_kind = {kind_usable, poll_once, poll_arrays_once, kind_take, kind_ready, kind_let_go};
