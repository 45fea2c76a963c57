/* SPDX-License-Identifier: Apache-2.0 */
/* Publisher: creation, close (spec/channel.md 5.2, 5.4), and methods. */
#include "publisher.h"
#include "arguments.h"
#include "sbe/sbe.h"

PyTypeObject *publisher_type;

/* Creation and close */

static void publisher_forked(fork_node *node)
{
    Publisher *self = (Publisher *)((char *)node - offsetof(Publisher, node));
    self->forked = true;
    epoch_drop(&self->epoch);
}

static PyObject *publisher_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *memory, *shape, *lock, *name, *wait;
    int slot, strategy, default_type, wakes;
    long long epoch, position, count, max_lag, monotonic;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!iLLLSOLLip:Publisher", memory_type, &memory, &PyTuple_Type, &shape, file_type,
                          &lock, &slot, &epoch, &position, &count, &name, &wait, &max_lag, &monotonic, &default_type,
                          &wakes) ||
        wait_parse(wait, &strategy) < 0)
        return NULL;
    Memory *file = (Memory *)memory;
    geometry at;
    if (!memory_covers(file, 0, 0) || !geometry_parse(shape, file->length, &at))
        return NULL;
    if (!file->writable || epoch < 0 || slot < 0 || slot >= at.publishers - (at.queue ? 1 : 0) || position < 0 ||
        position >= MAX_POSITION || position % at.alignment != 0 || PyBytes_Size(name) > MAX_NAME_LENGTH ||
        default_type < 1 ||
        (max_lag != 0 &&
         (max_lag < at.capacity / MIN_LAG_DIVISOR || max_lag > at.capacity || at.foreign != 0 || at.queue)) ||
        at.foreign == FEATURE_FOREIGN_PUBLISHER || at.service) {
        PyErr_SetString(PyExc_ValueError, "not a writable mapping, a slot, a position and a lag of this channel");
        return NULL;
    }
    Publisher *self = (Publisher *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL)
        return NULL;
    memory_use(file);
    self->memory = file;
    self->lock = (File *)Py_NewRef(lock);
    self->name = Py_NewRef(name);
    self->shape = at;
    self->slot = slot;
    self->wait = strategy;
    self->spin = DEFAULT_SPIN_NS;
    self->default_type = default_type;
    self->waker = waker_make(data_words(&at, file->base), wakes);
    self->bit = self->either = waiting_bit(slot);
    self->also = self->waker.watched;
    if (at.queue) {
        self->jobs = waker_make(jobs_words(&at, file->base), wakes);
        self->also = self->jobs.watched;
        self->either |= JOBS_BIT;
    }
    self->writer = (slot_writer){
        .ring = ring_writer_make(&at, file->base, slot, position, count, max_lag),
        .owner_pending = at.foreign != FEATURE_FOREIGN_SUBSCRIBER, /* 6.15 */
        .evicts = max_lag != 0,
        .slot = slot,
        .monotonic = monotonic,
        .epoch = epoch,
        .name = self->name,
        .lock = self->lock,
        .base = file->base,
        .shape = &self->shape,
        .look = publisher_look,
    };
    if (at.queue)
        self->writer.ring.longest -= RELEASED_LENGTH; /* a release adds so many bytes */
    epoch_watch(&self->epoch, file->base + publisher_slot_offset(&at, slot) + PUBLISHER_SLOT_EPOCH, epoch);
    fork_add(&self->node, publisher_forked);
    return (PyObject *)self;
}

