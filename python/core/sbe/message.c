/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over a user's buffer, a claim, or a message from poll or take. */
#include "arguments.h"
#include "sbe.h"

PyTypeObject *message_flyweight_type;
uint8_t *const no_bytes = NULL;

/* Life */

MessageFlyweight *message_of(PyObject *class, Layout *layout)
{
    MessageFlyweight *self = (MessageFlyweight *)PyType_GenericAlloc((PyTypeObject *)class, 0);
    if (self == NULL)
        return NULL;
    self->base.root = self;
    self->base.layout = (Layout *)Py_NewRef((PyObject *)layout);
    self->source = &no_bytes;
    return self;
}

void message_begin(MessageFlyweight *self, uint8_t *const *source, int64_t start, int64_t length, int64_t offset,
                   int64_t block_length, int64_t version, bool writing)
{
    self->source = source;
    self->start = start;
    self->length = length;
    self->base.offset = offset;
    self->base.block_length = block_length;
    self->base.version = version;
    self->base.writing = writing;
    self->base.part = 0;
    self->base.position = self->limit = offset + block_length;
}

bool message_make_frames(MessageFlyweight *self)
{
    Layout *layout = self->base.layout;
    if (LIKELY(layout->part_count == 0))
        return true;
    self->frames = PyMem_Calloc((size_t)layout->depth + 1, sizeof(frame));
    if (self->frames == NULL) {
        PyErr_NoMemory();
        return false;
    }
    self->frames->layout = layout;
    return true;
}

/* Release the bytes of a message. A claim must have ended before. */
static void message_end_of_life(MessageFlyweight *self)
{
    self->source = &no_bytes;
    self->claim.data = NULL;
    Py_CLEAR(self->owner);
    if (self->view.obj != NULL)
        PyBuffer_Release(&self->view);
}

