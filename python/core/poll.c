/* SPDX-License-Identifier: Apache-2.0 */
/* poll and take (spec 6.9). */
#include "arrays.h"
#include "subscriber.h"

/* What differs between poll and poll_arrays; known when it is compiled. `how` is the handler, or an array_poll. */
typedef int next_function(Subscriber *self, ring_reader *ring, void *how, Py_ssize_t most, record *found);
typedef int hand_out_function(Reader *self, void *how, Message **shell);

/* 6.9, 5: false, with an exception, if the slot was taken away: what was read may have been overwritten before. */
static inline bool still_ours(Subscriber *self)
{
    FENCE_ACQUIRE(); /* 6.9, 5: pairs with 6.11, which raises the epoch before it takes the gates away */
    return LIKELY(epoch_holds(self)) || subscriber_explain_lost(self);
}

/* 6.9, 2 and 3: the ring is out until the subscriber closes. */
static void ring_is_corrupt(Subscriber *self, ring_reader *ring, const char *reason, int64_t value)
{
    char text[100];
    if (!still_ours(self))
        return;
    PyOS_snprintf(text, sizeof text, reason, (long long)value);
    ring->corrupt = true;
    if (!self->kept)
        store_gate(ring, NOT_GATING);
    core_raise("CorruptRingError", "(iLs)", ring->ring, (long long)ring->cursor, text);
}

/* As subscriber_next_message. */
ALWAYS_INLINE int next_message(Subscriber *self, ring_reader *ring, record *found)
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
            found->count = 1;
            return 1;
        }
        if (found->type == TYPE_OWNER) {
            sender_from_record(ring->from, at + RECORD_PAYLOAD, length - RECORD_HEADER_LENGTH);
        } else if (found->type != TYPE_PADDING) {
            ring_is_corrupt(self, ring, "there is no record type %lld", found->type);
            return -1;
        }
        ring->cursor += n;
        if (ring->cursor - ring->stored >= self->store_every)
            store_gate(ring, ring->cursor);
    }
    return 0;
}

int subscriber_next_message(Subscriber *self, ring_reader *ring, record *found)
{
    return next_message(self, ring, found);
}

/* 6.9 on one ring: how many messages were handed out, at most `limit`; -1 with an exception. */
ALWAYS_INLINE Py_ssize_t poll_ring(Subscriber *self, ring_reader *ring, void *how, Py_ssize_t limit, Message **shell,
                                   next_function *next, hand_out_function *hand_out)
{
    Py_ssize_t done = 0;
    record found;
    int more = 0;
    (*shell)->ring = ring->ring;
    (*shell)->from = ring->from;
    while (done < limit && (more = next(self, ring, how, limit - done, &found)) == 1) {
        Message *message = *shell;
        int64_t start = ring->cursor;
        message->data = found.payload;
        message->length = (Py_ssize_t)found.length;
        message->position = start;
        message->type = found.type;
        ring->cursor = found.next; /* consumed, even if the handler raises */
        done += (Py_ssize_t)found.count;
        int result = hand_out(&self->base, how, shell);
        if (UNLIKELY(result != HANDED)) {
            if (result == PINNED)
                self->pinned_ring = ring;
            if (result != FORKED)
                store_gate(ring, result == PINNED ? start : ring->cursor);
            return -1;
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
ALWAYS_INLINE Py_ssize_t poll_rings(Reader *base, void *how, Py_ssize_t limit, next_function *next,
                                    hand_out_function *hand_out)
{
    Subscriber *self = (Subscriber *)base;
    Message *shell = reader_borrow_shell(base);
    if (shell == NULL)
        return -1;
    Py_ssize_t total = 0;
    reader_begin(base);
    for (int i = 0, at = self->next; i < self->count && total >= 0 && total < limit; i++) {
        ring_reader *ring = &self->rings[at];
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
    return total > 0 && !still_ours(self) ? -1 : total;
}

ALWAYS_INLINE int next_for_poll(Subscriber *self, ring_reader *ring, void *how, Py_ssize_t most, record *found)
{
    (void)how;
    (void)most;
    return next_message(self, ring, found);
}

static Py_ssize_t poll_once(Reader *self, void *handler, Py_ssize_t limit)
{
    return poll_rings(self, handler, limit, next_for_poll, reader_hand_out);
}

static Py_ssize_t poll_arrays_once(Reader *self, void *poll, Py_ssize_t limit)
{
    return poll_rings(self, poll, limit, subscriber_next_run, array_hand_out);
}

static bool anything_there(void *context)
{
    Subscriber *self = context;
    if (!epoch_holds(self))
        return true;
    for (int i = 0; i < self->count; i++) {
        ring_reader *ring = &self->rings[i];
        if (!ring->corrupt && LOAD32_RELAXED(ring->data + (ring->cursor & self->mask) + RECORD_LENGTH) > 0)
            return true; /* next_message loads it again */
    }
    return false;
}

/* For a copy: false with an exception. */
static __attribute__((noinline)) bool make_sender(Subscriber *self, ring_reader *ring)
{
    reader_begin(&self->base); /* this runs Python code */
    bool made = sender_object(ring->from) != NULL;
    self->base.use = IDLE;
    return made;
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
        if (UNLIKELY(ring->from->object == NULL) && !make_sender(self, ring))
            return NULL;
        Message *message =
            message_new((Py_ssize_t)found.length, found.type, ring->ring, ring->cursor, ring->from->object);
        if (message == NULL)
            return NULL;
        memcpy(message->bytes, found.payload, (size_t)found.length);
        ring->cursor = found.next;
        self->next = at;
        store_gate(ring, ring->cursor);
        if (UNLIKELY(!still_ours(self))) {
            Py_DECREF((PyObject *)message);
            return NULL;
        }
        self->base.idle = 0;
        return (PyObject *)message;
    }
    return NULL;
}

PyObject *subscriber_take(Subscriber *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int64_t timeout = WAIT_NOT;
    if ((n != 0 || names != NULL) && (timeout = reader_take_timeout(args, n, names)) < 0)
        return NULL;
    if (UNLIKELY(!subscriber_usable(self)))
        return NULL;
    PyObject *message = take_once(self);
    return LIKELY(message != NULL) ? message : reader_take_waiting(&self->base, timeout);
}

/* For reader.c */

static bool kind_usable(Reader *self)
{
    return subscriber_usable((Subscriber *)self);
}

static PyObject *kind_take(Reader *self)
{
    return take_once((Subscriber *)self);
}

static void kind_let_go(Reader *self)
{
    subscriber_let_go_of_memory((Subscriber *)self);
}

const reader_kind subscriber_kind = {kind_usable, poll_once, poll_arrays_once, kind_take, anything_there, kind_let_go};