void publisher_shut(Publisher *self)
{
    if (self->closed)
        return;
    if (!self->forked && epoch_holds(&self->epoch)) {
        if (self->claim != NULL)
            publisher_drop_claim(self);
        uint8_t *slot = self->memory->base + publisher_slot_offset(&self->shape, self->slot);
        STORE32_RELEASE(slot + PUBLISHER_SLOT_CLOSED, 1); /* after all that was published; pairs with 6.12 */
        wake_all(data_words(&self->shape, self->memory->base));
        if (self->shape.queue)
            wake_all(jobs_words(&self->shape, self->memory->base)); /* the queue may have ended */
    }
    if (self->claim != NULL) {
        self->claim->data = NULL;
        self->claim = NULL;
    }
    self->closed = true;
    if (self->notifier != NULL && !self->forked)
        notifier_stop(self->notifier);
    epoch_drop(&self->epoch);
    if (self->busy && !self->forked)
        wake_all(room_words(&self->shape, self->memory->base)); /* including a thread that waits in this publisher */
    file_shut(self->lock);
    /* A waiting thread still reads the gates, and releases the memory itself; a forked child may still have exports. */
    if (!self->busy && !self->forked)
        publisher_release_memory(self);
}

COLD void publisher_wake_now(const Publisher *self)
{
    if (self->shape.queue)
        wake_one_if_asleep(&self->jobs);
    if (sleeps(&self->waker, self->bit))
        wake_now(&self->waker, self->bit);
}

static void publisher_dealloc(Publisher *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    fork_remove(&self->node);
    if (self->lock != NULL)
        publisher_shut(self);
    notifier_free(self->notifier);
    publisher_release_memory(self);
    Py_XDECREF((PyObject *)self->lock);
    Py_XDECREF(self->name);
    Py_XDECREF(self->message_class);
    Py_XDECREF((PyObject *)self->message_layout);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

bool publisher_may_close(Publisher *self)
{
    if (self->forked || self->closed)
        return true;
    if (self->copying) {
        raise_error("TwoThreadsError", "(s)", "publisher");
        return false;
    }
    if (self->claim != NULL && self->claim->exports != 0) {
        raise_error("ViewAliveError", "(s)",
                    "a memoryview or array of this publisher's claim is still alive; release it before close");
        return false;
    }
    return true;
}

static PyObject *publisher_close(Publisher *self, PyObject *ignored)
{
    (void)ignored;
    if (!publisher_may_close(self))
        return NULL;
    publisher_shut(self);
    return Py_NewRef(Py_None);
}

/* A prefetch cannot fault, so this is safe after unmapping. */
static PyObject *publisher_prefetch(Publisher *self, PyObject *ignored)
{
    (void)ignored;
    ring_prefetch(&self->writer.ring);
    return Py_NewRef(Py_None);
}

static PyObject *publisher_set_spin(Publisher *self, PyObject *seconds)
{
    int64_t spin = wait_spin(seconds);
    if (spin < 0)
        return publisher_refuse(self);
    if (publisher_in_use(self))
        return NULL;
    self->spin = spin;
    return Py_NewRef(Py_None);
}

/* publisher_refuse for methods in Python: raises the errors that come before those of arguments. */
static PyObject *publisher_check_idle(Publisher *self, PyObject *ignored)
{
    (void)ignored;
    publisher_refuse(self);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* Methods and attributes */

static PyObject *get_position(Publisher *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->writer.ring.end);
}

static PyObject *get_max_message_length(Publisher *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->writer.ring.longest - RECORD_HEADER_LENGTH);
}

static PyObject *get_ring(Publisher *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLong(self->slot);
}

static PyObject *get_epoch(Publisher *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->epoch.value);
}

static PyObject *get_closed(Publisher *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->closed || self->forked);
}

