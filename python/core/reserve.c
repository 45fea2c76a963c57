/* SPDX-License-Identifier: Apache-2.0 */
/* Reserves room for a record, and handles back-pressure (spec/channel.md 6.1, 1 and 2; 6.2, 6.7). Numbers in comments
   are sections and steps of that page. */
#include "arguments.h"
#include "publisher.h"
#include "worker.h"

#define RETIRE_AFTER_NS 1000000 /* held back for so long: look for dead readers (6.2, 4) */
#define SHORTEST_NS 100000 /* between two measurements of a rest */
#define LONGEST_NS 10000000
#define LEAST_REST_NS 200000 /* a timer may be late by half of it */
#define MOST_REST_NS 1000000
#define LOOK_AFTER_NS 1000000 /* between two checks whether the channel was replaced (6.2, 0) */

/* Whether the publisher can be used */

bool publisher_in_use(Publisher *self)
{
    if (self->closed || self->forked)
        raise_error("ClosedError", "(si)", "publisher", (int)self->forked);
    else if (self->busy)
        raise_error("TwoThreadsError", "(s)", "publisher");
    else if (!epoch_holds(&self->epoch))
        raise_error("SlotLostError", "(si)", "publisher", self->slot);
    else
        return false;
    return true;
}

PyObject *publisher_refuse(Publisher *self)
{
    if (self->closed || self->forked || self->busy || self->claim != NULL) {
        PyErr_Clear();
        publisher_explain_unusable(self);
    }
    return NULL;
}

PyObject *publisher_too_large(const Publisher *self, int64_t length)
{
    return raise_error("MessageTooLargeError", "(LL)", (long long)length,
                       (long long)(self->writer.ring.longest - RECORD_HEADER_LENGTH));
}

PyObject *publisher_refuse_length(Publisher *self, int64_t length)
{
    if (length > self->writer.ring.longest - RECORD_HEADER_LENGTH) {
        PyErr_Clear();
        publisher_too_large(self, length);
    }
    return publisher_refuse(self);
}

bool publisher_explain_unusable(Publisher *self)
{
    if (self->claim != NULL && !self->closed && !self->forked && !self->busy)
        raise_error("ViewAliveError", "(s)", "a claim of this publisher is open; commit or abort it first");
    else
        publisher_in_use(self);
    return false;
}

void publisher_release_memory(Publisher *self)
{
    Memory *memory = self->memory;
    self->memory = NULL;
    if (memory != NULL)
        memory_unuse(memory);
}

PyThreadState *publisher_begin_copy(Publisher *self)
{
    self->busy = self->copying = true;
    return PyEval_SaveThread();
}

void publisher_end_copy(Publisher *self, PyThreadState *state)
{
    PyEval_RestoreThread(state);
    self->busy = self->copying = false;
}

/* Room */

/* Check that the channel was not replaced (6.13). May run Python code, during which `busy` keeps other calls out. False
   with an exception. */
static bool check_replaced_while_held(Publisher *self)
{
    self->busy = true;
    bool fine = check_replaced((PyObject *)self, self->lock);
    self->busy = false;
    if (!self->closed && !self->forked)
        return fine;
    if (!self->forked)
        publisher_release_memory(self); /* closed by another thread, which left the memory to this one */
    if (fine) /* no exception is set yet. In a child that a signal's handler forked, nothing may be written either */
        raise_error("ClosedError", "(si)", "publisher", (int)self->forked);
    return false;
}

/* If the word `successor` is set, check that the channel was not replaced (6.2, 0). False with an exception. */
static bool look_for_successor(Publisher *self)
{
    if (LIKELY(LOAD32_RELAXED(self->memory->base + self->shape.control + CONTROL_SUCCESSOR) == 0))
        return true;
    if (self->told) { /* raised once: a repeated offer goes through */
        self->told = false;
        return true;
    }
    int64_t now = now_ns();
    if (self->looked != 0 && now - self->looked < LOOK_AFTER_NS)
        return true;
    self->looked = now;
    self->told = !check_replaced_while_held(self);
    return !self->told;
}

bool publisher_look(slot_writer *writer, bool held_back)
{
    Publisher *self = (Publisher *)((char *)writer - offsetof(Publisher, writer));
    return held_back ? check_replaced_while_held(self) : look_for_successor(self);
}

void publisher_recompute(Publisher *self, int64_t n, int64_t first)
{
    ring_writer *ring = &self->writer.ring;
    ring_recompute(ring);
    if (self->writer.evicts && !ring_has_room(ring, n) &&
        evict_laggards(&self->shape, self->memory->base, self->lock, ring->trailer, ring_needed_gate(ring, n)))
        ring_recompute(ring);
    if (ring_has_room(ring, first))
        writer_unblocked(&self->writer);
}

