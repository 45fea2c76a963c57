/* SPDX-License-Identifier: Apache-2.0 */
/* Call, and the table of outstanding calls (spec/service.md 6). */
#include "client.h"

#include <structmember.h>

#define FIRST_BUCKETS 8

PyTypeObject *call_type;

/* The table */

static bool grow(Client *self, uint32_t buckets)
{
    Call **wider = PyMem_Calloc(buckets, sizeof *wider);
    if (wider == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (Call *call = self->first; call != NULL; call = call->behind) {
        Call **bucket = &wider[call->sequence & (buckets - 1)];
        call->next_of_bucket = *bucket;
        *bucket = call;
    }
    PyMem_Free(self->buckets);
    self->buckets = wider;
    self->bucket_mask = buckets - 1;
    return true;
}

Call *call_find(const Client *self, uint32_t sequence)
{
    if (UNLIKELY(self->buckets == NULL))
        return NULL;
    Call *call = self->buckets[sequence & self->bucket_mask];
    while (call != NULL && call->sequence != sequence)
        call = call->next_of_bucket;
    return call;
}

Call *call_new(Client *client)
{
    if (UNLIKELY(client->buckets == NULL) && !grow(client, FIRST_BUCKETS))
        return NULL;
    if (UNLIKELY((uint32_t)client->outstanding > client->bucket_mask) && !grow(client, 2 * (client->bucket_mask + 1)))
        return NULL;
    Call *self = PyObject_New(Call, call_type);
    if (UNLIKELY(self == NULL))
        return NULL;
    memset((char *)self + offsetof(Call, client), 0, sizeof *self - offsetof(Call, client));
    do
        client->last_sequence++;
    while (client->last_sequence == 0 || call_find(client, client->last_sequence) != NULL);
    self->sequence = client->last_sequence;
    return self;
}

void call_add(Client *self, Call *call)
{
    Py_INCREF((PyObject *)call);
    call->client = self;
    call->before = self->last;
    call->behind = NULL;
    *(self->last != NULL ? &self->last->behind : &self->first) = call;
    self->last = call;
    Call **bucket = &self->buckets[call->sequence & self->bucket_mask];
    call->next_of_bucket = *bucket;
    *bucket = call;
    self->outstanding++;
}

void call_remove(Call *call)
{
    Client *self = call->client;
    Call **at = &self->buckets[call->sequence & self->bucket_mask];
    while (*at != call)
        at = &(*at)->next_of_bucket;
    *at = call->next_of_bucket;
    *(call->before != NULL ? &call->before->behind : &self->first) = call->behind;
    *(call->behind != NULL ? &call->behind->before : &self->last) = call->before;
    call->before = call->behind = call->next_of_bucket = NULL;
    call->client = NULL;
    self->outstanding--;
    Py_DECREF((PyObject *)call);
}

/* How it ended */

static PyObject *raise_with_text(const char *error, const char *format, const Call *call)
{
    PyObject *text = call->text == NULL
                         ? PyUnicode_FromString("")
                         : PyUnicode_DecodeUTF8(PyBytes_AsString(call->text), PyBytes_Size(call->text), "replace");
    if (text == NULL)
        return NULL;
    if (call->end == CALL_SERVER_GONE)
        raise_error(error, format, (int)call->may_have_run, text, (int)call->pid);
    else if (call->end == CALL_CORRUPT_RING)
        raise_error(error, format, (int)call->slot, (long long)call->corrupt_at, text);
    else
        raise_error(error, format, text);
    Py_DECREF(text);
    return NULL;
}

PyObject *call_raise_end(const Call *call)
{
    switch (call->end) {
    case CALL_ERROR:
        return raise_with_text("ServiceError", "(O)", call);
    case CALL_EXPIRED:
        return raise_error("ExpiredError", "(i)", (int)call->may_have_run);
    case CALL_SERVER_GONE:
        return raise_with_text("ServerGoneError", "(iOi)", call);
    case CALL_CANCELLED:
        return raise_error("CancelledError", "(s)", "the end of a call");
    case CALL_SLOT_LOST:
        return raise_error("SlotLostError", "(si)", "subscriber", (int)call->slot);
    case CALL_CORRUPT_RING:
        return raise_with_text("CorruptRingError", "(iLO)", call);
    default:
        return raise_error("ClosedError", "(sis)", "client", 0,
                           "it was closed before this call ended; what was published is run all the same");
    }
}

/* Methods */

static int64_t parse_timeout(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"timeout"};
    static const signature expected = {parameters, 1, 0};
    PyObject *values[1] = {NULL};
    if (!parse_arguments(&expected, args, n, names, values))
        return -1;
    return values[0] == NULL ? WAIT_UNLIMITED : wait_timeout(values[0]);
}

static PyObject *call_result(Call *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int64_t timeout = parse_timeout(args, n, names);
    if (timeout < 0)
        return NULL;
    if (self->end == CALL_RUNS && self->client != NULL) {
        Client *client = (Client *)Py_NewRef((PyObject *)self->client);
        bool fine = client_await(client, self, timeout);
        Py_DECREF((PyObject *)client);
        if (!fine)
            return NULL;
    }
    if (self->end == CALL_ANSWER && self->answer != NULL)
        return Py_NewRef(self->answer);
    return call_raise_end(self);
}

