/* SPDX-License-Identifier: Apache-2.0 */
/* Reader: the common base type of subscribers, lossy subscribers, workers, servers and clients. It has their methods,
   their waiting, and the handing of a message to its handler. */
#ifndef FLYRING_READER_H
#define FLYRING_READER_H

#include "arguments.h"
#include "memory.h"
#include "message.h"
#include "notify.h"
#include "slots.h"
#include "wait.h"

struct Reader;

/* One poll. Returns how many messages the receiver got; -1 with an exception. The receiver is a handler or an
   array_poll. */
typedef Py_ssize_t poll_function(struct Reader *self, void *receiver, Py_ssize_t limit);

/* The number of a ring that a reader chose, and the cursor in it. */
typedef struct {
    int32_t number;
    int64_t cursor;
} ring_place;

/* The additional functions of a queue's worker. `self` is the Reader. */
typedef struct {
    /* Whether the queue has ended, for iteration. */
    bool (*ended)(const struct Reader *self);
    /* The functions of the same names in its wait_target. */
    bool (*others_wake)(void *self);
    bool (*due)(void *self);
    /* Note that it was woken (queue.md 10): sets its bit again; its next look for jobs passes the wake on. */
    void (*woken)(struct Reader *self);
    /* The same if it will not look for jobs: passes the wake on now. */
    void (*pass_on)(void *self);
    /* Raise the error for `exported`. Returns NULL. */
    PyObject *(*refuse)(const struct Reader *self);
} worker_kind;

/* The functions in which the kinds of readers differ. `self` is the Reader. */
typedef struct {
    const char *what; /* the name of the kind in errors */
    bool takes_limit_0; /* whether a poll may have limit 0 */
    const worker_kind *worker; /* NULL: not a worker */
    /* Raises and returns false if the reader cannot be used now. */
    bool (*usable)(struct Reader *self);
    poll_function *poll, *poll_arrays;
    /* Take one message that owns its bytes. NULL without an exception: there is none. */
    PyObject *(*take)(struct Reader *self);
    /* Whether a poll may find something. Only a hint. Runs without the GIL. */
    bool (*ready)(void *self);
    /* The ring with index i among the chosen ones. */
    ring_place (*ring_at)(const struct Reader *self, int i);
    /* Whether an export of a message that was handed out, or peeked at, is alive. */
    bool (*exported)(const struct Reader *self);
    /* Raises and returns false if the slot was taken away. Nothing else can change while a handler runs. */
    bool (*owned)(struct Reader *self);
    /* Expire the messages that were handed out. False, without an exception, if an export of one is alive. */
    bool (*expire_messages)(struct Reader *self);
    /* Give back what the reader owns in the file, at close. */
    void (*give_back)(struct Reader *self);
    /* Change the words, mask and cap of the usual wait target; NULL: no change. */
    void (*aim)(const struct Reader *self, wait_target *target);
    /* Called by a wait set at intervals; NULL: not needed. */
    void (*look)(struct Reader *self);
    /* Make a message object without bytes; NULL: message_in_place. */
    Message *(*make_message)(PyObject *self);
    /* Whether iteration ends, of a reader without rings; NULL: when the rings have ended. */
    bool (*ended)(const struct Reader *self);
} reader_kind;

enum { IDLE, BUSY, WAITING }; /* changed only with the GIL held, so it is exact */

typedef struct Reader {
    PyObject_HEAD
    /* Hot: read by each poll and take. */
    const reader_kind *kind;
    Message *spare; /* a message without owner, kept from poll to poll */
    Message *pinned; /* a message that was still exported when its handler returned */
    int use, wait;
    int idle; /* polls in a row that found nothing (6.13) */
    bool closed, forked;
    bool iterating; /* set during iteration: a wait ends when the rings have ended */
    bool ended; /* the handler ended the last poll before any message counted; poll_by clears this */
    bool drains; /* a worker takes no more jobs, or a server stops; set by any thread */
    int count, next; /* count: chosen rings; next: index of the ring with which the next poll begins */
    void *rings; /* `count` of the kind's: ring_reader or lossy_ring */
    int64_t capacity, mask, alignment;
    slot_epoch epoch; /* the slot's epoch; a lossy subscriber has no slot */
    int64_t store_every; /* a gate is stored after so many bytes were read */
    /* Cold. */
    Memory *data; /* the read-only mapping */
    Memory *memory; /* the writable one; NULL in a read-only channel */
    File *file; /* a description of the channel's file */
    int64_t spin; /* how long it spins before it sleeps, in ns */
    notifier *notifier; /* of fileno, or NULL */
    bool told; /* the last look of fileno raised that the channel was replaced */
    geometry shape;
    fork_node node;
} Reader;

extern PyTypeObject *reader_type;
PyTypeObject *make_reader_type(PyObject *module);

/* The methods that are called most, for the method tables of the derived types. This makes calls faster, because Python
   searches the object's bases for the method. */
#define READER_FAST_METHODS(take) \
    {"poll", KEYWORDS(reader_poll), reader_poll_text}, \
    { \
        "take", KEYWORDS(take), reader_take_text \
    }
