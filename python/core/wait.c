/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include <math.h>
#include <sched.h>
#include <time.h>

/* Longer than a round trip through another process, and much shorter than a GIL switch (5 ms). */
#define SPIN_WITH_GIL_NS 20000
#define CLOCK_EVERY 32 /* spins between two reads of the clock */
#define YIELDS_BEFORE_SLEEP 100
#define SHORTEST_SLEEP_NS 1000
#define LONGEST_SLEEP_NS 1000000

int wait_parse(PyObject *name, int *strategy)
{
    static const char *const names[] = {"block", "spin", "yield", "backoff"};
    if (PyUnicode_Check(name)) {
        for (int i = 0; i < 4; i++) {
            if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
                *strategy = i;
                return 0;
            }
        }
    }
    raise_error("InvalidArgumentError", "(ss)", "wait", "must be \"block\", \"spin\", \"yield\" or \"backoff\"");
    return -1;
}

int64_t wait_timeout(PyObject *seconds)
{
    if (seconds == Py_None)
        return WAIT_UNLIMITED;
    double value = PyFloat_AsDouble(seconds);
    if (value == -1.0 && PyErr_Occurred())
        return -1;
    if (!(value >= 0.0)) {
        raise_error("InvalidArgumentError", "(ss)", "timeout", "must be seconds, 0 or more, or None for no limit");
        return -1;
    }
    return value >= 4e9 ? WAIT_UNLIMITED : (int64_t)(value * 1e9);
}

int64_t wait_spin(PyObject *seconds)
{
    double value = PyFloat_AsDouble(seconds);
    if (value == -1.0 && PyErr_Occurred())
        return -1;
    if (!(value >= 0.0) || isinf(value)) {
        raise_error("InvalidArgumentError", "(ss)", "spin", "must be seconds, 0 or more, and finite");
        return -1;
    }
    return value >= 4e9 ? WAIT_UNLIMITED / 2 : (int64_t)(value * 1e9);
}

void wait_begin(wait_state *state, int strategy, int64_t spin, int64_t timeout)
{
    state->strategy = strategy;
    state->began = now_ns();
    state->deadline = timeout == WAIT_UNLIMITED ? WAIT_UNLIMITED : state->began + timeout;
    state->spin = strategy == WAIT_BLOCK ? spin : SPIN_WITH_GIL_NS;
    state->rest = 0;
    state->sleep = SHORTEST_SLEEP_NS;
    state->spun = state->slept = state->asleep = false;
}

static int64_t earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

void wait_rest(wait_state *state, int64_t time)
{
    if (state->strategy == WAIT_BLOCK && state->began + time > earlier(state->began + state->spin, state->deadline))
        state->rest = time;
}

static bool spin_until(int64_t end, const wait_target *target)
{
    do {
        for (int i = 0; i < CLOCK_EVERY; i += target->pauses > 1 ? target->pauses : 1) {
            if (target->ready(target->context))
                return true;
            pause_cpus(target->pauses);
        }
        if (target->room) /* a reader that must make room may need this core */
            sched_yield();
    } while (now_ns() < end);
    return false;
}

static bool yield_until(int64_t end, const wait_target *target)
{
    do {
        if (target->ready(target->context))
            return true;
        sched_yield();
    } while (now_ns() < end);
    return false;
}

static bool back_off_until(wait_state *state, int64_t end, const wait_target *target)
{
    if (state->sleep == SHORTEST_SLEEP_NS) {
        for (int i = 0; i < YIELDS_BEFORE_SLEEP; i++) {
            if (target->ready(target->context))
                return true;
            sched_yield();
        }
    }
    for (;;) {
        if (target->ready(target->context))
            return true;
        int64_t left = end - now_ns();
        if (left <= 0)
            return false;
        struct timespec pause = {0, (long)(state->sleep < left ? state->sleep : left)};
        nanosleep(&pause, NULL);
        if (state->sleep < LONGEST_SLEEP_NS)
            state->sleep *= 2;
    }
}

/* One slice of the wait, without the GIL. Returns whether the target is ready. */
static bool wait_slice(wait_state *state, const wait_target *target)
{
    int64_t now = now_ns(), end = earlier(now + SIGNAL_CHECK_NS, state->deadline);
    state->slept = true; /* or it has spun for as long as a sleep */
    switch (state->strategy) {
    case WAIT_SPIN:
        return spin_until(end, target);
    case WAIT_YIELD:
        return yield_until(end, target);
    case WAIT_BACKOFF:
        return back_off_until(state, end, target);
    default:
        if (now < state->began + state->spin)
            return spin_until(earlier(end, state->began + state->spin), target);
        state->asleep = true;
        sleep_once(target, state->deadline, wait_cap(target->room, state->began));
        return target->ready(target->context); /* sleep 7 */
    }
}

int wait_some(wait_state *state, const wait_target *target)
{
    bool found;
    if (state->spun && (now_ns() >= state->deadline || PyErr_CheckSignals() < 0)) {
        /* Check signals here too, because a target that is always ready may never give a message (a ring of padding).
           */
        return PyErr_Occurred() ? -1 : -2;
    }
    if (!state->spun && state->rest > 0) {
        state->spun = true;
        Py_BEGIN_ALLOW_THREADS
        rest_once(target, earlier(state->began + state->rest, state->deadline));
        found = target->ready(target->context);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0)
            return -1;
    } else if (!state->spun) {
        state->spun = true;
        int64_t end = state->began + earlier(state->spin, SPIN_WITH_GIL_NS);
        found = state->spin > 0 ? spin_until(earlier(end, state->deadline), target) : target->ready(target->context);
    } else {
        Py_BEGIN_ALLOW_THREADS
        found = wait_slice(state, target);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
    if (found)
        return 1;
    return now_ns() >= state->deadline ? -2 : 0;
}
