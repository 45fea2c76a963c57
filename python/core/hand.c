/* SPDX-License-Identifier: Apache-2.0 */
/* The requests in a server's hand, and its replies (spec/service.md 5). */
#include "server.h"

#define LOOK_EVERY_NS INT64_C(100000000) /* how often to look for dead clients (7) */

COLD bool server_explain_lost(Server *self)
{
    if (self->base.closed || self->base.forked) {
        raise_error("ClosedError", "(si)", self->base.kind->what, (int)self->base.forked);
        return false;
    }
    if (!self->lost) {
        self->lost = true;
        epoch_drop(&self->base.epoch);
        file_shut(self->lock); /* 4: from now on nothing is stored */
    }
    raise_error("SlotLostError", "(si)", "subscriber", 0);
    return false;
}

/* In hand */

static void add_to_hand(Server *self, service_side *side, Request *request)
{
    request->server = self;
    request->before = side->last;
    request->behind = NULL;
    *(side->last != NULL ? &side->last->behind : &side->first) = request;
    side->last = request;
    __atomic_store_n(&side->hand, side->hand + 1, __ATOMIC_RELAXED); /* a wait reads it without the GIL */
    __atomic_store_n(&self->in_hand, self->in_hand + 1, __ATOMIC_RELAXED);
}

/* Take a request out of the hand (reply 4). Must come last for the request, because Python code may run. */
static void remove_from_hand(Request *request)
{
    Server *self = request->server;
    service_side *side = side_of(request);
    *(request->before != NULL ? &request->before->behind : &side->first) = request->behind;
    *(request->behind != NULL ? &request->behind->before : &side->last) = request->before;
    request->before = request->behind = NULL;
    request->server = NULL;
    __atomic_store_n(&side->hand, side->hand - 1, __ATOMIC_RELAXED);
    __atomic_store_n(&self->in_hand, self->in_hand - 1, __ATOMIC_RELAXED);
    if (!request->streaming)
        return;
    request->streaming = false;
    side->streams--;
    self->streams--;
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    Py_CLEAR(request->item);
    Py_CLEAR(request->items);
    Py_DECREF((PyObject *)request); /* the stream's reference */
    PyErr_Restore(kind, value, traceback);
}

int server_take(Server *self, service_side *side, const request_prefix *prefix, const uint8_t *bytes, int64_t length,
                int32_t type, int64_t end, Request **taken)
{
    if (UNLIKELY(side->hand >= self->max_outstanding)) { /* 3 */
        __atomic_store_n(&side->full, true, __ATOMIC_RELAXED);
        return 0;
    }
    __atomic_store_n(&side->full, false, __ATOMIC_RELAXED);
    Request *request = request_new(self, side, bytes, length, type);
    if (UNLIKELY(request == NULL))
        return -1;
    request->sequence = prefix->sequence;
    request->client_epoch = prefix->client_epoch;
    request->deadline = prefix->deadline;
    request->credit = self->least ? 0 : prefix->credit; /* 7 */
    request->is_stream = request->credit != 0;
    request->repeat = self->least && side->cursor < side->repeat_end; /* 7 */
    add_to_hand(self, side, request);
    bool at_repeat = side->cursor < side->repeat_end;
    side->cursor = end; /* before the handler, so that the request is not handed out again in any case */
    side->count = count_on(side->count);
    int result = 1;
    if (UNLIKELY(!self->least && prefix->server_epoch != low_bits(self->base.epoch.value))) { /* 4 */
        self->not_run++;
        result = server_finish(request, REPLY_STATUS_NOT_RUN, NULL, 0, TYPE_RAW) ? 0 : -1;
    } else if (UNLIKELY(request->deadline > 0) && service_now(&self->clock) >= request->deadline) { /* 5 */
        self->expired++;
        result = server_finish(request, REPLY_STATUS_EXPIRED, NULL, 0, TYPE_RAW) ? 0 : -1;
    } else if (UNLIKELY(!server_still_ours(self))) { /* 6 */
        result = -1;
    } else if (LIKELY(!at_repeat)) {
        STORE64_RELEASE(side->gate + GATE_TAKEN_END, end); /* 6: pairs with gone 4 */
        FENCE_COMPILER(); /* 6: before the handler begins */
    }
    if (LIKELY(result == 1))
        *taken = request;
    else
        Py_DECREF((PyObject *)request);
    return result;
}

