/* SPDX-License-Identifier: Apache-2.0 */
/* poll, poll_arrays, take, peek and valid of a reader without a slot (spec/channel.md 6.10). */
#include "arguments.h"
#include "lossy.h"
#include "sbe/arrays.h"

#define LEAST_COPY 256
#define LONGEST_RUN (256 * 1024) /* bytes; a longer run is more likely to be overwritten while it is copied */

/* Whether the subscriber can be used */

/* Expire the message from peek. Returns false, and changes nothing, if an export is alive. */
static bool expire_messages(Lossy *self)
{
    if (self->peeked != NULL) {
        if (self->peeked->exports != 0)
            return false;
        int use = self->base.use;
        reader_begin(&self->base); /* making a sender runs Python code */
        message_expire(self->peeked);
        self->base.use = use;
    }
    self->peeked_ring = NULL;
    if (self->base.pinned != NULL) {
        if (self->base.pinned->exports != 0)
            return false;
        Py_CLEAR(self->base.pinned);
    }
    return true;
}

static bool usable(Lossy *self)
{
    if (UNLIKELY(reader_in_use(&self->base)))
        return false;
    if (UNLIKELY(!expire_messages(self))) {
        reader_view_alive();
        return false;
    }
    return true;
}

/* Copies of messages */

/* Make room for so many bytes in self->copy. False with an exception. */
static bool room_for_copy(Lossy *self, int64_t length)
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

/* Copy a large payload without the GIL. Other threads run meanwhile, but cannot close the subscriber. */
static COLD void copy_large(Lossy *self, uint8_t *to, const lossy_record *found)
{
    int use = self->base.use;
    reader_begin(&self->base);
    Py_BEGIN_ALLOW_THREADS
    copy_words(to, found->payload, found->length); /* 4 */
    Py_END_ALLOW_THREADS
    self->base.use = use;
}

/* Copy the payload to self->copy; the caller then tests lossy_lapped. False with an exception. */
static bool copy_payload(Lossy *self, const lossy_record *found)
{
    if (!room_for_copy(self, found->length))
        return false;
    if (UNLIKELY(found->length >= LARGE_COPY))
        copy_large(self, self->copy, found);
    else
        copy_words(self->copy, found->payload, found->length); /* 4 */
    return true;
}

ALWAYS_INLINE int next_for_poll(Lossy *self, lossy_ring *ring, lossy_turn *turn, void *receiver, Py_ssize_t most,
                                lossy_record *found)
{
    (void)receiver;
    (void)most;
    int more = lossy_next(self, ring, turn, found);
    found->count = 1;
    return more > 0 && !copy_payload(self, found) ? -1 : more;
}

/* Runs of messages */

/* Extend the run, whose first payload is copied, over the next records of the same kind. Copies their payloads to the
   same distances behind the first. The run is valid only after lossy_lapped returns false. False with an exception. */
static bool extend_run(Lossy *self, const lossy_ring *ring, array_poll *poll, Py_ssize_t most, lossy_record *found)
{
    const int64_t length = found->length + RECORD_HEADER_LENGTH, n = found->bytes;
    int64_t bytes = n;
    while (poll->count < most && bytes < LONGEST_RUN && bytes < self->base.capacity / GATE_STORE_DIVISOR) {
        int64_t at = (ring->cursor + bytes) & self->base.mask;
        if (at == 0 || LOAD32_ACQUIRE(ring->data + at + RECORD_LENGTH) != length || /* 6.10, 1: pairs with publish 6 */
            at + n > self->base.capacity || LOAD32_RELAXED(ring->data + at + RECORD_TYPE) != found->type) /* 3 */
            break;
        if (!room_for_copy(self, bytes + found->length))
            return false;
        copy_words(self->copy + bytes, ring->data + at + RECORD_PAYLOAD, found->length); /* 4 */
        if (!array_goes_on(poll, self->copy + bytes))
            break;
        poll->count++;
        bytes += n;
    }
    poll->stride = n;
    found->length += bytes - n;
    found->bytes = bytes;
    return true;
}

