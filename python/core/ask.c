/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of a client and of its calls (spec/service.md 6, call, and 7). */
#include "client.h"
#include "server.h" /* bytes_of_answer */

#define DEFAULT_CREDIT 64

/* One verb */

/* Whether the calling thread is in a callback of this client. */
static bool is_nested(const Client *self)
{
    return self->in_callback && self->base.use == BUSY && self->callback_thread == PyThread_get_thread_ident();
}

static COLD bool explain_unusable(Client *self, bool nests)
{
    if (self->base.closed || self->base.forked || (self->base.use != IDLE && !(nests && is_nested(self))))
        return !reader_in_use(&self->base);
    if (!epoch_holds(&self->base.epoch))
        return client_explain_lost(self);
    int32_t ring = self->base.shape.publishers / 2 + self->number;
    raise_error("CorruptRingError", "(iLs)", ring, (long long)self->cursor, "it was found corrupt before");
    return false;
}

/* An argument is invalid, and its exception is set. Replaces that by closed or two threads, which come first
   (spec/api.md). Returns NULL. */
static PyObject *refuse(Client *self, bool nests)
{
    if (self->base.closed || self->base.forked || (self->base.use != IDLE && !(nests && is_nested(self)))) {
        PyErr_Clear();
        explain_unusable(self, nests);
    }
    return NULL;
}

/* Begin a verb: other threads cannot use the client until verb_end. `nests`: the verb may run in a callback. False with
   an exception. */
static inline bool verb_begin(Client *self, bool nests)
{
    if (UNLIKELY(self->base.use != IDLE || !epoch_holds(&self->base.epoch) || self->corrupt) &&
        !(nests && is_nested(self) && epoch_holds(&self->base.epoch) && !self->corrupt))
        return explain_unusable(self, nests);
    self->base.use = BUSY;
    self->waits_for = FOR_REPLY;
    return true;
}

/* End a verb, which succeeded if `fine`, and run the callbacks that are due. False with an exception. */
static inline bool verb_end(Client *self, bool fine)
{
    if (UNLIKELY(self->in_callback))
        return fine; /* a nested verb: the outer one ends it */
    if (UNLIKELY(fine && client_pending(self) != 0))
        fine = client_tell(self);
    self->base.use = IDLE;
    self->waits_for = self->async_wants;
    return fine;
}

/* The same, and then send credit for items that callbacks have consumed. */
static bool verb_end_sending(Client *self, bool fine)
{
    if (LIKELY(!self->in_callback) && fine && client_pending(self) != 0)
        fine = client_tell(self);
    return verb_end(self, fine && client_send_due(self));
}

/* One turn of a wait: 1 look again, 0 time is up, -1 an exception. */
static int turn(Client *self, wait_state *state, int what)
{
    self->waits_for = what;
    wait_target target = reader_target(&self->base);
    int result = reader_wait(&self->base, state, &target);
    self->waits_for = FOR_REPLY;
    if (result == -1)
        return -1;
    self->base.use = BUSY;
    if (result != 1 && (state->slept || result == -2))
        self->ask_gone = true; /* at each cap (service.md 6) */
    return result != -2;
}

/* Do a step and run the callbacks that are due, within a wait. False with an exception. */
static inline bool step_and_tell(Client *self)
{
    return client_step(self) && (LIKELY(client_pending(self) == 0) || client_tell(self));
}

/* Starting a call */

/* Make a call, if max_outstanding allows one more (call 1). */
static inline Call *admit(Client *self)
{
    if (UNLIKELY(self->outstanding >= self->max_outstanding)) {
        if (!client_step(self))
            return NULL;
        if (self->outstanding >= self->max_outstanding) {
            raise_error("BusyError", "(Oi)", Py_None, (int)self->outstanding);
            return NULL;
        }
    }
    return call_new(self);
}

