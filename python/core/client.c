/* SPDX-License-Identifier: Apache-2.0 */
/* Client: creation, waiting (spec/service.md 3 and 6), methods and attributes. */
#include "client.h"

/* Creation and close */

static PyObject *client_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *data, *memory, *shape, *lock, *name, *wait;
    int strategy, wakes, least, max_outstanding, default_type, k;
    long long epoch, publisher_epoch, end, end_count, cursor, count, monotonic, offset;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O!O!O!O!iLLLLLLSpiiLLOp:Client", memory_type, &data, memory_type, &memory,
                          &PyTuple_Type, &shape, file_type, &lock, &k, &epoch, &publisher_epoch, &end, &end_count,
                          &cursor, &count, &name, &least, &max_outstanding, &default_type, &monotonic, &offset, &wait,
                          &wakes) ||
        wait_parse(wait, &strategy) < 0)
        return NULL;
    geometry here;
    if (!memory_covers((Memory *)memory, 0, 0) || !memory_covers((Memory *)data, 0, ((Memory *)memory)->length) ||
        !geometry_parse(shape, ((Memory *)memory)->length, &here))
        return NULL;
    if (!((Memory *)memory)->writable || !here.service || epoch < 0 || k < 0 || k >= here.publishers / 2 ||
        max_outstanding < 1 || default_type < 1 || !is_position(&here, end) || !is_position(&here, cursor)) {
        PyErr_SetString(PyExc_ValueError, "not a writable mapping of a service, and what a client of it has");
        return NULL;
    }
    Client *self =
        (Client *)reader_new(type, &client_kind, (Memory *)data, (Memory *)memory, (File *)lock, &here, 1, strategy);
    if (self == NULL)
        return NULL;
    uint8_t *base = ((Memory *)memory)->base;
    int32_t replies = here.publishers / 2 + k;
    self->lock = (File *)Py_NewRef(lock);
    self->name = Py_NewRef(name);
    self->clock = (service_clock){monotonic, offset};
    self->number = k;
    self->slot = 1 + k;
    self->least = least;
    self->max_outstanding = max_outstanding;
    self->default_type = default_type;
    self->next_deadline = INT64_MAX;
    self->data = ((Memory *)data)->base + ring_data_offset(&here, replies);
    self->gate = base + ring_trailer_offset(&here, replies) + gate_offset(0);
    self->cursor = self->stored = cursor;
    self->count = count < 0 ? COUNT_UNKNOWN : count;
    self->from.ring = replies;
    sender_from_slot(&self->from, base + publisher_slot_offset(&here, replies), cursor);
    self->server_epoch = base + subscriber_slot_offset(&here, 0) + SUBSCRIBER_SLOT_EPOCH;
    self->waker = waker_make(data_words(&here, base), wakes);
    self->room = waker_make(room_words(&here, base), wakes);
    self->writer = (slot_writer){
        .ring = ring_writer_make(&here, base, k, end, end_count, 0),
        .owner_pending = true,
        .slot = k,
        .monotonic = monotonic,
        .clock_offset = offset,
        .epoch = publisher_epoch,
        .name = self->name,
        .lock = self->lock,
        .base = base,
        .shape = &self->base.shape,
    };
    epoch_watch(&self->base.epoch, base + subscriber_slot_offset(&here, self->slot) + SUBSCRIBER_SLOT_EPOCH, epoch);
    return (PyObject *)self;
}

static void client_dealloc(Client *self)
{
    if (self->lock != NULL)
        reader_shut(&self->base);
    client_drop_events(self);
    PyMem_Free(self->events);
    PyMem_Free(self->buckets);
    Py_XDECREF((PyObject *)self->lock);
    Py_XDECREF(self->name);
    Py_XDECREF(self->from.object);
    reader_dealloc(&self->base);
}

/* What reader.c calls */

static bool kind_usable(Reader *base)
{
    if (LIKELY(base->use == IDLE && epoch_holds(&base->epoch)))
        return true;
    return !reader_in_use(base) && client_explain_lost((Client *)base);
}

static Py_ssize_t no_poll(Reader *base, void *receiver, Py_ssize_t limit)
{
    (void)base, (void)receiver, (void)limit;
    PyErr_SetString(PyExc_TypeError, "a client hands out no messages: its calls have the answers");
    return -1;
}

static PyObject *no_take(Reader *base)
{
    no_poll(base, NULL, 0);
    return NULL;
}

bool client_server_is_there(const Client *self)
{
    return self->known == 0 ||
           (LOAD64_ACQUIRE(self->server_epoch) == self->known &&
            !lock_is_free(self->lock, subscriber_slot_offset(&self->base.shape, 0) + CONTROL_SLOT_LOCK));
}