void server_store_gate(Server *self, service_side *side)
{
    int64_t position = side->cursor, count = side->count;
    if (self->least && side->first != NULL) { /* 8: not beyond the first request in hand */
        position = side->first->position;
        count = side->first->count;
    }
    if (position == side->stored || side->damaged)
        return;
    side->stored = position;
    STORE64_RELAXED(side->gate + GATE_COUNT, count);
    STORE64_RELEASE(side->gate, position); /* after the last read below it; pairs with channel 6.2, 2 */
    wake_if_asleep(&self->room, waiting_bit(side->number));
}

/* Reply */

bool client_is_there(const service_side *side, const Request *request)
{
    return low_bits(LOAD64_ACQUIRE(side->client_epoch)) ==
               request->client_epoch && /* pairs with take client 5, evict */
           LOAD32_RELAXED(side->client_closed) == 0;
}

int server_send(Server *self, service_side *side, const Request *request, int32_t status, int32_t flags,
                const void *bytes, int64_t length, int32_t type)
{
    bool repeat = request->repeat || (status == REPLY_STATUS_EXPIRED && request->streaming); /* 7, 8 */
    reply_prefix prefix = {request->client_epoch, request->sequence, status, flags | (repeat ? REPLY_FLAG_REPEAT : 0)};
    int sent = service_publish(&side->writer, &prefix, sizeof prefix, bytes, length, type);
    if (LIKELY(sent > 0))
        wake_if_asleep(&self->waker, waiting_bit(side->writer.slot)); /* channel 6.1, 10 */
    return sent;
}

/* Queue a reply that found no room (reply 3, waits). False with an exception. */
static bool wait_for_room(Server *self, service_side *side, Request *request, int32_t status, const void *bytes,
                          int64_t length, int32_t type)
{
    waiting_reply *reply = PyMem_Malloc(sizeof *reply + (size_t)length);
    if (reply == NULL) {
        PyErr_NoMemory();
        return false;
    }
    reply->next = NULL;
    reply->request = (Request *)Py_NewRef((PyObject *)request);
    reply->status = status;
    reply->type = type;
    reply->length = length;
    if (length != 0)
        memcpy(reply->bytes, bytes, (size_t)length);
    *(side->last_waiting != NULL ? &side->last_waiting->next : &side->waiting) = reply;
    side->last_waiting = reply;
    __atomic_store_n(&self->waiting, self->waiting + 1, __ATOMIC_RELAXED);
    request->answered = true;
    return true;
}

bool server_finish(Request *request, int32_t status, const void *bytes, int64_t length, int32_t type)
{
    Server *self = request->server;
    service_side *side = side_of(request);
    if (UNLIKELY(!server_still_ours(self))) /* 1 */
        return false;
    if (UNLIKELY(!client_is_there(side, request))) { /* 2 */
        self->client_gone++;
    } else {
        int sent = side->waiting != NULL ? 0 : server_send(self, side, request, status, 0, bytes, length, type); /* 3 */
        if (UNLIKELY(sent <= 0))
            return sent == 0 && wait_for_room(self, side, request, status, bytes, length, type);
    }
    request->answered = true;
    remove_from_hand(request); /* 4 */
    return true;
}

/* Return how many bytes of a text to send: at most `most`, and only whole characters. */
static int64_t whole_letters(const char *text, int64_t length, int64_t most)
{
    if (length <= most)
        return length;
    while (most > 0 && ((unsigned char)text[most] & 0xC0) == 0x80)
        most--;
    return most;
}

