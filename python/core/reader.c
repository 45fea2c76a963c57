/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"
#include "sbe/arrays.h"

PyTypeObject *reader_type;

static PyObject *actions[ABORT + 1]; /* the members of flyring.Action */

/* Creation and close */

static void reader_forked(fork_node *node)
{
    Reader *self = (Reader *)((char *)node - offsetof(Reader, node));
    self->forked = true;
    epoch_drop(&self->epoch);
}

Reader *reader_new(PyTypeObject *type, const reader_kind *kind, Memory *data, Memory *memory, File *file,
                   const geometry *shape, int count, int wait)
{
    Reader *self = (Reader *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->kind = kind;
    memory_use(self->data = data);
    if (memory != NULL)
        memory_use(self->memory = memory);
    self->file = (File *)Py_NewRef((PyObject *)file);
    self->shape = *shape;
    self->capacity = shape->capacity;
    self->mask = shape->capacity - 1;
    self->alignment = shape->alignment;
    self->store_every = shape->capacity / GATE_STORE_DIVISOR;
    self->count = count;
    self->wait = wait;
    self->spin = DEFAULT_SPIN_NS;
    fork_add(&self->node, reader_forked);
    return self;
}

bool reader_exports_nothing(const Reader *self)
{
    (void)self;
    return false;
}

bool reader_expires_nothing(Reader *self)
{
    (void)self;
    return true;
}

static COLD void release_memory(Reader *self)
{
    Memory *data = self->data, *memory = self->memory;
    self->data = self->memory = NULL;
    if (data != NULL)
        memory_unuse(data);
    if (memory != NULL)
        memory_unuse(memory);
}

/* The words in which the reader announces its sleep. */
static waiting_words words_of(const Reader *self)
{
    if (self->kind->worker != NULL)
        return jobs_words(&self->shape, self->memory->base);
    return data_words(&self->shape, self->memory != NULL ? self->memory->base : self->data->base);
}

/* Wake a thread that waits in this reader. Wakes others, too. */
static COLD void wake_waiting(Reader *self)
{
    waiting_words words = reader_target(self).words;
    if (self->memory != NULL)
        wake_all(words);
    else
        wake_sleepers(words.sequence, ALL_RINGS); /* read-only: stores nothing, but the sleepers look again */
}

void reader_shut(Reader *self)
{
    if (self->closed)
        return;
    if (!self->forked)
        self->kind->expire_messages(self);
    self->kind->give_back(self);
    __atomic_store_n(&self->closed, true, __ATOMIC_RELAXED); /* a wait reads it without the GIL */
    if (self->notifier != NULL && !self->forked)
        notifier_stop(self->notifier);
    if (self->use == WAITING && !self->forked)
        wake_waiting(self);
    /* A waiting thread still reads the rings, and releases the memory itself; a forked child may still have exports. */
    if (self->use == IDLE && !self->forked)
        release_memory(self);
}

void reader_dealloc(Reader *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    fork_remove(&self->node);
    notifier_free(self->notifier);
    release_memory(self);
    Py_XDECREF((PyObject *)self->file);
    Py_XDECREF((PyObject *)self->pinned);
    Py_XDECREF((PyObject *)self->spare);
    PyMem_Free(self->rings);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Messages */

Message *reader_acquire_message(Reader *self)
{
    Message *message = self->spare;
    self->spare = NULL;
    if (message == NULL)
        return message_in_place((PyObject *)self);
    message->owner = Py_NewRef((PyObject *)self);
    return message;
}

void reader_release_message(Reader *self, Message *message)
{
    message_expire(message);
    if (self->spare == NULL && Py_REFCNT((PyObject *)message) == 1)
        self->spare = message;
    else
        Py_DECREF((PyObject *)message);
}

bool reader_replace_message(Reader *self, Message **current)
{
    Message *message = *current;
    sender *from = message->from;
    message_expire(message);
    *current = reader_acquire_message(self);
    if (*current != NULL) {
        (*current)->ring = message->ring;
        (*current)->from = from;
    }
    Py_DECREF((PyObject *)message);
    return *current != NULL;
}

int reader_hand_out_array(Reader *self, void *poll, Message **current)
{
    Message *message = *current;
    return reader_handed_out(self, message, array_give(poll, message), current);
}

void reader_not_an_action(PyObject *type)
{
    PyObject *text = PyUnicode_FromFormat("a handler returned an object of type %U; return None, or one of "
                                          "flyring.Action. The message counts as consumed",
                                          type);
    if (text != NULL)
        raise_error("InvalidArgumentError", "(sO)", "action", text);
    Py_XDECREF(text);
}

/* Raise that the handler returned an object of this type (NULL: without a name). Returns RAISED. */
static int not_an_action(PyObject *type)
{
    if (type != NULL)
        reader_not_an_action(type);
    return RAISED;
}

int reader_action(const PyObject *result)
{
    for (int action = HANDED; action <= ABORT; action++) {
        if (result == actions[action])
            return action;
    }
    return -1;
}

COLD int reader_settle_result(Reader *self, Message *message, PyObject *result, Message **current)
{
    int action = HANDED;
    while (result != NULL && action <= ABORT && result != actions[action])
        action++;
    PyObject *type = action > ABORT ? PyType_GetName(Py_TYPE(result)) : NULL;
    Py_XDECREF(result); /* it may hold the last export */
    int settled = reader_settle(self, message, PyErr_Occurred() != NULL, current);
    if (settled == HANDED)
        settled = action > ABORT ? not_an_action(type) : action;
    Py_XDECREF(type);
    return settled;
}

COLD Py_ssize_t reader_end_poll(Reader *self, int ring, Py_ssize_t ended, Py_ssize_t total)
{
    Py_ssize_t done = -(ended + 2);
    if ((done & 1) != 0)
        self->next = ring; /* the next poll begins with the message that was aborted */
    total += done / 2;
    self->ended = total == 0;
    return total;
}

PyObject *reader_view_alive(void)
{
    return raise_error("ViewAliveError", "(s)",
                       "a memoryview or array of a message is still alive after its handler returned; "
                       "release it, or copy the message (bytes) instead");
}

bool reader_in_use(Reader *self)
{
    if (UNLIKELY(self->closed || self->forked))
        raise_error("ClosedError", "(si)", self->kind->what, (int)self->forked);
    else if (UNLIKELY(self->use != IDLE))
        raise_error("TwoThreadsError", "(s)", self->kind->what);
    else
        return false;
    return true;
}

PyObject *reader_refuse(Reader *self)
{
    if (self->closed || self->forked || self->use != IDLE) {
        PyErr_Clear();
        reader_in_use(self);
    } else if (self->kind->exported(self)) {
        PyErr_Clear();
        if (self->kind->worker != NULL)
            self->kind->worker->refuse(self);
        else
            reader_view_alive();
    }
    return NULL;
}

/* Waiting */

/* End the state WAITING. False with an exception; if `fine`, this function raises it. */
static bool end_of_wait(Reader *self, bool fine)
{
    self->use = IDLE;
    if (!self->closed && !self->forked)
        return fine;
    if (!self->forked) /* closed by another thread, which left the memory to this one */
        release_memory(self);
    if (fine) /* or a signal's handler forked, and this is the child */
        raise_error("ClosedError", "(si)", self->kind->what, (int)self->forked);
    return false;
}

static COLD bool check_replaced_now(Reader *self)
{
    self->idle = 0;
    self->use = WAITING;
    bool fine = check_replaced((PyObject *)self, self->file);
    return end_of_wait(self, fine);
}

/* Check at intervals that the channel was not replaced (6.13). Called after each poll that found nothing. False with an
   exception. */
static inline bool check_replaced_now_and_then(Reader *self)
{
    return LIKELY(++self->idle < POLLS_TO_LOOK) || check_replaced_now(self);
}

/* Whether iteration ends: one ring has ended, and every other ring has ended or never had an owner. */
static bool have_ended(const Reader *self)
{
    bool any = false;
    if (self->kind->worker != NULL)
        return self->kind->worker->ended(self);
    for (int i = 0; i < self->count; i++) {
        ring_place at = self->kind->ring_at(self, i);
        const uint8_t *slot = self->data->base + publisher_slot_offset(&self->shape, at.number);
        int64_t epoch = LOAD64_ACQUIRE(slot + PUBLISHER_SLOT_EPOCH); /* pairs with 5.2, 4 */
        if (ring_ended(&self->shape, self->data->base, at.number, at.cursor))
            any = true;
        else if (epoch > 0 && epoch <= MAX_EPOCH)
            return false;
    }
    return any;
}

/* Whether the publishers of all chosen rings wake readers, which determines the cap (6.16). */
static bool publishers_wake(void *context)
{
    const Reader *self = context;
    for (int i = 0; i < self->count; i++) {
        if (!publisher_wakes(&self->shape, self->data->base, self->kind->ring_at(self, i).number))
            return false;
    }
    return true;
}

/* Whether the reader has something to do, so that it must not sleep. Runs without the GIL. */
static bool is_ready(void *context)
{
    Reader *self = context;
    return self->kind->ready(self) || __atomic_load_n(&self->closed, __ATOMIC_RELAXED);
}

/* The `ready` of a wait. Each check counts as a poll (6.13), but does not take the GIL: a slice lasts at most 2 ms. */
static bool ready(void *context)
{
    Reader *self = context;
    if (is_ready(self) || (self->iterating && have_ended(self)))
        return true;
    if (self->idle < POLLS_TO_LOOK)
        self->idle++;
    return false;
}

static bool nameless(void *context)
{
    const Reader *self = context;
    return file_is_nameless(self->file);
}

wait_target reader_target(Reader *self)
{
    wait_target target = {
        .words = words_of(self),
        .mask = 0,
        .writable = self->memory != NULL,
        .ready = is_ready,
        .others_wake = publishers_wake,
        .nameless = nameless,
        .context = self,
    };
    if (self->kind->worker != NULL) {
        target.mask = JOBS_BIT;
        target.others_wake = self->kind->worker->others_wake;
        target.due = self->kind->worker->due;
        target.pass_on = self->kind->worker->pass_on;
        return target;
    }
    for (int i = 0; i < self->count; i++)
        target.mask |= waiting_bit(self->kind->ring_at(self, i).number);
    if (self->kind->aim != NULL)
        self->kind->aim(self, &target);
    return target;
}

/* End a wait without a look for jobs; a worker that was woken passes the wake on. */
static int leave_wait(Reader *self, bool woken, int result)
{
    if (woken && !self->closed && !self->forked)
        self->kind->worker->pass_on(self);
    return result;
}

/* Wait after a poll that found nothing: 1 poll again, 0 time is up, -1 an exception. */
static int wait_for_more(Reader *self, wait_state *state)
{
    wait_target target = reader_target(self);
    target.ready = ready;
    self->use = WAITING;
    int result = wait_some(state, &target);
    bool woken = state->asleep && self->kind->worker != NULL && !self->forked;
    state->asleep = false;
    if (woken && (result == -1 || self->closed))
        self->kind->worker->pass_on(self); /* now, while the memory is still mapped */
    else if (woken)
        self->kind->worker->woken(self);
    if (!end_of_wait(self, result != -1))
        return -1;
    if (result != 1 && state->slept && !check_replaced_now(self)) /* a sleep is long enough for this check */
        return leave_wait(self, woken, -1);
    if (!self->kind->usable(self))
        return leave_wait(self, woken, -1);
    return result == -2 ? leave_wait(self, woken, 0) : 1;
}

static inline bool rearm_if_asked(Reader *self);

int reader_wait(Reader *self, wait_state *state, const wait_target *target)
{
    self->use = WAITING;
    int result = wait_some(state, target);
    state->asleep = false;
    if (!end_of_wait(self, result != -1) || (result != 1 && state->slept && !check_replaced_now(self)) ||
        !self->kind->usable(self))
        return -1;
    return result;
}

bool reader_rearm(Reader *self)
{
    return rearm_if_asked(self);
}

void reader_set_waiting(Reader *self, bool waits)
{
    self->use = waits ? WAITING : IDLE;
    if (!waits && self->closed && !self->forked) /* closed during the wait */
        release_memory(self);
}

bool reader_check_replaced(Reader *self)
{
    return check_replaced_now(self);
}

void reader_look_again(Reader *self)
{
    self->idle = POLLS_TO_LOOK - 1;
}

/* fileno */

/* Arm the descriptor after a poll that found nothing: it becomes readable when there may be a message. False with an
   exception, also if the channel was replaced, but not the next time after that. */
static COLD bool rearm(Reader *self)
{
    const uint8_t *successor = self->data->base + self->shape.control + CONTROL_SUCCESSOR;
    if (self->told) {
        self->told = false;
    } else if ((LOAD32_RELAXED(successor) != 0 || notifier_found_nameless(self->notifier)) &&
               !check_replaced_now(self)) {
        self->told = true;
        return false;
    }
    wait_target target = reader_target(self);
    return notifier_arm(self->notifier, &target, 0) >= 0;
}

static inline bool rearm_if_asked(Reader *self)
{
    return LIKELY(self->notifier == NULL) || rearm(self);
}

static PyObject *reader_fileno(Reader *self, PyObject *ignored)
{
    (void)ignored;
    if (self->closed || self->forked)
        return raise_error("ClosedError", "(si)", self->kind->what, (int)self->forked);
    if (self->notifier == NULL && (self->notifier = notifier_new()) == NULL)
        return NULL;
    return PyLong_FromLong(notifier_fd(self->notifier));
}

/* For receive: whether the descriptor is armed, which means not readable. */
static PyObject *reader_is_armed(Reader *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->notifier != NULL && !self->closed && !self->forked &&
                           notifier_is_armed(self->notifier));
}

/* For async for: whether the iteration ends. */
static PyObject *reader_have_ended(Reader *self, PyObject *ignored)
{
    (void)ignored;
    if (reader_in_use(self))
        return NULL;
    return PyBool_FromLong(have_ended(self));
}

/* Reading */

/* Parse the argument limit. False with an exception. */
static bool parse_limit(const Reader *self, PyObject *object, Py_ssize_t *limit)
{
    Py_ssize_t least = self->kind->takes_limit_0 ? 0 : 1;
    *limit = PyNumber_AsSsize_t(object, NULL); /* limited to the range of Py_ssize_t */
    if (*limit == -1 && PyErr_Occurred())
        return false;
    if (*limit < least)
        raise_error("InvalidArgumentError", "(ss)", "limit",
                    least == 0 ? "must be 0 or more requests" : "must be 1 or more messages");
    return *limit >= least;
}

/* Whether a poll found nothing. A poll that its handler ended with ABORT did find a message. */
static inline bool found_nothing(Reader *self, Py_ssize_t done)
{
    if (done != 0 || LIKELY(!self->ended))
        return done == 0;
    self->ended = false;
    return false;
}

/* Whether the reader drains, so that it does not wait. */
static inline bool is_drained(const Reader *self)
{
    return __atomic_load_n(&self->drains, __ATOMIC_RELAXED);
}

/* The common part of poll and poll_arrays. */
static PyObject *poll_by(Reader *self, poll_function *poll, void *receiver, Py_ssize_t limit, int64_t timeout)
{
    if (!self->kind->usable(self))
        return NULL;
    Py_INCREF((PyObject *)self); /* a handler may drop the last reference */
    Py_ssize_t done = poll(self, receiver, limit);
    bool nothing = found_nothing(self, done);
    if (nothing && timeout != WAIT_NOT && limit != 0 && !is_drained(self)) {
        wait_state state;
        wait_begin(&state, self->wait, self->spin, timeout);
        for (int again = 1; nothing && again > 0 && !is_drained(self);) {
            if (!check_replaced_now_and_then(self) || (again = wait_for_more(self, &state)) < 0)
                done = again = -1;
            else if (again > 0)
                nothing = found_nothing(self, done = poll(self, receiver, limit));
        }
    } else if (nothing && !check_replaced_now_and_then(self)) {
        done = -1;
    }
    if (done > 0)
        self->idle = 0;
    else if (nothing && done == 0 && !rearm_if_asked(self))
        done = -1;
    Py_DECREF((PyObject *)self);
    return done < 0 ? NULL : PyLong_FromSsize_t(done);
}

ALWAYS_INLINE PyObject *poll_any(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names, Py_ssize_t limit)
{
    static const char *const parameters[] = {"handler", "limit", "timeout"};
    static const signature expected = {parameters, 3, 1};
    PyObject *values[3] = {NULL, NULL, NULL};
    int64_t timeout = WAIT_NOT;
    if (LIKELY(names == NULL && n >= 1 && n <= 3)) {
        for (Py_ssize_t i = 0; i < n; i++)
            values[i] = args[i];
    } else if (!parse_arguments(&expected, args, n, names, values)) {
        return reader_refuse(self);
    }
    if (!PyCallable_Check(values[0])) {
        PyErr_SetString(PyExc_TypeError, "handler must be callable");
        return reader_refuse(self);
    }
    if ((values[1] != NULL && !parse_limit(self, values[1], &limit)) ||
        (values[2] != NULL && (timeout = wait_timeout(values[2])) < 0))
        return reader_refuse(self);
    return poll_by(self, self->kind->poll, values[0], limit, timeout);
}

PyObject *reader_poll(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return poll_any(self, args, n, names, DEFAULT_POLL_LIMIT);
}

PyObject *reader_poll_up_to(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names, Py_ssize_t limit)
{
    return poll_any(self, args, n, names, limit);
}

int64_t reader_take_timeout(Reader *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"timeout"};
    static const signature expected = {parameters, 1, 0};
    PyObject *values[1] = {NULL};
    int64_t timeout = WAIT_NOT;
    if (!parse_arguments(&expected, args, n, names, values) ||
        (values[0] != NULL && (timeout = wait_timeout(values[0])) < 0)) {
        reader_refuse(self);
        return -1;
    }
    return timeout;
}