/* Find a running server (call 2): 1 found, 0 wait for one, -1 an exception. */
static inline int find_server(Client *self)
{
    int64_t e = LOAD64_ACQUIRE(self->server_epoch); /* pairs with take server 4, evict */
    if (LIKELY(e == self->known && e != 0))
        return 1;
    const geometry *shape = &self->base.shape;
    const uint8_t *base = self->base.memory->base;
    if (!client_ask_gone(self))
        return -1;
    self->looked_epoch = e;
    self->looked_serving = LOAD64_ACQUIRE(base + shape->control + CONTROL_SERVING); /* pairs with take server 7 */
    if (!server_lives(shape, base, self->lock, e))
        return 0;
    sender fields = {0};
    sender_from_slot(&fields, base + subscriber_slot_offset(shape, 0), INT64_MAX); /* its name */
    memcpy(self->server_name, fields.name, sizeof self->server_name);
    self->server_name_length = fields.name_length;
    self->server_pid = LOAD32_RELAXED(base + subscriber_slot_offset(shape, 0) + SUBSCRIBER_SLOT_PID);
    self->known = e;
    return 1;
}

int client_publish(Client *self, Call *call, uint16_t operation, uint32_t credit, const void *bytes, int64_t length,
                   int32_t type)
{
    if (UNLIKELY(!epoch_holds(&self->base.epoch))) {
        client_explain_lost(self);
        return -1;
    }
    bool is_call = operation == REQUEST_OPERATION_CALL;
    request_prefix prefix = {call->sequence,
                             operation,
                             (uint16_t)credit,
                             is_call ? call->deadline : 0,
                             low_bits(self->base.epoch.value),
                             low_bits(self->known)};
    int published = service_publish(&self->writer, &prefix, sizeof prefix, bytes, length, type);
    if (published <= 0)
        return published;
    if (is_call) {
        call->position = self->writer.ring.end -
                         ring_record_size(&self->writer.ring, RECORD_HEADER_LENGTH + REQUEST_LENGTH + length);
        call_add(self, call);
        self->streams += call->credit != 0;
        if (call->deadline != 0) {
            self->deadlines++;
            self->next_deadline = call->deadline < self->next_deadline ? call->deadline : self->next_deadline;
        }
        client_set_outstanding(self);
    }
    wake_if_asleep(&self->waker, waiting_bit(self->number)); /* channel 6.1, 10 */
    return 1;
}

/* Try call 2 and 3 once. Returns as client_publish does. `there`: whether there is a server. */
static inline int try_start(Client *self, Call *call, const void *bytes, int64_t length, int32_t type, bool *there)
{
    int found = find_server(self);
    *there = found > 0;
    return found <= 0 ? found : client_publish(self, call, REQUEST_OPERATION_CALL, call->credit, bytes, length, type);
}

/* Raise that the time-out came before the request was published. */
static void expired_before(Client *self)
{
    STORE64_RELAXED(self->gate + GATE_EXPIRED, ++self->expired);
    raise_error("ExpiredError", "(i)", 0);
}

/* Do call 2 and 3, with waiting. False with an exception, and the call was not made. `state` was begun if *waits. */
static COLD bool start_waiting(Client *self, Call *call, const void *bytes, int64_t length, int32_t type,
                               wait_state *state, bool there)
{
    for (;;) {
        int again = turn(self, state, there ? FOR_ROOM : FOR_SERVER);
        if (again < 0 || !step_and_tell(self))
            return false;
        int started = try_start(self, call, bytes, length, type, &there);
        if (started != 0)
            return started > 0;
        if (again == 0) {
            expired_before(self);
            return false;
        }
    }
}

/* The parts of a request. */
typedef struct {
    PyObject *bytes; /* a reference */
    int32_t type;
    int64_t timeout;
    uint32_t credit;
    PyObject *callback; /* borrowed, or NULL */
} asked;

