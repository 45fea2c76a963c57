/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch: a handler for poll that checks typed messages and calls their handlers (spec/messages.md 1 and 3). */
#include "arguments.h"
#include "sbe.h"

static PyTypeObject *dispatcher_type;

typedef struct {
    int32_t type; /* 0: free */
    PyObject *class, *handler;
    Layout *layout;
    MessageFlyweight *spare; /* a decoder without other references; NULL while its handler runs */
} route;

/* The `self` of the function that dispatch returns. Calling a function is cheaper than calling an object of a type. */
typedef struct {
    PyObject_HEAD
    route *routes; /* a hash table by type, with open addressing */
    uint32_t mask;
    PyObject *otherwise; /* or NULL */
} Dispatcher;

static route *route_of(Dispatcher *self, int32_t type)
{
    for (uint32_t at = (uint32_t)type;; at++) {
        route *found = &self->routes[at & self->mask];
        if (found->type == type || found->type == 0)
            return found;
    }
}

static PyObject *bad(Message *message, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyObject *reason = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    if (reason == NULL)
        return NULL;
    raise_error("BadMessageError", "(iLiO)", message->ring, (long long)message->position, message->type, reason);
    Py_DECREF(reason);
    return NULL;
}

/* Do all checks of spec/messages.md 1, and return the header's numbers, each of which is read once. False with an
   exception. */
static inline bool check(Message *message, Layout *layout, int64_t *block_length, int64_t *version)
{
    const uint8_t *header = message->data;
    if (UNLIKELY(message->length < layout->header_length)) {
        bad(message, "its %zd bytes are less than the message header's %lld", message->length,
            (long long)layout->header_length);
        return false;
    }
    uint64_t schema_id = load_place(header, &layout->header_schema_id);
    if (UNLIKELY(schema_id != layout->schema_id)) {
        bad(message, "its schema id is %llu, not %llu", (unsigned long long)schema_id,
            (unsigned long long)layout->schema_id);
        return false;
    }
    uint64_t template_id = load_place(header, &layout->header_template_id);
    if (UNLIKELY(template_id != layout->template_id)) {
        bad(message, "its template id is %llu, but the type of its record %d", (unsigned long long)template_id,
            (int)message->type);
        return false;
    }
    uint64_t block = load_place(header, &layout->header_block_length);
    if (UNLIKELY(block > (uint64_t)(message->length - layout->header_length))) {
        bad(message, "its block of %llu bytes does not fit into its payload of %zd", (unsigned long long)block,
            message->length);
        return false;
    }
    uint64_t acting = load_place(header, &layout->header_version);
    if (UNLIKELY(block < (uint64_t)layout->block_length && acting >= (uint64_t)layout->version)) {
        bad(message, "its block of %llu bytes is too short for version %llu, which has at least %lld",
            (unsigned long long)block, (unsigned long long)acting, (long long)layout->block_length);
        return false;
    }
    *block_length = (int64_t)block;
    *version = acting > INT64_MAX ? INT64_MAX : (int64_t)acting;
    return true;
}

static PyObject *dispatch(Dispatcher *self, PyObject *object)
{
    Message *message = (Message *)object;
    int64_t block_length, version;
    if (UNLIKELY(!is_message(object)))
        return PyErr_Format(PyExc_TypeError, "a flyring.Message is expected, not %R", object);
    if (UNLIKELY(message->data == NULL))
        return raise_error("ClosedError", "(sis)", "message", 0, "it was valid until its handler returned");
    route *to = route_of(self, message->type);
    if (to->type == 0)
        return self->otherwise == NULL ? Py_NewRef(Py_None)
                                       : PyObject_CallFunctionObjArgs(self->otherwise, object, NULL);
    Layout *layout = to->layout;
    if (UNLIKELY(!check(message, layout, &block_length, &version)))
        return NULL;
    MessageFlyweight *decoder = to->spare;
    to->spare = NULL;
    if (UNLIKELY(decoder == NULL) && (decoder = message_of(to->class, layout)) == NULL)
        return NULL;
    decoder->owner = Py_NewRef(object);
    message_begin(decoder, (uint8_t *const *)&message->data, 0, message->length, layout->header_length, block_length,
                  version, false);
    PyObject *result = PyObject_CallFunctionObjArgs(to->handler, (PyObject *)decoder, object, NULL);
    decoder->source = &no_bytes; /* a decoder that the handler kept must not read any bytes */
    Py_CLEAR(decoder->owner);
    if (LIKELY(Py_REFCNT((PyObject *)decoder) == 1 && to->spare == NULL))
        to->spare = decoder;
    else
        Py_DECREF((PyObject *)decoder);
    return result;
}