static inline PyObject *found_none(Reader *self)
{
    return rearm_if_asked(self) ? Py_NewRef(Py_None) : NULL;
}

PyObject *reader_take_waiting(Reader *self, int64_t timeout)
{
    if (PyErr_Occurred() || !check_replaced_now_and_then(self))
        return NULL;
    if (timeout == WAIT_NOT || is_drained(self))
        return found_none(self);
    wait_state state;
    wait_begin(&state, self->wait, self->spin, timeout);
    for (;;) {
        int again = wait_for_more(self, &state);
        if (again < 0)
            return NULL;
        PyObject *message = self->kind->take(self);
        if (message != NULL || PyErr_Occurred())
            return message;
        if (!check_replaced_now_and_then(self))
            return NULL;
        if (again == 0 || is_drained(self))
            return found_none(self);
    }
}

/* Iteration: wait for the next message. NULL without an exception: the end. */
PyObject *reader_next(Reader *self)
{
    if (!self->kind->usable(self))
        return NULL;
    wait_state state;
    wait_begin(&state, self->wait, self->spin, WAIT_UNLIMITED);
    for (;;) {
        PyObject *message = self->kind->take(self);
        if (message != NULL || PyErr_Occurred() || have_ended(self) || !check_replaced_now_and_then(self))
            return message;
        self->iterating = true;
        int again = wait_for_more(self, &state);
        self->iterating = false;
        if (again < 0)
            return NULL;
    }
}