static bool kind_ready(void *context)
{
    const Client *self = context;
    if (!epoch_holds(&self->base.epoch) || self->look_due ||
        (LOAD32_ACQUIRE((void *)(self->data + (self->cursor & self->base.mask) + RECORD_LENGTH)) > 0 && /* publish 6 */
         !self->corrupt))
        return true;
    int64_t e = LOAD64_ACQUIRE(self->server_epoch);
    if (self->waits_for == FOR_SERVER && self->known == 0)
        return e != self->looked_epoch ||
               LOAD64_ACQUIRE(self->base.memory->base + self->base.shape.control + CONTROL_SERVING) !=
                   self->looked_serving; /* pairs with take server 7 */
    if (self->known != 0 && e != self->known)
        return true;
    if (self->waits_for == FOR_ROOM && writer_has_room_now(&self->writer))
        return true;
    return self->told < self->event_count ||
           (self->next_deadline != INT64_MAX && service_now(&self->clock) >= self->next_deadline);
}

static ring_place kind_ring_at(const Reader *base, int i)
{
    const Client *self = (const Client *)base;
    (void)i;
    return (ring_place){base->shape.publishers / 2 + self->number, self->cursor};
}

static bool kind_owned(Reader *self)
{
    return epoch_holds(&self->epoch) || client_explain_lost((Client *)self);
}

/* Whether there is something to do at a cap: the server may have gone. */
static bool kind_due(void *context)
{
    return !client_server_is_there(context);
}

/* Whether the server wakes clients that wait for room, which determines the cap (channel.md 6.16). */
static bool server_wakes(void *context)
{
    const Client *self = context;
    return subscribers_wake(&self->base.shape, self->base.memory->base, self->number);
}

static void kind_aim(const Reader *base, wait_target *target)
{
    const Client *self = (const Client *)base;
    target->due = kind_due;
    if (self->next_deadline != INT64_MAX && self->clock.injected == 0)
        target->until = self->next_deadline + self->clock.offset;
    target->room = self->unsent; /* the wait has the cap of room (service.md 6) */
    if (self->waits_for != FOR_ROOM)
        return;
    target->words = room_words(&base->shape, base->memory->base);
    target->mask = waiting_bit(self->number);
    target->room = true;
    target->others_wake = server_wakes;
}

static void kind_look(Reader *base)
{
    Client *self = (Client *)base;
    if (!client_server_is_there(self))
        self->look_due = self->ask_gone = true;
}

/* Give the place back (service.md 3, close). */
static void kind_give_back(Reader *base)
{
    Client *self = (Client *)base;
    const geometry *shape = &base->shape;
    bool ours = !base->forked && !self->lost && epoch_holds(&base->epoch), was_lost = self->lost;
    if (ours) {
        uint8_t *memory = base->memory->base;
        /* After the last record. */
        STORE32_RELEASE(memory + publisher_slot_offset(shape, self->number) + PUBLISHER_SLOT_CLOSED, 1);
        wake_all(data_words(shape, memory));
        stop_gating(shape, memory, self->slot); /* channel.md 6.6 */
    } else if (!base->forked && !self->lost) {
        client_take_back(self);
    }
    epoch_drop(&base->epoch);
    self->lost = true;
    file_shut(self->lock);
    if (!base->forked)
        client_end_all(self, was_lost || ours ? CALL_CLOSED : CALL_SLOT_LOST);
}

const reader_kind client_kind = {
    .what = "client",
    .usable = kind_usable,
    .poll = no_poll,
    .poll_arrays = no_poll,
    .take = no_take,
    .ready = kind_ready,
    .ring_at = kind_ring_at,
    .exported = reader_exports_nothing,
    .owned = kind_owned,
    .expire_messages = reader_expires_nothing,
    .give_back = kind_give_back,
    .aim = kind_aim,
    .look = kind_look,
};

/* Methods and attributes */

/* Run the callbacks of calls that a close has ended, after the close. */
static PyObject *client_tell_rest(Client *self, PyObject *ignored)
{
    (void)ignored;
    if (self->base.forked)
        client_drop_events(self);
    while (client_pending(self) != 0 && !client_tell(self))
        PyErr_WriteUnraisable((PyObject *)self); /* the close is done, and the other callbacks still run */
    return Py_NewRef(Py_None);
}

/* For tests: sets the clock of deadlines. */
static PyObject *client_set_clock(Client *self, PyObject *monotonic)
{
    long long now = PyLong_AsLongLong(monotonic);
    if (now == -1 && PyErr_Occurred())
        return NULL;
    self->clock.injected = self->writer.monotonic = now;
    return Py_NewRef(Py_None);
}