bool server_fail(Request *request, const char *text, int64_t length)
{
    int64_t longest = side_of(request)->writer.ring.longest - RECORD_HEADER_LENGTH - REPLY_LENGTH;
    length = whole_letters(text, length, longest < REPLY_MAX_TEXT ? longest : REPLY_MAX_TEXT);
    return server_finish(request, REPLY_STATUS_ERROR, text, length, TYPE_RAW);
}

/* Remove the first waiting reply. */
static void drop_waiting(Server *self, service_side *side)
{
    waiting_reply *reply = side->waiting;
    Request *request = reply->request;
    side->waiting = reply->next;
    if (side->waiting == NULL)
        side->last_waiting = NULL;
    __atomic_store_n(&self->waiting, self->waiting - 1, __ATOMIC_RELAXED);
    PyMem_Free(reply);
    if (request->server != NULL)
        remove_from_hand(request);
    Py_DECREF((PyObject *)request);
}

bool server_retry(Server *self, service_side *side)
{
    bool any = false;
    for (waiting_reply *reply; (reply = side->waiting) != NULL; any = true) {
        if (!client_is_there(side, reply->request)) {
            self->client_gone++;
        } else {
            int sent =
                server_send(self, side, reply->request, reply->status, 0, reply->bytes, reply->length, reply->type);
            if (sent < 0)
                return false;
            if (sent == 0)
                break;
        }
        drop_waiting(self, side);
    }
    if (any && self->least)
        server_store_gate(self, side);
    return true;
}

/* End the streams of dead clients (service.md 7). */
static void look_for_clients(Server *self)
{
    const geometry *shape = &self->base.shape;
    for (int k = 0; k < self->base.count; k++) {
        service_side *side = &server_sides(self)[k];
        if (side->hand == 0)
            continue;
        bool lives = !lock_is_free(self->lock, subscriber_slot_offset(shape, 1 + k) + CONTROL_SLOT_LOCK);
        uint32_t epoch = low_bits(LOAD64_ACQUIRE(side->client_epoch)); /* pairs with take client 5, evict */
        for (Request *one = side->first; one != NULL; one = one->behind) {
            if (!lives || one->client_epoch != epoch)
                one->cancelled = true;
        }
    }
}

bool server_look_after_hand(Server *self)
{
    int64_t now = now_ns();
    if (now - self->looked >= LOOK_EVERY_NS) {
        self->looked = now;
        look_for_clients(self);
    }
    if (self->waiting != 0) {
        if (!server_still_ours(self))
            return false;
        for (int k = 0; k < self->base.count; k++) {
            if (server_sides(self)[k].waiting != NULL && !server_retry(self, &server_sides(self)[k]))
                return false;
        }
    }
    if (self->streams != 0 && !server_streams_go_on(self))
        return false;
    for (int k = 0; self->damaged_sides != 0 && k < self->base.count; k++) {
        if (server_sides(self)[k].damaged && !server_mend(self, &server_sides(self)[k]))
            return false;
    }
    return true;
}

void server_settle(Server *self, service_side *side)
{
    if (!epoch_holds(&self->base.epoch))
        return;
    if (self->least)
        server_store_gate(self, side);
    /* The polling thread may be asleep. Wake it if it can take more from a full side, or must watch a reply or stream
       that waits for room. */
    if (self->base.use == WAITING && (side->full || self->waiting != 0 || self->streams != 0))
        wake_all(data_words(&self->base.shape, self->base.memory->base));
}

void server_forget(Request *request)
{
    request->closed = true;
    remove_from_hand(request);
}

void server_forget_all(Server *self)
{
    for (int k = 0; self->base.rings != NULL && k < self->base.count; k++) {
        service_side *side = &server_sides(self)[k];
        while (side->waiting != NULL)
            drop_waiting(self, side);
        while (side->first != NULL)
            server_forget(side->first);
    }
}