static void message_dealloc(MessageFlyweight *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (claim_has_writer(&self->claim))
        claim_drop(&self->claim);
    message_end_of_life(self);
    PyMem_Free(self->frames);
    Py_XDECREF((PyObject *)self->base.layout);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Over buffers */

/* Find the bytes of a buffer, and their `length`. Returns the source, or NULL with an exception. */
static uint8_t *const *bind(MessageFlyweight *self, PyObject *buffer, bool writing, int64_t *length)
{
    static uint8_t nothing[1]; /* an empty buffer points here */
    if (is_message(buffer) && !writing) {
        Message *message = (Message *)buffer;
        *length = message->length;
        self->owner = Py_NewRef(buffer);
        if (message->data != NULL)
            return (uint8_t *const *)&message->data;
        raise_error("ClosedError", "(sis)", "message", 0, "it was valid until its handler returned");
        return NULL;
    }
    if (Py_TYPE(buffer) == claim_type) {
        Claim *claim = (Claim *)buffer;
        *length = claim->length;
        self->owner = Py_NewRef(buffer);
        if (claim->data != NULL && !claim_is_forked(claim))
            return &claim->data;
        raise_error("ClosedError", "(si)", "claim", (int)claim_is_forked(claim));
        return NULL;
    }
    if (PyObject_GetBuffer(buffer, &self->view, writing ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0)
        return NULL;
    *length = self->view.len;
    self->claim.data = self->view.buf != NULL ? self->view.buf : nothing;
    return &self->claim.data;
}

static bool parse_offset(PyObject *number, int64_t *offset)
{
    *offset = number == NULL ? 0 : PyNumber_AsSsize_t(number, PyExc_OverflowError);
    if (*offset == -1 && PyErr_Occurred())
        return false;
    if (*offset < 0)
        raise_error("InvalidArgumentError", "(ss)", "offset", "must be 0 or more bytes");
    return *offset >= 0;
}

/* Whether the buffer has `needed` bytes from `offset` on. Raises if not. */
static bool long_enough(MessageFlyweight *self, int64_t offset, int64_t length, uint64_t needed)
{
    if (offset <= length && needed <= (uint64_t)(length - offset))
        return true;
    sbe_fail(&self->base, NULL, "MessageTooShortError", "%llu bytes at offset %lld are needed, but the buffer has %lld",
             (unsigned long long)needed, (long long)offset, (long long)length);
    return false;
}

static bool begin_encode(MessageFlyweight *self, PyObject *buffer, int64_t offset)
{
    Layout *layout = self->base.layout;
    int64_t length;
    uint8_t *const *source = bind(self, buffer, true, &length);
    if (source == NULL ||
        !long_enough(self, offset, length, (uint64_t)(layout->header_length + layout->block_length)) ||
        !message_make_frames(self))
        return false;
    memcpy(*source + offset, layout->header, (size_t)layout->header_length);
    message_begin(self, source, offset, length, offset + layout->header_length, layout->block_length, layout->version,
                  true);
    return true;
}

static bool begin_decode(MessageFlyweight *self, PyObject *buffer, int64_t offset)
{
    Layout *layout = self->base.layout;
    int64_t length;
    uint8_t *const *source = bind(self, buffer, false, &length);
    if (source == NULL || !long_enough(self, offset, length, (uint64_t)layout->header_length))
        return false;
    const uint8_t *header = *source + offset;
    uint64_t block_length = load_place(header, &layout->header_block_length);
    uint64_t template_id = load_place(header, &layout->header_template_id);
    uint64_t schema_id = load_place(header, &layout->header_schema_id);
    uint64_t version = load_place(header, &layout->header_version);
    if (schema_id != layout->schema_id) {
        sbe_fail(&self->base, NULL, "WrongMessageError", "the header is of schema %llu, not %llu",
                 (unsigned long long)schema_id, (unsigned long long)layout->schema_id);
        return false;
    }
    if (template_id != layout->template_id) {
        sbe_fail(&self->base, NULL, "WrongMessageError", "the header is of template %llu, not %llu",
                 (unsigned long long)template_id, (unsigned long long)layout->template_id);
        return false;
    }
    if (!long_enough(self, offset + layout->header_length, length, block_length))
        return false;
    message_begin(self, source, offset, length, offset + layout->header_length, (int64_t)block_length,
                  version > INT64_MAX ? INT64_MAX : (int64_t)version, false);
    return true;
}

static MessageFlyweight *of_class(PyObject *class)
{
    Layout *layout = layout_of(class, message_flyweight_type);
    if (layout != NULL && layout->header == NULL) {
        PyErr_Format(PyExc_TypeError, "%R has no message header", class);
        return NULL;
    }
    return layout == NULL ? NULL : message_of(class, layout);
}

static PyObject *over_buffer(PyObject *class, PyObject *const *args, Py_ssize_t n, PyObject *names,
                             bool (*begin)(MessageFlyweight *, PyObject *, int64_t))
{
    static const char *const parameters[] = {"buffer", "offset"};
    static const signature expected = {parameters, 2, 1};
    PyObject *values[2] = {NULL, NULL};
    int64_t offset;
    if (!parse_arguments(&expected, args, n, names, values) || !parse_offset(values[1], &offset))
        return NULL;
    MessageFlyweight *self = of_class(class);
    if (self != NULL && !begin(self, values[0], offset))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *message_encode(PyObject *class, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return over_buffer(class, args, n, names, begin_encode);
}

static PyObject *message_decode(PyObject *class, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    return over_buffer(class, args, n, names, begin_decode);
}

static PyObject *message_wrap(PyObject *class, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"buffer", "offset", "block_length", "version"};
    static const signature expected = {parameters, 4, 1};
    PyObject *values[4] = {NULL, NULL, NULL, NULL};
    int64_t offset, length;
    if (!parse_arguments(&expected, args, n, names, values) || !parse_offset(values[1], &offset))
        return NULL;
    MessageFlyweight *self = of_class(class);
    if (self == NULL)
        return NULL;
    int64_t block_length = self->base.layout->block_length, version = self->base.layout->version;
    for (int i = 2; i < 4; i++)
        values[i] = values[i] == Py_None ? NULL : values[i];
    uint8_t *const *source = NULL;
    if (parse_count(values[2], "block_length", &block_length) && parse_count(values[3], "version", &version))
        source = bind(self, values[0], false, &length);
    if (source == NULL || !long_enough(self, offset, length, (uint64_t)block_length)) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    message_begin(self, source, offset, length, offset, block_length, version, false);
    return (PyObject *)self;
}

/* Claims */

/* Raises and returns false if the message is not an open claim. */
static bool is_claim(MessageFlyweight *self)
{
    if (!claim_has_writer(&self->claim))
        sbe_fail(&self->base, NULL, "SbeError", "it was not claimed from a publisher: there is nothing to end");
    else if (self->claim.data == NULL)
        sbe_dead(&self->base);
    else
        return true;
    return false;
}

static PyObject *message_commit(MessageFlyweight *self, PyObject *ignored)
{
    (void)ignored;
    return LIKELY(is_claim(self) && parts_complete(self)) ? claim_close(&self->claim, true) : NULL;
}

static PyObject *message_abort(MessageFlyweight *self, PyObject *ignored)
{
    (void)ignored;
    return is_claim(self) ? claim_close(&self->claim, false) : NULL;
}

static PyObject *message_enter(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_NewRef(self);
}

static PyObject *message_exit(MessageFlyweight *self, PyObject *const *args, Py_ssize_t n)
{
    if (!claim_has_writer(&self->claim)) {
        message_end_of_life(self);
        return Py_NewRef(Py_None);
    }
    if (self->claim.data != NULL && n > 0 && args[0] != Py_None)
        return claim_exit(&self->claim, args, n);
    if (self->claim.data == NULL)
        return Py_NewRef(Py_None);
    PyObject *position = message_commit(self, NULL);
    if (position != NULL) {
        Py_DECREF(position);
        return Py_NewRef(Py_None);
    }
    PyObject *kind, *value, *traceback; /* the message is incomplete: abort it, so that the publisher is usable again */
    PyErr_Fetch(&kind, &value, &traceback);
    if (self->claim.data != NULL && self->claim.exports == 0)
        Py_XDECREF(claim_close(&self->claim, false));
    if (PyErr_Occurred())
        PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
    return NULL;
}

/* Whole messages */

/* Return the length of the whole message; -1 with an exception. */
static int64_t encoded_length(MessageFlyweight *self)
{
    if (*self->source == NULL) {
        sbe_dead(&self->base);
        return -1;
    }
    int64_t end = message_end(self);
    return end < 0 ? -1 : end - self->start;
}

static PyObject *get_encoded_length(MessageFlyweight *self, void *ignored)
{
    (void)ignored;
    int64_t length = encoded_length(self);
    return length < 0 ? NULL : PyLong_FromLongLong(length);
}

static PyObject *message_bytes(MessageFlyweight *self, PyObject *ignored)
{
    (void)ignored;
    int64_t length = encoded_length(self);
    if (length < 0 || (self->base.writing && !parts_complete(self)))
        return NULL;
    return PyBytes_FromStringAndSize((const char *)*self->source + self->start, (Py_ssize_t)length);
}

PyObject *message_to_offer(PyObject *object, PyObject *type_given, int32_t *type)
{
    if (!PyErr_ExceptionMatches(PyExc_TypeError) || !PyObject_TypeCheck(object, message_flyweight_type))
        return NULL;
    PyErr_Clear();
    MessageFlyweight *self = (MessageFlyweight *)object;
    *type = self->base.layout->type;
    if (type_given != NULL)
        return raise_error("InvalidArgumentError", "(ss)", "type", "that of a message is its template id");
    if (*type == 0 || self->start == self->base.offset)
        return raise_error("InvalidArgumentError", "(ss)", "data",
                           "the message has no header, or a template id that cannot be a type");
    return message_bytes(self, NULL);
}

static PyMethodDef methods[] = {
    {"encode", KEYWORDS(message_encode) | METH_CLASS,
     "encode($type, /, buffer, offset=0)\n--\n\n"
     "Writes the message header at ``offset`` of ``buffer``, and returns a message to write behind it. The\n"
     "block is not cleared, so write every field. Raises MessageTooShortError."},
    {"decode", KEYWORDS(message_decode) | METH_CLASS,
     "decode($type, /, buffer, offset=0)\n--\n\n"
     "Checks the message header at ``offset`` of ``buffer``, and returns the message to be read. Raises\n"
     "WrongMessageError or MessageTooShortError."},
    {"wrap", KEYWORDS(message_wrap) | METH_CLASS,
     "wrap($type, /, buffer, offset=0, block_length=None, version=None)\n--\n\n"
     "Returns a message without a header, to be read, whose block begins at ``offset`` of ``buffer``.\n"
     "``block_length`` and ``version`` None: those of the class, BLOCK_LENGTH and SCHEMA_VERSION. Raises\n"
     "MessageTooShortError."},
    {"commit", (PyCFunction)message_commit, METH_NOARGS,
     "commit($self, /)\n--\n\n"
     "Publishes the claim. Returns the ring's new end position, in bytes.\n\n"
     "Raises OrderError if groups or data were not written (the claim stays open); ClosedError; SlotLostError;\n"
     "SbeError if the message is not a claim."},
    {"abort", (PyCFunction)message_abort, METH_NOARGS,
     "abort($self, /)\n--\n\n"
     "Gives the claim up; its space becomes padding. Returns the ring's new end position, in bytes."},
    {"__bytes__", (PyCFunction)message_bytes, METH_NOARGS, NULL},
    {"__enter__", message_enter, METH_NOARGS, NULL},
    {"__exit__", FAST(message_exit),
     "Commits the claim if it is still open, or aborts it after an exception. Releases the buffer of any other\n"
     "message."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"encoded_length", (getter)get_encoded_length, NULL,
     "bytes of the whole message so far, header included (wrap: without a header)", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyObject *refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs;
    return PyErr_Format(PyExc_TypeError, "a %R is made by encode, decode, wrap or publisher.claim", type);
}

static PyType_Slot slots[] = {
    {Py_tp_new, refuse_new},
    {Py_tp_dealloc, message_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.MessageFlyweight", sizeof(MessageFlyweight), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

PyTypeObject *make_message_flyweight_type(PyObject *module)
{
    return message_flyweight_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, (PyObject *)flyweight_type);
}
