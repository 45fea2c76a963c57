/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: a mapping with atomic access by offset, for slots, counters and header, which are not on the data path. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "memory.h"
#include "arguments.h"
#include "layout.h"
#include "waiting.h"

#include <sys/mman.h>

PyTypeObject *memory_type;

#define POPULATE_READ 22 /* of madvise, Linux 5.14 */
#define POPULATE_WRITE 23

/* In a forked child, replace the mapping by private zeros at the same address. Inherited views can then neither read
   nor damage the parent's channel, and the child does not keep its file alive. */
static void memory_forked(fork_node *node)
{
    Memory *self = (Memory *)((char *)node - offsetof(Memory, node));
    self->forked = true;
    if (self->base != NULL) {
        int protection = self->writable ? PROT_READ | PROT_WRITE : PROT_READ;
        mmap(self->base, (size_t)self->length, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0);
    }
}

/* Map the file, with self->guard inaccessible bytes on each side. False with errno. */
static bool map(Memory *self, int fd)
{
    size_t guard = self->guard, length = (size_t)self->length;
    int protection = self->writable ? PROT_READ | PROT_WRITE : PROT_READ, fixed = 0;
    uint8_t *outer = NULL;
    if (guard != 0) {
        outer = mmap(NULL, length + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (outer == MAP_FAILED)
            return false;
        outer += guard;
        fixed = MAP_FIXED;
    }
    fork_lock(); /* no child is made between the mapping and its registration */
    uint8_t *base = mmap(outer, length, protection, MAP_SHARED | fixed, fd, 0);
    if (base != MAP_FAILED)
        self->base = base;
    fork_unlock();
    return base != MAP_FAILED;
}

static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"file", "length", "writable", "path", "guard", NULL};
    PyObject *file, *path = NULL;
    int writable;
    long long length;
    Py_ssize_t guard = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!Lp|O!n:Memory", names, file_type, &file, &length, &writable,
                                     &PyUnicode_Type, &path, &guard))
        return NULL;
    if (length < 1 || guard < 0 || !file_is_ours((File *)file)) {
        PyErr_SetString(PyExc_ValueError, "not an open file, a length and a guard");
        return NULL;
    }
    Memory *self = (Memory *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    self->path = path != NULL ? Py_NewRef(path) : PyUnicode_FromString("the file");
    self->length = length;
    self->writable = writable;
    self->guard = (size_t)guard;
    fork_add(&self->node, memory_forked);
    if (!map(self, ((File *)file)->fd)) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void memory_release(Memory *self)
{
    self->closed = true;
    if (self->users == 0 && self->base != NULL) {
        fork_lock(); /* a fork must not remap addresses that were released */
        uint8_t *base = self->base;
        self->base = NULL;
        munmap(base - self->guard, (size_t)self->length + 2 * self->guard);
        fork_unlock();
    }
}

void memory_use(Memory *self)
{
    Py_INCREF((PyObject *)self);
    self->users++;
}

void memory_unuse(Memory *self)
{
    self->users--;
    if (self->closed)
        memory_release(self);
    Py_DECREF((PyObject *)self);
}

static void memory_dealloc(Memory *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    fork_remove(&self->node);
    memory_release(self);
    Py_XDECREF(self->path);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

bool memory_covers(Memory *self, int64_t offset, int64_t length)
{
    if (self->closed || self->forked) {
        raise_error("ClosedError", "(si)", "channel", (int)self->forked);
        return false;
    }
    if (offset < 0 || length < 0 || offset > self->length || length > self->length - offset) {
        PyErr_Format(PyExc_IndexError, "[%lld, +%lld) is not in the %lld bytes mapped", (long long)offset,
                     (long long)length, (long long)self->length);
        return false;
    }
    return true;
}

static void memory_read_only(Memory *self)
{
    raise_error("AccessDeniedError", "(Os)", self->path, "the channel was opened for reading only");
}

static bool integer(PyObject *object, int64_t *value)
{
    *value = PyLong_AsLongLong(object);
    return *value != -1 || !PyErr_Occurred();
}

/* Check the arguments of an access: `count` integers, of which the first is the offset of `size` bytes. Returns their
   address, and the other integers in `values`. Converts all before it looks at the memory, because an __index__ may
   close it. */
static uint8_t *cell(Memory *self, PyObject *const *args, Py_ssize_t given, Py_ssize_t count, int size, bool write,
                     int64_t *values)
{
    int64_t offset;
    if (given != count) {
        PyErr_Format(PyExc_TypeError, "%zd arguments expected, got %zd", count, given);
        return NULL;
    }
    for (Py_ssize_t i = 1; i < count; i++) {
        if (!integer(args[i], &values[i - 1]))
            return NULL;
    }
    if (!integer(args[0], &offset) || !memory_covers(self, offset, size))
        return NULL;
    if (offset % size != 0) {
        PyErr_Format(PyExc_ValueError, "offset %lld is not a multiple of %d", (long long)offset, size);
        return NULL;
    }
    if (write && !self->writable) {
        memory_read_only(self);
        return NULL;
    }
    return self->base + offset;
}

/* The memory orders pair as the callers in slots.py and counters.py say. */

static PyObject *memory_load32(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    uint8_t *at = cell(self, args, n, 1, 4, false, NULL);
    return at == NULL ? NULL : PyLong_FromLong(LOAD32_ACQUIRE(at));
}

static PyObject *memory_load64(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    uint8_t *at = cell(self, args, n, 1, 8, false, NULL);
    return at == NULL ? NULL : PyLong_FromLongLong(LOAD64_ACQUIRE(at));
}

static PyObject *memory_load64_plain(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    uint8_t *at = cell(self, args, n, 1, 8, false, NULL);
    return at == NULL ? NULL : PyLong_FromLongLong(LOAD64_RELAXED(at));
}

static PyObject *memory_load64_volatile(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    uint8_t *at = cell(self, args, n, 1, 8, false, NULL);
    return at == NULL ? NULL : PyLong_FromLongLong(atomic_load_explicit(ATOMIC64(at), memory_order_seq_cst));
}

static PyObject *memory_store32(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    int64_t value;
    uint8_t *at = cell(self, args, n, 2, 4, true, &value);
    if (at == NULL)
        return NULL;
    if (value < INT32_MIN || value > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "the value does not fit into 32 bits");
        return NULL;
    }
    STORE32_RELEASE(at, value);
    return Py_NewRef(Py_None);
}

static PyObject *memory_store64(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    int64_t value;
    uint8_t *at = cell(self, args, n, 2, 8, true, &value);
    if (at == NULL)
        return NULL;
    STORE64_RELEASE(at, value);
    return Py_NewRef(Py_None);
}

static PyObject *memory_store64_plain(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    int64_t value;
    uint8_t *at = cell(self, args, n, 2, 8, true, &value);
    if (at == NULL)
        return NULL;
    STORE64_RELAXED(at, value);
    return Py_NewRef(Py_None);
}

static PyObject *memory_store64_volatile(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    int64_t value;
    uint8_t *at = cell(self, args, n, 2, 8, true, &value);
    if (at == NULL)
        return NULL;
    atomic_store_explicit(ATOMIC64(at), value, memory_order_seq_cst);
    return Py_NewRef(Py_None);
}

static PyObject *memory_add64(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    int64_t delta;
    uint8_t *at = cell(self, args, n, 2, 8, true, &delta);
    if (at == NULL)
        return NULL;
    return PyLong_FromLongLong(atomic_fetch_add_explicit(ATOMIC64(at), delta, memory_order_seq_cst));
}

static PyObject *memory_compare_and_set64(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    int64_t values[2]; /* expected, new */
    uint8_t *at = cell(self, args, n, 3, 8, true, values);
    if (at == NULL)
        return NULL;
    return PyBool_FromLong(atomic_compare_exchange_strong_explicit(ATOMIC64(at), &values[0], values[1],
                                                                   memory_order_seq_cst, memory_order_seq_cst));
}

static PyObject *memory_read(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    int64_t offset, length;
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "read(offset, length)");
        return NULL;
    }
    if (!integer(args[0], &offset) || !integer(args[1], &length) || !memory_covers(self, offset, length))
        return NULL;
    return PyBytes_FromStringAndSize((const char *)self->base + offset, (Py_ssize_t)length);
}

