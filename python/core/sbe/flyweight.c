/* SPDX-License-Identifier: Apache-2.0 */
/* The base type of all flyweights, the errors that name their fields, and the checks before a field is written. */
#include "sbe.h"

PyTypeObject *flyweight_type, *field_type;

/* Errors */

/* Return the path "Message.composite.field", or NULL with an exception. */
static PyObject *path_of(Flyweight *owner, Field *field)
{
    PyObject *path = field == NULL ? PyUnicode_FromString("") : PyUnicode_FromFormat(".%U", field->name);
    for (; path != NULL && owner->parent != NULL; owner = owner->parent) {
        PyObject *longer = PyUnicode_FromFormat(".%U%U", owner->via->name, path);
        Py_DECREF(path);
        path = longer;
    }
    if (path == NULL)
        return NULL;
    PyObject *whole = PyUnicode_FromFormat("%U%U", owner->layout->name, path);
    Py_DECREF(path);
    return whole;
}

/* Raise an SBE error with this text. Steals the text, which may be NULL with an exception. */
static void raise_text(PyObject *path, const char *name, PyObject *text)
{
    PyObject *errors = text == NULL ? NULL : PyImport_ImportModule("flyring.sbe.errors");
    PyObject *class = errors == NULL ? NULL : PyObject_GetAttrString(errors, name);
    PyObject *error = class == NULL ? NULL : PyObject_CallFunctionObjArgs(class, text, path, NULL);
    if (error != NULL)
        PyErr_SetObject(class, error);
    Py_XDECREF(error);
    Py_XDECREF(class);
    Py_XDECREF(errors);
    Py_XDECREF(text);
}

PyObject *sbe_fail_named(PyObject *path, const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyObject *text = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    raise_text(path, name, text);
    return NULL;
}

PyObject *sbe_fail(Flyweight *owner, Field *field, const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyObject *text = PyUnicode_FromFormatV(format, arguments);
    va_end(arguments);
    PyObject *path = text == NULL ? NULL : path_of(owner, field);
    if (path == NULL) {
        Py_XDECREF(text);
        return NULL;
    }
    raise_text(path, name, text);
    Py_DECREF(path);
    return NULL;
}

PyObject *sbe_dead(Flyweight *self)
{
    PyObject *path = path_of(self, NULL);
    if (path == NULL)
        return NULL;
    raise_error(
        "ClosedError", "(Ois)", path, 0,
        "its bytes are gone: the claim was committed or aborted, the handler returned, or the buffer was let go");
    Py_DECREF(path);
    return NULL;
}

/* Names */

bool parse_primitive(const char *text, primitive *type)
{
    static const char *const names[] = {"char",   "int8",  "uint8",  "int16", "uint16", "int32",
                                        "uint32", "int64", "uint64", "float", "double"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            *type = (primitive)i;
            return true;
        }
    }
    PyErr_Format(PyExc_ValueError, "there is no primitive type '%s'", text);
    return false;
}

bool parse_byte_order(const char *text, bool *swap)
{
    *swap = text[0] == '>'; /* the machine is little-endian (atomics.h) */
    if ((text[0] == '<' || text[0] == '>') && text[1] == 0)
        return true;
    PyErr_SetString(PyExc_ValueError, "the byte order must be < or >");
    return false;
}

/* Access */

uint8_t *field_to_write(Field *self, Flyweight *owner)
{
    const uint8_t *data = flyweight_data(owner);
    if (UNLIKELY(data == NULL)) {
        sbe_dead(owner);
    } else if (UNLIKELY(!owner->writing)) {
        sbe_fail(owner, self, "SbeError", "this message was not made by encode or claim: it can only be read");
    } else if (UNLIKELY(self->end > owner->block_length)) {
        sbe_fail(owner, self, "MessageTooShortError", "it ends at byte %lld of a block of %lld", (long long)self->end,
                 (long long)owner->block_length);
    } else {
        return (uint8_t *)data + owner->offset + self->offset;
    }
    return NULL;
}

/* Flyweights */

Flyweight *flyweight_nested(PyObject *class, Flyweight *parent, Field *via, int64_t offset, int64_t block_length)
{
    Flyweight *self = (Flyweight *)PyType_GenericAlloc((PyTypeObject *)class, 0);
    if (self == NULL)
        return NULL;
    self->root = parent->root;
    self->parent = (Flyweight *)Py_NewRef((PyObject *)parent);
    self->via = (Field *)Py_NewRef((PyObject *)via);
    self->layout = via->entry;
    self->offset = offset;
    self->block_length = block_length;
    self->version = parent->version;
    self->writing = parent->writing;
    self->position = offset + block_length;
    return self;
}

static void flyweight_dealloc(Flyweight *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->parent);
    Py_XDECREF((PyObject *)self->via);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)args, (void)kwargs;
    return PyErr_Format(PyExc_TypeError, "a %R is had from its message", type);
}

static PyObject *get_acting_version(Flyweight *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->version);
}

static PyObject *get_acting_block_length(Flyweight *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->block_length);
}

static PyGetSetDef getters[] = {
    {"acting_block_length", (getter)get_acting_block_length, NULL, "the writer's block length, in bytes", NULL},
    {"acting_version", (getter)get_acting_version, NULL, "the writer's schema version", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot flyweight_slots[] = {
    {Py_tp_new, refuse_new},
    {Py_tp_dealloc, flyweight_dealloc},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec flyweight_spec = {"flyring._core.Flyweight", sizeof(Flyweight), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, flyweight_slots};

PyTypeObject *make_flyweight_type(PyObject *module)
{
    return flyweight_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &flyweight_spec, NULL);
}