extern const char reader_poll_text[], reader_take_text[]; /* docstrings */
PyObject *reader_poll(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* The same, with another default limit. */
PyObject *reader_poll_up_to(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names, Py_ssize_t limit);
/* The slot tp_iternext. */
PyObject *reader_next(Reader *self);
/* Return the action that a handler returned, HANDED to ABORT; -1: it is not an action. */
int reader_action(const PyObject *result);
/* Raise that an object of `type`, which is not NULL, is not an action. */
void reader_not_an_action(PyObject *type);

/* The methods, attributes and slots of all readers of chosen rings. */
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

/* Make an object of a type derived from reader_type, which uses the mappings and the file. `memory` may be NULL. NULL
   with an exception. */
Reader *reader_new(PyTypeObject *type, const reader_kind *kind, Memory *data, Memory *memory, File *file,
                   const geometry *shape, int count, int wait);
/* The rest of tp_dealloc, after the kind's own. */
void reader_dealloc(Reader *self);

/* Of a kind whose messages have their own bytes. */
bool reader_exports_nothing(const Reader *self);
bool reader_expires_nothing(Reader *self);

/* Get a message object for a message that is read in place. */
Message *reader_acquire_message(Reader *self);
void reader_release_message(Reader *self, Message *message);
/* Expire *current, and replace it by another object. False with an exception; *current is NULL then. */
bool reader_replace_message(Reader *self, Message **current);
PyObject *reader_view_alive(void); /* raises */
/* Raises ClosedError or TwoThreadsError and returns true if the reader is closed, forked or in use. */
bool reader_in_use(Reader *self);
/* An argument is invalid, and its exception is set. Replaces that by closed, two threads or view alive, which come
   first (spec/api.md). Returns NULL. */
PyObject *reader_refuse(Reader *self);
/* Raises and returns false if the reader cannot be closed now: its handler runs, in this or another thread, or an
   export of a message is alive. */
bool reader_may_close(Reader *self);
/* Close the reader without checks. Closing twice does nothing. */
void reader_shut(Reader *self);
/* Return the index of the chosen ring with this number; -1 with an exception. */
int reader_find_ring(const Reader *self, PyObject *number);
/* Parse the timeout of the method take. -1 with an exception. */
int64_t reader_take_timeout(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* The target of its wait. */
wait_target reader_target(Reader *self);
/* For a wait set, around its wait: meanwhile another thread may close this object, but leaves the memory to the waiting
   thread. */
void reader_set_waiting(Reader *self, bool waits);
/* Check that the channel was not replaced (6.13). False with an exception. */
bool reader_check_replaced(Reader *self);
/* The error of that check was left to the next verb, which checks again if it finds nothing. */
void reader_look_again(Reader *self);
/* One slice of a wait for this target: like wait_some, but also -1 if the reader was closed, has lost its slot, or its
   channel was replaced. Its `use` is IDLE afterwards. */
int reader_wait(Reader *self, wait_state *state, const wait_target *target);
/* Arm the descriptor of fileno after a poll that found nothing: it becomes readable when there may be a message. False
   with an exception, also if the channel was replaced, but not the next time after that. */
bool reader_arm(Reader *self);
/* The same, if there is a descriptor. */
static inline bool reader_rearm(Reader *self)
{
    return LIKELY(self->notifier == NULL) || reader_arm(self);
}

/* The waiting part of take, after a first attempt returned NULL. */
PyObject *reader_take_waiting(Reader *self, int64_t timeout);

/* While `use` is BUSY, other threads cannot use the reader, even if Python code runs. */
static inline void reader_begin(Reader *self)
{
    self->use = BUSY;
}

/* The result of a handler. The first four are its actions, in the order of flyring.Action (None is CONTINUE). The
   others come with an exception. PINNED: an export is alive, whether the handler raised or not. */
enum { HANDED, COMMIT, BREAK, ABORT, RAISED, PINNED, FORKED };

/* Finish after the handler of `message`, which was in *current, returned or raised. Replaces the message object if a
   reference to it is left. Returns HANDED, or a result with an exception. */
static inline int reader_settle(Reader *self, Message *message, bool raised, Message **current)
{
    if (UNLIKELY(self->forked)) { /* the handler forked, and this is the child, which owns nothing here */
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
    if (UNLIKELY(Py_REFCNT((PyObject *)message) != 1)) /* the handler kept the object, so it must not be reused */
        return reader_replace_message(self, current) ? HANDED : RAISED;
    return HANDED;
}

/* The same for a `result` that is not None; NULL: the handler raised. */
int reader_settle_result(Reader *self, Message *message, PyObject *result, Message **current);

/* Finish after a handler returned `result` for `message`. */
static inline int reader_handed_out(Reader *self, Message *message, PyObject *result, Message **current)
{
    if (UNLIKELY(result != Py_None))
        return reader_settle_result(self, message, result, current);
    Py_DECREF(result);
    return reader_settle(self, message, false, current);
}

/* Call the handler with the message in *current. */
static inline int reader_hand_out(Reader *self, void *handler, Message **current)
{
    Message *message = *current;
    PyObject *result = PyObject_CallFunctionObjArgs((PyObject *)handler, (PyObject *)message, NULL);
    return reader_handed_out(self, message, result, current);
}

/* Call the handler, or `otherwise`, of an array_poll with the message in *current. */
int reader_hand_out_array(Reader *self, void *poll, Message **current);

typedef int hand_out_function(Reader *self, void *receiver, Message **current);

/* One ring's turn in a poll. *current is the message object to hand out. Returns how many messages the receiver got, at
   most `limit`; -1 with an exception; below -1 the value of reader_poll_ended. */
typedef Py_ssize_t poll_ring_function(Reader *self, int ring, void *receiver, Py_ssize_t limit, Message **current);

/* The value that a poll_ring_function returns if BREAK or ABORT ends the poll after `done` messages of this ring. */
static inline Py_ssize_t reader_poll_ended(Py_ssize_t done, int action)
{
    return -2 - 2 * done - (action == ABORT);
}

/* End such a poll, which handed out `total` messages of the previous rings. Returns how many in all. */
Py_ssize_t reader_end_poll(Reader *self, int ring, Py_ssize_t ended, Py_ssize_t total);

/* Poll all rings in turn; poll_ring is a compile-time constant. */
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