/* Whether there is room now for the message that last found none. */
static bool room_is_there(void *context)
{
    Publisher *self = context;
    return !epoch_holds(&self->epoch) || writer_has_room_now(&self->writer);
}

/* Whether all readers of this ring wake publishers, which determines the cap (6.16). */
static bool readers_wake(void *context)
{
    const Publisher *self = context;
    return self->shape.queue ? workers_wake(&self->shape, self->memory->base, self->lock)
                             : subscribers_wake(&self->shape, self->memory->base, self->slot);
}

wait_target publisher_target(Publisher *self)
{
    return (wait_target){
        .words = room_words(&self->shape, self->memory->base),
        .mask = self->bit,
        .writable = true,
        .room = true,
        .pauses = room_pauses(&self->shape),
        .ready = room_is_there,
        .others_wake = readers_wake,
        .context = self,
    };
}

/* One slice of a wait: like wait_some, but also -1 if the publisher was closed. */
static int wait_here(Publisher *self, wait_state *state, const wait_target *target)
{
    self->busy = true;
    int result = wait_some(state, target);
    self->busy = false;
    self->writer.stands_back = false; /* the wait was a pause */
    if (self->closed) { /* closed by another thread, which left the memory to this one */
        publisher_release_memory(self);
        if (result != -1)
            raise_error("ClosedError", "(s)", "publisher");
        return -1;
    }
    return result;
}

/* Raise BusyError and return true if only the calling thread can move a gate to `needed` (queue.md 10). */
static bool would_wait_for_itself(Publisher *self, int64_t needed)
{
    int32_t slot = self->shape.queue ? worker_slot_here(self->memory, self->slot, needed) : -1;
    if (LIKELY(slot < 0))
        return false;
    self->busy = true; /* this runs Python code */
    PyObject *holder = PyObject_CallMethod((PyObject *)self, "_holder", "i", (int)slot);
    self->busy = false;
    if (holder != NULL)
        raise_error("BusyError", "(N)", holder);
    return true;
}

/* How long a wait for room that begins now rests first, in ns (queue.md 4). Without a rest, each finished job wakes the
   producer while jobs take long. It publishes one message, finds no room, and waits again. */
static int64_t room_rest(Publisher *self, int64_t now)
{
    int64_t time = now - self->measured;
    if (time < SHORTEST_NS) /* too short to measure */
        return self->rest;
    int64_t bytes = self->writer.ring.end - self->from;
    self->measured = now;
    self->from = self->writer.ring.end;
    self->rest = 0;
    if (time <= LONGEST_NS && bytes > 0) {
        /* The ring was full at both times. So workers made room for as many bytes as were published. */
        int64_t quarter = time * (self->shape.capacity / 4) / bytes;
        self->rest = quarter < LEAST_REST_NS ? 0 : quarter < MOST_REST_NS ? quarter : MOST_REST_NS;
    }
    return self->rest;
}

int publisher_wait_for_room(Publisher *self, wait_state *state, bool *waiting, int64_t timeout)
{
    if (timeout == WAIT_NOT)
        return 0;
    if (!*waiting) {
        wait_begin(state, self->wait, self->spin, timeout);
        if (self->shape.queue)
            wait_rest(state, room_rest(self, state->began));
        *waiting = true;
    }
    if (would_wait_for_itself(self, self->writer.ring.end + self->writer.wanted - self->writer.ring.lag))
        return -1;
    wait_target target = publisher_target(self);
    int result = wait_here(self, state, &target);
    if (result == -1 || !publisher_usable(self))
        return -1;
    return result == -2 ? 0 : 1;
}

int publisher_reserve_within(Publisher *self, int64_t n, int64_t timeout)
{
    wait_state state;
    bool waiting = false;
    for (;;) {
        int result = writer_reserve(&self->writer, n);
        if (result != 0)
            return result;
        result = publisher_wait_for_room(self, &state, &waiting, timeout);
        if (result <= 0)
            return result;
    }
}

/* flush */

/* Whether the slot gates this ring and has not reached the end. */
static bool is_behind(const Publisher *self, int32_t slot)
{
    int64_t gate = LOAD64_ACQUIRE(self->writer.ring.trailer + gate_offset(slot)); /* pairs with poll 4 */
    return gate >= 0 && gate < self->writer.ring.end;
}

static bool any_is_behind(const Publisher *self)
{
    for (int32_t slot = 0; slot < self->writer.ring.subscribers; slot++) {
        if (is_behind(self, slot))
            return true;
    }
    return false;
}

static bool none_is_behind(void *context)
{
    Publisher *self = context;
    return !any_is_behind(self) || !epoch_holds(&self->epoch);
}