/* Parse the arguments of a request. `values`: data, type, timeout, callback, credit. False with an exception. */
static inline bool parse_asked(Client *self, PyObject *const *values, asked *what, bool nests)
{
    PyObject *type = values[1] == Py_None ? NULL : values[1];
    what->type = self->default_type;
    what->timeout = WAIT_UNLIMITED;
    what->callback = values[3] == Py_None ? NULL : values[3];
    what->bytes = NULL;
    if ((type != NULL && (what->type = parse_type(type)) == 0) ||
        (values[2] != NULL && (what->timeout = wait_timeout(values[2])) < 0) ||
        (what->bytes = bytes_of_answer(values[0], type, &what->type)) == NULL) {
        refuse(self, nests);
        return false;
    }
    int64_t longest = self->writer.ring.longest - RECORD_HEADER_LENGTH - REQUEST_LENGTH;
    if (UNLIKELY(PyBytes_Size(what->bytes) > longest)) {
        raise_error("MessageTooLargeError", "(LL)", (long long)PyBytes_Size(what->bytes), (long long)longest);
        refuse(self, nests);
        Py_CLEAR(what->bytes);
        return false;
    }
    return true;
}

/* Make and publish a call, within a verb. Returns a new reference; NULL with an exception. `state` is begun if the call
   waited, or is of_call. */
static inline Call *make_call(Client *self, const asked *what, wait_state *state, bool of_call)
{
    Call *call = admit(self);
    if (UNLIKELY(call == NULL))
        return NULL;
    call->of_call = of_call;
    call->credit = what->credit;
    call->callback = Py_XNewRef(what->callback);
    if (what->timeout != WAIT_UNLIMITED)
        call->deadline = service_later(service_now(&self->clock), what->timeout);
    bool there;
    const char *bytes = PyBytes_AsString(what->bytes);
    int64_t length = PyBytes_Size(what->bytes);
    int started = try_start(self, call, bytes, length, what->type, &there);
    if (LIKELY(started > 0)) {
        if (of_call)
            wait_begin(state, self->base.wait, self->base.spin, what->timeout);
        return call;
    }
    if (started == 0 && self->in_callback) {
        raise_error("TwoThreadsError", "(s)", self->base.kind->what);
        started = -1;
    }
    if (started == 0) {
        wait_begin(state, self->base.wait, self->base.spin, what->timeout);
        if (start_waiting(self, call, bytes, length, what->type, state, there))
            return call;
    }
    Py_DECREF((PyObject *)call);
    return NULL;
}

/* Wait until the call has ended, within a verb. False with an exception. */
static inline bool await_end(Client *self, Call *call, wait_state *state)
{
    for (;;) {
        int again = turn(self, state, FOR_REPLY);
        if (UNLIKELY(again < 0) || !step_and_tell(self))
            return false;
        if (LIKELY(call->end != CALL_RUNS))
            return true;
        if (UNLIKELY(again == 0)) {
            if (call->of_call && call->deadline != 0) /* its time is up by the clock of the wait */
                return client_finish(self, call, CALL_EXPIRED);
            raise_error("TimedOutError", "(s)", "the end of a call");
            return false;
        }
    }
}

PyObject *client_call(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"data", "type", "timeout"};
    static const signature expected = {parameters, 3, 1};
    PyObject *values[4] = {NULL, NULL, NULL, NULL};
    asked what = {.credit = 0};
    if (UNLIKELY(!parse_arguments(&expected, args, n, names, values)))
        return refuse(self, false);
    if (UNLIKELY(!parse_asked(self, values, &what, false)))
        return NULL;
    PyObject *answer = NULL;
    if (LIKELY(verb_begin(self, false))) {
        wait_state state;
        Py_INCREF((PyObject *)self); /* a callback may drop the last reference */
        Call *call = make_call(self, &what, &state, true);
        bool fine = verb_end(self, call != NULL && await_end(self, call, &state));
        if (LIKELY(fine && call->end == CALL_ANSWER)) {
            answer = call->answer;
            call->answer = NULL;
        } else if (fine) {
            call_raise_end(call);
        }
        Py_XDECREF((PyObject *)call);
        Py_DECREF((PyObject *)self);
    }
    Py_DECREF(what.bytes);
    return answer;
}

