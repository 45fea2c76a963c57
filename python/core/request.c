/* SPDX-License-Identifier: Apache-2.0 */
/* Request: one request in a server's hand (spec/service.md 5), and the methods that answer it from any thread. */
#include "sbe/sbe.h"
#include "server.h"

#include <structmember.h>

PyTypeObject *request_type;

/* Contents of an answer */

PyObject *bytes_of_answer(PyObject *object, PyObject *type_given, int32_t *type)
{
    if (LIKELY(PyBytes_CheckExact(object)))
        return Py_NewRef(object);
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0)
        return message_to_offer(object, type_given, type);
    PyObject *bytes = PyBytes_FromStringAndSize(view.buf, view.len);
    PyBuffer_Release(&view);
    return bytes;
}

/* Encode a string as UTF-8; characters that cannot be encoded are replaced. */
static PyObject *bytes_of_text(PyObject *text)
{
    return PyUnicode_AsEncodedString(text, "utf-8", "replace");
}

PyObject *text_of_exception(void)
{
    PyObject *kind, *value, *traceback, *text = NULL, *bytes = NULL;
    PyErr_Fetch(&kind, &value, &traceback);
    PyErr_NormalizeException(&kind, &value, &traceback);
    if (value != NULL && (text = PyObject_Str(value)) != NULL && PyUnicode_GetLength(text) == 0)
        Py_CLEAR(text);
    if (text == NULL && kind != NULL) { /* the exception has no text, or making the text raised */
        PyErr_Clear();
        text = PyType_GetName((PyTypeObject *)kind);
    }
    if (text != NULL)
        bytes = bytes_of_text(text);
    Py_XDECREF(text);
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return bytes;
}

/* Creation and end */

static Request *request_make(Py_ssize_t length)
{
    Request *self = PyObject_NewVar(Request, request_type, length);
    if (UNLIKELY(self == NULL))
        return NULL;
    memset((char *)self + offsetof(Request, server), 0, sizeof *self - offsetof(Request, server));
    return self;
}

Request *request_new(Server *server, service_side *side, const uint8_t *bytes, int64_t length, int32_t type)
{
    PyObject *from = sender_object(&side->from);
    Request *self = from == NULL ? NULL : request_make((Py_ssize_t)length);
    if (UNLIKELY(self == NULL))
        return NULL;
    message_fill(&self->message, self->bytes, (Py_ssize_t)length, type, side->number, side->cursor, from);
    self->position = side->cursor;
    self->count = side->count;
    self->clock = server->clock;
    self->client = side->number;
    memcpy(self->bytes, bytes, (size_t)length);
    return self;
}

/* Fail a request that was kept and then dropped without an answer. Another object takes its place, because the reply
   may wait for room. */
static COLD void answer_for_the_dropped(Request *self)
{
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    service_side *side = side_of(self);
    Request *other = request_make(0);
    if (other != NULL) {
        message_fill(&other->message, other->bytes, 0, self->message.type, self->message.ring, self->message.position,
                     self->message.sender);
        memcpy((char *)other + offsetof(Request, server), (char *)self + offsetof(Request, server),
               sizeof *self - offsetof(Request, server));
    }
    if (other != NULL) {
        *(self->before != NULL ? &self->before->behind : &side->first) = other;
        *(self->behind != NULL ? &self->behind->before : &side->last) = other;
        Server *server = self->server;
        self->server = NULL;
        Py_INCREF((PyObject *)server);
        if (server_fail(other, "no answer", 9))
            server_settle(server, side);
        else if (other->server != NULL)
            server_forget(other); /* the slot was lost, or memory is missing: the call ends as server gone */
        Py_DECREF((PyObject *)server);
        Py_DECREF((PyObject *)other);
    } else {
        server_forget(self);
    }
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}

