/* SPDX-License-Identifier: Apache-2.0 */
/* offer and claim, and what a publisher does when it is held back (spec 6.1, 6.2, 6.7). */
#include "sbe.h"

#define RETIRE_AFTER_NS 1000000 /* 6.2, 4 */

/* Held back */

/* 6.2, 3 for the slots whose gate is below `needed`: true if any was evicted. */
static bool evict_laggards(Publisher *self, int64_t needed)
{
    bool any = false;
    int64_t control_lock = self->shape.control + CONTROL_CONTROL_LOCK;
    if (!lock_try(self->lock, control_lock))
        return false; /* this time */
    for (int32_t k = 0; k < self->shape.subscribers; k++) {
        int64_t gate =
            LOAD64_ACQUIRE(self->ring.trailer + gate_offset(k)); /* under the lock: 6.11; pairs with poll 4 */
        if (gate >= 0 && gate < needed) {
            slot_evict(&self->shape, self->memory->base, k);
            any = true;
        }
    }
    lock_release(self->lock, control_lock);
    return any;
}

/* Kept, and there is where to resume. */
static bool is_kept(const uint8_t *slot)
{
    return LOAD32_ACQUIRE(slot + SUBSCRIBER_SLOT_KEPT) != 0 && LOAD32_ACQUIRE(slot + SUBSCRIBER_SLOT_EVICTING) == 0;
}

/* 6.7 for the slots whose gate is below `needed`: true if any was retired. */
static bool retire_dead(Publisher *self, int64_t needed)
{
    bool any = false;
    uint8_t *base = self->memory->base;
    if (self->shape.foreign != 0)
        return false; /* 6.15: it holds no lock */
    for (int32_t k = 0; k < self->shape.subscribers; k++) {
        int64_t offset = subscriber_slot_offset(&self->shape, k);
        uint8_t *slot = base + offset, *gate = self->ring.trailer + gate_offset(k);
        int64_t position = LOAD64_ACQUIRE(gate); /* pairs with poll 4 */
        if (position < 0 || position >= needed || is_kept(slot))
            continue;
        if (!lock_try(self->lock, offset + CONTROL_SLOT_LOCK))
            continue; /* its owner lives */
        position = LOAD64_ACQUIRE(gate);
        if (!is_kept(slot) && position >= 0 && position < needed) {
            atomic_fetch_add_explicit(ATOMIC64(slot + SUBSCRIBER_SLOT_EPOCH), 1,
                                      memory_order_release); /* pairs with 5.4 */
            gates_clear(&self->shape, base, k);
            any = true;
        }
        lock_release(self->lock, offset + CONTROL_SLOT_LOCK);
    }
    return any;
}

/* 6.13: false with an exception. It runs Python code: meanwhile nobody else gets in. */
static bool look(Publisher *self)
{
    self->busy = true;
    bool fine = core_look((PyObject *)self);
    self->busy = false;
    if (!self->closed)
        return fine;
    publisher_let_go_of_memory(self); /* by another thread, which left the memory to us */
    if (fine)
        core_raise("ClosedError", "(s)", "publisher");
    return false;
}

/* 6.1, owner record: 1 published, 0 no room. `needed` gets what a gate must reach for there to be room. */
static int publish_owner(Publisher *self, int64_t *needed)
{
    ring_writer *ring = &self->ring;
    int64_t name_length = PyBytes_Size(self->name);
    int64_t length = RECORD_HEADER_LENGTH + OWNER_RECORD_NAME + name_length, n = ring_align(ring, length);
    for (;;) {
        int64_t to_end = ring_to_end(ring), want = n > to_end ? to_end : n;
        if (!ring_has_room(ring, want)) {
            *needed = ring_needs(ring, want);
            return 0;
        }
        if (n <= to_end)
            break;
        ring_pad(ring);
    }
    ring_begin(ring, n);
    uint8_t *payload = ring->data + (ring->tail & ring->mask) + RECORD_PAYLOAD;
    int32_t length_word = (int32_t)name_length;
    memcpy(payload + OWNER_RECORD_EPOCH, &self->epoch, 8);
    memcpy(payload + OWNER_RECORD_NAME_LENGTH, &length_word, 4);
    memcpy(payload + OWNER_RECORD_NAME, PyBytes_AsString(self->name), (size_t)name_length);
    ring_set_type(ring, TYPE_OWNER);
    ring_commit(ring, length);
    ring_advance(ring, n, 0);
    self->owner_pending = false;
    return 1;
}

