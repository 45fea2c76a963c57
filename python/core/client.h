/* SPDX-License-Identifier: Apache-2.0 */
/* The Python object Client, a client of a service (spec/service.md). Shared by call.c (Call, and the table of
   outstanding calls), ask.c (the verbs), drain.c (taking replies, ending calls) and client.c (creation, close,
   waiting). */
#ifndef FLYRING_CLIENT_H
#define FLYRING_CLIENT_H

#include "arguments.h"
#include "service.h"

struct Client;

/* How a call ended. */
typedef enum {
    CALL_RUNS,
    CALL_ANSWER, /* or the end of a stream */
    CALL_ERROR,
    CALL_EXPIRED,
    CALL_SERVER_GONE,
    CALL_CANCELLED,
    CALL_CLOSED,
    CALL_SLOT_LOST,
    CALL_CORRUPT_RING
} call_end;

/* One call, under way or ended. The client's table holds a reference while the call is outstanding. */
typedef struct Call {
    PyObject_HEAD
    struct Client *client; /* borrowed; NULL: the call is not outstanding */
    struct Call *before, *behind, *next_of_bucket; /* of the outstanding calls, in the order of their start; borrowed */
    call_end end;
    bool of_call; /* made by the verb call, which waits for it: no callback, no event */
    bool cancel_due, may_have_run, repeat;
    uint32_t sequence, credit, consumed; /* of a stream; consumed: items consumed since credit was last sent */
    int64_t position, deadline; /* of its request; deadline 0: none */
    int32_t pid; /* of the server that has gone, for ServerGoneError */
    int32_t slot; /* the slot that was lost, or the number of the corrupt ring */
    int64_t corrupt_at;
    PyObject *answer; /* an Answer, or NULL */
    PyObject *text; /* bytes: an error's text, the name of the server that has gone, or why a ring is corrupt */
    PyObject *items; /* a list of Answers, from next_item on; or NULL */
    Py_ssize_t next_item;
    PyObject *callback; /* or NULL */
    int32_t untold; /* how many of the client's events refer to it */
} Call;

/* The reasons for a wait. */
enum { FOR_REPLY, FOR_SERVER, FOR_ROOM };

typedef struct Client {
    Reader base;
    slot_writer writer; /* of ring k */
    /* Ring N + k. */
    const uint8_t *data; /* mapped read-only */
    uint8_t *gate;
    int64_t cursor, stored, count; /* stored: the gate's value; count: messages before the cursor */
    sender from; /* the server */
    const uint8_t *server_epoch; /* of slot 0 */
    int64_t known;
    waker waker; /* of the server */
    waker room; /* of a server that waits for room */
    int32_t number, slot; /* k, 1 + k */
    int32_t max_outstanding, default_type;
    int waits_for, async_wants; /* FOR_ ... */
    bool least; /* at least once */
    bool lost, corrupt;
    bool in_callback;
    bool ask_gone; /* the next step asks whether the server has gone */
    bool look_due; /* for wait sets: its poll has an error to raise, or something to do */
    bool unsent; /* a cancel or credit message found no room */
    unsigned long callback_thread;
    uint32_t empty_drains; /* drains in a row that found nothing */
    int64_t asked; /* when a poll last asked whether the server has gone, by the clock of polls */
    /* The outstanding calls. */
    Call **buckets; /* a hash table by the sequence; its size is a power of two */
    uint32_t bucket_mask, last_sequence;
    int32_t outstanding, due, streams, deadlines; /* due: cancels to send; deadlines: running calls that have one */
    Call *first, *last;
    int64_t next_deadline; /* INT64_MAX: none */
    int64_t looked_epoch, looked_serving; /* the epoch and `serving` of a server that was found dead */
    int64_t expired, late;
    /* Calls (references) to which something happened and whose callbacks are due. */
    Call **events;
    Py_ssize_t event_count, event_space, told;
    service_clock clock;
    char server_name[64];
    int32_t server_name_length, server_pid; /* of the server with the epoch `known` */
    PyObject *name; /* bytes */
    File *lock;
} Client;

/* call.c */

extern PyTypeObject *call_type;
/* Makes a call with the next sequence, which is not outstanding yet. NULL with an exception. */
Call *call_new(Client *client);
void call_add(Client *self, Call *call);
Call *call_find(const Client *self, uint32_t sequence);
/* Removes a call, whose end is set, from the outstanding calls. */
void call_remove(Call *call);
/* Raises the error by which the call ended. Returns NULL. */
PyObject *call_raise_end(const Call *call);

/* drain.c: these return false, or -1, with an exception */

/* Take all replies in the ring (service.md 6, drain). Returns whether there were any. */
int client_drain(Client *self);
/* One step of a poll: drain, end expired calls, ask whether the server has gone, and send what is unsent. */
bool client_step(Client *self);
/* Find out whether the server has gone, and end its calls then (service.md 6, gone?). */
bool client_ask_gone(Client *self);
/* End a call for its caller; it may stay outstanding. */
bool client_finish(Client *self, Call *call, call_end how);
/* Send the cancel and credit messages that are due (service.md 7). */
bool client_send_due(Client *self);
/* End all calls. Raises no exception. */
void client_end_all(Client *self, call_end how);
/* Run the callbacks that are due. If one raises, the others run in the next verb. */
bool client_tell(Client *self);
/* Handle a changed epoch: give the slots up, end the calls as slot lost, raise, and return false. */
bool client_explain_lost(Client *self);
/* Take back stores that came after the eviction (channel.md 5.4). While this process holds the lock, the slot has no
   other owner. */
void client_take_back(Client *self);
/* Drop the events without their callbacks, when no callback may run. */
void client_drop_events(Client *self);

static inline Py_ssize_t client_pending(const Client *self)
{
    return self->event_count - self->told;
}

static inline void client_set_outstanding(const Client *self)
{
    STORE32_RELAXED(self->gate + GATE_OUTSTANDING, self->outstanding);
}

/* ask.c */

/* Publish a request, cancel or credit message (service.md 6, call 3): 1 published, 0 no room, -1 an exception. */
int client_publish(Client *self, Call *call, uint16_t operation, uint32_t credit, const void *bytes, int64_t length,
                   int32_t type);
/* The methods of Client. */
PyObject *client_call(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *client_start(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *client_stream(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *client_start_now(Client *self, PyObject *const *args, Py_ssize_t n);
PyObject *client_want_nothing(Client *self, PyObject *ignored);
PyObject *client_poll(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* Methods of Call. */
bool client_await(Client *self, Call *call, int64_t timeout);
bool client_cancel(Client *self, Call *call);
/* Wait for the next item: a new reference. NULL without an exception: the stream has ended, or none came in time. */
PyObject *client_next(Call *call, int64_t timeout);

/* client.c */

extern const reader_kind client_kind;
/* Whether a server is running with the known epoch. */
bool client_server_is_there(const Client *self);

PyTypeObject *make_client_type(PyObject *module), *make_call_type(PyObject *module);

#endif
