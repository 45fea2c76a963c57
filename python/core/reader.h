/* SPDX-License-Identifier: Apache-2.0 */
/* Reader: what subscribers, lossy subscribers and workers share. Their methods, their waiting, handing a message to its handler.
   The base type of them. */
#ifndef FLYRING_READER_H
#define FLYRING_READER_H

#include "arguments.h"
#include "memory.h"
#include "message.h"
#include "notify.h"
#include "slots.h"
#include "wait.h"

struct Reader;

/* One poll: how many messages the receiver got; -1 with an exception. The receiver is a handler, or an array_poll. */
typedef Py_ssize_t poll_function(struct Reader *self, void *receiver, Py_ssize_t limit);

/* The number and the cursor of a ring that a reader chose. */
typedef struct {
    int32_t number;
    int64_t cursor;
} ring_place;

/* What a worker of a queue has more. `self` of each is the Reader. */
typedef struct {
    /* Whether nothing more is to come: for iteration. */
    bool (*ended)(const struct Reader *self);
    /* The functions of its wait_target, by the same names. */
    bool (*others_wake)(void *self);
    bool (*due)(void *self);
    /* queue.md 10: it was woken. It sets its bit again, and its next look for jobs passes the wake on. */
    void (*woken)(struct Reader *self);
    /* The same, if it may not look for jobs: it passes the wake on now. */
    void (*pass_on)(void *self);
    /* Raises what `exported` means. NULL. */
    PyObject *(*refuse)(const struct Reader *self);
} worker_kind;

/* What differs between them. `self` of each is the Reader. */
typedef struct {
    const char *what; /* it is called, in errors */
    const worker_kind *worker; /* NULL: it is none */
    /* Raises and returns false if it cannot be used now. */
    bool (*usable)(struct Reader *self);
    poll_function *poll, *poll_arrays;
    /* One message that owns its bytes. NULL without an exception: nothing there. */
    PyObject *(*take)(struct Reader *self);
    /* Whether a poll may find something. Only a hint: runs without the GIL. */
    bool (*ready)(void *self);
    /* The ring that was chosen as number i. */
    ring_place (*ring_at)(const struct Reader *self, int i);
    /* Whether an export of what was handed out, or peeked at, is alive. */
    bool (*exported)(const struct Reader *self);
    /* Whether its slot is still its own: raises and returns false if not. Nothing else changes while a handler runs. */
    bool (*owned)(struct Reader *self);
    /* What was handed out expires: false, with no exception, if an export of it is alive. */
    bool (*expire_messages)(struct Reader *self);
    /* Close: gives back what it has in the file. */
    void (*give_back)(struct Reader *self);
    /* What differs of the reader_target of most: the words, the mask, the cap; NULL: nothing. */
    void (*aim)(const struct Reader *self, wait_target *target);
    /* What a wait set does for it now and then; NULL: nothing. */
    void (*look)(struct Reader *self);
} reader_kind;

enum { IDLE, BUSY, WAITING }; /* changed with the GIL held only, so exact */

typedef struct Reader {
    PyObject_HEAD
    /* Hot: what each poll and take reads. */
    const reader_kind *kind;
    Message *spare; /* without owner, kept from poll to poll */
    Message *pinned; /* handed out, and still exported when its handler returned */
    int use, wait;
    int idle; /* polls in a row that found nothing: 6.13 */
    bool closed, forked;
    bool iterating; /* a wait ends when its rings have ended */
    bool ended; /* the last poll, by its handler, before anything counted; poll_by looks at it and clears it */
    bool drains; /* of a worker: it takes nothing more; set by any thread */
    int count, next; /* rings chosen; the one after the ring that was served last */
    void *rings; /* `count` of the kind's: ring_reader or lossy_ring */
    int64_t capacity, mask, alignment;
    slot_epoch epoch; /* of its slot; a lossy subscriber has none */
    int64_t store_every; /* bytes read, after which a gate is stored */
    /* Cold. */
    Memory *data; /* the read-only mapping */
    Memory *memory; /* the writable one; NULL in a read-only channel */
    File *file; /* a description of the channel's file */
    int64_t spin; /* ns, before it sleeps */
    notifier *notifier; /* of fileno, or NULL */
    bool told; /* the last look of fileno found it replaced */
    geometry shape;
    fork_node node;
} Reader;