/* Methods */

static PyObject *reader_set_spin(Reader *self, PyObject *seconds)
{
    int64_t spin = wait_spin(seconds);
    if (spin < 0 || reader_in_use(self))
        return reader_refuse(self);
    self->spin = spin;
    return Py_NewRef(Py_None);
}

PyObject *reader_poll_arrays(Reader *self, PyObject *const *args, Py_ssize_t n)
{
    array_poll poll;
    Py_ssize_t limit;
    int64_t timeout;
    if (!array_poll_parse(&poll, args, n) || !parse_limit(self, args[3], &limit) ||
        (timeout = wait_timeout(args[5])) < 0)
        return reader_refuse(self);
    return poll_by(self, self->kind->poll_arrays, &poll, limit, timeout);
}

int reader_find_ring(const Reader *self, PyObject *number)
{
    int overflow;
    long wanted = PyLong_AsLongAndOverflow(number, &overflow);
    if (wanted == -1 && PyErr_Occurred())
        return -1;
    for (int i = 0; i < self->count && overflow == 0; i++) {
        if (self->kind->ring_at(self, i).number == wanted)
            return i;
    }
    raise_error("InvalidArgumentError", "(ss)", "ring", "this subscriber did not choose that ring");
    return -1;
}

PyObject *reader_position(Reader *self, PyObject *number)
{
    int i = reader_find_ring(self, number);
    return i < 0 ? NULL : PyLong_FromLongLong(self->kind->ring_at(self, i).cursor);
}