static int dispatcher_traverse(Dispatcher *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->otherwise);
    for (uint32_t i = 0; self->routes != NULL && i <= self->mask; i++) {
        Py_VISIT(self->routes[i].class);
        Py_VISIT(self->routes[i].handler);
    }
    return 0;
}

static int dispatcher_clear(Dispatcher *self)
{
    Py_CLEAR(self->otherwise);
    for (uint32_t i = 0; self->routes != NULL && i <= self->mask; i++) {
        self->routes[i].type = 0;
        Py_CLEAR(self->routes[i].class);
        Py_CLEAR(self->routes[i].handler);
        Py_CLEAR(self->routes[i].layout);
        Py_CLEAR(self->routes[i].spare);
    }
    return 0;
}

static void dispatcher_dealloc(Dispatcher *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    dispatcher_clear(self);
    PyMem_Free(self->routes);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static bool add_route(Dispatcher *self, PyObject *class, PyObject *handler)
{
    Layout *layout = layout_of(class, message_flyweight_type);
    if (layout == NULL)
        return false;
    if (!PyCallable_Check(handler)) {
        PyErr_Format(PyExc_TypeError, "the handler of %U must be callable", layout->name);
        return false;
    }
    if (layout->type == 0) {
        raise_error("InvalidArgumentError", "(ss)", "handlers",
                    "a template id cannot be the type of a record, which is 1 to 2147483647");
        return false;
    }
    route *to = route_of(self, layout->type);
    if (to->type != 0) {
        raise_error("InvalidArgumentError", "(ss)", "handlers", "two messages have the same template id");
        return false;
    }
    *to = (route){layout->type, Py_NewRef(class), Py_NewRef(handler), (Layout *)Py_NewRef((PyObject *)layout), NULL};
    return true;
}

static PyMethodDef call = {"dispatch", (PyCFunction)dispatch, METH_O,
                           "Checks a message and calls the handler of its template with (decoder, message)."};

PyObject *sbe_dispatch(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const parameters[] = {"handlers", "otherwise"};
    static const signature expected = {parameters, 2, 1};
    PyObject *values[2] = {NULL, NULL}, *function = NULL;
    (void)module;
    if (!parse_arguments(&expected, args, n, names, values))
        return NULL;
    bool has_otherwise = values[1] != NULL && values[1] != Py_None;
    if (has_otherwise && !PyCallable_Check(values[1])) {
        PyErr_SetString(PyExc_TypeError, "otherwise must be callable");
        return NULL;
    }
    PyObject *items = PyMapping_Items(values[0]);
    if (items == NULL)
        return NULL;
    Dispatcher *self = (Dispatcher *)PyType_GenericAlloc(dispatcher_type, 0);
    if (self == NULL)
        goto done;
    uint32_t size = 4;
    while (size < 2 * (size_t)PyList_Size(items))
        size *= 2;
    self->routes = PyMem_Calloc(size, sizeof(route));
    if (self->routes == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    self->mask = size - 1;
    self->otherwise = has_otherwise ? Py_NewRef(values[1]) : NULL;
    for (Py_ssize_t i = 0; i < PyList_Size(items); i++) {
        PyObject *class, *handler;
        if (!PyArg_ParseTuple(PyList_GetItem(items, i), "OO:item", &class, &handler) ||
            !add_route(self, class, handler))
            goto done;
    }
    function = PyCFunction_NewEx(&call, (PyObject *)self, NULL);
done:
    Py_XDECREF((PyObject *)self);
    Py_DECREF(items);
    return function;
}

static PyType_Slot slots[] = {
    {Py_tp_dealloc, dispatcher_dealloc},
    {Py_tp_traverse, dispatcher_traverse},
    {Py_tp_clear, dispatcher_clear},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Dispatcher", sizeof(Dispatcher), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

PyTypeObject *make_dispatcher_type(PyObject *module)
{
    return dispatcher_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
