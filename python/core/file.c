/* SPDX-License-Identifier: Apache-2.0 */
/* File: an object that owns a descriptor, and closes it with its last reference. In a forked child the descriptor is
   closed before any other code runs. A description that holds a slot's lock (spec/channel.md 5.1) is never mapped,
   duplicated or passed on. */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "file.h"
#include "arguments.h"
#include "wait.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

PyTypeObject *file_type;
static PyTypeObject *held_type;

#define HOLD_RETRY_NS 100000 /* 5.1 */
#define MOST_MARK_BITS 40 /* the mark is below 2^40 (5.1) */
#define LEAST_MARK_BITS 33 /* an ext4 without extents ends at 2^34 */

bool file_is_ours(const File *self)
{
    return self->fd >= 0 && (self->mark == 0 || lseek(self->fd, 0, SEEK_CUR) == self->mark);
}

/* Give the description a random file offset, by which it differs from other descriptions with the same number. False
   with errno. */
static bool set_mark(File *self)
{
    struct stat status;
    int64_t random = 0;
    if (fstat(self->fd, &status) < 0)
        return false;
    if (!S_ISREG(status.st_mode))
        return true; /* not a regular file: the caller refuses and closes it */
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return false;
    for (int bits = MOST_MARK_BITS; bits >= LEAST_MARK_BITS; bits--) { /* file systems have different limits */
        int64_t top = INT64_C(1) << (bits - 1);
        self->mark = top | (random & (top - 1));
        if (lseek(self->fd, self->mark, SEEK_SET) == self->mark)
            return true;
        if (errno != EINVAL)
            break;
    }
    self->mark = 0;
    return false;
}

static void file_forked(fork_node *node)
{
    File *self = (File *)((char *)node - offsetof(File, node));
    if (file_is_ours(self))
        close(self->fd);
    self->fd = -1;
}

/* Open a file. NULL with an exception: OSError with the path. */
static File *file_open(PyTypeObject *type, const char *path, int flags, int mode)
{
    File *self = (File *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->fd = -1;
    fork_add(&self->node, file_forked);
    bool done;
    int error;
    do {
        /* Under the lock that fork takes, so that no child is made between the open and its registration. */
        fork_lock();
        self->fd = open(path, flags | O_CLOEXEC, mode);
        done = self->fd >= 0 && set_mark(self);
        error = errno;
        fork_unlock();
    } while (!done && self->fd < 0 && error == EINTR && PyErr_CheckSignals() == 0);
    if (done)
        return self;
    if (!PyErr_Occurred()) {
        errno = error;
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
    }
    Py_DECREF(self);
    return NULL;
}

static PyObject *file_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "flags", "mode", NULL};
    PyObject *path;
    int flags, mode = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&i|i:File", names, PyUnicode_FSConverter, &path, &flags, &mode))
        return NULL;
    File *self = file_open(type, PyBytes_AsString(path), flags, mode);
    Py_DECREF(path);
    return (PyObject *)self;
}

/* Set or release a lock. Returns 0 or errno. */
static int lock_set(const File *self, short type, int64_t at, int64_t length)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = length};
    if (!file_is_ours(self))
        return EBADF;
    int error;
    do
        error = fcntl(self->fd, F_OFD_SETLK, &range) == 0 ? 0 : errno;
    while (error == EINTR);
    return error;
}

bool lock_try(File *self, int64_t at)
{
    return lock_set(self, F_WRLCK, at, 1) == 0;
}

void lock_release(File *self, int64_t at)
{
    lock_set(self, F_UNLCK, at, 1);
}

int lock_find(const File *self, int64_t *at, int64_t *length)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = *at, .l_len = *length};
    while (fcntl(self->fd, F_OFD_GETLK, &range) != 0)
        if (errno != EINTR)
            return -1;
    *at = range.l_start;
    *length = range.l_len;
    return range.l_type != F_UNLCK;
}

int lock_test(const File *self, int64_t at, int64_t length)
{
    return lock_find(self, &at, &length);
}

bool lock_is_held(const File *self, int64_t at)
{
    return file_is_ours(self) && lock_test(self, at, 1) == 1;
}

bool lock_is_free(const File *self, int64_t at)
{
    return file_is_ours(self) && lock_test(self, at, 1) == 0;
}

bool file_is_nameless(const File *file)
{
    struct stat status;
    return file_is_ours(file) && fstat(file->fd, &status) == 0 && status.st_nlink == 0;
}

/* Every sleep ends with this check, so it calls Python only if the file has no name any more: the call takes longer
   than the rest. */
bool check_replaced(PyObject *self, const File *file)
{
    struct stat status;
    if (file_is_ours(file) && fstat(file->fd, &status) == 0 && status.st_nlink > 0)
        return true;
    PyObject *done = PyObject_CallMethod(self, "_check_replaced", NULL);
    Py_XDECREF(done);
    return done != NULL;
}

void file_shut(File *self)
{
    fork_lock();
    if (file_is_ours(self)) {
        /* Explicitly, because a child may still hold the description, and with it the locks. */
        lock_set(self, F_UNLCK, 0, 0);
        close(self->fd);
    }
    self->fd = -1;
    fork_unlock();
}

static PyObject *raise_errno(int error)
{
    errno = error;
    return PyErr_SetFromErrno(PyExc_OSError);
}

static PyObject *file_close(File *self, PyObject *ignored)
{
    (void)ignored;
    file_shut(self);
    return Py_NewRef(Py_None);
}

static PyObject *file_fileno(File *self, PyObject *ignored)
{
    (void)ignored;
    if (!file_is_ours(self))
        return raise_error("ClosedError", "(s)", "file");
    return PyLong_FromLong(self->fd);
}

