/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of one ring, as Python object: shared by reserve.c (room), claim.c, offer.c, batch.c, sbe/ and publisher.c
   (life, methods). */
#ifndef FLYRING_PUBLISHER_H
#define FLYRING_PUBLISHER_H

#include "memory.h"
#include "notify.h"
#include "wait.h"
#include "waiting.h"
#include "writer.h"

struct Claim;
struct Layout;

typedef struct {
    PyObject_HEAD
    /* Hot: what each offer reads. */
    slot_epoch epoch;
    slot_writer writer;
    waker waker; /* of readers */
    const uint8_t *also; /* the word of workers that sleep; if there are none, that of readers again */
    uint32_t bit; /* of this ring in the words */
    uint32_t either; /* this bit, and that of workers */
    waker jobs; /* of workers */
    struct Claim *claim; /* the open one, borrowed: it refers to us */
    bool busy; /* while a wait or a copy has given up the GIL; changed with the GIL held only, so exact */
    /* Cold. */
    bool copying; /* without the GIL, into the ring: it cannot be closed */
    bool closed, forked;
    int wait;
    int64_t spin; /* ns, before it sleeps */
    notifier *notifier; /* of send_async, or NULL */
    int32_t slot;
    int32_t default_type; /* of bytes: 1, or on a channel with a schema one that no SBE message has */
    int64_t looked; /* ns: the last look because of `successor` (6.2, 0) */
    bool told; /* the last look of 6.2, 0 found it replaced */
    Memory *memory;
    geometry shape;
    File *lock;
    PyObject *name; /* bytes */
    PyObject *message_class; /* that was claimed last, or NULL; and its layout (sbe.h) */
    struct Layout *message_layout;
    fork_node node;
} Publisher;

typedef struct Claim {
    PyObject_HEAD
    Publisher *publisher;
    uint8_t *data; /* NULL: committed, aborted or closed */
    Py_ssize_t length;
    Py_ssize_t exports;
} Claim;

/* claim.c */

extern PyTypeObject *claim_type;
Claim *claim_new(Publisher *publisher, Py_ssize_t length);
/* The methods commit and abort. */
PyObject *claim_close(Claim *self, bool commit);
/* The method __exit__. */
PyObject *claim_exit(Claim *self, PyObject *const *args, Py_ssize_t n);
/* At the end of its life: aborts it if it is open, and releases its publisher. */
void claim_drop(Claim *self);
/* Commits or aborts the open claim: the new end position, or NULL with an exception. No export may be alive. */
PyObject *publisher_close_claim(Publisher *publisher, bool commit);
/* Aborts the open claim, also while another thread flushes. No exception. */
void publisher_drop_claim(Publisher *publisher);

/* publisher.c, publish 10: somebody may be asleep. */
void publisher_wake_now(const Publisher *self);

/* Publish 10, behind a message. Two loads where nobody sleeps. */
ALWAYS_INLINE void publisher_wake(const Publisher *self)
{
    FENCE_COMPILER(); /* 6.16: the sleeper's membarrier makes it a whole one */
    if (UNLIKELY(((uint32_t)(LOAD32_RELAXED(self->waker.watched) | LOAD32_RELAXED(self->also)) & self->either) != 0))
        publisher_wake_now(self);
}

/* reserve.c */

/* Raises and returns true if the publisher cannot be used now, with or without an open claim. */
bool publisher_in_use(Publisher *self);
/* An argument was refused, with an exception: closed, two threads and view alive go first (spec/api.md). NULL. */
PyObject *publisher_refuse(Publisher *self);
/* Raises and returns false. */
bool publisher_explain_unusable(Publisher *self);
/* MessageTooLargeError for so many bytes. NULL. */
PyObject *publisher_too_large(const Publisher *self, int64_t length);
/* publisher_usable said no, for a message of so many bytes: too large goes before slot lost (spec/api.md). NULL. */
PyObject *publisher_refuse_length(Publisher *self, int64_t length);
void publisher_release_memory(Publisher *self);

/* Raises and returns false if the publisher cannot be used now: busy, open claim, closed, forked, slot lost. */
static inline bool publisher_usable(Publisher *self)
{
    return LIKELY(!self->busy && self->claim == NULL && epoch_holds(&self->epoch)) || publisher_explain_unusable(self);
}

/* 6.2, 0 and 4, of its writer. */
bool publisher_look(slot_writer *writer, bool held_back);
/* 6.2, 1 to 3, for n bytes at the end, the first of whose messages takes `first`. */
void publisher_recompute(Publisher *self, int64_t n, int64_t first);
/* For a wait set: while it waits others may close it, and leave the memory to the thread that waits. */
void publisher_set_waiting(Publisher *self, bool waits);
/* Looks again for that room, and does what a wait does now and then (6.2, 4): -1 with an exception. */
int publisher_look_for_room(Publisher *self);
/* What that raised was left to its next verb: it looks at once. */
void publisher_look_again(Publisher *self);
/* The methods _fileno and _arm, for send_async. */
PyObject *publisher_fileno(Publisher *self, PyObject *ignored);
PyObject *publisher_arm(Publisher *self, PyObject *began);
PyObject *publisher_is_armed(Publisher *self, PyObject *ignored);
/* What it waits for: room for what found none last. */
wait_target publisher_target(Publisher *self);
/* Waits for that room: 1 start again, 0 time is up, -1 an exception. `waiting` is whether `state` was begun. */
int publisher_wait_for_room(Publisher *self, wait_state *state, bool *waiting, int64_t timeout);
/* Both, waiting for `timeout` ns. */
int publisher_reserve_within(Publisher *self, int64_t n, int64_t timeout);

/* publisher.c */

extern PyTypeObject *publisher_type;
/* Whether it can be closed now: raises and returns false while a view of a claim is alive, or a copy is on its way. */
bool publisher_may_close(Publisher *self);
/* 5.2 Close, without asking; twice is fine. */
void publisher_shut(Publisher *self);

/* Around a copy of LARGE_COPY bytes or more, so that other threads can run meanwhile. */
PyThreadState *publisher_begin_copy(Publisher *self);
void publisher_end_copy(Publisher *self, PyThreadState *state);

PyTypeObject *make_publisher_type(PyObject *module), *make_claim_type(PyObject *module);

/* Methods: offer.c, batch.c, reserve.c */
PyObject *publisher_offer(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_send(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_flush(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_claim(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_try_claim(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* Raises BackPressuredError. NULL. */
PyObject *publisher_back_pressured(Publisher *self);
PyObject *publisher_offer_batch(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_send_batch(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

#endif
