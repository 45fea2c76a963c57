/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of Table: each takes the writer's slot for itself and gives it back (spec/table.md 5.1). "take 1" is step 1
   of the operation take there. */
#include "arguments.h"
#include "table_types.h"

#define SLOT_RETRY_NS 1000000 /* between two tries to lock the slot (take 1) */

/* The offset of the slot's lock in the file. */
static int64_t slot_lock(const Table *self)
{
    return self->map.control + TABLE_CONTROL_SLOT + CONTROL_SLOT_LOCK - self->map.base;
}

/* Open the file once more for the lock of single changes, if that is not done yet. False with an exception. */
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

/* Lock the slot (take 1). Returns 1 if it is locked, 0 at the time-out, -1 with an exception. */
static int lock_slot(Table *self, int64_t timeout)
{
    int64_t began = now_ns();
    for (;;) {
        /* Another thread may hold the slot by `lock` and run Python code. The lock does not keep this thread out. */
        if (LIKELY(self->changing == 0)) {
            if (!make_lock(self))
                return -1;
            if (lock_try(self->lock, slot_lock(self)))
                return 1;
        }
        if (timeout != WAIT_UNLIMITED && now_ns() - began >= timeout)
            return 0;
        Py_BEGIN_ALLOW_THREADS
        struct timespec pause = {0, SLOT_RETRY_NS};
        nanosleep(&pause, NULL);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0 || !table_is_open(self))
            return -1;
    }
}

/* Do what is rarely needed before the slot's new owner stores its epoch: switch to a grown file, recover the table
   after a reboot, clear `clean` (take 2). Other threads run meanwhile. Returns 1 when done, 0 if the table has switched
   to another file, -1 with an exception. */
static int prepare(Table *self)
{
    Memory *before = self->memory;
    bool good = true;
    self->changing = PyThread_get_thread_ident();
    if (UNLIKELY(table_has_successor(self)))
        good = table_call(self, "_settle_successor");
    if (good && self->memory == before)
        good = table_call(self, "_renew_boot");
    self->changing = 0;
    return !good || !table_is_open(self) ? -1 : self->memory == before;
}

bool single_ready(Table *self)
{
    if (UNLIKELY(!table_is_open(self) || !table_no_handler(self, true)))
        return false;
    if (LIKELY(self->changing == 0 || self->changing != PyThread_get_thread_ident()))
        return true;
    raise_error("TwoThreadsError", "(s)", "table"); /* called by `recovery_progress`, during the recovery */
    return false;
}

bool single_allowed(Table *self)
{
    if (UNLIKELY(!single_ready(self)))
        return false;
    if (UNLIKELY(!self->writable))
        raise_error("AccessDeniedError", "(Os)", self->path,
                    "the table was opened for reading only; open it for writing");
    else if (UNLIKELY(self->held > 0))
        raise_error("BusyError", "(Oii)", Py_None, 0, 1);
    else
        return true;
    return false;
}

bool single_begin(Table *self, int64_t timeout, table_change *change)
{
    if (!single_allowed(self))
        return false;
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
        bool special =
            !self->renewed || table_has_successor(self) || LOAD32_RELAXED(self->map.control + TABLE_CONTROL_CLEAN) != 0;
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

/* The methods of Table that change it */

/* Parse the time-out of a change; the default is None: no limit. */
static bool parse_timeout(PyObject *seconds, int64_t *timeout)
{
    *timeout = WAIT_UNLIMITED;
    return seconds == NULL || (*timeout = wait_timeout(seconds)) >= 0;
}

/* A put as a change of its own. */
static PyObject *put(Table *self, PyObject *object, PyObject *given, int64_t expected, int64_t timeout)
{
    given_key key;
    given_value value;
    table_change change;
    PyObject *result = NULL;
    if (!single_ready(self) || !key_given(self, object, &key))
        return NULL;
    if (value_given(self, given, &value)) {
        if (single_begin(self, timeout, &change)) {
            change_result done = table_put(&change, &key.key, value.bytes, value.length, expected);
            single_end(self);
            result = change_raise(self, done, &change);
        }
        value_done(&value);
    }
    key_done(&key);
    return result;
}

static PyObject *remove_key(Table *self, PyObject *object, int64_t timeout)
{
    given_key key;
    table_change change;
    PyObject *result = NULL;
    if (!single_ready(self) || !key_given(self, object, &key))
        return NULL;
    if (single_begin(self, timeout, &change)) {
        change_result done = table_remove(&change, &key.key);
        single_end(self);
        result = change_raise(self, done, &change);
    }
    key_done(&key);
    return result;
}

PyObject *table_put_given(Table *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"key", "value", "timeout"};
    const signature expected = {parameters, 3, 2};
    PyObject *values[3] = {NULL, NULL, NULL};
    int64_t timeout;
    if (!parse_arguments(&expected, args, n, names, values) || !parse_timeout(values[2], &timeout))
        return NULL;
    return put(self, values[0], values[1], ANY_VERSION, timeout);
}

PyObject *table_put_if_absent(Table *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"key", "value", "timeout"};
    const signature expected = {parameters, 3, 2};
    PyObject *values[3] = {NULL, NULL, NULL};
    int64_t timeout;
    if (!parse_arguments(&expected, args, n, names, values) || !parse_timeout(values[2], &timeout))
        return NULL;
    return put(self, values[0], values[1], 0, timeout);
}

PyObject *table_compare_and_put(Table *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"key", "version", "value", "timeout"};
    const signature expected = {parameters, 4, 3};
    PyObject *values[4] = {NULL, NULL, NULL, NULL};
    int64_t timeout, version;
    if (!parse_arguments(&expected, args, n, names, values) || !parse_timeout(values[3], &timeout) ||
        !table_parse_version(values[1], &version))
        return NULL;
    return put(self, values[0], values[2], version, timeout);
}

PyObject *table_remove_given(Table *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"key", "timeout"};
    const signature expected = {parameters, 2, 1};
    PyObject *values[2] = {NULL, NULL}, *version;
    int64_t timeout;
    if (!parse_arguments(&expected, args, n, names, values) || !parse_timeout(values[1], &timeout) ||
        (version = remove_key(self, values[0], timeout)) == NULL)
        return NULL;
    PyObject *was_there = PyBool_FromLong(PyObject_IsTrue(version));
    Py_DECREF(version);
    return was_there;
}

int table_assign(Table *self, PyObject *object, PyObject *given)
{
    PyObject *version = given != NULL ? put(self, object, given, ANY_VERSION, WAIT_UNLIMITED)
                                      : remove_key(self, object, WAIT_UNLIMITED);
    if (version == NULL)
        return -1;
    bool absent = given == NULL && PyObject_IsTrue(version) == 0;
    Py_DECREF(version);
    if (absent)
        PyErr_SetObject(PyExc_KeyError, object);
    return absent ? -1 : 0;
}
