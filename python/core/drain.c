/* SPDX-License-Identifier: Apache-2.0 */
/* Takes replies, and ends calls (spec/service.md 6, drain and gone, and 7). */
#define _GNU_SOURCE /* CLOCK_MONOTONIC_COARSE */
#include "client.h"

#include <time.h>

/* The end of a call */

/* Note that a callback of the call is due. */
static bool note(Client *self, Call *call)
{
    if (self->told == self->event_count)
        self->told = self->event_count = 0;
    if (self->event_count == self->event_space) {
        Py_ssize_t space = 2 * self->event_space + 8;
        Call **more = PyMem_Realloc(self->events, (size_t)space * sizeof *more);
        if (more == NULL) {
            PyErr_NoMemory();
            return false;
        }
        self->events = more;
        self->event_space = space;
    }
    self->events[self->event_count++] = (Call *)Py_NewRef((PyObject *)call);
    call->untold++;
    return true;
}

bool client_finish(Client *self, Call *call, call_end how)
{
    if (call->deadline != 0 && --self->deadlines == 0)
        self->next_deadline = INT64_MAX;
    call->may_have_run = true;
    call->end = how;
    if (UNLIKELY(how == CALL_EXPIRED))
        STORE64_RELAXED(self->gate + GATE_EXPIRED, ++self->expired);
    if (UNLIKELY(how == CALL_SERVER_GONE)) {
        call->text = PyBytes_FromStringAndSize(self->server_name, self->server_name_length);
        if (call->text == NULL)
            PyErr_Clear(); /* the error then has no name */
        call->pid = self->server_pid;
    }
    return call->of_call || how == CALL_CANCELLED || note(self, call);
}

/* Remove a call from the outstanding calls. */
static void forget(Client *self, Call *call)
{
    self->streams -= call->credit != 0;
    self->due -= call->cancel_due;
    call->cancel_due = false;
    call_remove(call);
}

void client_end_all(Client *self, call_end how)
{
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    while (self->first != NULL) {
        Call *call = self->first;
        if (call->end == CALL_RUNS) {
            call->end = how;
            call->may_have_run = true;
            if (!call->of_call && !note(self, call))
                PyErr_Clear(); /* the call has ended nevertheless */
        }
        call->slot = self->slot;
        if (how == CALL_CORRUPT_RING) {
            call->slot = self->base.shape.publishers / 2 + self->number;
            call->corrupt_at = self->cursor;
        }
        forget(self, call);
    }
    self->deadlines = 0;
    self->next_deadline = INT64_MAX;
    PyErr_Restore(kind, value, traceback);
}

void client_drop_events(Client *self)
{
    while (self->told < self->event_count)
        Py_DECREF((PyObject *)self->events[self->told++]);
}

bool client_tell(Client *self)
{
    if (self->in_callback)
        return true;
    int use = self->base.use;
    bool fine = true;
    self->in_callback = true;
    self->callback_thread = PyThread_get_thread_ident();
    self->base.use = BUSY;
    while (fine && self->told < self->event_count) {
        Call *call = self->events[self->told++];
        PyObject *callback = Py_XNewRef(call->callback);
        if (--call->untold == 0 && call->end != CALL_RUNS)
            Py_CLEAR(call->callback); /* it may refer to the call, which would be a cycle */
        if (callback != NULL) {
            PyObject *result = PyObject_CallFunctionObjArgs(callback, (PyObject *)call, NULL);
            fine = result != NULL;
            Py_XDECREF(result);
            Py_DECREF(callback);
        }
        Py_DECREF((PyObject *)call);
        if (UNLIKELY(self->base.forked)) { /* a callback forked, and this is the child */
            if (fine)
                raise_error("ClosedError", "(si)", self->base.kind->what, 1);
            fine = false;
        }
    }
    self->in_callback = false;
    self->base.use = use;
    return fine;
}

/* Slot lost, ring corrupt */