/* Find the next run of an array_poll (messages.md 3). */
static int next_run(Lossy *self, lossy_ring *ring, lossy_turn *turn, void *receiver, Py_ssize_t most,
                    lossy_record *found)
{
    array_poll *poll = receiver;
    int more;
    while ((more = lossy_next(self, ring, turn, found)) > 0) {
        if (array_wanted(poll, found->type) && !copy_payload(self, found))
            return -1;
        array_kind kind = array_begin(poll, found->type, self->copy, found->length);
        if (kind == ARRAY_RUN && !extend_run(self, ring, poll, most, found))
            return -1;
        found->count = poll->count;
        if (kind != ARRAY_SKIPPED)
            return 1;
        if (lossy_lapped(self, ring)) {
            more = lossy_jump(self, ring, turn);
            if (more <= 0)
                return more;
            continue;
        }
        lossy_consume(ring, found->bytes, 1);
        if (ring->cursor >= turn->stop) /* as with padding */
            return 0;
    }
    return more;
}

/* poll */

/* The function that differs between poll and poll_arrays, known at compile time. Like lossy_next, but makes the copy: 1
   there are at most `most` messages to be handed out. */
typedef int next_function(Lossy *self, lossy_ring *ring, lossy_turn *turn, void *receiver, Py_ssize_t most,
                          lossy_record *found);

/* One ring's turn in a poll: a poll_ring_function. */
ALWAYS_INLINE Py_ssize_t poll_ring(Lossy *self, lossy_ring *ring, void *receiver, Py_ssize_t limit, Message **current,
                                   next_function *next, hand_out_function *hand_out)
{
    if (UNLIKELY(ring->corrupt))
        return 0;
    Py_ssize_t done = 0;
    lossy_turn turn = lossy_begin_turn(self, ring);
    lossy_record found;
    int more = 1;
    (*current)->ring = ring->from.ring;
    (*current)->from = &ring->from;
    while (done < limit && (more = next(self, ring, &turn, receiver, limit - done, &found)) > 0) {
        if (lossy_lapped(self, ring)) {
            more = lossy_jump(self, ring, &turn);
            if (more <= 0)
                break;
            continue;
        }
        Message *message = *current;
        message->data = self->copy;
        message->length = (Py_ssize_t)found.length;
        message->position = ring->cursor;
        message->type = found.type;
        lossy_consume(ring, found.bytes, found.count); /* consumed even if the handler raises */
        done += (Py_ssize_t)found.count;
        int result = hand_out(&self->base, receiver, current);
        if (UNLIKELY(result > COMMIT)) { /* COMMIT is the same as CONTINUE, because there is no gate */
            if (result >= RAISED)
                return -1;
            if (result == ABORT) { /* not consumed */
                lossy_consume(ring, -found.bytes, -found.count);
                done -= (Py_ssize_t)found.count;
            }
            return reader_poll_ended(done, result);
        }
    }
    return more < 0 ? -1 : done;
}

static Py_ssize_t poll_messages(Reader *self, int ring, void *handler, Py_ssize_t limit, Message **current)
{
    Lossy *lossy = (Lossy *)self;
    return poll_ring(lossy, &lossy_rings(lossy)[ring], handler, limit, current, next_for_poll, reader_hand_out);
}

static Py_ssize_t poll_runs(Reader *self, int ring, void *poll, Py_ssize_t limit, Message **current)
{
    Lossy *lossy = (Lossy *)self;
    return poll_ring(lossy, &lossy_rings(lossy)[ring], poll, limit, current, next_run, reader_hand_out_array);
}

static Py_ssize_t kind_poll(Reader *self, void *handler, Py_ssize_t limit)
{
    return room_for_copy((Lossy *)self, LEAST_COPY) ? reader_poll_rings(self, handler, limit, poll_messages) : -1;
}

static Py_ssize_t kind_poll_arrays(Reader *self, void *poll, Py_ssize_t limit)
{
    return room_for_copy((Lossy *)self, LEAST_COPY) ? reader_poll_rings(self, poll, limit, poll_runs) : -1;
}

