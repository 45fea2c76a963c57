/* SPDX-License-Identifier: Apache-2.0 */
/* Field: the data descriptor behind each attribute of a flyweight. */
#include "sbe.h"

#include <math.h>
#include <structmember.h>

/* Access */

/* The value of a field beyond the acting block: None if the field is newer than the message, else an exception. */
static PyObject *absent(Field *self, Flyweight *owner)
{
    if (owner->version < self->since)
        return Py_NewRef(Py_None);
    return sbe_fail(owner, self, "MessageTooShortError", "it ends at byte %lld of a block of %lld",
                    (long long)self->end, (long long)owner->block_length);
}

static bool check_owner(Field *self, PyObject *object)
{
    if (LIKELY(PyObject_TypeCheck(object, flyweight_type)))
        return true;
    PyErr_Format(PyExc_TypeError, "field %U is of a flyweight, not of %R", self->name, object);
    return false;
}

/* Check that a group or data field belongs to the owner's layout, through which it is found. */
static bool check_part(Field *self, Flyweight *owner)
{
    if (LIKELY(owner->layout != NULL && self->index >= 0 && self->index < owner->layout->part_count &&
               owner->layout->parts[self->index] == self))
        return true;
    PyErr_Format(PyExc_TypeError, "%U is not of this class", self->name);
    return false;
}

static PyObject *field_get(Field *self, PyObject *object, PyObject *class)
{
    (void)class;
    if (object == NULL)
        return Py_NewRef((PyObject *)self);
    Flyweight *owner = (Flyweight *)object;
    if (UNLIKELY(!check_owner(self, object)))
        return NULL;
    const uint8_t *data = flyweight_data(owner);
    if (UNLIKELY(data == NULL))
        return sbe_dead(owner);
    if (UNLIKELY(self->wire_order))
        return check_part(self, owner) ? self->get(self, owner, NULL) : NULL;
    if (UNLIKELY(self->end > owner->block_length || owner->version < self->since))
        return absent(self, owner);
    return self->get(self, owner, data + owner->offset + self->offset);
}

static int field_set(Field *self, PyObject *object, PyObject *value)
{
    if (UNLIKELY(!check_owner(self, object) || (self->wire_order && !check_part(self, (Flyweight *)object))))
        return -1;
    if (UNLIKELY(value == NULL)) {
        sbe_fail((Flyweight *)object, self, "WrongTypeError", "a field cannot be deleted");
        return -1;
    }
    return self->set(self, (Flyweight *)object, value);
}

/* Life */

/* Convert a null value or limit to bits. False with an exception. */
static bool take_bits(Field *self, PyObject *number, uint64_t *bits)
{
    if (self->type >= FLOAT) {
        double value = PyFloat_AsDouble(number);
        memcpy(bits, &value, 8);
        return value != -1 || !PyErr_Occurred();
    }
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    *bits = overflow > 0 ? PyLong_AsUnsignedLongLong(number) : (uint64_t)value;
    return !PyErr_Occurred();
}

/* Return the greatest value of an integer primitive. */
static uint64_t greatest(primitive type)
{
    int bits = 8 * primitive_size(type);
    bool sign = type == INT8 || type == INT16 || type == INT32 || type == INT64;
    return UINT64_MAX >> (64 - bits + sign);
}

/* Set the limits to those of the primitive. */
static void take_range(Field *self)
{
    self->maximum = greatest(self->type);
    switch (self->type) {
    case INT8:
    case INT16:
    case INT32:
    case INT64:
        self->minimum = ~self->maximum;
        break;
    case FLOAT:
    case DOUBLE: {
        double highest = HUGE_VAL, lowest = -HUGE_VAL;
        memcpy(&self->maximum, &highest, 8);
        memcpy(&self->minimum, &lowest, 8);
        break;
    }
    default:
        break;
    }
}

static bool take_limits(Field *self, PyObject *null, PyObject *minimum, PyObject *maximum)
{
    take_range(self);
    self->optional = null != Py_None;
    return (null == Py_None || take_bits(self, null, &self->null)) &&
           (minimum == Py_None || take_bits(self, minimum, &self->minimum)) &&
           (maximum == Py_None || take_bits(self, maximum, &self->maximum));
}

/* Parse a group's dimension. False with an exception. */
static bool take_dimension(Field *self, PyObject *shape)
{
    long long length, entry_length, count;
    const char *entry_length_type, *count_type;
    if (!PyArg_ParseTuple(shape, "LLsLs:dimension", &length, &entry_length, &entry_length_type, &count, &count_type) ||
        !parse_primitive(entry_length_type, &self->entry_length.type) ||
        !parse_primitive(count_type, &self->count.type))
        return false;
    self->dimension_length = length;
    self->entry_length.offset = entry_length;
    self->count.offset = count;
    self->entry_length.swap = self->count.swap = self->swap;
    if (length <= INT16_MAX && entry_length >= 0 && count >= 0 &&
        entry_length <= length - primitive_size(self->entry_length.type) && self->entry_length.type < FLOAT &&
        count <= length - primitive_size(self->count.type) && self->count.type < FLOAT &&
        self->maximum <= greatest(self->count.type) &&
        (uint64_t)self->entry->block_length <= greatest(self->entry_length.type))
        return true;
    PyErr_SetString(PyExc_ValueError, "the numbers of a group's dimension are not in it, or too small");
    return false;
}

