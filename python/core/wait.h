/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: a short spin with the GIL held, then, by the wait strategy, without it. */
#ifndef FLYRING_WAIT_H
#define FLYRING_WAIT_H

#include "waiting.h"

enum { WAIT_BLOCK, WAIT_SPIN, WAIT_YIELD, WAIT_BACKOFF };
#define WAIT_UNLIMITED INT64_MAX
#define WAIT_NOT 0 /* a timeout: do not wait at all */
#define SIGNAL_CHECK_NS 2000000 /* the longest spin without the GIL; Ctrl-C is noticed after it */
#define DEFAULT_SPIN_NS 20000 /* about the cost of a wake-up */

/* Parse "block", "spin", "yield" or "backoff". Returns 0; -1 with an exception for any other value. */
int wait_parse(PyObject *name, int *strategy);
/* Convert a timeout in seconds, or None for no limit, to nanoseconds. -1 with an exception. */
int64_t wait_timeout(PyObject *seconds);

typedef struct {
    int strategy;
    int64_t began, deadline; /* by now_ns; deadline: or WAIT_UNLIMITED */
    int64_t spin; /* ns, of WAIT_BLOCK: before it sleeps */
    int64_t rest; /* ns, of WAIT_BLOCK: its first sleep, which no other process ends; 0: none */
    int64_t sleep; /* ns of the next sleep of WAIT_BACKOFF */
    bool spun, slept;
    bool asleep; /* it has slept since the caller cleared this, so a waker may have counted on it */
} wait_state;

void wait_begin(wait_state *state, int strategy, int64_t spin, int64_t timeout);
/* Let a wait that has just begun rest first, for at most `time` ns, unless it spins for longer. */
void wait_rest(wait_state *state, int64_t time);
/* Wait until the target is ready or the deadline has passed, but at most 100 ms. Returns 1 ready; 0 not ready: call
   again after the periodic checks; -1 an exception: a signal's handler raised; -2 the deadline has passed. */
int wait_some(wait_state *state, const wait_target *target);
/* Parse the argument of set_spin. Returns ns, or -1 with an exception. */
int64_t wait_spin(PyObject *seconds);

#endif
