/* SPDX-License-Identifier: Apache-2.0 */
/* The Python object Server of a service (spec/service.md). Shared by serve.c (poll), hand.c (requests in hand,
   replies), stream.c (streams, damaged rings), request.c (Request) and server.c (creation, waiting). Other threads
   reply under the GIL: no function here releases it between a check and the store that depends on it. */
#ifndef FLYRING_SERVER_H
#define FLYRING_SERVER_H

#include "service.h"

struct Server;

/* One request, in the server's hand or ended. It owns its bytes, so a handler may keep it. */
typedef struct Request {
    Message message;
    struct Server *server; /* borrowed; NULL: the request is not in hand any more */
    struct Request *before, *behind; /* the client's other requests in hand, by position; borrowed */
    uint32_t sequence, client_epoch;
    int64_t deadline, count; /* count: messages before it */
    int64_t position; /* where the gate stays with at-least-once delivery */
    service_clock clock;
    int32_t client;
    uint32_t credit;
    bool repeat, is_stream, kept;
    bool answered; /* a final reply was given, which may wait for room */
    bool cancelled;
    bool closed; /* its server was closed before it was answered */
    /* Of a stream that has begun; the request holds a reference to itself until the stream ends. */
    bool streaming, pulling, exhausted;
    int32_t item_type, given_type; /* given_type: the type of all items; 0: not given */
    PyObject *items; /* an iterator */
    PyObject *item; /* bytes: the next item, which was not sent yet */
    uint8_t bytes[];
} Request;

/* A reply for which there was no room. */
typedef struct waiting_reply {
    struct waiting_reply *next;
    Request *request; /* a reference */
    int32_t status, type;
    int64_t length;
    uint8_t bytes[];
} waiting_reply;

/* The state of one client in the server. */
typedef struct {
    const uint8_t *data; /* of ring k, mapped read-only */
    uint8_t *trailer; /* of ring k */
    uint8_t *gate; /* of ring k; taken_end is beside it */
    const uint8_t *client_epoch; /* of slot 1 + k */
    const uint8_t *client_closed; /* of publisher slot k */
    int64_t cursor, stored; /* stored: the gate's value */
    int64_t count; /* messages before the cursor */
    int64_t repeat_end;
    int32_t number;
    int32_t hand, streams; /* requests in hand; of these, streams that have begun */
    bool full; /* a call lies at the cursor, but max_outstanding calls are in hand */
    bool damaged, evicted; /* damaged: waits for its repair; evicted: the client was evicted for the repair */
    Request *first, *last; /* in hand */
    waiting_reply *waiting, *last_waiting;
    sender from; /* the client */
    slot_writer writer; /* of ring N + k */
} service_side;

typedef struct Server {
    Reader base; /* base.drains: stop was called */
    waker room; /* of clients that wait for room */
    waker waker; /* of clients that wait for replies */
    int32_t max_outstanding, default_type;
    bool least; /* at least once */
    bool lost;
    bool look_due; /* for wait sets: poll has something to do */
    bool stream_blocked; /* an item found no room; it may be of a stream that has ended since */
    int32_t in_hand, waiting, streams, damaged_sides; /* sums over all sides */
    int64_t looked; /* when it last looked for dead clients, by now_ns */
    int64_t client_gone, expired, not_run, damaged; /* counts since the start */
    service_clock clock;
    PyObject *name; /* bytes */
    PyObject *handler; /* of polls without a handler of their own, or NULL */
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

/* Handle a changed epoch: give the slots up, raise, and return false. */
bool server_explain_lost(Server *self);
/* Check that the slot was not taken away (service.md 4). False with an exception. */
static inline bool server_still_ours(Server *self)
{
    FENCE_ACQUIRE(); /* pairs with evict (9) */
    return LIKELY(epoch_holds(&self->base.epoch)) || server_explain_lost(self);
}
/* Take the message at the cursor of a side (poll 3 to 6): 1 *taken, a new reference, is in hand, and is to be handed
   out; 0 the message stays in the ring, or was answered; -1 an exception. */
int server_take(Server *self, service_side *side, const request_prefix *prefix, const uint8_t *bytes, int64_t length,
                int32_t type, int64_t end, Request **taken);
/* Store the gate of a side, when due (poll 8). */
void server_store_gate(Server *self, service_side *side);
/* Whether the client of a request is still there (reply 2). Not by its gate, whose line it writes at each call. */
bool client_is_there(const service_side *side, const Request *request);
/* Publish a reply (reply 3): 1 published, 0 no room, -1 an exception. */
int server_send(Server *self, service_side *side, const Request *request, int32_t status, int32_t flags,
                const void *bytes, int64_t length, int32_t type);
/* Give the final reply to a request in hand. False with an exception. */
bool server_finish(Request *request, int32_t status, const void *bytes, int64_t length, int32_t type);
/* Give an error with this text as the final reply. */
bool server_fail(Request *request, const char *text, int64_t length);
/* The work before a poll: send waiting replies, continue streams, look for dead clients. False with an exception. */
bool server_look_after_hand(Server *self);
/* Try again to send the replies that wait for this client. False with an exception. */
bool server_retry(Server *self, service_side *side);
/* Update gate and waits after a request was answered outside of its handler. */
void server_settle(Server *self, service_side *side);
/* Take an unanswered request out of the hand. */
void server_forget(Request *request);
/* Take all requests out of the hand (service.md 5, close). */
void server_forget_all(Server *self);

/* stream.c */

/* Apply a cancel or credit message (service.md 7, apply). False with an exception. */
bool server_apply(Server *self, service_side *side, const request_prefix *prefix);
/* Continue a stream: send as many items as possible. May run Python code. False with an exception, but not for
   exceptions of the iterator. */
bool server_go_on(Request *request);
/* Continue all streams. Returns as server_go_on does. */
bool server_streams_go_on(Server *self);
/* Mark the ring of client k as damaged, and evict the client (service.md 10). False with an exception. */
bool server_set_damaged(Server *self, service_side *side);
bool server_mend(Server *self, service_side *side);

/* serve.c */

extern const reader_kind server_kind;
/* Finish after the handler of `request` returned `result`, a reference that is taken over, or raised (NULL). False with
   an exception that the poll must raise. */
bool server_settle_handler(Server *self, Request *request, PyObject *result);
/* Whether the current exception is one that no handler should catch. */
bool is_for_nobody(void);

/* request.c */

Request *request_new(Server *server, service_side *side, const uint8_t *bytes, int64_t length, int32_t type);
/* The bytes of an answer, and in `type` its type. Returns a new reference to bytes or a view of them; NULL with an
   exception. */
PyObject *bytes_of_answer(PyObject *object, PyObject *type_given, int32_t *type);
/* Clear the current exception, and return its text, a new reference. */
PyObject *text_of_exception(void);

PyTypeObject *make_server_type(PyObject *module), *make_request_type(PyObject *module);

#endif
