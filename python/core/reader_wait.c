/* SPDX-License-Identifier: Apache-2.0 */
/* Readers wait for messages: in a poll, take or iteration, and through a file descriptor. */
#include "reader_parts.h"

/* The words in which the reader announces its sleep. */
static waiting_words words_of(const Reader *self)
{
    if (self->kind->worker != NULL)
        return jobs_words(&self->shape, self->memory->base);
    return data_words(&self->shape, self->memory != NULL ? self->memory->base : self->data->base);
}

/* End the state WAITING. False with an exception; if `fine`, this function raises it. */
static bool end_of_wait(Reader *self, bool fine)
{
    self->use = IDLE;
    if (!self->closed && !self->forked)
        return fine;
    if (!self->forked) /* closed by another thread, which left the memory to this one */
        reader_release_memory(self);
    if (fine) /* or a signal's handler forked, and this is the child */
        raise_error("ClosedError", "(si)", self->kind->what, (int)self->forked);
    return false;
}

COLD bool reader_check_replaced(Reader *self)
{
    self->idle = 0;
    self->use = WAITING;
    bool fine = check_replaced((PyObject *)self, self->file);
    return end_of_wait(self, fine);
}

bool reader_have_ended(const Reader *self)
{
    bool any = false;
    if (self->kind->worker != NULL)
        return self->kind->worker->ended(self);
    if (self->kind->ended != NULL)
        return self->kind->ended(self);
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
    if (is_ready(self) || (self->iterating && reader_have_ended(self)))
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

COLD void reader_wake_waiting(Reader *self)
{
    waiting_words words = reader_target(self).words;
    if (self->memory != NULL)
        wake_all(words);
    else
        wake_sleepers(words.sequence, ALL_RINGS); /* read-only: stores nothing, but the sleepers look again */
}

/* End a wait without a look for jobs; a worker that was woken passes the wake on. */
static int leave_wait(Reader *self, bool woken, int result)
{
    if (woken && !self->closed && !self->forked)
        self->kind->worker->pass_on(self);
    return result;
}

int reader_wait_for_more(Reader *self, wait_state *state)
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
    if (result != 1 && state->slept && !reader_check_replaced(self)) /* a sleep is long enough for this check */
        return leave_wait(self, woken, -1);
    if (!self->kind->usable(self))
        return leave_wait(self, woken, -1);
    return result == -2 ? leave_wait(self, woken, 0) : 1;
}

int reader_wait(Reader *self, wait_state *state, const wait_target *target)
{
    self->use = WAITING;
    int result = wait_some(state, target);
    state->asleep = false;
    if (!end_of_wait(self, result != -1) || (result != 1 && state->slept && !reader_check_replaced(self)) ||
        !self->kind->usable(self))
        return -1;
    return result;
}

void reader_set_waiting(Reader *self, bool waits)
{
    self->use = waits ? WAITING : IDLE;
    if (!waits && self->closed && !self->forked) /* closed during the wait */
        reader_release_memory(self);
}

void reader_look_again(Reader *self)
{
    self->idle = POLLS_TO_LOOK - 1;
}

COLD bool reader_arm(Reader *self)
{
    const uint8_t *successor = self->data->base + self->shape.control + CONTROL_SUCCESSOR;
    if (self->told) {
        self->told = false;
    } else if ((LOAD32_RELAXED(successor) != 0 || notifier_found_nameless(self->notifier)) &&
               !reader_check_replaced(self)) {
        self->told = true;
        return false;
    }
    wait_target target = reader_target(self);
    return notifier_arm(self->notifier, &target, 0) >= 0;
}

PyObject *reader_fileno(Reader *self, PyObject *ignored)
{
    (void)ignored;
    if (self->closed || self->forked)
        return raise_error("ClosedError", "(si)", self->kind->what, (int)self->forked);
    if (self->notifier == NULL && (self->notifier = notifier_new()) == NULL)
        return NULL;
    return PyLong_FromLong(notifier_fd(self->notifier));
}

PyObject *reader_is_armed(Reader *self, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->notifier != NULL && !self->closed && !self->forked &&
                           notifier_is_armed(self->notifier));
}