void client_take_back(Client *self)
{
    const geometry *shape = &self->base.shape;
    uint8_t *base = self->base.memory->base;
    if (!lock_try(self->lock, subscriber_slot_offset(shape, self->slot) + CONTROL_SLOT_LOCK))
        return;
    STORE32_RELEASE(base + publisher_slot_offset(shape, self->number) + PUBLISHER_SLOT_CLOSED, 1);
    wake_all(data_words(shape, base));
    STORE32_RELEASE(base + subscriber_slot_offset(shape, self->slot) + SUBSCRIBER_SLOT_EVICTING, 1);
    stop_gating(shape, base, self->slot);
}

COLD bool client_explain_lost(Client *self)
{
    if (self->base.closed || self->base.forked) {
        raise_error("ClosedError", "(si)", self->base.kind->what, (int)self->base.forked);
        return false;
    }
    if (!self->lost) {
        self->lost = true;
        epoch_drop(&self->base.epoch);
        client_take_back(self);
        file_shut(self->lock);
        client_end_all(self, CALL_SLOT_LOST);
        if (client_pending(self) != 0 && !client_tell(self))
            PyErr_WriteUnraisable((PyObject *)self);
    }
    raise_error("SlotLostError", "(si)", "subscriber", self->slot);
    return false;
}

/* Handle a corrupt ring N + k (service.md 10): the client does not read it again. False with an exception. */
static COLD bool ring_is_corrupt(Client *self, const char *reason, int64_t value)
{
    char text[200];
    FENCE_ACQUIRE(); /* as in channel.md 6.9, 5 */
    if (!epoch_holds(&self->base.epoch))
        return client_explain_lost(self);
    int32_t ring = self->base.shape.publishers / 2 + self->number;
    PyOS_snprintf(text, sizeof text, reason, (long long)value);
    self->corrupt = true;
    self->stored = NOT_GATING;
    STORE64_RELEASE(self->gate, NOT_GATING); /* pairs with channel 6.2, 2 */
    wake_if_asleep(&self->room, waiting_bit(ring));
    for (Call *call = self->first; call != NULL; call = call->behind) {
        if (call->end == CALL_RUNS && (call->text = PyBytes_FromString(text)) == NULL)
            PyErr_Clear();
    }
    client_end_all(self, CALL_CORRUPT_RING);
    client_set_outstanding(self);
    if (client_pending(self) != 0 && !client_tell(self))
        PyErr_WriteUnraisable((PyObject *)self);
    raise_error("CorruptRingError", "(iLs)", ring, (long long)self->cursor, text);
    return false;
}

/* Drain */

/* Store the gate, wake the server, and check the epoch (channel.md 6.9, 4 to 6). False with an exception. */
static bool store_gate(Client *self)
{
    self->stored = self->cursor;
    STORE64_RELAXED(self->gate + GATE_COUNT, self->count);
    STORE64_RELEASE(self->gate, self->cursor); /* after the last read below it; pairs with channel 6.2, 2 */
    wake_if_asleep(&self->room, waiting_bit(self->writer.shape->publishers / 2 + self->number));
    FENCE_ACQUIRE(); /* poll 5; pairs with evict */
    return LIKELY(epoch_holds(&self->base.epoch)) || client_explain_lost(self);
}

/* Receive an item of a stream. False with an exception. */
static bool received_item(Client *self, Call *call, PyObject *item)
{
    Py_ssize_t there = call->items == NULL ? 0 : PyList_Size(call->items) - call->next_item;
    if (call->end != CALL_RUNS || there >= (Py_ssize_t)call->credit) { /* beyond its credit: a hostile server */
        self->late++;
        return true;
    }
    if (call->items == NULL && (call->items = PyList_New(0)) == NULL)
        return false;
    return PyList_Append(call->items, item) == 0 && (call->of_call || note(self, call));
}