static void request_dealloc(Request *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (UNLIKELY(self->server != NULL))
        answer_for_the_dropped(self);
    Py_XDECREF(self->message.sender);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Verbs */

/* Raises and returns false if the request cannot be answered now. */
static bool may_answer(Request *self)
{
    if (self->answered || self->streaming) {
        raise_error("InvalidArgumentError", "(ss)", "reply", "this request was answered before; answer each once");
    } else if (self->server == NULL) {
        raise_error("ClosedError", "(sis)", "server", 0,
                    "the call of this request ended as server gone, or goes to the next server");
    } else {
        return self->server->base.closed || self->server->base.forked || !epoch_holds(&self->server->base.epoch)
                   ? server_explain_lost(self->server)
                   : true;
    }
    return false;
}

/* Finish after a reply that is in the ring or waits for room. */
static PyObject *answered(Server *server, service_side *side, bool kept, bool fine)
{
    if (fine && kept) /* else the poll does this */
        server_settle(server, side);
    Py_DECREF((PyObject *)server);
    return fine ? Py_NewRef(Py_None) : NULL;
}

static PyObject *request_reply(Request *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"data", "type"};
    static const signature expected = {parameters, 2, 1};
    PyObject *values[2] = {NULL, NULL};
    if (!may_answer(self))
        return NULL;
    int32_t type = self->server->default_type;
    if (!parse_arguments(&expected, args, n, names, values))
        return NULL;
    if (values[1] == Py_None)
        values[1] = NULL;
    if (values[1] != NULL && (type = parse_type(values[1])) == 0)
        return NULL;
    PyObject *bytes = bytes_of_answer(values[0], values[1], &type);
    if (bytes == NULL || !may_answer(self)) { /* checked now, because getting the bytes may have run Python code */
        Py_XDECREF(bytes);
        return NULL;
    }
    service_side *side = side_of(self);
    Server *server = (Server *)Py_NewRef((PyObject *)self->server);
    int64_t longest = side->writer.ring.longest - RECORD_HEADER_LENGTH - REPLY_LENGTH;
    bool fine = PyBytes_Size(bytes) <= longest;
    if (fine)
        fine = server_finish(self, REPLY_STATUS_OK, PyBytes_AsString(bytes), PyBytes_Size(bytes), type);
    else
        raise_error("MessageTooLargeError", "(LL)", (long long)PyBytes_Size(bytes), (long long)longest);
    Py_DECREF(bytes);
    return answered(server, side, self->kept, fine);
}

static PyObject *request_fail(Request *self, PyObject *text)
{
    if (!may_answer(self))
        return NULL;
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "text must be a string");
        return NULL;
    }
    PyObject *bytes = bytes_of_text(text);
    if (bytes == NULL || !may_answer(self)) {
        Py_XDECREF(bytes);
        return NULL;
    }
    service_side *side = side_of(self);
    Server *server = (Server *)Py_NewRef((PyObject *)self->server);
    bool fine = server_fail(self, PyBytes_AsString(bytes), PyBytes_Size(bytes));
    Py_DECREF(bytes);
    return answered(server, side, self->kept, fine);
}

static PyObject *request_keep(Request *self, PyObject *ignored)
{
    (void)ignored;
    if (self->answered && !self->streaming)
        return raise_error("InvalidArgumentError", "(ss)", "keep",
                           "this request was answered; there is nothing to keep it for");
    self->kept = true;
    return Py_NewRef((PyObject *)self);
}

/* Begin a stream (service.md 7). This call and later polls send its items. */
static PyObject *request_stream(Request *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"items", "type"};
    static const signature expected = {parameters, 2, 1};
    PyObject *values[2] = {NULL, NULL};
    int32_t type = 0;
    if (!may_answer(self) || !parse_arguments(&expected, args, n, names, values))
        return NULL;
    if (values[1] != NULL && values[1] != Py_None && (type = parse_type(values[1])) == 0)
        return NULL;
    if (!self->is_stream)
        return raise_error("InvalidArgumentError", "(ss)", "stream",
                           "the caller of this request takes one answer, no stream; see is_stream");
    PyObject *items = PyObject_GetIter(values[0]);
    if (items == NULL || !may_answer(self)) {
        Py_XDECREF(items);
        return NULL;
    }
    Server *server = (Server *)Py_NewRef((PyObject *)self->server);
    service_side *side = side_of(self);
    self->items = items;
    self->given_type = type;
    self->streaming = true;
    Py_INCREF((PyObject *)self); /* the stream's reference, until its end */
    side->streams++;
    server->streams++;
    return answered(server, side, self->kept, server_go_on(self));
}