static PyObject *start(Client *self, const asked *what)
{
    if (!verb_begin(self, true))
        return NULL;
    wait_state state;
    Py_INCREF((PyObject *)self);
    Call *call = make_call(self, what, &state, false);
    if (!verb_end(self, call != NULL))
        Py_CLEAR(call);
    Py_DECREF((PyObject *)self);
    return (PyObject *)call;
}

PyObject *client_start(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"data", "type", "timeout", "callback"};
    static const signature expected = {parameters, 4, 1};
    PyObject *values[4] = {NULL, NULL, NULL, NULL};
    asked what = {.credit = 0};
    if (!parse_arguments(&expected, args, n, names, values))
        return refuse(self, true);
    if (!parse_asked(self, values, &what, true))
        return NULL;
    PyObject *call = start(self, &what);
    Py_DECREF(what.bytes);
    return call;
}

/* Parse the credit of a stream. False with an exception. */
static bool parse_credit(Client *self, PyObject *object, uint32_t *credit)
{
    int overflow = 0;
    long number = object == NULL ? DEFAULT_CREDIT : PyLong_AsLongAndOverflow(object, &overflow);
    if (number == -1 && PyErr_Occurred())
        return false;
    if (self->least || overflow != 0 || number < 1 || number > MOST_CREDIT) {
        raise_error("InvalidArgumentError", "(ss)", "credit",
                    self->least ? "a service of at-least-once delivery has no streams" : "it must be 1 to 65535");
        return false;
    }
    *credit = (uint32_t)number;
    return true;
}

PyObject *client_stream(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"data", "type", "credit", "timeout", "callback"};
    static const signature expected = {parameters, 5, 1};
    PyObject *values[5] = {NULL, NULL, NULL, NULL, NULL};
    asked what = {.credit = 0};
    if (!parse_arguments(&expected, args, n, names, values))
        return refuse(self, true);
    PyObject *of_call[4] = {values[0], values[1], values[3], values[4]};
    if (!parse_asked(self, of_call, &what, true))
        return NULL;
    PyObject *call = NULL;
    if (parse_credit(self, values[2], &what.credit))
        call = start(self, &what);
    else
        refuse(self, true);
    Py_DECREF(what.bytes);
    return call;
}

/* For call_async: (data, type, timeout, credit, callback). Returns a call, or None if it would wait. */
PyObject *client_start_now(Client *self, PyObject *const *args, Py_ssize_t n)
{
    asked what = {.credit = 0};
    if (n != 5) {
        PyErr_SetString(PyExc_TypeError, "five arguments");
        return NULL;
    }
    PyObject *of_call[4] = {args[0], args[1], args[2], args[4]};
    if (!parse_asked(self, of_call, &what, true))
        return NULL;
    PyObject *result = NULL;
    if (args[3] != Py_None && !parse_credit(self, args[3], &what.credit)) {
        refuse(self, true);
    } else if (verb_begin(self, true)) {
        Call *call = admit(self);
        bool there = false;
        int started = -1;
        if (call != NULL) {
            call->credit = what.credit;
            call->callback = Py_XNewRef(what.callback);
            if (what.timeout != WAIT_UNLIMITED)
                call->deadline = service_later(service_now(&self->clock), what.timeout);
            started = try_start(self, call, PyBytes_AsString(what.bytes), PyBytes_Size(what.bytes), what.type, &there);
        }
        if (started == 0 && what.timeout == WAIT_NOT) {
            expired_before(self);
            started = -1;
        }
        self->async_wants = started != 0 ? FOR_REPLY : there ? FOR_ROOM : FOR_SERVER;
        if (verb_end(self, started >= 0))
            result = Py_NewRef(started > 0 ? (PyObject *)call : Py_None);
        Py_XDECREF((PyObject *)call);
    }
    Py_DECREF(what.bytes);
    return result;
}

