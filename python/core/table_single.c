/* SPDX-License-Identifier: Apache-2.0 */
/* One change that takes the writer's slot for itself, and gives it back (spec/table.md 5.1). */
#include "table_types.h"

#define SLOT_RETRY_NS 1000000 /* take 1 */

static int64_t slot_lock(const Table *self)
{
    return self->map.control + TABLE_CONTROL_SLOT + CONTROL_SLOT_LOCK - self->map.base;
}

/* The description for the lock of single changes. False with an exception. */
static bool make_lock(Table *self)
{
    if (self->lock != NULL && file_is_ours(self->lock))
        return true;
    Py_CLEAR(self->lock);
    self->lock = (File *)PyObject_CallMethod((PyObject *)self->file, "reopen", NULL);
    if (self->lock != NULL)
        return true;
    PyErr_Clear();
    raise_error("ClosedError", "(sis)", "table", 0, "its descriptor was closed by other code; open the table again");
    return false;
}

/* Lock the slot (take 1). 1 locked, 0 the time has passed, -1 an exception. */
static int lock_slot(Table *self, int64_t timeout)
{
    int64_t began = now_ns();
    for (;;) {
        if (!make_lock(self))
            return -1;
        if (lock_try(self->lock, slot_lock(self)))
            return 1;
        if (timeout != WAIT_UNLIMITED && now_ns() - began >= timeout)
            return 0;
        Py_BEGIN_ALLOW_THREADS
        struct timespec pause = {0, SLOT_RETRY_NS};
        nanosleep(&pause, NULL);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0 || !table_is_open(self))
            return -1;
        if (self->changing) {
            raise_error("TwoThreadsError", "(s)", "table");
            return -1;
        }
    }
}

/* What the slot's new owner does before the epoch: it follows a grown table, and recovers after another boot (take 2).
   1 done, 0 the table is another one now, -1 an exception. */
static int prepare(Table *self)
{
    Memory *before = self->memory;
    bool good = true;
    self->changing = true;
    if (UNLIKELY(LOAD32_RELAXED(self->map.control + TABLE_CONTROL_SUCCESSOR) != 0))
        good = table_call(self, "_check_replaced");
    if (good && self->memory == before)
        good = table_call(self, "_renew_boot");
    self->changing = false;
    return !good || !table_is_open(self) ? -1 : self->memory == before;
}

bool single_begin(Table *self, int64_t timeout, table_change *change)
{
    if (!table_is_open(self))
        return false;
    if (self->changing) {
        raise_error("TwoThreadsError", "(s)", "table");
        return false;
    }
    if (!self->writable) {
        raise_error("AccessDeniedError", "(Os)", self->path, "the table was opened for reading only");
        return false;
    }
    if (UNLIKELY(self->wakes && !self->registered))
        self->registered = register_waker();
    for (;;) {
        int got = lock_slot(self, timeout);
        if (got < 0)
            return false;
        if (got == 0) {
            table_call(self, "_raise_no_free_slot");
            return false;
        }
        bool special = !self->ready || LOAD32_RELAXED(self->map.control + TABLE_CONTROL_SUCCESSOR) != 0;
        int prepared = UNLIKELY(special) ? prepare(self) : 1;
        if (prepared == 1)
            break;
        if (self->lock != NULL)
            single_end(self);
        if (prepared < 0)
            return false;
    }
    *change = (table_change){.map = &self->map, .wakes = self->wakes, .registered = self->registered};
    change_result result = table_take(change, false);
    if (LIKELY(result == CHANGE_DONE))
        return true;
    single_end(self);
    change_raise(self, result, change);
    return false;
}

void single_end(Table *self)
{
    lock_release(self->lock, slot_lock(self));
}