PyObject *reader_ended(Reader *self, PyObject *number)
{
    if (self->closed || self->forked)
        return raise_error("ClosedError", "(si)", self->kind->what, (int)self->forked);
    int i = reader_find_ring(self, number);
    if (self->closed) /* converting the argument ran Python code, which closed it */
        return reader_refuse(self);
    if (i < 0 || !self->kind->owned(self))
        return NULL;
    ring_place at = self->kind->ring_at(self, i);
    return PyBool_FromLong(ring_ended(&self->shape, self->data->base, at.number, at.cursor));
}

bool reader_may_close(Reader *self)
{
    if (self->forked || self->closed)
        return true;
    if (self->use == BUSY) {
        raise_error("ViewAliveError", "(s)",
                    "close would unmap the message of a handler that runs; close when it has returned");
        return false;
    }
    if (self->kind->expire_messages(self))
        return true;
    reader_view_alive();
    return false;
}

static PyObject *reader_close(Reader *self, PyObject *ignored)
{
    (void)ignored;
    if (!reader_may_close(self))
        return NULL;
    reader_shut(self);
    return Py_NewRef(Py_None);
}

PyObject *reader_get_rings(Reader *self, void *ignored)
{
    (void)ignored;
    PyObject *rings = PyTuple_New(self->count);
    for (int i = 0; rings != NULL && i < self->count; i++) {
        PyObject *number = PyLong_FromLong(self->kind->ring_at(self, i).number);
        if (number == NULL || PyTuple_SetItem(rings, i, number) < 0)
            Py_CLEAR(rings);
    }
    return rings;
}

