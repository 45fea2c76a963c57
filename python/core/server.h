/* SPDX-License-Identifier: Apache-2.0 */
/* Server of a service (spec/service.md), as Python object: shared by serve.c (poll), hand.c (what is in hand, replies),
   stream.c (streams, damaged rings), request.c (Request) and server.c (life, waiting). The lock of the server object,
   under which other threads reply, is the GIL: nothing here gives it up between a look and the store behind it. */
#ifndef FLYRING_SERVER_H
#define FLYRING_SERVER_H

#include "service.h"

struct Server;

/* One request in the server's hand, and afterwards. It has its bytes, so it costs nothing to keep it. */
typedef struct Request {
    Message message;
    struct Server *server; /* borrowed; NULL: it is not in hand any more */
    struct Request *before, *behind; /* in hand, of the same client, in the order of their positions: borrowed */
    uint32_t sequence, client_epoch;
    int64_t deadline, count; /* count: messages before it */
    int64_t position; /* where the gate stays, at least once */
    service_clock clock;
    int32_t client;
    uint32_t credit;
    bool repeat, is_stream, kept;
    bool answered; /* a final reply was given; it may wait for room */
    bool cancelled;
    bool closed; /* its server was closed before it was answered */
    /* Of a stream that has begun, which refers to itself for so long. */
    bool streaming, pulling, exhausted;
    int32_t item_type, given_type; /* given_type: of all items; 0: none was given */
    PyObject *items; /* an iterator */
    PyObject *item; /* bytes: made, and not sent */
    uint8_t bytes[];
} Request;

/* A reply for which there was no room. */
typedef struct waiting_reply {
    struct waiting_reply *next;
    Request *request; /* referred to */
    int32_t status, type;
    int64_t length;
    uint8_t bytes[];
} waiting_reply;

/* One client, as the server sees it. */
typedef struct {
    const uint8_t *data; /* of ring k, mapped read-only */
    uint8_t *trailer; /* of ring k */
    uint8_t *gate; /* of ring k; taken_end is beside it */
    const uint8_t *client_epoch; /* of slot 1 + k */
    const uint8_t *reply_gate; /* of ring N + k */
    int64_t cursor, stored; /* stored: what the gate holds */
    int64_t count; /* messages before the cursor */
    int64_t repeat_end;
    int32_t number;
    int32_t hand, streams; /* requests in hand; of these, streams that have begun */
    bool full; /* a call lies at the cursor, and there are max_outstanding in hand */
    bool damaged, evicted; /* it waits to be mended; evicted: for that */
    Request *first, *last; /* in hand */
    waiting_reply *waiting, *last_waiting;
    sender from; /* the client */
    slot_writer writer; /* of ring N + k */
} service_side;

typedef struct Server {
    Reader base; /* base.drains: it was told to stop */
    waker room; /* of clients that wait for it */
    waker waker; /* of clients that wait for replies */
    int32_t max_outstanding, default_type;
    bool least; /* at least once */
    bool lost;
    bool look_due; /* for wait sets: its poll has something to do */
    bool stream_blocked; /* an item found no room */
    int32_t in_hand, waiting, streams, damaged_sides; /* of all sides */
    int64_t looked; /* by now_ns: the last look for clients that died */
    int64_t client_gone, expired, not_run, damaged; /* counts since the start */
    service_clock clock;
    PyObject *name; /* bytes */
    PyObject *handler; /* of polls that are given none, or NULL */
    File *lock;
} Server;

static inline service_side *server_sides(const Server *self)
{
    return self->base.rings;
}

static inline service_side *side_of(const Request *request)
{
    return &server_sides(request->server)[request->client];
}

/* hand.c */

/* The epoch has changed: raises and returns false. Its slots are given up. */
bool server_explain_lost(Server *self);
/* 4: false, with an exception, if the slot was taken away. */
static inline bool server_still_ours(Server *self)
{
    FENCE_ACQUIRE(); /* pairs with evict (9) */
    return LIKELY(epoch_holds(&self->base.epoch)) || server_explain_lost(self);
}
/* Poll 3 to 6 of the message at the cursor of a side: 1 *taken is in hand, and to be handed out; 0 it stays where it
   is, or was answered already; -1 an exception. `taken` is a new reference. */
int server_take(Server *self, service_side *side, const request_prefix *prefix, const uint8_t *bytes, int64_t length,
                int32_t type, int64_t end, Request **taken);
/* Poll 8, where it is due. */
void server_store_gate(Server *self, service_side *side);
/* Reply 2. */
bool client_is_there(const service_side *side, const Request *request);
/* Reply 3, publishes: 1, 0 no room, -1 an exception. */
int server_send(Server *self, service_side *side, const Request *request, int32_t status, int32_t flags,
                const void *bytes, int64_t length, int32_t type);
/* A final reply of a request that is in hand: false with an exception. */
bool server_finish(Request *request, int32_t status, const void *bytes, int64_t length, int32_t type);
/* The same: an error with this text. */
bool server_fail(Request *request, const char *text, int64_t length);
/* What waits is tried again, streams go on, and more: before a poll. False with an exception. */
bool server_look_after_hand(Server *self);
/* What waits for the client of this side is tried again: false with an exception. */
bool server_retry(Server *self, service_side *side);
/* Behind what was done to a request outside of its handler. */
void server_settle(Server *self, service_side *side);
/* One is not in hand any more, and was not answered. */
void server_forget(Request *request);
/* 5, close: nothing is in hand any more. */
void server_forget_all(Server *self);

/* stream.c */

/* 7, apply. False with an exception. */
bool server_apply(Server *self, service_side *side, const request_prefix *prefix);
/* Sends what it can; may run Python code. False with an exception, which is never one of the iterator's. */
bool server_go_on(Request *request);
/* Streams go on. The same. */
bool server_streams_go_on(Server *self);
/* 10: what client k wrote is not to be believed. False with an exception. */
bool server_set_damaged(Server *self, service_side *side);
bool server_mend(Server *self, service_side *side);

/* serve.c */

extern const reader_kind server_kind;
/* What a handler of `request` has returned (a reference that is taken over), or raised (NULL): false with an exception
   that is to come out of the poll. */
bool server_settle_handler(Server *self, Request *request, PyObject *result);
/* Whether the exception that is set is one that no handler should catch. */
bool is_for_nobody(void);

/* request.c */

Request *request_new(Server *server, service_side *side, const uint8_t *bytes, int64_t length, int32_t type);
/* The bytes of what answers: of `type` if it is a message. A new reference to bytes, or a view of it: NULL with an
   exception. */
PyObject *bytes_of_answer(PyObject *object, PyObject *type_given, int32_t *type);
/* The text of the exception that is set, which is cleared. A new reference. */
PyObject *text_of_exception(void);

PyTypeObject *make_server_type(PyObject *module), *make_request_type(PyObject *module);

#endif
