/* SPDX-License-Identifier: Apache-2.0 */
/* Layout: the block of a class of messages or entries, and the groups and data behind it. */
#include "sbe.h"

#include <structmember.h>

PyTypeObject *layout_type;

Layout *layout_of(PyObject *class, PyTypeObject *of)
{
    if (!PyType_Check(class) || !PyType_IsSubtype((PyTypeObject *)class, of)) {
        PyErr_Format(PyExc_TypeError, "%R is not a class of SBE messages or group entries", class);
        return NULL;
    }
    PyObject *layout = PyObject_GetAttrString(class, "_layout");
    bool right = layout != NULL && Py_TYPE(layout) == layout_type;
    Py_XDECREF(layout); /* the class keeps a reference */
    if (right)
        return (Layout *)layout;
    PyErr_Format(PyExc_TypeError, "%R is not of a schema: it has no layout", class);
    return NULL;
}

static bool take_parts(Layout *self, PyObject *parts)
{
    Py_ssize_t count = PyTuple_Size(parts);
    self->parts = PyMem_Calloc((size_t)count + 1, sizeof(Field *));
    if (self->parts == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Field *part = (Field *)PyTuple_GetItem(parts, i);
        if (Py_TYPE((PyObject *)part) != field_type || !part->wire_order || part->index >= 0) {
            PyErr_SetString(PyExc_TypeError, "parts must be groups and data of this class alone");
            return false;
        }
        part->index = (int)i;
        self->parts[i] = (Field *)Py_NewRef((PyObject *)part);
        self->part_count++;
        int below = part->entry == NULL || part->entry->part_count == 0 ? 0 : part->entry->depth + 1;
        self->depth = below > self->depth ? below : self->depth;
    }
    if (self->depth <= 64) /* limits the recursion on the C stack */
        return true;
    PyErr_SetString(PyExc_ValueError, "groups are nested too deep");
    return false;
}

/* Parse the place of a number in the header. False with an exception unless it lies within the header. */
static bool take_place(Layout *self, place *where, long long offset, const char *type, bool swap)
{
    where->constant = strcmp(type, "constant") == 0;
    where->offset = offset;
    where->swap = swap;
    if (where->constant)
        return true;
    if (!parse_primitive(type, &where->type))
        return false;
    if (where->type < FLOAT && offset >= 0 && offset <= self->header_length - primitive_size(where->type))
        return true;
    PyErr_SetString(PyExc_ValueError, "a number of the header is not in it, or not an integer");
    return false;
}

static bool take_header(Layout *self, PyObject *shape, long long template_id, long long schema_id, long long version)
{
    long long length, at[4];
    const char *types[4], *order;
    bool swap;
    if (!PyArg_ParseTuple(shape, "LLsLsLsLss:header", &length, &at[0], &types[0], &at[1], &types[1], &at[2], &types[2],
                          &at[3], &types[3], &order) ||
        !parse_byte_order(order, &swap))
        return false;
    if (length < 0 || length > INT16_MAX || template_id < 0 || schema_id < 0 || version < 0) {
        PyErr_SetString(PyExc_ValueError, "a header of such a length, or such ids, cannot be");
        return false;
    }
    self->header_length = length;
    self->template_id = (uint64_t)template_id;
    self->schema_id = (uint64_t)schema_id;
    self->version = version;
    self->type = template_id >= 1 && template_id <= INT32_MAX ? (int32_t)template_id : 0;
    if (!take_place(self, &self->header_block_length, at[0], types[0], swap) ||
        !take_place(self, &self->header_template_id, at[1], types[1], swap) ||
        !take_place(self, &self->header_schema_id, at[2], types[2], swap) ||
        !take_place(self, &self->header_version, at[3], types[3], swap))
        return false;
    self->header = PyMem_Calloc((size_t)length + 1, 1);
    if (self->header == NULL) {
        PyErr_NoMemory();
        return false;
    }
    store_place(self->header, &self->header_block_length, (uint64_t)self->block_length);
    store_place(self->header, &self->header_template_id, self->template_id);
    store_place(self->header, &self->header_schema_id, self->schema_id);
    store_place(self->header, &self->header_version, (uint64_t)self->version);
    if (load_place(self->header, &self->header_block_length) == (uint64_t)self->block_length &&
        load_place(self->header, &self->header_template_id) == self->template_id &&
        load_place(self->header, &self->header_schema_id) == self->schema_id &&
        load_place(self->header, &self->header_version) == (uint64_t)self->version)
        return true;
    PyErr_Format(PyExc_ValueError, "%U: its block length, ids and version do not fit into the header", self->name);
    return false;
}

static PyObject *layout_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *name, *parts, *header = NULL;
    long long block_length, template_id = 0, schema_id = 0, version = 0;
    if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "positional arguments only");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "ULO!|O!LLL:Layout", &name, &block_length, &PyTuple_Type, &parts, &PyTuple_Type,
                          &header, &template_id, &schema_id, &version))
        return NULL;
    if (block_length < 0 || block_length > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a block must have 0 to 2^31-1 bytes");
        return NULL;
    }
    Layout *self = (Layout *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->name = Py_NewRef(name);
    self->block_length = block_length;
    if (!take_parts(self, parts) || (header != NULL && !take_header(self, header, template_id, schema_id, version))) {
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    return (PyObject *)self;
}

static void layout_dealloc(Layout *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    for (int i = 0; i < self->part_count; i++)
        Py_DECREF((PyObject *)self->parts[i]);
    PyMem_Free(self->parts);
    PyMem_Free(self->header);
    Py_XDECREF(self->name);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMemberDef layout_members[] = {
    {"name", T_OBJECT, offsetof(Layout, name), READONLY, "as the schema spells it"},
    {"block_length", T_LONGLONG, offsetof(Layout, block_length), READONLY, "in bytes"},
    {"header_length", T_LONGLONG, offsetof(Layout, header_length), READONLY, "of a message, in bytes"},
    {"template_id", T_ULONGLONG, offsetof(Layout, template_id), READONLY, "of a message"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot layout_slots[] = {
    {Py_tp_members, layout_members},
    {Py_tp_new, layout_new},
    {Py_tp_dealloc, layout_dealloc},
    {0, NULL},
};

static PyType_Spec layout_spec = {"flyring._core.Layout", sizeof(Layout), 0, Py_TPFLAGS_DEFAULT, layout_slots};

PyTypeObject *make_layout_type(PyObject *module)
{
    return layout_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &layout_spec, NULL);
}