static PyObject *get_closed(Reader *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->closed || self->forked);
}

const char reader_poll_text[] =
    "poll($self, /, handler, limit=256, timeout=0)\n--\n\n"
    "Calls ``handler(message)`` for each waiting message, at most ``limit`` of them. Returns how many were\n"
    "handled. If there is none, waits up to ``timeout`` seconds for the first (0: does not wait; None: no\n"
    "limit).\n\n"
    "A message is valid until its handler returns. It lies in the ring; for a lossy subscriber it is a private\n"
    "copy. A message whose handler raises counts as consumed, and the exception reaches the caller.\n\n"
    "The handler returns None or a ``flyring.Action``: COMMIT (messages handled so far count as read from now\n"
    "on), BREAK (the poll ends), or ABORT (the poll ends; this message is neither consumed nor counted, and\n"
    "the next poll begins with it). Anything else raises InvalidArgumentError, and the message counts as\n"
    "consumed.";
const char reader_take_text[] =
    "take($self, /, timeout=0)\n--\n\n"
    "Returns one message that owns its bytes, or None if none came within ``timeout`` seconds (0: does not\n"
    "wait; None: no limit).";

const char reader_position_text[] =
    "position($self, ring, /)\n--\n\n"
    "Returns the position of this reader in the given ring, in bytes. Raises InvalidArgumentError if the\n"
    "reader did not choose that ring.";