/* 6.2 for n bytes at the tail: 1 there is room, 2 the tail moved (look again), 0 back-pressured, -1 an exception. */
static int recompute(Publisher *self, int64_t n)
{
    ring_writer *ring = &self->ring;
    for (bool evicted = false, tested = false;;) {
        ring_recompute(ring);
        if (ring->tail >= MAX_POSITION - 2 * ring->capacity) {
            core_raise("CorruptRingError", "(iLs)", self->slot, (long long)ring->tail, "its position nears 2^62");
            return -1;
        }
        int64_t needed = ring_needs(ring, n);
        if (self->owner_pending) {
            if (publish_owner(self, &needed)) {
                self->held_since = 0;
                return 2;
            }
        } else if (ring_has_room(ring, n)) {
            self->held_since = 0;
            return 1;
        }
        if (self->evicts && !evicted && evict_laggards(self, needed)) { /* 6.2, 3 */
            evicted = true;
            continue;
        }
        int64_t now = now_ns(); /* 6.2, 4 */
        if (self->held_since == 0) {
            self->held_since = now;
            return 0;
        }
        if (tested || now - self->held_since < RETIRE_AFTER_NS)
            return 0;
        tested = true;
        self->held_since = now;
        bool retired = retire_dead(self, needed);
        if (!look(self))
            return -1;
        if (!retired)
            return 0;
    }
}

void publisher_recompute(Publisher *self, int64_t n)
{
    ring_writer *ring = &self->ring;
    ring_recompute(ring);
    if (self->evicts && !ring_has_room(ring, n) && evict_laggards(self, ring_needs(ring, n)))
        ring_recompute(ring);
}

int publisher_make_room(Publisher *self, int64_t n)
{
    ring_writer *ring = &self->ring;
    for (;;) {
        int64_t to_end = ring_to_end(ring), want = n > to_end ? to_end : n;
        if (self->owner_pending || !ring_has_room(ring, want)) {
            int result = recompute(self, want);
            if (result <= 0)
                return result;
            if (result == 2)
                continue;
        }
        if (n <= to_end)
            return 1;
        ring_pad(ring);
    }
}

static bool gates_moved(void *context)
{
    Publisher *self = context;
    int64_t gate;
    return !epoch_holds(self) || ring_gates(&self->ring, &gate) > self->ring.limit;
}

int publisher_wait(Publisher *self, wait_state *state, bool *begun, int64_t timeout)
{
    if (timeout == WAIT_NOT)
        return 0;
    if (!*begun) {
        wait_begin(state, self->wait, timeout);
        *begun = true;
    }
    self->busy = true;
    int result = wait_some(state, gates_moved, self);
    self->busy = false;
    if (self->closed) { /* by another thread meanwhile, which left the memory to us */
        publisher_let_go_of_memory(self);
        if (result != -1)
            core_raise("ClosedError", "(s)", "publisher");
        return -1;
    }
    if (result == -1)
        return -1;
    return result == -2 ? 0 : 1;
}

/* Operations */

int room_within(Publisher *self, int64_t n, int64_t timeout)
{
    wait_state state;
    bool begun = false;
    for (;;) {
        int result = publisher_make_room(self, n);
        if (result != 0)
            return result;
        result = publisher_wait(self, &state, &begun, timeout);
        if (result <= 0)
            return result;
        if (!publisher_usable(self))
            return -1;
    }
}

static PyObject *offer_bytes(Publisher *self, const void *bytes, int64_t length, int32_t type, int64_t timeout)
{
    if (UNLIKELY(!publisher_usable(self)))
        return NULL;
    ring_writer *ring = &self->ring;
    if (UNLIKELY(length > ring->longest - RECORD_HEADER_LENGTH))
        return core_raise("MessageTooLargeError", "(LL)", (long long)length,
                          (long long)(ring->longest - RECORD_HEADER_LENGTH));
    int64_t n = ring_align(ring, RECORD_HEADER_LENGTH + length);
    if (UNLIKELY(ring->tail + n > ring->cleared || self->owner_pending)) {
        int room = room_within(self, n, timeout);
        if (room < 0)
            return NULL;
        if (room == 0)
            return PyLong_FromLong(BACK_PRESSURED);
        ring_begin(ring, n);
    }
    memcpy(ring->data + (ring->tail & ring->mask) + RECORD_PAYLOAD, bytes, (size_t)length); /* 5 */
    ring_set_type(ring, type);
    ring_commit(ring, RECORD_HEADER_LENGTH + length);
    ring_advance(ring, n, 1);
    return PyLong_FromLongLong(ring->tail);
}

