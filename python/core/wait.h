/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: a short spin with the GIL held, then, as the strategy says, without it. */
#ifndef FLYRING_WAIT_H
#define FLYRING_WAIT_H

#include "waiting.h"

enum { WAIT_BLOCK, WAIT_SPIN, WAIT_YIELD, WAIT_BACKOFF };
#define WAIT_UNLIMITED INT64_MAX
#define WAIT_NOT 0
#define SIGNAL_CHECK_NS 2000000 /* how long at most without the GIL, unless it sleeps: Ctrl-C is seen after this */
#define DEFAULT_SPIN_NS 20000 /* about what a wake-up costs */

/* "block", "spin", "yield" or "backoff" -> 0; anything else raises and returns -1. */
int wait_parse(PyObject *name, int *strategy);
/* Seconds as a number, or None for no limit -> nanoseconds. Returns -1 with an exception set if it is neither. */
int64_t wait_timeout(PyObject *seconds);

typedef struct {
    int strategy;
    int64_t began, deadline; /* by now_ns; or WAIT_UNLIMITED */
    int64_t spin; /* ns, of WAIT_BLOCK: before it sleeps */
    int64_t sleep; /* ns of the next sleep of WAIT_BACKOFF */
    bool spun, slept;
    bool asleep; /* it slept, since somebody set this to false: a waker may have counted on it */
} wait_state;

void wait_begin(wait_state *state, int strategy, int64_t spin, int64_t timeout);
/* Waits until the target is ready, the deadline, or for a while, at most 100 ms: 1 ready, 0 not ready (call again, after
   what has to be done now and then), -1 an exception (a signal's handler raised), -2 the deadline has passed. */
int wait_some(wait_state *state, const wait_target *target);
/* An argument of set_spin: ns, or -1 with an exception. */
int64_t wait_spin(PyObject *seconds);

#endif