const char reader_ended_text[] =
    "ended($self, ring, /)\n--\n\n"
    "Returns whether the ring's publisher has closed and all its messages are consumed. A later publisher in\n"
    "the same ring makes it False again. Raises InvalidArgumentError if the reader did not choose that ring.";

/* reader_refuse for methods in Python: raises the errors that come before those of arguments. */
static PyObject *reader_check_idle(Reader *self, PyObject *ignored)
{
    (void)ignored;
    reader_refuse(self);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"_check_idle", (PyCFunction)reader_check_idle, METH_NOARGS,
     "raises the errors that come before those of arguments"},
    {"_is_armed", (PyCFunction)reader_is_armed, METH_NOARGS, "for receive"},
    {"_have_ended", (PyCFunction)reader_have_ended, METH_NOARGS, "for async for"},
    {"fileno", (PyCFunction)reader_fileno, METH_NOARGS,
     "fileno($self, /)\n--\n\n"
     "Returns a file descriptor for select, epoll and event loops. It is readable while there may be messages.\n"
     "A ``poll`` or ``take`` that finds nothing makes it unreadable; do not read from it. It lives as long as\n"
     "this object."},
    {"set_spin", (PyCFunction)reader_set_spin, METH_O,
     "set_spin($self, spin, /)\n--\n\n"
     "Sets how long a wait with ``wait=\"block\"`` spins before it sleeps, in seconds. The default is 0.00002."},
    {"close", (PyCFunction)reader_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Gives the slot back, if the reader has one. A kept slot keeps its position; any other stops holding\n"
     "publishers back. Closing twice does nothing. Raises ViewAliveError inside a handler, and while a\n"
     "memoryview or array of a message is alive. A thread that waits in this reader gets ClosedError."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"closed", (getter)get_closed, NULL, "True after close, and in a forked child", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Reader", sizeof(Reader), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

/* Called when the module is loaded. False with an exception. */
static bool load_actions(void)
{
    static const char *const names[] = {"CONTINUE", "COMMIT", "BREAK", "ABORT"};
    PyObject *module = PyImport_ImportModule("flyring.action");
    PyObject *type = module == NULL ? NULL : PyObject_GetAttrString(module, "Action");
    for (int i = HANDED; type != NULL && i <= ABORT; i++)
        actions[i] = PyObject_GetAttrString(type, names[i]);
    Py_XDECREF(type);
    Py_XDECREF(module);
    return actions[ABORT] != NULL;
}

PyTypeObject *make_reader_type(PyObject *module)
{
    if (!load_actions())
        return NULL;
    return reader_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