static bool take_kind(Field *self, const char *kind, PyObject *extra)
{
    static const struct {
        const char *name;
        PyObject *(*get)(Field *, Flyweight *, const uint8_t *);
        int (*set)(Field *, Flyweight *, PyObject *);
    } kinds[] = {
        {"integer", get_integer, set_integer},
        {"float", get_float, set_float},
        {"char", get_char, set_char},
        {"text", get_text, set_text},
        {"octets", get_octets, set_octets},
        {"array", get_array, set_array},
        {"enum", get_enum, set_enum},
        {"required enum", get_enum, set_enum},
        {"set", get_set, set_set},
        {"composite", get_composite, set_composite},
        {"group", get_group, set_group},
        {"data", get_data, set_data},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kind, kinds[i].name) == 0) {
            self->get = kinds[i].get;
            self->set = kinds[i].set;
        }
    }
    if (self->get == get_enum || self->get == get_set) {
        self->optional = strcmp(kind, "enum") == 0;
        return field_take_members(self, extra);
    }
    if (self->get == get_composite) {
        if (PyType_Check(self->class) && PyType_IsSubtype((PyTypeObject *)self->class, flyweight_type))
            return true;
    } else if (self->get == get_group) {
        self->wire_order = true;
        self->entry = layout_of(self->class, flyweight_type);
        Py_XINCREF((PyObject *)self->entry);
        return self->entry != NULL && take_dimension(self, extra);
    } else if (self->get == get_data) {
        self->wire_order = true;
        self->count = (place){.type = self->type, .swap = self->swap};
        self->dimension_length = primitive_size(self->type);
        if (self->type < FLOAT && self->maximum <= greatest(self->type))
            return true;
    } else if ((self->type >= FLOAT) == (self->get == get_float) || self->get == get_array) {
        return true;
    }
    PyErr_Format(PyExc_ValueError, "a field of kind '%s' cannot be so", kind);
    return false;
}

static PyObject *field_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const char *kind, *primitive_name, *order, *codec = NULL;
    PyObject *name, *null = Py_None, *minimum = Py_None, *maximum = Py_None, *class = Py_None, *extra = Py_None;
    long long offset, length, since;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "sULsLLs|OOOOzO:Field", &kind, &name, &offset, &primitive_name, &length, &since, &order,
                          &null, &minimum, &maximum, &class, &codec, &extra))
        return NULL;
    if (offset < 0 || offset > INT32_MAX || length < 0 || length > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "offset and length must be 0 to 2^31-1 bytes");
        return NULL;
    }
    Field *self = (Field *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->name = Py_NewRef(name);
    self->index = -1;
    self->since = since;
    self->length = length;
    self->kind = PyUnicode_FromString(kind);
    self->class = Py_NewRef(class);
    self->codec = codec == NULL ? NULL : PyUnicode_FromString(codec);
    self->ascii = codec != NULL && strcmp(codec, "ascii") == 0;
    self->utf8 = codec != NULL && strcmp(codec, "utf-8") == 0;
    if (!parse_primitive(primitive_name, &self->type) || !parse_byte_order(order, &self->swap) ||
        !take_limits(self, null, minimum, maximum) || !take_kind(self, kind, extra)) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    self->offset = offset;
    self->end = offset + length * primitive_size(self->type);
    return (PyObject *)self;
}

static int field_traverse(Field *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->class);
    Py_VISIT(self->by_value);
    Py_VISIT(self->make);
    return 0;
}

static int field_clear(Field *self)
{
    Py_CLEAR(self->make);
    return 0;
}

static void field_dealloc(Field *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    for (int i = 0; self->members != NULL && i < 256; i++)
        Py_XDECREF(self->members[i]);
    PyMem_Free(self->members);
    PyMem_Free(self->pairs);
    Py_XDECREF(self->by_value);
    Py_XDECREF(self->make);
    Py_XDECREF((PyObject *)self->entry);
    Py_XDECREF(self->codec);
    Py_XDECREF(self->class);
    Py_XDECREF(self->kind);
    Py_XDECREF(self->name);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *field_repr(Field *self)
{
    return PyUnicode_FromFormat("<flyring.sbe field %U, %U>", self->name, self->kind);
}

static PyMethodDef methods[] = {
    {"__class_getitem__", (PyCFunction)Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"name", T_OBJECT, offsetof(Field, name), READONLY, "the name in the schema"},
    {"kind", T_OBJECT, offsetof(Field, kind), READONLY, "the constructor of flyring.sbe.fields that made it"},
    {"type", T_OBJECT, offsetof(Field, class), READONLY, "the class of an enum, set, composite or entry, or None"},
    {"offset", T_LONGLONG, offsetof(Field, offset), READONLY, "the offset in bytes from the start of the block"},
    {"length", T_LONGLONG, offsetof(Field, length), READONLY, "elements of an array, or bytes of text or a composite"},
    {"since", T_LONGLONG, offsetof(Field, since), READONLY, "the version of the schema that added it"},
    {"encoding", T_OBJECT, offsetof(Field, codec), READONLY, "Python's codec for text, or None"},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *field_typestr(Field *self, void *ignored)
{
    (void)ignored;
    char text[4] = {self->swap ? '>' : '<', "Siuiuiuiuff"[self->type], (char)('0' + primitive_size(self->type)), 0};
    return PyUnicode_FromString(text);
}

static PyGetSetDef getters[] = {
    {"typestr", (getter)field_typestr, NULL, "the type of its numbers in numpy's notation, such as \"<i8\"", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "One attribute of a message, group entry or composite. Made by ``flyring.sbe.fields``."},
    {Py_tp_new, field_new},
    {Py_tp_dealloc, field_dealloc},
    {Py_tp_traverse, field_traverse},
    {Py_tp_clear, field_clear},
    {Py_tp_descr_get, field_get},
    {Py_tp_descr_set, field_set},
    {Py_tp_repr, field_repr},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"flyring._core.Field", sizeof(Field), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

PyTypeObject *make_field_type(PyObject *module)
{
    return field_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