/* take, peek, valid */

/* Take the ring's next message, as one that owns its bytes. NULL with an exception; NULL without: the turn is over. */
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
        if (UNLIKELY(found.length >= LARGE_COPY))
            copy_large(self, message->bytes, &found);
        else
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

/* Peek at the ring's next message, in place. Returns as take_from does. */
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

/* Get a message from the first ring that has one, beginning after the ring that was served last. NULL with or without
   an exception. */
static PyObject *from_any(Lossy *self, Message *(*get)(Lossy *, lossy_ring *))
{
    Message *message = NULL;
    reader_begin(&self->base); /* making a sender runs Python code */
    for (int i = 0, at = self->base.next; i < self->base.count && message == NULL; i++) {
        lossy_ring *ring = &lossy_rings(self)[at];
        at = at + 1 == self->base.count ? 0 : at + 1;
        if (UNLIKELY(ring->corrupt))
            continue;
        message = get(self, ring);
        if (message != NULL)
            self->base.idle = 0;
        if (message != NULL || PyErr_Occurred()) {
            self->base.next = at;
            break;
        }
    }
    self->base.use = IDLE;
    return (PyObject *)message;
}

PyObject *lossy_take(Lossy *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int64_t timeout = reader_take_timeout(&self->base, args, n, names);
    if (timeout < 0 || !usable(self))
        return NULL;
    PyObject *message = from_any(self, take_from);
    return message != NULL ? message : reader_take_waiting(&self->base, timeout);
}

PyObject *lossy_peek(Lossy *self, PyObject *ignored)
{
    (void)ignored;
    if (!usable(self))
        return NULL;
    PyObject *message = from_any(self, peek_into);
    return message != NULL ? message : reader_take_waiting(&self->base, WAIT_NOT);
}

PyObject *lossy_valid(Lossy *self, PyObject *ignored)
{
    (void)ignored;
    lossy_ring *ring = self->peeked_ring;
    if (reader_in_use(&self->base))
        return NULL;
    if (ring == NULL)
        return raise_error("InvalidArgumentError", "(ss)", "valid", "there is no message that was peeked at");
    bool valid = !lossy_lapped(self, ring);
    lossy_turn turn = lossy_begin_turn(self, ring);
    if (self->peeked != NULL) { /* it keeps its sender; exports of it stay alive, and must end before the next call */
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

/* What reader.c calls */

static bool kind_usable(Reader *self)
{
    return usable((Lossy *)self);
}

static PyObject *kind_take(Reader *self)
{
    return from_any((Lossy *)self, take_from);
}

static bool kind_ready(void *context)
{
    Lossy *self = context;
    for (int i = 0; i < self->base.count; i++) {
        if (lossy_may_find(self, &lossy_rings(self)[i]))
            return true;
    }
    return false;
}

static ring_place kind_ring_at(const Reader *self, int i)
{
    const lossy_ring *ring = &lossy_rings((const Lossy *)self)[i];
    return (ring_place){ring->from.ring, ring->cursor};
}

static bool kind_exported(const Reader *base)
{
    const Lossy *self = (const Lossy *)base;
    return (base->pinned != NULL && base->pinned->exports != 0) || (self->peeked != NULL && self->peeked->exports != 0);
}

static bool kind_owned(Reader *self)
{
    (void)self; /* there is no slot */
    return true;
}

static bool kind_expire_messages(Reader *self)
{
    return expire_messages((Lossy *)self);
}

static void kind_give_back(Reader *self)
{
    (void)self; /* a lossy subscriber owns nothing in the file */
}

const reader_kind lossy_kind = {
    .what = "subscriber",
    .usable = kind_usable,
    .poll = kind_poll,
    .poll_arrays = kind_poll_arrays,
    .take = kind_take,
    .ready = kind_ready,
    .ring_at = kind_ring_at,
    .exported = kind_exported,
    .owned = kind_owned,
    .expire_messages = kind_expire_messages,
    .give_back = kind_give_back,
};