/* Receive the message at the cursor (drain 2 and 3). False with an exception; the message is then received again. */
static bool received(Client *self, const uint8_t *payload, int64_t length, int32_t type)
{
    reply_prefix prefix;
    Call *call = NULL;
    if (LIKELY(length >= (int64_t)sizeof prefix)) {
        memcpy(&prefix, payload, sizeof prefix);
        if (LIKELY(prefix.client_epoch == low_bits(self->base.epoch.value)))
            call = call_find(self, prefix.sequence);
    }
    if (UNLIKELY(call == NULL)) {
        self->late++;
        return true;
    }
    const uint8_t *bytes = payload + sizeof prefix;
    length -= (int64_t)sizeof prefix;
    bool more = (prefix.flags & REPLY_FLAG_MORE) != 0, repeat = (prefix.flags & REPLY_FLAG_REPEAT) != 0, fine = true;
    if (LIKELY(call->end == CALL_RUNS) && (more || LIKELY(prefix.status == REPLY_STATUS_OK))) {
        PyObject *from = sender_object(&self->from);
        Answer *answer = from == NULL ? NULL
                                      : answer_new(bytes, length, type, self->base.shape.publishers / 2 + self->number,
                                                   self->cursor, repeat, from);
        if (answer == NULL)
            return false;
        if (UNLIKELY(more)) {
            fine = received_item(self, call, (PyObject *)answer);
            Py_DECREF((PyObject *)answer);
            return fine;
        }
        call->answer = (PyObject *)answer;
        call->repeat = repeat;
        fine = client_finish(self, call, CALL_ANSWER);
    } else if (UNLIKELY(call->end != CALL_RUNS)) {
        self->late++;
        if (more)
            return true;
    } else if (prefix.status == REPLY_STATUS_EXPIRED) {
        fine = client_finish(self, call, CALL_EXPIRED);
        call->may_have_run = repeat;
    } else if (prefix.status == REPLY_STATUS_NOT_RUN) {
        fine = client_finish(self, call, CALL_SERVER_GONE);
        call->may_have_run = false;
    } else {
        call->text = PyBytes_FromStringAndSize((const char *)bytes, length < REPLY_MAX_TEXT ? length : REPLY_MAX_TEXT);
        fine = call->text != NULL && client_finish(self, call, CALL_ERROR);
    }
    if (UNLIKELY(!fine && call->end == CALL_RUNS))
        return false;
    forget(self, call);
    client_set_outstanding(self);
    return fine;
}

int client_drain(Client *self)
{
    const Reader *base = &self->base;
    const int64_t first = self->cursor;
    while (self->cursor - first < base->capacity) {
        const uint8_t *at = self->data + (self->cursor & base->mask);
        int64_t length = LOAD32_ACQUIRE((void *)(at + RECORD_LENGTH)); /* 6.9, 1: once; pairs with publish 6 */
        if (length <= 0)
            break;
        ring_prefetch(&self->writer.ring); /* the line of the next request, at which the server waits */
        int64_t n = (length + base->alignment - 1) & -base->alignment;
        if (UNLIKELY(length < RECORD_HEADER_LENGTH || (self->cursor & base->mask) + n > base->capacity))
            return ring_is_corrupt(self, "a record of %lld bytes cannot be here", length) ? 1 : -1;
        int32_t type = LOAD32_RELAXED((void *)(at + RECORD_TYPE));
        if (LIKELY(type > 0)) {
            if (UNLIKELY(!received(self, at + RECORD_PAYLOAD, length - RECORD_HEADER_LENGTH, type)))
                return -1;
            self->count = count_on(self->count);
        } else if (type == TYPE_OWNER) {
            sender_from_record(&self->from, at + RECORD_PAYLOAD, length - RECORD_HEADER_LENGTH);
        } else if (UNLIKELY(type != TYPE_PADDING)) {
            return ring_is_corrupt(self, "there is no record type %lld", type) ? 1 : -1;
        }
        self->cursor += n;
        if (UNLIKELY(self->cursor - self->stored >= base->store_every) && !store_gate(self))
            return -1;
    }
    if (self->cursor != self->stored && !store_gate(self))
        return -1;
    return self->cursor != first;
}

/* Calls that end by the client's clock */

