/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the rings of a subscriber: poll, poll_arrays and take (spec/channel.md 6.9, 5.4). Numbers in this file's
   comments are sections of that page. */
#include "sbe/arrays.h"
#include "subscriber.h"

/* Whether the subscriber can be used */

/* Give the slot up after it was taken away by an eviction (5.4). */
static void give_up(Subscriber *self)
{
    int64_t slot_lock = subscriber_slot_offset(&self->base.shape, self->slot) + CONTROL_SLOT_LOCK;
    self->lost = true;
    epoch_drop(&self->base.epoch);
    if (self->base.shape.foreign == 0 && /* 6.15: Agrona computes with its gate, so that gate stays */
        lock_try(self->lock, slot_lock)) { /* the slot has no new owner: undo the gates stored since the eviction */
        uint8_t *slot = self->base.memory->base + subscriber_slot_offset(&self->base.shape, self->slot);
        STORE32_RELEASE(slot + SUBSCRIBER_SLOT_EVICTING, 1); /* pairs with 5.3, 4 (acquire) */
        stop_gating(&self->base.shape, self->base.memory->base, self->slot);
    }
    file_shut(self->lock);
}

/* A message is pinned if its handler left a memoryview of it alive: the gate stays in front of it. Once the last view
   is gone, drops the message and stores the gate. Returns false while there is a view. */
static COLD bool unpin(Subscriber *self)
{
    if (self->base.pinned == NULL)
        return true;
    if (self->base.pinned->exports != 0)
        return false;
    Message *message = self->base.pinned;
    self->base.pinned = NULL;
    if (epoch_holds(&self->base.epoch) && !self->pinned_ring->corrupt)
        store_gate(self, self->pinned_ring);
    Py_DECREF((PyObject *)message);
    return true;
}

/* Handle a changed epoch: give the slot up, raise, and return false. */
static COLD bool explain_lost(Subscriber *self)
{
    if (!self->lost)
        give_up(self);
    raise_error("SlotLostError", "(si)", "subscriber", self->slot);
    return false;
}

static COLD bool explain_unusable(Subscriber *self)
{
    if (reader_in_use(&self->base))
        return false;
    if (self->base.pinned != NULL && !unpin(self)) {
        reader_view_alive();
        return false;
    }
    return explain_lost(self);
}

/* Check that the slot was not taken away (6.9, 5). If it was, the bytes that were read may have been overwritten: gives
   the slot up, and returns false with SlotLostError. */
static inline bool still_ours(Subscriber *self)
{
    FENCE_ACQUIRE(); /* 6.9, 5: pairs with 6.11, which raises the epoch before it takes the gates away */
    return LIKELY(epoch_holds(&self->base.epoch)) || explain_lost(self);
}

static inline bool usable(Subscriber *self)
{
    if (UNLIKELY(self->base.use != IDLE || !epoch_holds(&self->base.epoch)))
        return explain_unusable(self);
    if (UNLIKELY(self->base.pinned != NULL)) {
        if (!unpin(self)) {
            reader_view_alive();
            return false;
        }
        return still_ours(self);
    }
    return true;
}

bool subscriber_usable(Subscriber *self)
{
    return usable(self);
}

/* One message */

/* Whether a ring has an unread record; next_message loads its length again. This check is most of the work of a poll
   that finds nothing, so it is kept short. */
static inline bool anything_there(const Subscriber *self)
{
    for (int i = 0; i < self->base.count; i++) {
        const ring_reader *ring = &subscriber_rings(self)[i];
        if (LOAD32_RELAXED(ring->data + (ring->cursor & self->base.mask) + RECORD_LENGTH) > 0 && LIKELY(!ring->corrupt))
            return true;
    }
    return false;
}

/* Raise CorruptRingError (6.9, 2 and 3), unless the slot is lost. The subscriber does not read this ring again. */
static COLD void ring_is_corrupt(Subscriber *self, ring_reader *ring, const char *reason, int64_t value)
{
    char text[200];
    if (!still_ours(self))
        return;
    int length = PyOS_snprintf(text, sizeof text, reason, (long long)value);
    if (self->base.shape.foreign != 0) /* 6.15 */
        PyOS_snprintf(text + length, sizeof text - (size_t)length,
                      "; a foreign publisher must be a one to one ring: no reader of ours zeroes what it has read, as "
                      "a many to one ring needs it");
    ring->corrupt = true;
    if (!self->kept)
        store_gate_at(self, ring, NOT_GATING, COUNT_UNKNOWN);
    raise_error("CorruptRingError", "(iLs)", ring->number, (long long)ring->cursor, text);
}

