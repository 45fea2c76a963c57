/* SPDX-License-Identifier: Apache-2.0 */
/* The poll of a server (spec/service.md 5). */
#include "server.h"

/* Whether the server can be used */

static bool kind_usable(Reader *base)
{
    if (LIKELY(base->use == IDLE && epoch_holds(&base->epoch)))
        return true;
    return !reader_in_use(base) && server_explain_lost((Server *)base);
}

/* One request, and its handler */

bool is_for_nobody(void)
{
    return !PyErr_ExceptionMatches(PyExc_Exception);
}

/* Finish after a handler that raised. Returns as server_settle_handler does. */
static COLD bool settle_raised(Server *self, Request *request)
{
    bool nobody = is_for_nobody();
    if (request->server == NULL || request->answered || request->streaming) {
        if (nobody)
            return false;
        PyErr_WriteUnraisable((PyObject *)request); /* the caller has its answer already */
        return true;
    }
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    PyErr_NormalizeException(&kind, &value, &traceback);
    Py_XINCREF(kind);
    Py_XINCREF(value);
    Py_XINCREF(traceback);
    PyErr_Restore(kind, value, traceback);
    PyObject *text = text_of_exception();
    bool fine = text != NULL && (request->server == NULL || request->answered ||
                                 server_fail(request, PyBytes_AsString(text), PyBytes_Size(text)));
    Py_XDECREF(text);
    if (fine && !nobody) {
        Py_XDECREF(kind);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return true;
    }
    if (nobody) {
        PyErr_Clear();
        PyErr_Restore(kind, value, traceback);
    } else {
        Py_XDECREF(kind);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    (void)self;
    return false;
}

/* Finish after a handler that returned a value other than None. */
static bool settle_answer(Server *self, Request *request, PyObject *result)
{
    int32_t type = self->default_type;
    PyObject *bytes = bytes_of_answer(result, NULL, &type);
    Py_DECREF(result);
    if (UNLIKELY(bytes == NULL))
        return settle_raised(self, request);
    bool fine = false;
    int64_t longest = side_of(request)->writer.ring.longest - RECORD_HEADER_LENGTH - REPLY_LENGTH;
    if (UNLIKELY(PyBytes_Size(bytes) > longest)) {
        raise_error("MessageTooLargeError", "(LL)", (long long)PyBytes_Size(bytes), (long long)longest);
        fine = settle_raised(self, request);
    } else {
        fine = server_finish(request, REPLY_STATUS_OK, PyBytes_AsString(bytes), PyBytes_Size(bytes), type);
    }
    Py_DECREF(bytes);
    return fine;
}

bool server_settle_handler(Server *self, Request *request, PyObject *result)
{
    if (UNLIKELY(self->base.forked)) { /* the handler forked, and this is the child, which owns nothing here */
        Py_XDECREF(result);
        if (result != NULL)
            raise_error("ClosedError", "(si)", self->base.kind->what, 1);
        return false;
    }
    if (UNLIKELY(result == NULL)) {
        if (LIKELY(epoch_holds(&self->base.epoch)) || is_for_nobody())
            return settle_raised(self, request);
        PyErr_Clear();
        return server_explain_lost(self);
    }
    bool open = request->server != NULL && !request->answered && !request->streaming;
    if (LIKELY(result != Py_None && open))
        return settle_answer(self, request, result);
    if (UNLIKELY(result != Py_None)) {
        raise_error("InvalidArgumentError", "(ss)", "reply",
                    "the handler returned an answer to a request that it has answered; answer each once");
        Py_DECREF(result);
        return settle_raised(self, request);
    }
    Py_DECREF(result);
    return !open || request->kept || server_fail(request, "no answer", 9);
}

/* One record */

enum { NOTHING, HANDED_OUT, STAYS, FAILED };

/* Take the record of this length at the cursor of a side (poll 1 to 8). */
static int take_record(Server *self, service_side *side, int64_t length, PyObject *handler)
{
    const Reader *base = &self->base;
    const uint8_t *at = side->data + (side->cursor & base->mask);
    int64_t n = (length + base->alignment - 1) & -base->alignment, end = side->cursor + n;
    int32_t type = LOAD32_RELAXED((void *)(at + RECORD_TYPE));
    bool is_message = type > 0;
    if (UNLIKELY(length < RECORD_HEADER_LENGTH + (is_message ? REQUEST_LENGTH : 0) ||
                 (side->cursor & base->mask) + n > base->capacity ||
                 (!is_message && type != TYPE_PADDING && type != TYPE_OWNER)))
        return server_set_damaged(self, side) ? STAYS : FAILED;
    const uint8_t *payload = at + RECORD_PAYLOAD;
    length -= RECORD_HEADER_LENGTH;
    if (UNLIKELY(!is_message)) {
        if (type == TYPE_OWNER)
            sender_from_record(&side->from, payload, length);
        side->cursor = end;
        return NOTHING;
    }
    request_prefix prefix;
    memcpy(&prefix, payload, sizeof prefix);
    if (UNLIKELY(prefix.operation != REQUEST_OPERATION_CALL)) { /* 2 */
        side->cursor = end;
        side->count = count_on(side->count);
        return server_apply(self, side, &prefix) ? NOTHING : FAILED;
    }
    ring_prefetch(&side->writer.ring); /* the line of the reply, at which its client waits */
    int64_t before = side->cursor;
    Request *request;
    int taken = server_take(self, side, &prefix, payload + sizeof prefix, length - REQUEST_LENGTH, type, end, &request);
    if (UNLIKELY(taken <= 0))
        return taken < 0 ? FAILED : side->cursor == before ? STAYS : NOTHING;
    PyObject *result = PyObject_CallFunctionObjArgs(handler, (PyObject *)request, NULL); /* 7 */
    bool fine = server_settle_handler(self, request, result);
    Py_DECREF((PyObject *)request);
    return fine ? HANDED_OUT : FAILED;
}

static inline int64_t length_at_cursor(const Server *self, const service_side *side)
{
    return LOAD32_ACQUIRE((void *)(side->data + (side->cursor & self->base.mask) + RECORD_LENGTH)); /* publish 6 */
}

/* One side's turn. Returns how many requests were handed out, at most `limit`; -1 with an exception. */
static Py_ssize_t poll_side(Server *self, service_side *side, PyObject *handler, Py_ssize_t limit)
{
    Py_ssize_t done = 0;
    int64_t passed = 0; /* bytes of records that were not handed out */
    int took = NOTHING;
    while (done < limit && passed < self->base.capacity && took != STAYS && took != FAILED) {
        int64_t before = side->cursor, length = length_at_cursor(self, side);
        if (length <= 0)
            break;
        took = take_record(self, side, length, handler);
        if (took == HANDED_OUT)
            done++;
        else
            passed += side->cursor - before;
        if (side->cursor - side->stored >= self->base.store_every && took != FAILED)
            server_store_gate(self, side);
    }
    if (UNLIKELY(took == FAILED)) {
        if (epoch_holds(&self->base.epoch)) /* not in a forked child */
            server_store_gate(self, side);
        return -1;
    }
    server_store_gate(self, side);
    return done;
}

static Py_ssize_t poll_sides(Server *self, PyObject *handler, Py_ssize_t limit)
{
    Py_ssize_t total = 0;
    if (UNLIKELY(self->in_hand != 0 || self->damaged_sides != 0) && !server_look_after_hand(self))
        return -1;
    for (int i = 0, at = self->base.next; i < self->base.count && total < limit; i++) {
        service_side *side = &server_sides(self)[at];
        at = at + 1 == self->base.count ? 0 : at + 1;
        if (length_at_cursor(self, side) <= 0 || UNLIKELY(side->damaged))
            continue;
        Py_ssize_t done = poll_side(self, side, handler, limit - total);
        if (done != 0)
            self->base.next = at;
        if (UNLIKELY(done < 0))
            return -1;
        total += done;
    }
    return total;
}

static Py_ssize_t kind_poll(Reader *base, void *handler, Py_ssize_t limit)
{
    Server *self = (Server *)base;
    self->look_due = false;
    reader_begin(base);
    Py_ssize_t done = poll_sides(self, handler, limit);
    base->use = IDLE;
    return done;
}

/* What reader.c calls */

static Py_ssize_t no_arrays(Reader *base, void *poll, Py_ssize_t limit)
{
    (void)base, (void)poll, (void)limit;
    PyErr_SetString(PyExc_TypeError, "a server has no poll_arrays: requests come one by one");
    return -1;
}

static PyObject *no_take(Reader *base)
{
    (void)base;
    PyErr_SetString(PyExc_TypeError, "a server has no take: use poll");
    return NULL;
}

static bool kind_ready(void *context)
{
    const Server *self = context;
    if (!epoch_holds(&self->base.epoch) || __atomic_load_n(&self->base.drains, __ATOMIC_RELAXED) || self->look_due)
        return true;
    for (int k = 0; k < self->base.count; k++) {
        const service_side *side = &server_sides(self)[k];
        if (!side->damaged && length_at_cursor(self, side) > 0 &&
            (!__atomic_load_n(&side->full, __ATOMIC_RELAXED) ||
             __atomic_load_n(&side->hand, __ATOMIC_RELAXED) < self->max_outstanding))
            return true;
    }
    return false;
}

static ring_place kind_ring_at(const Reader *self, int i)
{
    const service_side *side = &server_sides((const Server *)self)[i];
    return (ring_place){side->number, side->cursor};
}

static bool kind_owned(Reader *self)
{
    return epoch_holds(&self->epoch) || server_explain_lost((Server *)self);
}

/* 6.16: a reply that waits makes its cap that of room. Its poll looks after what is in hand at each cap. */
static bool kind_due(void *context)
{
    const Server *self = context;
    return __atomic_load_n(&self->in_hand, __ATOMIC_RELAXED) != 0;
}

static void kind_aim(const Reader *base, wait_target *target)
{
    const Server *self = (const Server *)base;
    target->room = self->waiting != 0 || (self->streams != 0 && self->stream_blocked);
    target->due = kind_due;
}

static void kind_look(Reader *base)
{
    Server *self = (Server *)base;
    self->look_due = self->in_hand != 0;
}

/* Give the place back (service.md 4, close). Requests in hand are not answered. */
static void kind_give_back(Reader *base)
{
    Server *self = (Server *)base;
    const geometry *shape = &base->shape;
    if (!base->forked && !self->lost && epoch_holds(&base->epoch)) {
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback);
        for (int k = 0; k < base->count && self->waiting != 0; k++) {
            if (!server_retry(self, &server_sides(self)[k]))
                PyErr_Clear(); /* their calls end as server gone */
        }
        PyErr_Restore(kind, value, traceback);
        uint8_t *memory = base->memory->base;
        for (int32_t ring = shape->publishers / 2; ring < shape->publishers; ring++) /* after the last record */
            STORE32_RELEASE(memory + publisher_slot_offset(shape, ring) + PUBLISHER_SLOT_CLOSED, 1);
        wake_all(data_words(shape, memory));
        wake_all(room_words(shape, memory));
    }
    epoch_drop(&base->epoch);
    file_shut(self->lock);
    self->lost = true;
    server_forget_all(self);
    Py_CLEAR(self->handler); /* it may refer to the server */
}

const reader_kind server_kind = {
    .what = "server",
    .takes_limit_0 = true,
    .usable = kind_usable,
    .poll = kind_poll,
    .poll_arrays = no_arrays,
    .take = no_take,
    .ready = kind_ready,
    .ring_at = kind_ring_at,
    .exported = reader_exports_nothing,
    .owned = kind_owned,
    .expire_messages = reader_expires_nothing,
    .give_back = kind_give_back,
    .aim = kind_aim,
    .look = kind_look,
};