static bool expire(Client *self)
{
    int64_t now = service_now(&self->clock);
    if (now < self->next_deadline)
        return true;
    self->next_deadline = INT64_MAX;
    int64_t next = INT64_MAX;
    for (Call *call = self->first; call != NULL; call = call->behind) {
        if (call->end != CALL_RUNS || call->deadline == 0)
            continue;
        if (call->deadline > now)
            next = call->deadline < next ? call->deadline : next;
        else if (!client_finish(self, call, CALL_EXPIRED))
            return false;
    }
    self->next_deadline = next;
    return true;
}

/* Gone */

bool client_ask_gone(Client *self)
{
    const geometry *shape = &self->base.shape;
    self->ask_gone = false;
    self->empty_drains = 0;
    if (self->known == 0)
        return true;
    int64_t e = LOAD64_ACQUIRE(self->server_epoch); /* gone 1; pairs with take server 4, evict */
    bool held = !lock_is_free(self->lock, subscriber_slot_offset(shape, 0) + CONTROL_SLOT_LOCK);
    const uint8_t *serving = self->base.memory->base + shape->control + CONTROL_SERVING;
    if (e == self->known && held && LOAD64_ACQUIRE(serving) == self->known) /* 2: after the test */
        return true; /* pairs with take server 2 and 7 */
    if (client_drain(self) < 0) /* 3: after 1 */
        return false;
    bool fine = true;
    if (!self->least) { /* 4 */
        const uint8_t *gate = self->writer.ring.trailer + gate_offset(0);
        int64_t taken_end = LOAD64_ACQUIRE(gate + GATE_TAKEN_END); /* after the test; pairs with poll 6 */
        int64_t position = LOAD64_ACQUIRE(gate);
        if (taken_end < position || taken_end > self->writer.ring.cleared) /* 2 */
            taken_end = position;
        while (self->first != NULL) {
            Call *call = self->first;
            if (call->end == CALL_RUNS) {
                fine &= client_finish(self, call, CALL_SERVER_GONE);
                call->may_have_run = held || call->position < taken_end;
            }
            forget(self, call);
        }
        client_set_outstanding(self);
    }
    self->known = 0; /* 5 */
    return fine;
}

/* Cancel and credit */

bool client_send_due(Client *self)
{
    self->unsent = false;
    if (LIKELY(self->due == 0 && self->streams == 0) || self->known == 0)
        return true;
    int room = 1;
    for (Call *call = self->first; call != NULL && room > 0; call = call->behind) {
        if (call->cancel_due) {
            room = client_publish(self, call, REQUEST_OPERATION_CANCEL, 0, NULL, 0, TYPE_RAW);
            if (room > 0) {
                call->cancel_due = false;
                self->due--;
            }
        } else if (call->credit != 0 && call->end == CALL_RUNS && call->consumed != 0 &&
                   2 * call->consumed >= call->credit) {
            room = client_publish(self, call, REQUEST_OPERATION_CREDIT, call->consumed, NULL, 0, TYPE_RAW);
            if (room > 0)
                call->consumed = 0;
        }
    }
    self->unsent = room == 0;
    return room >= 0;
}

/* Whether polls that find nothing must ask whether the server has gone: every 100 ms (service.md 6). */
static inline bool is_time_to_ask(Client *self)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    int64_t now = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    if (LIKELY(now - self->asked < DATA_CAP_NS))
        return false;
    self->asked = now;
    return true;
}

bool client_step(Client *self)
{
    if (UNLIKELY(!epoch_holds(&self->base.epoch)))
        return client_explain_lost(self);
    int drained = client_drain(self);
    if (UNLIKELY(drained < 0))
        return false;
    if (drained > 0)
        self->empty_drains = 0;
    else if (UNLIKELY(++self->empty_drains > POLLS_TO_LOOK) || (self->outstanding != 0 && is_time_to_ask(self)))
        self->ask_gone = true;
    if (UNLIKELY(self->deadlines != 0) && !expire(self))
        return false;
    if (UNLIKELY(self->ask_gone || (self->known != 0 && LOAD64_ACQUIRE(self->server_epoch) != self->known)) &&
        !client_ask_gone(self))
        return false;
    return client_send_due(self);
}