/* In a queue: whether a job is not taken, or is in the hand of a worker, alive or dead. A job that changes hands during
   this check counts (queue.md 4). */
static bool a_job_is_left(const Publisher *self)
{
    int64_t handovers = LOAD64_ACQUIRE(self->writer.ring.handovers); /* pairs with adopt 5 */
    return any_is_behind(self) || LOAD64_ACQUIRE(self->writer.ring.handovers) != handovers;
}

static bool no_job_is_left(void *context)
{
    Publisher *self = context;
    return !a_job_is_left(self) || !epoch_holds(&self->epoch);
}

/* Whether a slot that is behind has a live owner. */
static bool an_owner_is_behind(const Publisher *self)
{
    for (int32_t slot = 0; slot < self->writer.ring.subscribers; slot++) {
        int64_t at = subscriber_slot_offset(&self->shape, slot) + CONTROL_SLOT_LOCK;
        if (is_behind(self, slot) && (self->shape.foreign != 0 || lock_is_held(self->lock, at)))
            return true; /* a foreign end counts as live (6.15) */
    }
    return false;
}

/* publisher_refuse for flush, which allows an open claim. Returns NULL. */
static PyObject *refuse_flush(Publisher *self)
{
    if (self->closed || self->forked || self->busy) {
        PyErr_Clear();
        publisher_in_use(self);
    }
    return NULL;
}

PyObject *publisher_flush(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"timeout"};
    static const signature expected = {parameters, 1, 0};
    PyObject *values[1] = {NULL};
    int64_t timeout = WAIT_UNLIMITED;
    if (!parse_arguments(&expected, args, n, names, values) ||
        (values[0] != NULL && (timeout = wait_timeout(values[0])) < 0))
        return refuse_flush(self);
    if (publisher_in_use(self))
        return NULL;
    wait_state state;
    wait_begin(&state, self->wait, self->spin, timeout);
    wait_target target = publisher_target(self);
    target.ready = self->shape.queue ? no_job_is_left : none_is_behind;
    for (int result = 0;;) {
        if (!(self->shape.queue ? a_job_is_left(self) : an_owner_is_behind(self)))
            return Py_NewRef(Py_None);
        if (timeout != WAIT_NOT && would_wait_for_itself(self, self->writer.ring.end))
            return NULL;
        if (timeout == WAIT_NOT || result == -2)
            return raise_error("TimedOutError", "(s)", "every reader to have read what was published");
        result = wait_here(self, &state, &target);
        if (result == -1 || publisher_in_use(self) || (result != 1 && !check_replaced_while_held(self)))
            return NULL;
    }
}

/* For wait sets, and send_async */

void publisher_set_waiting(Publisher *self, bool waits)
{
    self->busy = waits;
    if (!waits && self->closed && !self->forked) /* closed during the wait */
        publisher_release_memory(self);
}

int publisher_look_for_room(Publisher *self)
{
    if (self->writer.wanted == 0 || self->busy || self->claim != NULL || !epoch_holds(&self->epoch))
        return 0;
    return writer_recompute(&self->writer, self->writer.wanted - RECORD_HEADER_LENGTH);
}

void publisher_look_again(Publisher *self)
{
    self->told = false;
    self->looked = 0;
    if (LOAD32_RELAXED(self->memory->base + self->shape.control + CONTROL_SUCCESSOR) == 0 &&
        self->writer.held_since > RETIRE_AFTER_NS)
        self->writer.held_since -= RETIRE_AFTER_NS; /* 6.2, 4 is due again */
}

PyObject *publisher_fileno(Publisher *self, PyObject *ignored)
{
    (void)ignored;
    if (publisher_in_use(self) || (self->notifier == NULL && (self->notifier = notifier_new()) == NULL))
        return NULL;
    return PyLong_FromLong(notifier_fd(self->notifier));
}

/* Arm the descriptor after an offer that found no room: it becomes readable when the offer should be repeated. `began`:
   when the wait began, in ns of CLOCK_MONOTONIC. */
PyObject *publisher_arm(Publisher *self, PyObject *began)
{
    long long since = PyLong_AsLongLong(began);
    if ((since == -1 && PyErr_Occurred()) || publisher_in_use(self))
        return NULL;
    if (self->notifier == NULL) {
        PyErr_SetString(PyExc_ValueError, "call _fileno first");
        return NULL;
    }
    wait_target target = publisher_target(self);
    int armed = notifier_arm(self->notifier, &target, since);
    return armed < 0 ? NULL : PyBool_FromLong(armed);
}

PyObject *publisher_is_armed(Publisher *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->notifier != NULL && !self->closed && !self->forked &&
                           notifier_is_armed(self->notifier));
}