PyObject *publisher_offer(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"data", "type", "timeout"};
    static const signature expected = {parameters, 3, 1};
    PyObject *values[3] = {NULL, NULL, NULL};
    int32_t type = 1;
    int64_t timeout = WAIT_NOT;
    if (LIKELY(n == 1 && names == NULL)) {
        values[0] = args[0];
    } else {
        if (!parse_arguments(&expected, args, n, names, values) ||
            (values[1] != NULL && (type = parse_type(values[1])) == 0) ||
            (values[2] != NULL && (timeout = wait_timeout(values[2])) < 0))
            return NULL;
    }
    if (LIKELY(PyBytes_CheckExact(values[0])))
        return offer_bytes(self, PyBytes_AsString(values[0]), PyBytes_Size(values[0]), type, timeout);
    Py_buffer view;
    if (PyObject_GetBuffer(values[0], &view, PyBUF_SIMPLE) < 0) {
        PyObject *copy = message_to_offer(values[0], values[1], &type);
        PyObject *end =
            copy == NULL ? NULL : offer_bytes(self, PyBytes_AsString(copy), PyBytes_Size(copy), type, timeout);
        Py_XDECREF(copy);
        return end;
    }
    PyObject *position = offer_bytes(self, view.buf, view.len, type, timeout);
    PyBuffer_Release(&view);
    return position;
}

PyObject *publisher_claim(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"length", "type", "timeout"};
    static const signature expected = {parameters, 3, 1};
    PyObject *values[3] = {NULL, NULL, NULL};
    int32_t type = 1;
    int64_t timeout = WAIT_NOT;
    if (n > 0 && !PyLong_CheckExact(args[0]) && PyType_Check(args[0]))
        return publisher_claim_message(self, args, n, names);
    if (!parse_arguments(&expected, args, n, names, values) ||
        (values[1] != NULL && (type = parse_type(values[1])) == 0) ||
        (values[2] != NULL && (timeout = wait_timeout(values[2])) < 0))
        return NULL;
    Py_ssize_t length =
        PyLong_CheckExact(values[0]) ? PyLong_AsSsize_t(values[0]) : PyNumber_AsSsize_t(values[0], PyExc_OverflowError);
    if (length == -1 && PyErr_Occurred())
        return NULL;
    if (length < 0)
        return core_raise("InvalidArgumentError", "(ss)", "length", "must be 0 or more bytes");
    if (!publisher_usable(self))
        return NULL;
    ring_writer *ring = &self->ring;
    if (length > ring->longest - RECORD_HEADER_LENGTH)
        return core_raise("MessageTooLargeError", "(nL)", length, (long long)(ring->longest - RECORD_HEADER_LENGTH));
    int64_t record = ring_align(ring, RECORD_HEADER_LENGTH + length);
    int room = room_within(self, record, timeout);
    if (room < 0)
        return NULL;
    if (room == 0)
        return Py_NewRef(Py_None);
    Claim *claim = claim_new(self, length);
    if (claim == NULL)
        return NULL;
    ring_begin(ring, record);
    ring_set_type(ring, type);
    claim->data = ring->data + (ring->tail & ring->mask) + RECORD_PAYLOAD;
    self->claim = claim;
    return (PyObject *)claim;
}

PyObject *publisher_end_claim(Publisher *self, bool commit)
{
    Claim *claim = self->claim;
    ring_writer *ring = &self->ring;
    if (publisher_in_use(self)) { /* 5.4: also before each commit */
        claim->data = NULL;
        self->claim = NULL;
        return NULL;
    }
    int64_t length = RECORD_HEADER_LENGTH + claim->length;
    if (!commit)
        ring_set_type(ring, TYPE_PADDING);
    ring_commit(ring, length);
    ring_advance(ring, ring_align(ring, length), commit ? 1 : 0);
    claim->data = NULL;
    self->claim = NULL;
    return PyLong_FromLongLong(ring->tail);
}
