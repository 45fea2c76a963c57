/* SPDX-License-Identifier: Apache-2.0 */
/* LockFile: an open file description that carries one slot's lock and nothing else (spec 5.1): never mapped, duplicated
   or passed on, and closed in the child of a fork before anything else can run there. */
#define _GNU_SOURCE /* F_OFD_SETLK */
#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

PyTypeObject *lock_file_type;

/* Whether the descriptor is what we opened: code elsewhere in the process may have closed it (closefrom, close_range);
   then the lock is gone, and the number perhaps another file's. */
static bool is_ours(const LockFile *self)
{
    struct stat status;
    return self->fd >= 0 && fstat(self->fd, &status) == 0 && status.st_dev == self->device &&
           status.st_ino == self->inode;
}

static void lock_forked(fork_node *node)
{
    LockFile *self = (LockFile *)((char *)node - offsetof(LockFile, node));
    if (is_ours(self))
        close(self->fd);
    self->fd = -1;
}

static PyObject *lock_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", NULL};
    PyObject *path;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&:LockFile", names, PyUnicode_FSConverter, &path))
        return NULL;
    LockFile *self = (LockFile *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self != NULL) {
        self->fd = -1;
        fork_add(&self->node, lock_forked);
        /* Under the lock that fork takes: no child is made between the open and its registration. */
        fork_lock();
        self->fd = open(PyBytes_AsString(path), O_RDWR | O_CLOEXEC);
        int error = errno;
        fork_unlock();
        struct stat status;
        if (self->fd >= 0 && fstat(self->fd, &status) == 0) {
            self->device = status.st_dev;
            self->inode = status.st_ino;
        }
        if (self->fd < 0) {
            errno = error;
            PyErr_SetFromErrnoWithFilename(PyExc_OSError, PyBytes_AsString(path));
            Py_DECREF(self);
            self = NULL;
        }
    }
    Py_DECREF(path);
    return (PyObject *)self;
}

static bool lock_set(LockFile *self, short type, int64_t at, int64_t length)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = length};
    return is_ours(self) && fcntl(self->fd, F_OFD_SETLK, &range) == 0;
}

bool lock_try(LockFile *self, int64_t at)
{
    return lock_set(self, F_WRLCK, at, 1);
}

void lock_release(LockFile *self, int64_t at)
{
    lock_set(self, F_UNLCK, at, 1);
}

void lock_shut(LockFile *self)
{
    fork_lock();
    if (is_ours(self)) {
        /* Explicitly, so that a description which a child still holds cannot keep the lock. */
        lock_set(self, F_UNLCK, 0, 0);
        close(self->fd);
    }
    self->fd = -1;
    fork_unlock();
}

static PyObject *lock_close(LockFile *self, PyObject *ignored)
{
    (void)ignored;
    lock_shut(self);
    return Py_NewRef(Py_None);
}

static PyObject *lock_fileno(LockFile *self, PyObject *ignored)
{
    (void)ignored;
    if (!is_ours(self))
        return raise_error("ClosedError", "(s)", "lock");
    return PyLong_FromLong(self->fd);
}

static void lock_dealloc(LockFile *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    lock_shut(self);
    fork_remove(&self->node);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"fileno", (PyCFunction)lock_fileno, METH_NOARGS, "fileno() -> int, for fcntl only"},
    {"close", (PyCFunction)lock_close, METH_NOARGS, "close(): unlocks everything and closes; twice is fine"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "LockFile(path): a file description of its own for locks."},
    {Py_tp_new, lock_new},
    {Py_tp_dealloc, lock_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.LockFile", sizeof(LockFile), 0, Py_TPFLAGS_DEFAULT, slots};

PyTypeObject *make_lock_file_type(PyObject *module)
{
    return lock_file_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