PyObject *client_want_nothing(Client *self, PyObject *ignored)
{
    (void)ignored;
    self->async_wants = FOR_REPLY;
    return Py_NewRef(Py_None);
}

/* Poll, and the verbs of calls */

PyObject *client_poll(Client *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int64_t timeout = WAIT_NOT;
    if ((n != 0 || names != NULL) && (timeout = reader_take_timeout(&self->base, args, n, names)) < 0)
        return NULL;
    if (!verb_begin(self, false))
        return NULL;
    Py_INCREF((PyObject *)self);
    self->look_due = false;
    if (UNLIKELY(self->base.notifier != NULL))
        self->ask_gone = true; /* because fileno may have become readable at a cap */
    bool fine = client_step(self);
    if (fine && client_pending(self) == 0 && timeout != WAIT_NOT) {
        wait_state state;
        wait_begin(&state, self->base.wait, self->base.spin, timeout);
        for (int again = 1; fine && again > 0 && client_pending(self) == 0;) {
            again = turn(self, &state, FOR_REPLY);
            fine = again >= 0 && client_step(self);
        }
    }
    Py_ssize_t found = client_pending(self);
    if (fine)
        self->base.idle = found != 0 ? 0 : self->base.idle + 1;
    fine = verb_end_sending(self, fine);
    if (fine && found == 0 && self->base.idle >= POLLS_TO_LOOK)
        fine = reader_check_replaced(&self->base);
    if (fine && found == 0)
        fine = reader_rearm(&self->base);
    Py_DECREF((PyObject *)self);
    return fine ? PyLong_FromSsize_t(found) : NULL;
}

bool client_await(Client *self, Call *call, int64_t timeout)
{
    if (!verb_begin(self, false))
        return false;
    bool fine = step_and_tell(self);
    if (fine && call->end == CALL_RUNS) {
        wait_state state;
        wait_begin(&state, self->base.wait, self->base.spin, timeout);
        fine = await_end(self, call, &state);
    }
    return verb_end_sending(self, fine);
}

bool client_cancel(Client *self, Call *call)
{
    if (!verb_begin(self, true))
        return false;
    bool fine = client_finish(self, call, CALL_CANCELLED);
    call->cancel_due = true;
    self->due++;
    return verb_end(self, client_send_due(self) && fine);
}

/* Take the next item that has arrived, or NULL. */
static PyObject *take_item(Call *call)
{
    if (call->items == NULL || call->next_item >= PyList_Size(call->items))
        return NULL;
    PyObject *item = Py_NewRef(PyList_GetItem(call->items, call->next_item++));
    if (call->next_item == PyList_Size(call->items)) {
        PyList_SetSlice(call->items, 0, call->next_item, NULL);
        call->next_item = 0;
    }
    call->consumed++;
    return item;
}

PyObject *client_next(Call *call, int64_t timeout)
{
    Client *self = call->client;
    PyObject *item = take_item(call);
    if (self == NULL || (item != NULL && 2 * call->consumed < call->credit))
        return item;
    if (item != NULL) {
        if (self->base.use == IDLE && epoch_holds(&self->base.epoch) && !self->corrupt && verb_begin(self, false) &&
            !verb_end(self, client_send_due(self)))
            PyErr_Clear(); /* the next verb raises it again */
        return item;
    }
    if (call->end != CALL_RUNS || (is_nested(self) && timeout == WAIT_NOT))
        return NULL;
    if (!verb_begin(self, false))
        return NULL;
    bool fine = step_and_tell(self);
    wait_state state;
    wait_begin(&state, self->base.wait, self->base.spin, timeout);
    for (int again = 1;
         fine && (item = take_item(call)) == NULL && call->end == CALL_RUNS && again > 0 && timeout != WAIT_NOT;) {
        again = turn(self, &state, FOR_REPLY);
        fine = again >= 0 && step_and_tell(self);
    }
    if (!verb_end_sending(self, fine))
        Py_CLEAR(item);
    return item;
}
