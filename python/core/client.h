/* SPDX-License-Identifier: Apache-2.0 */
/* Client of a service (spec/service.md), as Python object: shared by call.c (Call, and the table of those that are
   outstanding), ask.c (the verbs), drain.c (what it takes, how calls end) and client.c (life, waiting). */
#ifndef FLYRING_CLIENT_H
#define FLYRING_CLIENT_H

#include "arguments.h"
#include "service.h"

struct Client;

/* How a call ended. */
typedef enum {
    CALL_RUNS,
    CALL_ANSWER, /* of a stream: its end */
    CALL_ERROR,
    CALL_EXPIRED,
    CALL_SERVER_GONE,
    CALL_CANCELLED,
    CALL_CLOSED,
    CALL_SLOT_LOST,
    CALL_CORRUPT_RING
} call_end;

/* One call: under way, or ended. The client's table refers to it for as long as it is outstanding. */
typedef struct Call {
    PyObject_HEAD
    struct Client *client; /* borrowed; NULL: it is not outstanding */
    struct Call *before, *behind, *next_of_bucket; /* outstanding: in the order of their start; borrowed */
    call_end end;
    bool of_call; /* the caller waits for it: nobody is told */
    bool cancel_due, may_have_run, repeat;
    uint32_t sequence, credit, consumed; /* of a stream: consumed since credit was sent last */
    int64_t position, deadline; /* of its request; 0: none */
    int32_t pid; /* of the server that has gone */
    int32_t slot; /* that was lost; of a corrupt ring: its number */
    int64_t corrupt_at;
    PyObject *answer; /* an Answer, or NULL */
    PyObject *text; /* bytes: of an error; the name of the server that has gone; why a ring is corrupt; or NULL */
    PyObject *items; /* a list of Answers, from next_item on; or NULL */
    Py_ssize_t next_item;
    PyObject *callback; /* or NULL */
    int32_t untold; /* how often it is among the client's events */
} Call;

/* What a wait waits for. */
enum { FOR_REPLY, FOR_SERVER, FOR_ROOM };

typedef struct Client {
    Reader base;
    slot_writer writer; /* of ring k */
    /* Ring N + k. */
    const uint8_t *data; /* mapped read-only */
    uint8_t *gate;
    int64_t cursor, stored, count; /* stored: what the gate holds; count: messages before the cursor */
    sender from; /* the server */
    const uint8_t *server_epoch; /* of slot 0 */
    int64_t known;
    waker waker; /* of the server */
    waker room; /* of a server that waits for it */
    int32_t number, slot; /* k, 1 + k */
    int32_t max_outstanding, default_type;
    int waits_for, async_wants; /* FOR_ ... */
    bool least; /* at least once */
    bool lost, corrupt;
    bool in_callback;
    bool ask_gone; /* with the next step */
    bool look_due; /* for wait sets: its poll has something to say */
    bool unsent; /* cancel or credit found no room */
    unsigned long callback_thread;
    uint32_t empty_drains; /* in a row */
    int64_t asked; /* by the clock of polls: the last time that they asked whether the server has gone */
    /* Calls that are outstanding. */
    Call **buckets; /* a power of two of them, by the sequence */
    uint32_t bucket_mask, last_sequence;
    int32_t outstanding, due, streams, deadlines; /* due: cancels to send; deadlines: of those that have not ended */
    Call *first, *last;
    int64_t next_deadline; /* INT64_MAX: none */
    int64_t looked_epoch, looked_serving; /* what was seen of a server that does not live */
    int64_t expired, late;
    /* What happened and nobody was told: calls, referred to. */
    Call **events;
    Py_ssize_t event_count, event_space, told;
    service_clock clock;
    char server_name[64];
    int32_t server_name_length, server_pid; /* of the one that is known */
    PyObject *name; /* bytes */
    File *lock;
} Client;

/* call.c */

extern PyTypeObject *call_type;
/* A call with the next sequence, which is not outstanding yet. NULL with an exception. */
Call *call_new(Client *client);
void call_add(Client *self, Call *call);
Call *call_find(const Client *self, uint32_t sequence);
/* It is not outstanding any more; its end is set. */
void call_remove(Call *call);
/* Raises how it ended, if not by an answer. NULL. */
PyObject *call_raise_end(const Call *call);

/* drain.c: false, or -1, with an exception */

/* 6, drain: whether there was anything. */
int client_drain(Client *self);
/* A poll: drain, the own clock, gone?, and what was not sent yet. */
bool client_step(Client *self);
/* 6, gone? */
bool client_ask_gone(Client *self);
/* A call ends, for its caller; it may be outstanding all the same. */
bool client_finish(Client *self, Call *call, call_end how);
/* 7: cancel and credit that were not sent yet. */
bool client_send_due(Client *self);
/* Ends all of them. No exception. */
void client_end_all(Client *self, call_end how);
/* Calls back for what happened. One of them may raise: the others are told with the next verb. */
bool client_tell(Client *self);
/* The epoch has changed: raises, and returns false. The slots are given up, the calls end so. */
bool client_explain_lost(Client *self);
/* channel.md 5.4: what was stored after the eviction. While the lock is ours the slot has no other owner. */
void client_take_back(Client *self);
/* Where nobody may be called back any more. */
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

/* Call 3, and cancel and credit: 1 published, 0 no room, -1 an exception. */
int client_publish(Client *self, Call *call, uint16_t operation, uint32_t credit, const void *bytes, int64_t length,
                   int32_t type);
/* The methods of Client. */
PyObject *client_call(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *client_start(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *client_stream(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *client_start_now(Client *self, PyObject *const *args, Py_ssize_t n);
PyObject *client_want_nothing(Client *self, PyObject *ignored);
PyObject *client_poll(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* Of calls. */
bool client_await(Client *self, Call *call, int64_t timeout);
bool client_cancel(Client *self, Call *call);
/* The next item: a new reference; NULL without an exception: none any more, or not yet. */
PyObject *client_next(Call *call, int64_t timeout);

/* client.c */

extern const reader_kind client_kind;
/* Whether a server lives at what is known. */
bool client_server_is_there(const Client *self);

PyTypeObject *make_client_type(PyObject *module), *make_call_type(PyObject *module);

#endif