static PyMethodDef methods[] = {
    {"offer", KEYWORDS(publisher_offer),
     "offer($self, /, data, type=1)\n--\n\n"
     "Copies and publishes one message if there is room; does not wait. Returns the ring's new end position in\n"
     "bytes, or None, which is false, if there was no room.\n\n"
     "``type``: 1 to 2^31-1. The default is 1; on a channel with a schema it is 65536, which no SBE message\n"
     "has. The type of a typed message is its template id, so leave ``type`` out.\n\n"
     "Raises MessageTooLargeError and InvalidArgumentError."},
    {"send", KEYWORDS(publisher_send),
     "send($self, /, data, type=1, timeout=None)\n--\n\n"
     "Like ``offer``, but waits for room. Returns the ring's new end position, in bytes. Raises\n"
     "BackPressuredError if there was no room within ``timeout`` seconds (None: no limit)."},
    {"claim", KEYWORDS(publisher_claim),
     "claim($self, /, length, type=1, timeout=None)\n--\n\n"
     "Claims space for one message, to be written in place: ``length`` bytes, or a message class. Waits for\n"
     "room. A message class gives a message whose header is written, see ``flyring.sbe.Message``.\n\n"
     "Commit or abort the claim before the next use of the publisher; as a context manager the claim does this\n"
     "itself. Raises BackPressuredError if there was no room within ``timeout`` seconds (None: no limit);\n"
     "MessageTooLargeError; InvalidArgumentError."},
    {"try_claim", KEYWORDS(publisher_try_claim),
     "try_claim($self, /, length, type=1)\n--\n\n"
     "Like ``claim``, but does not wait: returns None if there is no room."},
    {"_fileno", (PyCFunction)publisher_fileno, METH_NOARGS, "for send_async"},
    {"_arm", (PyCFunction)publisher_arm, METH_O, "for send_async"},
    {"_is_armed", (PyCFunction)publisher_is_armed, METH_NOARGS, "for send_async"},
    {"_check_idle", (PyCFunction)publisher_check_idle, METH_NOARGS,
     "raises the errors that come before those of arguments"},
    {"_offer_array", FAST(publisher_offer_array), "for offer_array"},
    {"offer_batch", KEYWORDS(publisher_offer_batch),
     "offer_batch($self, /, messages, type=1)\n--\n\n"
     "Publishes messages in order while there is room; does not wait. Returns how many were published: 0 to\n"
     "all. Raises MessageTooLargeError if a message is too large; then none was published."},
    {"send_batch", KEYWORDS(publisher_send_batch),
     "send_batch($self, /, messages, type=1, timeout=None)\n--\n\n"
     "Like ``offer_batch``, but waits for room. Returns how many were published: all of them, unless\n"
     "``timeout`` seconds (None: no limit) passed first."},
    {"flush", KEYWORDS(publisher_flush),
     "flush($self, /, timeout=None)\n--\n\n"
     "Waits until every subscriber that a process owns now has read all published messages. Raises\n"
     "TimedOutError after ``timeout`` seconds (None: no limit)."},
    {"set_spin", (PyCFunction)publisher_set_spin, METH_O,
     "set_spin($self, spin, /)\n--\n\n"
     "Sets how long a wait with ``wait=\"block\"`` spins before it sleeps, in seconds. The default is 0.00002."},
    {"prefetch", (PyCFunction)publisher_prefetch, METH_NOARGS,
     "prefetch($self, /)\n--\n\n"
     "Fetches the cache line of the next message, which a waiting reader also holds. A hint: call it at the\n"
     "start of a handler that will reply through this publisher. Has no effect on other processes."},
    {"close", (PyCFunction)publisher_close, METH_NOARGS,
     "close($self, /)\n--\n\n"
     "Aborts an open claim, marks the ring as closed and gives the slot back. Closing twice does nothing.\n"
     "Raises ViewAliveError if a memoryview or array of a claim is alive. A thread that waits in this publisher\n"
     "gets ClosedError."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"position", (getter)get_position, NULL, "the end of the published messages, in bytes", NULL},
    {"max_message_length", (getter)get_max_message_length, NULL, "the largest payload, in bytes", NULL},
    {"ring", (getter)get_ring, NULL, "the number of its ring and slot", NULL},
    {"epoch", (getter)get_epoch, NULL, "how many owners the slot has had, this one included", NULL},
    {"closed", (getter)get_closed, NULL, "True after close, and in a forked child", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, publisher_new},
    {Py_tp_dealloc, publisher_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Publisher", sizeof(Publisher), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           slots};

PyTypeObject *make_publisher_type(PyObject *module)
{
    return publisher_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