extern PyTypeObject *reader_type;
PyTypeObject *make_reader_type(PyObject *module);

/* The methods that are called most, for the tables of the derived types: at a call Python searches the object's bases
   for the type that has the method. */
#define READER_FAST_METHODS(take) \
    {"poll", KEYWORDS(reader_poll), reader_poll_text}, \
    { \
        "take", KEYWORDS(take), reader_take_text \
    }
extern const char reader_poll_text[], reader_take_text[]; /* what help() says */
PyObject *reader_poll(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* The same, with another limit if none is given. */
PyObject *reader_poll_up_to(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names, Py_ssize_t limit);
/* The slot tp_iternext. */
PyObject *reader_next(Reader *self);
/* The action that a handler returned, of HANDED to ABORT; -1: none. */
int reader_action(const PyObject *result);
/* Raises that `type`, which is not NULL, is none. */
void reader_not_an_action(PyObject *type);

/* What reads chosen rings has these methods, attributes and slots. */
PyObject *reader_poll_arrays(Reader *self, PyObject *const *args, Py_ssize_t n);
PyObject *reader_position(Reader *self, PyObject *number);
PyObject *reader_ended(Reader *self, PyObject *number);
PyObject *reader_get_rings(Reader *self, void *ignored);
extern const char reader_position_text[], reader_ended_text[];
#define READER_RING_METHODS \
    {"_poll_arrays", FAST(reader_poll_arrays), "for poll_arrays"}, \
        {"position", (PyCFunction)reader_position, METH_O, reader_position_text}, \
    { \
        "ended", (PyCFunction)reader_ended, METH_O, reader_ended_text \
    }
#define READER_RING_GETTERS \
    {"rings", (getter)reader_get_rings, NULL, "the rings that this subscriber reads, ascending", NULL}
#define READER_ITERATION \
    {Py_tp_iter, PyObject_SelfIter}, \
    { \
        Py_tp_iternext, reader_next \
    }

/* A new object of a type derived from reader_type. Uses the mappings and the file; `memory` may be NULL. NULL with an
   exception. */
Reader *reader_new(PyTypeObject *type, const reader_kind *kind, Memory *data, Memory *memory, File *file,
                   const geometry *shape, int count, int wait);
/* The rest of tp_dealloc, after the kind's own. */
void reader_dealloc(Reader *self);

/* Of a kind whose messages have their own bytes. */
bool reader_exports_nothing(const Reader *self);
bool reader_expires_nothing(Reader *self);

/* A message object for what is read in place. */
Message *reader_acquire_message(Reader *self);
void reader_release_message(Reader *self, Message *message);
/* *current expires, and another one takes its place: false, and NULL there, with an exception. */
bool reader_replace_message(Reader *self, Message **current);
PyObject *reader_view_alive(void); /* raises */
/* ClosedError or TwoThreadsError: raises and returns true if it is closed, forked or in use. */
bool reader_in_use(Reader *self);
/* An argument was refused, with an exception: closed, two threads and view alive go first (spec/api.md). NULL. */
PyObject *reader_refuse(Reader *self);
/* Whether it can be closed now: raises and returns false inside of its handler, in another thread meanwhile, and while
   an export of a message is alive. */
bool reader_may_close(Reader *self);
/* Closes without asking. Twice is fine. */
void reader_shut(Reader *self);
/* Which of the chosen rings has that number; -1 with an exception. */
int reader_find_ring(const Reader *self, PyObject *number);
/* The timeout of the method take: -1 with an exception. */
int64_t reader_take_timeout(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* What it waits for. */
wait_target reader_target(Reader *self);
/* For a wait set: while it waits others may close it, and leave the memory to the thread that waits. */
void reader_set_waiting(Reader *self, bool waits);
/* 6.13: false with an exception. */
bool reader_check_replaced(Reader *self);
/* What that raised was left to its next verb: one that finds nothing looks at once. */
void reader_look_again(Reader *self);
/* A slice of a wait of its own, for this target: as wait_some, with -1 also if it was closed meanwhile, or has lost its
   slot, or if the channel was replaced. Its use is IDLE behind it. */
int reader_wait(Reader *self, wait_state *state, const wait_target *target);
/* A poll found nothing: fileno is not readable until something may be there. False with an exception. */
bool reader_rearm(Reader *self);
/* The rest of take, after a first attempt gave NULL. */
PyObject *reader_take_waiting(Reader *self, int64_t timeout);

/* While BUSY no other thread gets in, though Python code may run. */
static inline void reader_begin(Reader *self)
{
    self->use = BUSY;
}

/* What became of a message. The first four: its handler's action, in the order of flyring.Action (None is CONTINUE). The
   others: with an exception. PINNED: an export is alive, with or without an exception of the handler. */
enum { HANDED, COMMIT, BREAK, ABORT, RAISED, PINNED, FORKED };

/* After the handler of `message`, which was in *current, returned or raised; another message takes its place if a
   reference to it is left. HANDED, or one with an exception. */
static inline int reader_settle(Reader *self, Message *message, bool raised, Message **current)
{
    if (UNLIKELY(self->forked)) { /* the handler forked, and this is the child: nothing here is ours */
        if (!raised)
            raise_error("ClosedError", "(si)", self->kind->what, 1);
        return FORKED;
    }
    if (UNLIKELY(message->exports != 0)) {
        self->pinned = (Message *)Py_NewRef((PyObject *)message);
        if (!raised)
            reader_view_alive();
        return PINNED;
    }
    if (UNLIKELY(raised))
        return RAISED;
    if (UNLIKELY(Py_REFCNT((PyObject *)message) != 1)) /* it is kept: it must not become another message */
        return reader_replace_message(self, current) ? HANDED : RAISED;
    return HANDED;
}

/* The same for a `result` that is not None. NULL: the handler raised. */
int reader_settle_result(Reader *self, Message *message, PyObject *result, Message **current);

/* After a handler gave `result` for `message`. */
static inline int reader_handed_out(Reader *self, Message *message, PyObject *result, Message **current)
{
    if (UNLIKELY(result != Py_None))
        return reader_settle_result(self, message, result, current);
    Py_DECREF(result);
    return reader_settle(self, message, false, current);
}

/* Calls the handler with the message in *current. */
static inline int reader_hand_out(Reader *self, void *handler, Message **current)
{
    Message *message = *current;
    PyObject *result = PyObject_CallFunctionObjArgs((PyObject *)handler, (PyObject *)message, NULL);
    return reader_handed_out(self, message, result, current);
}

/* Calls the handler, or `otherwise`, of an array_poll with the message in *current. */
int reader_hand_out_array(Reader *self, void *poll, Message **current);

typedef int hand_out_function(Reader *self, void *receiver, Message **current);

/* One ring's turn in a poll, *current being what is handed out: how many messages the receiver got, at most `limit`; -1
   with an exception; less: reader_poll_ended. */
typedef Py_ssize_t poll_ring_function(Reader *self, int ring, void *receiver, Py_ssize_t limit, Message **current);

/* BREAK and ABORT end the poll after `done` messages of this ring: what the poll_ring_function returns. */
static inline Py_ssize_t reader_poll_ended(Py_ssize_t done, int action)
{
    return -2 - 2 * done - (action == ABORT);
}

/* The end of such a poll, which handed out `total` messages of the rings before: how many in all. */
Py_ssize_t reader_end_poll(Reader *self, int ring, Py_ssize_t ended, Py_ssize_t total);

/* A poll of all rings, each in its turn; poll_ring is known when this is compiled. */
ALWAYS_INLINE Py_ssize_t reader_poll_rings(Reader *self, void *receiver, Py_ssize_t limit,
                                           poll_ring_function *poll_ring)
{
    Message *current = reader_acquire_message(self);
    if (current == NULL)
        return -1;
    Py_ssize_t total = 0;
    reader_begin(self);
    for (int i = 0, at = self->next; i < self->count && total < limit; i++) {
        int ring = at;
        Py_ssize_t done = poll_ring(self, ring, receiver, limit - total, &current);
        at = at + 1 == self->count ? 0 : at + 1;
        if (done != 0)
            self->next = at;
        if (UNLIKELY(done < 0)) {
            total = done == -1 ? -1 : reader_end_poll(self, ring, done, total);
            break;
        }
        total += done;
    }
    if (current != NULL)
        reader_release_message(self, current);
    self->use = IDLE;
    return total;
}

#endif
