/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of one ring, as Python object: shared by publisher.c (life), offer.c, batch.c and claim.c. */
#ifndef FLYRING_PUBLISHER_H
#define FLYRING_PUBLISHER_H

#include "core.h"
#include "ring.h"

struct Claim;
struct Layout;

typedef struct {
    PyObject_HEAD
    /* Hot: what each offer reads. */
    _Atomic(const int64_t *) epoch_word; /* in the slot; &dead_epoch_word once closed or forked */
    int64_t epoch;
    ring_writer ring;
    struct Claim *claim; /* the open one, borrowed: it refers to us */
    bool busy; /* while a wait has given up the GIL; changed with the GIL held only, so exact */
    bool owner_pending; /* 6.1: the owner record comes before the first record */
    /* Cold. */
    bool closed, forked;
    int wait;
    int32_t slot;
    int64_t held_since; /* ns: the first failure or the last test (6.2, 4); 0: not held back */
    bool evicts; /* there is a lag limit */
    Memory *memory;
    geometry shape;
    LockFile *lock;
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

Claim *claim_new(Publisher *publisher, Py_ssize_t length);
/* The methods commit and abort. */
PyObject *claim_end(Claim *self, bool commit);
/* Nobody refers to it any more: it is aborted if it is open, and lets go of its publisher. */
void claim_forget(Claim *self);
/* Commits or aborts the open claim: the new end position, or NULL with an exception. No export may be alive. */
PyObject *publisher_end_claim(Publisher *publisher, bool commit);

static inline bool epoch_holds(Publisher *self)
{
    const int64_t *word = atomic_load_explicit(&self->epoch_word, memory_order_relaxed);
    return LIKELY(LOAD64_RELAXED((void *)word) == self->epoch); /* 5.4 */
}

/* Raises and returns true if the publisher cannot be used now, be a claim open or not. */
bool publisher_in_use(Publisher *self);
/* Raises and returns false. */
bool publisher_explain_unusable(Publisher *self);
void publisher_let_go_of_memory(Publisher *self);

/* Raises and returns false if the publisher cannot be used now: busy, open claim, closed, forked, slot lost. */
static inline bool publisher_usable(Publisher *self)
{
    return LIKELY(!self->busy && self->claim == NULL && epoch_holds(self)) || publisher_explain_unusable(self);
}

/* Makes room for a record of n bytes (aligned) at the tail, which may move over padding: 1 there is room, 0
   back-pressured, -1 an exception. */
int publisher_make_room(Publisher *self, int64_t n);
/* 6.2, 1 to 3 for n bytes at the tail. */
void publisher_recompute(Publisher *self, int64_t n);
/* Room for a record of n bytes, waiting as long as asked: 1, 0 back-pressured, -1 an exception. */
int room_within(Publisher *self, int64_t n, int64_t timeout);
/* Waits for any gate to move: 1 look again, 0 time is up, -1 an exception. */
int publisher_wait(Publisher *self, wait_state *state, bool *begun, int64_t timeout);
/* offer.c, batch.c, offer_array.c */
PyObject *publisher_offer(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_claim(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_offer_batch(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *publisher_offer_array(Publisher *self, PyObject *const *args, Py_ssize_t n);

#endif