static PyObject *request_remaining(Request *self, PyObject *ignored)
{
    (void)ignored;
    if (self->deadline <= 0)
        return Py_NewRef(Py_None);
    int64_t left = self->deadline - service_now(&self->clock);
    return PyFloat_FromDouble(left < 0 ? 0.0 : (double)left / 1e9);
}

static PyObject *get_flag(Request *self, void *which)
{
    return PyBool_FromLong(*(bool *)((char *)self + (size_t)which));
}

static PyObject *request_repr(Request *self)
{
    return PyUnicode_FromFormat("<flyring.Request client=%d type=%d: %zd bytes%s>", (int)self->client,
                                (int)self->message.type, self->message.length, self->answered ? ", answered" : "");
}

static PyMethodDef methods[] = {
    {"reply", KEYWORDS(request_reply),
     "reply($self, /, data, type=None)\n--\n\n"
     "Answers the request. Thread-safe.\n\n"
     "``data``: bytes, or a message of a generated class. ``type`` None: 1, or 65536 on a channel with a\n"
     "schema; for a message of a class its template id.\n\n"
     "Raises InvalidArgumentError if the request was answered before; MessageTooLargeError, in which case\n"
     "nothing was sent; SlotLostError; ClosedError."},
    {"fail", (PyCFunction)request_fail, METH_O,
     "fail($self, text, /)\n--\n\n"
     "Ends the call with ServiceError and this text; at most 1024 bytes of the text are sent. Raises the errors\n"
     "of ``reply``."},
    {"keep", (PyCFunction)request_keep, METH_NOARGS,
     "keep($self, /)\n--\n\n"
     "Keeps the request beyond its handler, and returns it, so that any thread may answer later. A kept request\n"
     "that is dropped without an answer fails with ``no answer``."},
    {"stream", KEYWORDS(request_stream),
     "stream($self, /, items, type=None)\n--\n\n"
     "Answers with the items of an iterable, and then ends the stream. The server's polls take the next item\n"
     "when the caller has credit and the ring has room; they read one item ahead.\n\n"
     "If the iterable raises, the stream ends with ServiceError. Raises the errors of ``reply``, and\n"
     "InvalidArgumentError if the caller did not ask for a stream."},
    {"remaining", (PyCFunction)request_remaining, METH_NOARGS,
     "remaining($self, /)\n--\n\n"
     "Returns for how many more seconds the caller waits, at least 0; None if it has no time-out."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"client", T_INT, offsetof(Request, client), READONLY, "the number of the client that calls"},
    {"sequence", T_UINT, offsetof(Request, sequence), READONLY, "the number of this call among the client's calls"},
    {NULL, 0, 0, 0, NULL},
};

#define FLAG(field) (void *)offsetof(Request, field)
static PyGetSetDef getters[] = {
    {"cancelled", (getter)get_flag, NULL, "whether the client no longer waits, or has gone", FLAG(cancelled)},
    {"repeat", (getter)get_flag, NULL, "whether it may have run before (at-least-once delivery)", FLAG(repeat)},
    {"is_stream", (getter)get_flag, NULL, "whether the client asked for a stream", FLAG(is_stream)},
    {"answered", (getter)get_flag, NULL, "whether it was answered", FLAG(answered)},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "One request that a server handles. A message that owns its bytes (spec/api.md).\n\n"
                "The handler answers by ``reply``, or by the value that it returns. A request that the handler\n"
                "keeps with ``keep`` may be answered later, from any thread."},
    {Py_tp_dealloc, request_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, getters},
    {Py_tp_repr, request_repr},
    {0, NULL},
};

static PyType_Spec spec = {"flyring.Request", sizeof(Request), 1,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

PyTypeObject *make_request_type(PyObject *module)
{
    return request_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, (PyObject *)message_type);
}