static PyObject *memory_write(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    int64_t offset;
    Py_buffer data;
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "write(offset, data)");
        return NULL;
    }
    if (!integer(args[0], &offset) || PyObject_GetBuffer(args[1], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    bool fits = memory_covers(self, offset, data.len);
    if (fits && !self->writable) {
        memory_read_only(self);
        fits = false;
    }
    if (fits)
        memcpy(self->base + offset, data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    if (!fits)
        return NULL;
    return Py_NewRef(Py_None);
}

static PyObject *memory_fence(Memory *self, PyObject *ignored)
{
    (void)self, (void)ignored;
    FENCE_SEQ_CST();
    return Py_NewRef(Py_None);
}

/* Wake all sleepers of the pair of words at this offset (spec/channel.md 6.16). */
static PyObject *memory_wake_all(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    uint8_t *at = cell(self, args, n, 1, 8, true, NULL);
    if (at == NULL)
        return NULL;
    wake_all((waiting_words){at, at + 4});
    return Py_NewRef(Py_None);
}

/* Sleep 1 to 3 (spec 6.16) on the pair of words at this offset, with bit 0. The caller looks then, and sleeps. */
static PyObject *memory_announce_sleep(Memory *self, PyObject *const *args, Py_ssize_t n)
{
    uint8_t *at = cell(self, args, n, 1, 8, true, NULL);
    if (at == NULL)
        return NULL;
    wait_target target = {.words = {at, at + 4}, .mask = 1, .writable = true};
    uint32_t sequence = (uint32_t)LOAD32_ACQUIRE(at); /* sleep 1; pairs with wake 2 */
    announce_sleep(&target);
    return PyLong_FromUnsignedLong(sequence);
}

/* Sleep 6. */
static PyObject *memory_sleep(Memory *self, PyObject *args)
{
    long long offset;
    unsigned int sequence;
    double seconds;
    if (!PyArg_ParseTuple(args, "LId:sleep", &offset, &sequence, &seconds) || !memory_covers(self, offset, 8))
        return NULL;
    int64_t until = now_ns() + (int64_t)((seconds < 1 ? seconds : 1) * 1e9);
    memory_use(self);
    Py_BEGIN_ALLOW_THREADS
    sleep_while(self->base + offset, sequence, 1, until);
    Py_END_ALLOW_THREADS
    memory_unuse(self);
    return Py_NewRef(Py_None);
}

static PyObject *memory_populate(Memory *self, PyObject *args)
{
    long long offset, length;
    if (!PyArg_ParseTuple(args, "LL:populate", &offset, &length) || !memory_covers(self, offset, length))
        return NULL;
    memory_use(self);
    Py_BEGIN_ALLOW_THREADS
    madvise(self->base + offset, (size_t)length, self->writable ? POPULATE_WRITE : POPULATE_READ);
    Py_END_ALLOW_THREADS
    memory_unuse(self);
    return Py_NewRef(Py_None);
}

int64_t walk_records(const uint8_t *ring, int64_t capacity, int64_t alignment, int64_t at, int64_t end,
                     bool check_types, int64_t *messages, int64_t *bad)
{
    *messages = *bad = 0;
    while (at < end) {
        const uint8_t *record = ring + (at & (capacity - 1));
        int64_t length = LOAD32_ACQUIRE((void *)(record + RECORD_LENGTH)); /* pairs with publish 6 */
        if (length <= 0)
            break;
        int64_t n = (length + alignment - 1) & -alignment;
        int32_t type = LOAD32_RELAXED((void *)(record + RECORD_TYPE));
        if (length < RECORD_HEADER_LENGTH || n > end - at || (at & (capacity - 1)) + n > capacity ||
            (check_types && type < 1 && type != TYPE_PADDING && type != TYPE_OWNER)) {
            *bad = length;
            break;
        }
        *messages += type > 0;
        at += n;
    }
    return at;
}

static PyObject *memory_walk(Memory *self, PyObject *args)
{
    long long ring, capacity, alignment, at, end;
    int check_types = 0;
    if (!PyArg_ParseTuple(args, "LLLLL|p:walk", &ring, &capacity, &alignment, &at, &end, &check_types))
        return NULL;
    if (at < 0 || at > end || (alignment != 8 && alignment != 64) || capacity < MIN_CAPACITY ||
        (capacity & (capacity - 1)) != 0 || at % alignment != 0 || ring % 8 != 0) {
        PyErr_SetString(PyExc_ValueError, "not a ring and positions");
        return NULL;
    }
    if (!memory_covers(self, ring, capacity))
        return NULL;
    int64_t messages, bad;
    memory_use(self);
    Py_BEGIN_ALLOW_THREADS
    at = walk_records(self->base + ring, capacity, alignment, at, end, check_types, &messages, &bad);
    Py_END_ALLOW_THREADS
    memory_unuse(self);
    return Py_BuildValue("LLL", at, (long long)messages, (long long)bad);
}

static PyObject *memory_close(Memory *self, PyObject *ignored)
{
    (void)ignored;
    memory_release(self);
    return Py_NewRef(Py_None);
}

static PyObject *memory_length(Memory *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->length);
}

static PyMethodDef methods[] = {
    {"load32", FAST(memory_load32), "load32(offset) -> int, acquire"},
    {"load64", FAST(memory_load64), "load64(offset) -> int, acquire"},
    {"load64_plain", FAST(memory_load64_plain), "load64_plain(offset) -> int, relaxed"},
    {"load64_volatile", FAST(memory_load64_volatile), "load64_volatile(offset) -> int, sequentially consistent"},
    {"store32", FAST(memory_store32), "store32(offset, value), release"},
    {"store64", FAST(memory_store64), "store64(offset, value), release"},
    {"store64_plain", FAST(memory_store64_plain), "store64_plain(offset, value), relaxed"},
    {"store64_volatile", FAST(memory_store64_volatile), "store64_volatile(offset, value), sequentially consistent"},
    {"add64", FAST(memory_add64), "add64(offset, delta) -> the value before; wraps; sequentially consistent"},
    {"compare_and_set64", FAST(memory_compare_and_set64),
     "compare_and_set64(offset, expected, value) -> bool, sequentially consistent"},
    {"read", FAST(memory_read), "read(offset, length) -> bytes, a plain copy"},
    {"write", FAST(memory_write), "write(offset, data), a plain copy"},
    {"wake_all", FAST(memory_wake_all),
     "wake_all(offset): sequence += 1, release, of the pair of words there; wakes all who sleep on it (spec 6.16)"},
    {"announce_sleep", FAST(memory_announce_sleep),
     "announce_sleep(offset) -> sequence: sleep 1 to 3 of spec 6.16 with bit 0 of the pair of words there"},
    {"sleep", (PyCFunction)memory_sleep, METH_VARARGS,
     "sleep(offset, sequence, seconds): sleep 6, for a second at most"},
    {"fence", (PyCFunction)memory_fence, METH_NOARGS, "fence(): sequentially consistent"},
    {"populate", (PyCFunction)memory_populate, METH_VARARGS,
     "populate(offset, length): maps these whole pages now, so that no first lap pays for it. Kernels before 5.14\n"
     "cannot: it happens at first use"},
    {"walk", (PyCFunction)memory_walk, METH_VARARGS,
     "walk(ring, capacity, alignment, start, end, check_types=False) -> (stop, messages, 0 or the length of a record\n"
     "that cannot be there)"},
    {"close", (PyCFunction)memory_close, METH_NOARGS, "close(): gives the mapping back; twice is fine"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"length", (getter)memory_length, NULL, "bytes mapped", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Memory(file, length, writable, path=..., guard=0): atomic access by byte offset to a mapping of the\n"
                "file's first ``length`` bytes. ``guard``: bytes on each side that nobody may touch."},
    {Py_tp_new, memory_new},
    {Py_tp_dealloc, memory_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Memory", sizeof(Memory), 0, Py_TPFLAGS_DEFAULT, slots};

PyTypeObject *make_memory_type(PyObject *module)
{
    return memory_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