/* For the property `server`: the epoch of the running server, or 0. */
static PyObject *get_server_epoch(Client *self, void *ignored)
{
    (void)ignored;
    if (self->base.closed || self->base.forked)
        return raise_error("ClosedError", "(si)", self->base.kind->what, (int)self->base.forked);
    int64_t e = LOAD64_ACQUIRE(self->server_epoch);
    bool lives = server_lives(&self->base.shape, self->base.memory->base, self->base.file, e);
    return PyLong_FromLongLong(lives ? e : 0);
}

static PyObject *get_outstanding(Client *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLong(self->outstanding);
}

static PyObject *get_late(Client *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->late);
}

static PyObject *get_number(Client *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLong(self->number);
}

static PyObject *get_slot(Client *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLong(self->slot);
}

static PyObject *get_epoch(Client *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->base.epoch.value);
}

static PyObject *get_longest(Client *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->writer.ring.longest - RECORD_HEADER_LENGTH - REQUEST_LENGTH);
}

static PyMethodDef methods[] = {
    {"call", KEYWORDS(client_call),
     "call($self, /, data, type=None, timeout=None)\n--\n\n"
     "Calls the server and returns its answer, which owns its bytes.\n\n"
     "``data``: bytes, or a message of a generated class. ``type`` None: 1, or 65536 on a channel with a\n"
     "schema; for a message of a class its template id. ``timeout``: the limit in seconds (None: no limit) for\n"
     "the whole call: waiting for a server, for room, and for the answer. The request carries it as its\n"
     "deadline.\n\n"
     "Raises ServiceError, ExpiredError or ServerGoneError if the call ended without an answer. Raises\n"
     "BusyError, MessageTooLargeError or InvalidArgumentError if the call was not made. Raises\n"
     "ChannelReplacedError if another channel has the name now; then the call may go on, but its answer is\n"
     "lost."},
    {"start", KEYWORDS(client_start),
     "start($self, /, data, type=None, timeout=None, callback=None)\n--\n\n"
     "Publishes a request and returns a Call without waiting for the answer. Like ``call``, it waits if there\n"
     "is no server or no room.\n\n"
     "``callback(call)`` is called when the call has ended, from inside a method of this client. It may start\n"
     "calls, but not wait. An exception from it is raised by that method.\n\n"
     "Raises ExpiredError if ``timeout`` seconds passed before the request was published, and otherwise the\n"
     "errors of ``call``."},
    {"stream", KEYWORDS(client_stream),
     "stream($self, /, data, type=None, credit=64, timeout=None, callback=None)\n--\n\n"
     "Like ``start``, for a request that the server answers with a sequence of items: ``for item in call``.\n\n"
     "``credit``: how many items may be under way between the server and the caller, 1 to 65535. ``callback``\n"
     "is also called for each item. Raises InvalidArgumentError (``credit``) if the service delivers at least\n"
     "once, and otherwise the errors of ``start``."},
    {"poll", KEYWORDS(client_poll),
     "poll($self, /, timeout=0)\n--\n\n"
     "Takes replies, ends calls, runs callbacks and notices the death of the server. Returns how many calls\n"
     "ended or got an item. If there is none, waits up to ``timeout`` seconds for the first (0: does not wait;\n"
     "None: no limit)."},
    {"_start_now", FAST(client_start_now), "for call_async"},
    {"_want_nothing", (PyCFunction)client_want_nothing, METH_NOARGS, "for call_async"},
    {"_tell_rest", (PyCFunction)client_tell_rest, METH_NOARGS, "for close"},
    {"_set_clock", (PyCFunction)client_set_clock, METH_O, "for tests"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"_server_epoch", (getter)get_server_epoch, NULL, "for server", NULL},
    {"outstanding", (getter)get_outstanding, NULL,
     "how many calls are under way. Expired and cancelled calls count until the server has answered them", NULL},
    {"late", (getter)get_late, NULL, "how many replies came after their call had ended", NULL},
    {"number", (getter)get_number, NULL, "the number of this client, from 0", NULL},
    {"slot", (getter)get_slot, NULL, "the number of its subscriber slot", NULL},
    {"epoch", (getter)get_epoch, NULL, "how many owners the slot has had, this one included", NULL},
    {"max_message_length", (getter)get_longest, NULL, "the largest request, in bytes", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, client_new},
    {Py_tp_dealloc, client_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Client", sizeof(Client), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyTypeObject *make_client_type(PyObject *module)
{
    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, (PyObject *)reader_type);
}
