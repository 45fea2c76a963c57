/* SPDX-License-Identifier: Apache-2.0 */
/* What reliable and lossy subscribers share: arguments, waiting, handing a message to its handler. */
#ifndef FLYRING_READER_H
#define FLYRING_READER_H

#include "sender.h"

struct Reader;

/* How many messages were handed out, as `how` says; -1 with an exception. */
typedef Py_ssize_t poll_function(struct Reader *self, void *how, Py_ssize_t limit);

/* What differs. `self` of each is the Reader. */
typedef struct {
    /* Raises and returns false if it cannot be used now. */
    bool (*usable)(struct Reader *self);
    /* What is handed out to a handler, and to an array_poll. */
    poll_function *poll, *poll_arrays;
    /* NULL without an exception: nothing there. */
    PyObject *(*take)(struct Reader *self);
    /* Only a hint: runs without the GIL. */
    bool (*ready)(void *self);
    /* Closed while it waited: the mapping is no longer needed. */
    void (*let_go)(struct Reader *self);
} reader_kind;

enum { IDLE, BUSY, WAITING }; /* changed with the GIL held only, so exact */

typedef struct Reader {
    PyObject_HEAD
    const reader_kind *kind;
    Message *spare; /* a shell without owner, kept from poll to poll */
    Message *pinned; /* handed out, and still exported when its handler returned */
    unsigned long thread; /* that is BUSY */
    int use, wait;
    int idle; /* polls in a row that found nothing: 6.13 */
    bool closed, forked;
} Reader;

/* A shell for messages in place. */
Message *reader_borrow_shell(Reader *self);
void reader_return_shell(Reader *self, Message *message);
/* What is in *shell expires, and another one takes its place: false, and NULL there, with an exception. */
bool reader_other_shell(Reader *self, Message **shell);
PyObject *reader_view_alive(void); /* raises */
/* For close: raises and returns false inside of a handler, and in another thread meanwhile. */
bool reader_may_close(Reader *self);
PyObject *reader_no_such_ring(void); /* raises */
/* A tuple of numbers. */
PyObject *reader_rings(int count, int32_t (*ring)(Reader *, int), Reader *self);
/* The method poll. */
PyObject *reader_poll(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* An argument of poll: false with an exception. */
bool reader_limit(PyObject *object, Py_ssize_t *limit);
/* The rest of poll, and of what is like it. */
PyObject *reader_poll_by(Reader *self, poll_function *poll, void *how, Py_ssize_t limit, int64_t timeout);
/* The timeout of the method take: -1 with an exception. */
int64_t reader_take_timeout(PyObject *const *args, Py_ssize_t n, PyObject *names);
/* The rest of take, after a first attempt gave NULL. */
PyObject *reader_take_waiting(Reader *self, int64_t timeout);

/* While BUSY no other thread gets in, though Python code may run. */
static inline void reader_begin(Reader *self)
{
    self->use = BUSY;
    self->thread = PyThread_get_thread_ident();
}

enum { HANDED, RAISED, PINNED, FORKED };

/* After a handler gave `result` (NULL: raised) for `message`, which was in *shell: there is another one if somebody keeps
   it. All but HANDED: with an exception. PINNED: with or without one of the handler, an export is alive. */
static inline int reader_handed_out(Reader *self, Message *message, PyObject *result, Message **shell)
{
    Py_XDECREF(result);
    if (UNLIKELY(self->forked)) { /* the handler forked, and this is the child: nothing here is ours */
        if (result != NULL)
            core_raise("ClosedError", "(si)", "subscriber", 1);
        return FORKED;
    }
    if (UNLIKELY(message->exports != 0)) {
        self->pinned = (Message *)Py_NewRef((PyObject *)message);
        if (result != NULL)
            reader_view_alive();
        return PINNED;
    }
    if (UNLIKELY(result == NULL))
        return RAISED;
    if (UNLIKELY(Py_REFCNT((PyObject *)message) != 1)) /* somebody keeps it: it must not become another message */
        return reader_other_shell(self, shell) ? HANDED : RAISED;
    return HANDED;
}

/* Calls the handler with the message in *shell. */
static inline int reader_hand_out(Reader *self, void *handler, Message **shell)
{
    Message *message = *shell;
    PyObject *result = PyObject_CallFunctionObjArgs((PyObject *)handler, (PyObject *)message, NULL);
    return reader_handed_out(self, message, result, shell);
}

#endif