/* Store the gate if that is due during a poll (6.9, 4). False with an exception if the slot was taken away (6.9, 5). */
static inline bool store_gate_if_due(Subscriber *self, ring_reader *ring)
{
    if (LIKELY(ring->cursor - ring->stored < self->base.store_every))
        return true;
    store_gate(self, ring);
    return still_ours(self);
}

/* Find the next message at or after the cursor (6.9, 1 to 3): 1 found, 0 none, -1 an exception. */
ALWAYS_INLINE int next_message(Subscriber *self, ring_reader *ring, record *found)
{
    for (int64_t stop = ring->cursor + self->base.capacity;
         ring->cursor < stop;) { /* bounded, because a hostile ring may be all padding */
        const uint8_t *at = ring->data + (ring->cursor & self->base.mask);
        int64_t length = LOAD32_ACQUIRE((void *)(at + RECORD_LENGTH)); /* 6.9, 1: once; pairs with publish 6 */
        if (length <= 0)
            return 0;
        int64_t n = (length + self->base.alignment - 1) & -self->base.alignment;
        if (UNLIKELY(length < RECORD_HEADER_LENGTH || (ring->cursor & self->base.mask) + n > self->base.capacity)) {
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
        if (UNLIKELY(!store_gate_if_due(self, ring)))
            return -1;
    }
    return 0;
}

ALWAYS_INLINE int next_for_poll(Subscriber *self, ring_reader *ring, void *receiver, Py_ssize_t most, record *found)
{
    (void)receiver;
    (void)most;
    return next_message(self, ring, found);
}

int subscriber_next(Subscriber *self, ring_reader *ring, record *found)
{
    return next_message(self, ring, found);
}

bool subscriber_still_ours(Subscriber *self)
{
    return still_ours(self);
}

/* Runs of messages */

/* Extend the run that `found` begins over the next records of the same kind, to at most `most` messages. A run ends at
   the ring's end, and where the gate is to be stored. */
static void extend_run(const Subscriber *self, const ring_reader *ring, array_poll *poll, Py_ssize_t most,
                       record *found)
{
    const int64_t length = found->length + RECORD_HEADER_LENGTH, n = found->next - ring->cursor;
    int64_t next = found->next;
    while (poll->count < most && next - ring->stored < self->base.store_every && (next & self->base.mask) != 0) {
        const uint8_t *at = ring->data + (next & self->base.mask);
        if (LOAD32_ACQUIRE((void *)(at + RECORD_LENGTH)) != length || /* poll 1, of the next record */
            (next & self->base.mask) + n > self->base.capacity || /* 2: reported as corrupt when its turn comes */
            LOAD32_RELAXED((void *)(at + RECORD_TYPE)) != found->type || /* 3: once */
            !array_goes_on(poll, at + RECORD_PAYLOAD))
            break;
        poll->count++;
        next += n;
    }
    poll->stride = n;
    found->length += (poll->count - 1) * n;
    found->next = next;
}

/* Find the next run of an array_poll (messages.md 3). */
static int next_run(Subscriber *self, ring_reader *ring, void *receiver, Py_ssize_t most, record *found)
{
    array_poll *poll = receiver;
    for (int64_t stop = ring->cursor + self->base.capacity; ring->cursor < stop;) { /* bounded, as for padding */
        int more = next_message(self, ring, found);
        if (more != 1)
            return more;
        array_kind kind = array_begin(poll, found->type, found->payload, found->length);
        if (kind == ARRAY_RUN)
            extend_run(self, ring, poll, most, found);
        found->count = poll->count;
        if (kind != ARRAY_SKIPPED)
            return 1;
        ring->cursor = found->next;
        count_messages(ring, 1);
        if (!store_gate_if_due(self, ring))
            return -1;
    }
    return 0;
}

/* poll */

/* The function that differs between poll and poll_arrays, known at compile time. Finds the next messages to hand out,
   at most `most`: 1 found, 0 none, -1 an exception. Moves the cursor over records that are not messages. */
typedef int next_function(Subscriber *self, ring_reader *ring, void *receiver, Py_ssize_t most, record *found);

/* End a poll whose handler raised, or left a view of its messages alive (`pinned`). `start` is where these messages
   begin; the gate stays there if they are pinned. The handler's exception stays, even if the slot was taken away
   meanwhile. */
static COLD void end_of_failed(Subscriber *self, ring_reader *ring, bool pinned, int64_t start, int64_t messages)
{
    if (pinned) {
        self->pinned_ring = ring;
        store_gate_at(self, ring, start, ring->count < 0 ? COUNT_UNKNOWN : ring->count - messages);
    } else {
        store_gate(self, ring);
    }
    FENCE_ACQUIRE(); /* 6.9, 5 */
    if (!epoch_holds(&self->base.epoch) && !self->lost)
        give_up(self);
}

/* Finish after the handler of `messages` from `start` on raised, or returned an action other than CONTINUE; `done`
   includes these messages. Returns the result of poll_ring, or 0 if the poll goes on. */
static COLD Py_ssize_t after_action(Subscriber *self, ring_reader *ring, int result, int64_t start, int64_t messages,
                                    Py_ssize_t done)
{
    if (result >= RAISED) {
        if (result != FORKED)
            end_of_failed(self, ring, result == PINNED, start, messages);
        return -1;
    }
    if (result == ABORT) { /* not consumed */
        ring->cursor = start;
        count_messages(ring, -messages);
        done -= (Py_ssize_t)messages;
    }
    store_gate(self, ring);
    if (!still_ours(self))
        return -1;
    return result == COMMIT ? 0 : reader_poll_ended(done, result);
}

/* Poll one ring (6.9): a poll_ring_function. */
ALWAYS_INLINE Py_ssize_t poll_ring(Subscriber *self, ring_reader *ring, void *receiver, Py_ssize_t limit,
                                   Message **current, next_function *next, hand_out_function *hand_out)
{
    if (UNLIKELY(ring->corrupt))
        return 0;
    Py_ssize_t done = 0;
    record found;
    int more = 0;
    (*current)->ring = ring->number;
    (*current)->from = ring->from;
    while (done < limit && (more = next(self, ring, receiver, limit - done, &found)) == 1) {
        Message *message = *current;
        int64_t start = ring->cursor;
        message->data = found.payload;
        message->length = (Py_ssize_t)found.length;
        message->position = start;
        message->type = found.type;
        ring->cursor = found.next; /* consumed even if the handler raises */
        count_messages(ring, found.count);
        done += (Py_ssize_t)found.count;
        int result = hand_out(&self->base, receiver, current);
        if (UNLIKELY(result != HANDED)) {
            Py_ssize_t ended = after_action(self, ring, result, start, found.count, done);
            if (ended != 0)
                return ended;
        }
        if (UNLIKELY(!store_gate_if_due(self, ring)))
            return -1;
    }
    if (more < 0)
        return -1;
    if (ring->stored == ring->cursor)
        return done;
    store_gate(self, ring); /* at the end of the poll (6.9, 4) */
    return LIKELY(still_ours(self)) ? done : -1;
}

static Py_ssize_t poll_messages(Reader *self, int ring, void *handler, Py_ssize_t limit, Message **current)
{
    Subscriber *subscriber = (Subscriber *)self;
    return poll_ring(subscriber, &subscriber_rings(subscriber)[ring], handler, limit, current, next_for_poll,
                     reader_hand_out);
}

static Py_ssize_t poll_runs(Reader *self, int ring, void *poll, Py_ssize_t limit, Message **current)
{
    Subscriber *subscriber = (Subscriber *)self;
    return poll_ring(subscriber, &subscriber_rings(subscriber)[ring], poll, limit, current, next_run,
                     reader_hand_out_array);
}

static Py_ssize_t kind_poll(Reader *self, void *handler, Py_ssize_t limit)
{
    if (!anything_there((Subscriber *)self))
        return 0;
    return reader_poll_rings(self, handler, limit, poll_messages);
}

static Py_ssize_t kind_poll_arrays(Reader *self, void *poll, Py_ssize_t limit)
{
    if (!anything_there((Subscriber *)self))
        return 0;
    return reader_poll_rings(self, poll, limit, poll_runs);
}

/* take */

/* Make the Sender object for a copied message. False with an exception. */
static COLD bool make_sender(Subscriber *self, ring_reader *ring)
{
    reader_begin(&self->base); /* making a sender runs Python code */
    bool made = sender_object(ring->from) != NULL;
    self->base.use = IDLE;
    return made;
}

/* Copy a large payload without the GIL. Other threads run meanwhile, but cannot close the subscriber. */
static COLD void copy_large(Subscriber *self, Message *message, const record *found)
{
    Py_INCREF((PyObject *)self); /* another thread may drop the last reference */
    reader_begin(&self->base);
    Py_BEGIN_ALLOW_THREADS
    memcpy(message->bytes, found->payload, (size_t)found->length);
    Py_END_ALLOW_THREADS
    self->base.use = IDLE;
    Py_DECREF((PyObject *)self);
}

/* Take one message, copied before the gate is stored. NULL without an exception: there is none. */
static inline PyObject *take_once(Subscriber *self)
{
    for (int i = 0, at = self->base.next; i < self->base.count; i++) {
        ring_reader *ring = &subscriber_rings(self)[at];
        at = at + 1 == self->base.count ? 0 : at + 1;
        if (UNLIKELY(ring->corrupt))
            continue;
        record found;
        int more = next_message(self, ring, &found);
        if (UNLIKELY(more < 0)) {
            self->base.next = at;
            return NULL;
        }
        if (more == 0) {
            if (UNLIKELY(ring->stored != ring->cursor)) {
                store_gate(self, ring);
                if (!still_ours(self))
                    return NULL;
            }
            continue;
        }
        if (UNLIKELY(ring->from->object == NULL) && !make_sender(self, ring))
            return NULL;
        Message *message =
            message_new((Py_ssize_t)found.length, found.type, ring->number, ring->cursor, ring->from->object);
        if (message == NULL)
            return NULL;
        if (UNLIKELY(found.length >= LARGE_COPY))
            copy_large(self, message, &found);
        else
            memcpy(message->bytes, found.payload, (size_t)found.length);
        ring->cursor = found.next;
        count_messages(ring, 1);
        self->base.next = at;
        store_gate(self, ring);
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
    if ((n != 0 || names != NULL) && (timeout = reader_take_timeout(&self->base, args, n, names)) < 0)
        return NULL;
    if (UNLIKELY(!usable(self)))
        return NULL;
    PyObject *message = take_once(self);
    return LIKELY(message != NULL) ? message : reader_take_waiting(&self->base, timeout);
}

/* What reader.c calls */

static bool kind_usable(Reader *self)
{
    return usable((Subscriber *)self);
}

static PyObject *kind_take(Reader *self)
{
    return take_once((Subscriber *)self);
}

static bool kind_ready(void *context)
{
    Subscriber *self = context;
    return !epoch_holds(&self->base.epoch) || anything_there(self);
}

static ring_place kind_ring_at(const Reader *self, int i)
{
    const ring_reader *ring = &subscriber_rings((const Subscriber *)self)[i];
    return (ring_place){ring->number, ring->cursor};
}

static bool kind_exported(const Reader *self)
{
    return self->pinned != NULL && self->pinned->exports != 0;
}

static bool kind_owned(Reader *self)
{
    if (LIKELY(epoch_holds(&self->epoch)))
        return true;
    if (self->use == IDLE) /* else the running poll or wait takes the gates back (5.4) */
        return explain_lost((Subscriber *)self);
    raise_error("SlotLostError", "(si)", "subscriber", ((Subscriber *)self)->slot);
    return false;
}

static bool kind_expire_messages(Reader *self)
{
    return unpin((Subscriber *)self);
}

/* Give the slot back (5.3, close). */
static void kind_give_back(Reader *base)
{
    Subscriber *self = (Subscriber *)base;
    if (!base->forked && !self->lost) {
        if (!epoch_holds(&self->base.epoch))
            give_up(self);
        else if (!self->kept)
            stop_gating(&base->shape, base->memory->base, self->slot); /* 6.6 */
    }
    epoch_drop(&self->base.epoch);
    file_shut(self->lock);
}

const reader_kind subscriber_kind = {
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
