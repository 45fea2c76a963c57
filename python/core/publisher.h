/* SPDX-License-Identifier: Apache-2.0 */
/* The Python object Publisher, the owner of one ring. Shared by reserve.c (room), claim.c, offer.c, batch.c, sbe/ and
   publisher.c (creation, close, methods). Numbers in comments are sections of spec/channel.md. */
#ifndef FLYRING_PUBLISHER_H
#define FLYRING_PUBLISHER_H

#include "memory.h"
#include "notify.h"
#include "wait.h"
#include "waiting.h"
#include "writer.h"

struct Claim;
struct JournalWriter;
struct Layout;

typedef struct {
    PyObject_HEAD
    /* Hot: read by each offer. */
    slot_epoch epoch;
    slot_writer writer;
    waker waker; /* of readers */
    const uint8_t *also; /* the asleep word of workers; without workers, that of readers again */
    uint32_t bit; /* this ring's bit in the asleep words */
    uint32_t either; /* this bit, and the bit of workers */
    waker jobs; /* of workers */
    struct Claim *claim; /* the open claim, borrowed: it refers to this publisher */
    bool busy; /* a wait or a copy has released the GIL; changed only with the GIL held, so it is exact */
    /* Cold. */
    bool copying; /* a copy into the ring runs without the GIL: the publisher cannot be closed */
    bool closed, forked;
    int wait;
    int64_t spin; /* how long it spins before it sleeps, in ns */
    int64_t measured, from, rest; /* of a queue: room_rest in reserve.c */
    notifier *notifier; /* of send_async, or NULL */
    int32_t slot;
    int32_t default_type; /* of raw bytes: 1; on a channel with a schema a type that no SBE message has */
    int64_t looked; /* when it last looked because of `successor` (6.2, 0), in ns */
    bool told; /* the last look of 6.2, 0 raised that the channel was replaced */
    Memory *memory;
    geometry shape;
    File *lock;
    PyObject *name; /* bytes */
    PyObject *message_class; /* the class that was claimed last, or NULL; and its layout (sbe.h) */
    struct Layout *message_layout;
    fork_node node;
} Publisher;

typedef struct Claim {
    PyObject_HEAD
    Publisher *publisher;
    struct JournalWriter *journal; /* of a journal's claim, which has no publisher */
    uint8_t *data; /* NULL: committed, aborted or closed */
    Py_ssize_t length;
    Py_ssize_t exports;
} Claim;

/* claim.c */

extern PyTypeObject *claim_type;
/* Make a claim of one of the two; the other is NULL. */
Claim *claim_new(Publisher *publisher, struct JournalWriter *journal, Py_ssize_t length);
/* Whether its writer is one of the parent process. */
bool claim_is_forked(const Claim *self);
/* Whether it was made by a writer; of a typed message. */
static inline bool claim_has_writer(const Claim *self)
{
    return self->publisher != NULL || self->journal != NULL;
}
/* The methods commit and abort. */
PyObject *claim_close(Claim *self, bool commit);
/* The method __exit__. */
PyObject *claim_exit(Claim *self, PyObject *const *args, Py_ssize_t n);
/* Called when a claim is freed: aborts it if it is open, and releases its publisher. */
void claim_drop(Claim *self);
/* Commit or abort the open claim. Returns the new end position, or NULL with an exception. No export may be alive. */
PyObject *publisher_close_claim(Publisher *publisher, bool commit);
/* Abort the open claim, even while another thread flushes. Raises no exception. */
void publisher_drop_claim(Publisher *publisher);

/* Wake sleepers, if there are any (publish 10); in publisher.c. */
void publisher_wake_now(const Publisher *self);

/* Publish 10, after a message. Costs two loads if no reader sleeps. */
ALWAYS_INLINE void publisher_wake(const Publisher *self)
{
    FENCE_COMPILER(); /* 6.16: the sleeper's membarrier makes this a full fence */
    if (UNLIKELY(((uint32_t)(LOAD32_RELAXED(self->waker.watched) | LOAD32_RELAXED(self->also)) & self->either) != 0))
        publisher_wake_now(self);
}

/* reserve.c */

/* Raises and returns true if the publisher cannot be used now. An open claim does not matter. */
bool publisher_in_use(Publisher *self);
/* An argument is invalid, and its exception is set. Replaces that by closed, two threads or view alive, which come
   first (spec/api.md). Returns NULL. */
PyObject *publisher_refuse(Publisher *self);
/* Raise why the publisher cannot be used. Returns false. */
bool publisher_explain_unusable(Publisher *self);
/* Raise MessageTooLargeError for so many bytes. Returns NULL. */
PyObject *publisher_too_large(const Publisher *self, int64_t length);
/* publisher_usable returned false for a message of so many bytes: too large comes before slot lost (spec/api.md).
   Returns NULL. */
PyObject *publisher_refuse_length(Publisher *self, int64_t length);
void publisher_release_memory(Publisher *self);

/* Raises and returns false if the publisher cannot be used now: busy, open claim, closed, forked, slot lost. */
static inline bool publisher_usable(Publisher *self)
{
    return LIKELY(!self->busy && self->claim == NULL && epoch_holds(&self->epoch)) || publisher_explain_unusable(self);
}

/* Look whether the channel was replaced (6.2, 0 and 4); the `look` of its slot_writer. */
bool publisher_look(slot_writer *writer, bool held_back);
/* Recompute the limit (6.2, 1 to 3) for n bytes at the end, of which the first message takes `first`. */
void publisher_recompute(Publisher *self, int64_t n, int64_t first);
/* For a wait set, around its wait: meanwhile another thread may close this object, but leaves the memory to the waiting
   thread. */
void publisher_set_waiting(Publisher *self, bool waits);
/* Look again for room, and do what a wait does at intervals (6.2, 4). -1 with an exception. */
int publisher_look_for_room(Publisher *self);
/* Make the next verb look again at once, so that it raises the error that publisher_look_for_room found. */
void publisher_look_again(Publisher *self);
/* The methods _fileno and _arm, for send_async. */
PyObject *publisher_fileno(Publisher *self, PyObject *ignored);
PyObject *publisher_arm(Publisher *self, PyObject *began);
PyObject *publisher_is_armed(Publisher *self, PyObject *ignored);
/* The target of its wait: room for the message that last found none. */
wait_target publisher_target(Publisher *self);
/* Wait for that room: 1 try again, 0 time is up, -1 an exception. `waiting`: whether `state` was begun. */
int publisher_wait_for_room(Publisher *self, wait_state *state, bool *waiting, int64_t timeout);
/* Reserve room for n bytes, waiting for up to `timeout` ns. */
int publisher_reserve_within(Publisher *self, int64_t n, int64_t timeout);

/* publisher.c */

extern PyTypeObject *publisher_type;
/* Raises and returns false if the publisher cannot be closed now: an export of a claim is alive, or a copy runs. */
bool publisher_may_close(Publisher *self);
/* Close the publisher (5.2, Close) without checks. Closing twice does nothing. */
void publisher_shut(Publisher *self);

/* Release the GIL around a copy of LARGE_COPY bytes or more. */
PyThreadState *publisher_begin_copy(Publisher *self);
void publisher_end_copy(Publisher *self, PyThreadState *state);

PyTypeObject *make_publisher_type(PyObject *module), *make_claim_type(PyObject *module);

/* Methods: offer.c, batch.c, reserve.c */
PyObject *publisher_offer(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_send(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_flush(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_claim(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_try_claim(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* Raise BackPressuredError. Returns NULL. */
PyObject *publisher_back_pressured(Publisher *self);
PyObject *publisher_offer_batch(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_send_batch(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

#endif