static PyObject *file_reopen(File *self, PyObject *ignored)
{
    (void)ignored;
    char path[40];
    if (!file_is_ours(self))
        return raise_errno(EBADF);
    snprintf(path, sizeof path, "/proc/self/fd/%d", self->fd);
    return (PyObject *)file_open(Py_TYPE((PyObject *)self), path, O_RDWR, 0);
}

/* Try to lock a byte: 1 locked, 0 another description holds the lock, -1 an exception. */
static int try_lock(File *self, int64_t at)
{
    int error = lock_set(self, F_WRLCK, at, 1);
    if (error != 0 && error != EAGAIN && error != EACCES)
        raise_errno(error);
    return error == 0 ? 1 : PyErr_Occurred() ? -1 : 0;
}

static PyObject *file_try_lock(File *self, PyObject *number)
{
    int64_t at = PyLong_AsLongLong(number);
    if (at == -1 && PyErr_Occurred())
        return NULL;
    int got = try_lock(self, at);
    return got < 0 ? NULL : PyBool_FromLong(got);
}

static PyObject *file_unlock(File *self, PyObject *number)
{
    int64_t at = PyLong_AsLongLong(number);
    if (at == -1 && PyErr_Occurred())
        return NULL;
    lock_release(self, at);
    return Py_NewRef(Py_None);
}

static PyObject *file_is_locked(File *self, PyObject *args)
{
    long long at, length = 1;
    if (!PyArg_ParseTuple(args, "L|L:is_locked", &at, &length))
        return NULL;
    if (!file_is_ours(self))
        return raise_errno(EBADF);
    int held = lock_test(self, at, length);
    return held < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyBool_FromLong(held);
}

static PyObject *file_get_ours(File *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(file_is_ours(self));
}

static void file_dealloc(File *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    file_shut(self);
    fork_remove(&self->node);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* A lock that is held until this object's `with` block ends or the object is freed. So every exception releases it,
   even a KeyboardInterrupt between two instructions. */
typedef struct {
    PyObject_HEAD
    File *file; /* NULL: released */
    int64_t at;
} Held;

static PyObject *file_hold(File *self, PyObject *args)
{
    long long at;
    double patience;
    if (!PyArg_ParseTuple(args, "Ld:hold", &at, &patience))
        return NULL;
    Held *held = PyObject_New(Held, held_type); /* before the lock, because nothing may fail after it */
    if (held == NULL)
        return NULL;
    held->file = NULL;
    held->at = at;
    int64_t give_up = now_ns() + (int64_t)(patience * 1e9);
    int got;
    while ((got = try_lock(self, at)) == 0 && now_ns() < give_up) {
        Py_BEGIN_ALLOW_THREADS
        struct timespec pause = {0, HOLD_RETRY_NS};
        nanosleep(&pause, NULL);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0) {
            got = -1;
            break;
        }
    }
    if (got == 1) {
        held->file = (File *)Py_NewRef((PyObject *)self);
        return (PyObject *)held;
    }
    Py_DECREF(held);
    return got < 0 ? NULL : Py_NewRef(Py_None);
}

static void held_release(Held *self)
{
    if (self->file == NULL)
        return;
    lock_release(self->file, self->at);
    Py_CLEAR(self->file);
}

static PyObject *held_enter(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_NewRef(self);
}

static PyObject *held_exit(Held *self, PyObject *const *args, Py_ssize_t n)
{
    (void)args, (void)n;
    held_release(self);
    return Py_NewRef(Py_None);
}

static void held_dealloc(Held *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    held_release(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef held_methods[] = {
    {"__enter__", held_enter, METH_NOARGS, NULL},
    {"__exit__", FAST(held_exit), "Unlocks."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot held_slots[] = {
    {Py_tp_doc, "A lock that is held until its ``with`` ends, or the object goes."},
    {Py_tp_dealloc, held_dealloc},
    {Py_tp_methods, held_methods},
    {0, NULL},
};

static PyType_Spec held_spec = {"flyring._core.Held", sizeof(Held), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, held_slots};

static PyMethodDef methods[] = {
    {"fileno", (PyCFunction)file_fileno, METH_NOARGS,
     "fileno() -> int. ClosedError also if other code closed it (closefrom)."},
    {"reopen", (PyCFunction)file_reopen, METH_NOARGS,
     "reopen() -> File: a description of its own of the same file, for reading and writing. OSError."},
    {"try_lock", (PyCFunction)file_try_lock, METH_O,
     "try_lock(at) -> bool: takes the lock on this byte of the file unless another description has it. OSError."},
    {"unlock", (PyCFunction)file_unlock, METH_O, "unlock(at): never fails"},
    {"is_locked", (PyCFunction)file_is_locked, METH_VARARGS,
     "is_locked(at, length=1) -> bool: whether another description has a lock on one of these bytes. OSError."},
    {"hold", (PyCFunction)file_hold, METH_VARARGS,
     "hold(at, patience) -> Held | None: takes the lock on this byte, for a ``with``, or not within so many seconds.\n"
     "OSError."},
    {"close", (PyCFunction)file_close, METH_NOARGS, "close(): unlocks everything and closes; twice is fine"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"ours", (getter)file_get_ours, NULL, "False if it was closed, also by other code (closefrom)", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "File(path, flags, mode=0): an open file, which closes itself."},
    {Py_tp_new, file_new},
    {Py_tp_dealloc, file_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.File", sizeof(File), 0, Py_TPFLAGS_DEFAULT, slots};

PyTypeObject *make_file_type(PyObject *module)
{
    return file_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}

PyTypeObject *make_held_type(PyObject *module)
{
    return held_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &held_spec, NULL);
}