static PyObject *next_item(Call *self, int64_t timeout)
{
    Client *client = self->client;
    Py_XINCREF((PyObject *)client);
    PyObject *item = client_next(self, timeout);
    Py_XDECREF((PyObject *)client);
    if (item == NULL && !PyErr_Occurred() && self->end != CALL_RUNS && self->end != CALL_ANSWER)
        call_raise_end(self);
    return item;
}

static PyObject *call_next(Call *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    int64_t timeout = parse_timeout(args, n, names);
    PyObject *item = timeout < 0 ? NULL : next_item(self, timeout);
    return item == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : item;
}

static PyObject *call_iterate(Call *self)
{
    for (;;) {
        PyObject *item = next_item(self, WAIT_UNLIMITED);
        if (item != NULL || PyErr_Occurred() || self->end != CALL_RUNS)
            return item;
    }
}

static PyObject *call_cancel(Call *self, PyObject *ignored)
{
    (void)ignored;
    if (self->end != CALL_RUNS || self->client == NULL)
        return Py_NewRef(Py_None);
    Client *client = (Client *)Py_NewRef((PyObject *)self->client);
    bool fine = client_cancel(client, self);
    Py_DECREF((PyObject *)client);
    return fine ? Py_NewRef(Py_None) : NULL;
}

/* For async: the number of items that have arrived. */
static PyObject *call_has_item(Call *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->items != NULL && self->next_item < PyList_Size(self->items));
}

static PyObject *call_is_stream(Call *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->credit != 0);
}

static PyObject *call_done(Call *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->end != CALL_RUNS);
}

static PyObject *call_repeat(Call *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(self->repeat);
}

/* For async: the client, while the call is outstanding. */
static PyObject *call_client(Call *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef(self->client == NULL ? Py_None : (PyObject *)self->client);
}

static PyObject *call_set_callback(Call *self, PyObject *callback)
{
    PyObject *before = self->callback;
    self->callback = self->end == CALL_RUNS && callback != Py_None ? Py_NewRef(callback) : NULL;
    Py_XDECREF(before);
    return Py_NewRef(Py_None);
}

static PyObject *call_aiter(PyObject *self)
{
    PyObject *module = PyImport_ImportModule("flyring.client");
    PyObject *items = module == NULL ? NULL : PyObject_CallMethod(module, "Items", "O", self);
    Py_XDECREF(module);
    return items;
}

static void call_dealloc(Call *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF(self->answer);
    Py_XDECREF(self->text);
    Py_XDECREF(self->items);
    Py_XDECREF(self->callback);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *call_repr(Call *self)
{
    static const char *const ends[] = {"runs",      "answer", "service-error", "expired",     "server-gone",
                                       "cancelled", "closed", "slot-lost",     "corrupt-ring"};
    return PyUnicode_FromFormat("<flyring.Call %u: %s>", (unsigned)self->sequence, ends[self->end]);
}

static PyMethodDef methods[] = {
    {"result", KEYWORDS(call_result),
     "result($self, /, timeout=None)\n--\n\n"
     "Waits for the answer, and returns it. For a stream, returns an empty answer at the end of the stream.\n\n"
     "Raises ServiceError, ExpiredError, ServerGoneError, CancelledError, ClosedError, SlotLostError or\n"
     "CorruptRingError if the call ended without an answer. Raises TimedOutError after ``timeout`` seconds\n"
     "(None: no limit), and ChannelReplacedError if another channel has the name now; after these two the call\n"
     "goes on."},
    {"next", KEYWORDS(call_next),
     "next($self, /, timeout=None)\n--\n\n"
     "Streams only: waits for the next item, and returns it. Returns None at the end of the stream, and after\n"
     "``timeout`` seconds (None: no limit); ``done`` tells these apart. Raises the errors of ``result``, after\n"
     "the last item that arrived."},
    {"cancel", (PyCFunction)call_cancel, METH_NOARGS,
     "cancel($self, /)\n--\n\n"
     "Ends the call with CancelledError at once, and tells the server. Does nothing if the call has ended."},
    {"_set_callback", (PyCFunction)call_set_callback, METH_O, "for async"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"done", (getter)call_done, NULL, "whether the call has ended", NULL},
    {"repeat", (getter)call_repeat, NULL, "whether the request of the answer may have run more than once", NULL},
    {"_has_item", (getter)call_has_item, NULL, "for async", NULL},
    {"_stream", (getter)call_is_stream, NULL, "for tests: whether it takes a stream", NULL},
    {"_client", (getter)call_client, NULL, "for async", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"_sequence", T_UINT, offsetof(Call, sequence), READONLY, "its number, for tests"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A call of a client, under way or ended (spec/api.md). Made by ``Client.start`` and\n"
                "``Client.stream``.\n\n"
                "A call is used by the thread of its client. ``for item in call`` and ``async for`` iterate over\n"
                "the items of a stream. A call that is dropped goes on, and its answer is discarded."},
    {Py_tp_dealloc, call_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, getters},
    {Py_tp_repr, call_repr},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, call_iterate},
    {Py_am_aiter, call_aiter},
    {0, NULL},
};

static PyType_Spec spec = {"flyring.Call", sizeof(Call), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

PyTypeObject *make_call_type(PyObject *module)
{
    return call_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
