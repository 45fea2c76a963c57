/* SPDX-License-Identifier: Apache-2.0 */
/* Group objects, which group fields return, and their iterators. */
#include "parts.h"

static PyTypeObject *group_type, *group_iterator_type;

typedef struct {
    PyObject_HEAD
    Flyweight *parent;
    Field *field;
    int64_t count; /* the number of entries; -1: the group is to be written, and not begun */
    int64_t entry_length; /* the acting block length of an entry */
    int64_t next, position; /* index and begin of the next entry; in a Group, of the first */
    Flyweight *entry; /* reading: the previous entry, if entries have parts */
    int64_t serial; /* writing: the frame's group_serial; 0: reading */
} Group;

static Group *group_new(PyTypeObject *type, Flyweight *parent, Field *field)
{
    Group *self = (Group *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->parent = (Flyweight *)Py_NewRef((PyObject *)parent);
    self->field = (Field *)Py_NewRef((PyObject *)field);
    return self;
}

static void group_dealloc(Group *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->entry);
    Py_XDECREF((PyObject *)self->field);
    Py_XDECREF((PyObject *)self->parent);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Read the group's dimension. */
static bool open_group(Group *self)
{
    Flyweight *owner = self->parent;
    if (flyweight_data(owner) == NULL)
        return sbe_dead(owner), false;
    if (!parts_readable(owner))
        return false;
    if (owner->version < self->field->since) {
        self->count = 0;
        return true;
    }
    int64_t position = part_find(owner, self->field->index);
    if (position >= 0)
        position = part_dimension(owner, self->field, position, &self->count, &self->entry_length);
    self->position = position;
    return position >= 0;
}

PyObject *get_group(Field *self, Flyweight *owner, const uint8_t *unused)
{
    (void)unused;
    Group *group = group_new(group_type, owner, self);
    if (group == NULL)
        return NULL;
    group->count = -1;
    if (!owner->writing && !open_group(group)) {
        Py_DECREF((PyObject *)group);
        return NULL;
    }
    return (PyObject *)group;
}

int set_group(Field *self, Flyweight *owner, PyObject *value)
{
    sbe_fail(owner, self, "WrongTypeError", "a group is not assigned: for entry in it.encode(count)");
    (void)value;
    return -1;
}

static PyObject *group_encode(Group *self, PyObject *number)
{
    Field *field = self->field;
    Flyweight *owner = self->parent;
    MessageFlyweight *root = owner->root;
    int overflow;
    long long count = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (count == -1 && overflow == 0 && PyErr_Occurred())
        return NULL;
    if (overflow != 0 || count < 0 || (uint64_t)count < field->minimum || (uint64_t)count > field->maximum)
        return sbe_fail(owner, field, "OutOfRangeError", "%R entries are not %llu to %llu", number,
                        (unsigned long long)field->minimum, (unsigned long long)field->maximum);
    Group *iterator = group_new(group_iterator_type, owner, field);
    if (iterator == NULL)
        return NULL;
    frame *at = part_begin(field, owner);
    uint64_t bytes, length = (uint64_t)field->entry->block_length;
    if (at != NULL && (__builtin_mul_overflow((uint64_t)count, length, &bytes) ||
                       __builtin_add_overflow(bytes, (uint64_t)field->dimension_length, &bytes) ||
                       !part_is_there(root, root->limit, bytes))) {
        part_too_short(field, owner, bytes);
        at = NULL;
    }
    if (at == NULL) {
        Py_DECREF((PyObject *)iterator);
        return NULL;
    }
    uint8_t *to = (uint8_t *)*root->source + root->limit;
    memset(to, 0, (size_t)field->dimension_length);
    store_place(to, &field->entry_length, length);
    store_place(to, &field->count, (uint64_t)count);
    root->limit += field->dimension_length;
    part_begun(at, root, owner->depth, count);
    iterator->count = count;
    iterator->serial = at->group_serial;
    return (PyObject *)iterator;
}

/* Return the next entry to be written; NULL without an exception: the end. */
static PyObject *entry_to_write(Group *self)
{
    Flyweight *owner = self->parent;
    MessageFlyweight *root = owner->root;
    if (flyweight_data(owner) == NULL)
        return sbe_dead(owner);
    frame *at = &root->frames[owner->depth];
    if (owner->depth > root->depth || at->serial != owner->serial || at->group_serial != self->serial)
        return sbe_fail(owner, self->field, "OrderError", "the group is over: what follows it was begun");
    if (!parts_inner_done(root, owner->depth)) /* checks the previous entry */
        return NULL;
    if (at->begun == at->count)
        return NULL;
    Layout *layout = self->field->entry;
    if (!part_is_there(root, root->limit, (uint64_t)layout->block_length))
        return part_too_short(self->field, owner, (uint64_t)layout->block_length), NULL;
    Flyweight *entry = flyweight_nested(self->field->class, owner, self->field, root->limit, layout->block_length);
    if (entry == NULL)
        return NULL;
    at->begun++;
    root->limit += layout->block_length;
    root->depth = owner->depth;
    entry->depth = owner->depth + 1;
    entry->serial = ++root->serials;
    if (layout->part_count != 0) {
        root->depth = entry->depth;
        root->frames[entry->depth] = (frame){.layout = layout, .via = self->field, .serial = entry->serial};
    }
    return (PyObject *)entry;
}

static PyObject *entry_to_read(Group *self)
{
    Flyweight *owner = self->parent;
    if (flyweight_data(owner) == NULL)
        return sbe_dead(owner);
    if (self->entry != NULL) {
        self->position = parts_end(self->entry);
        Py_CLEAR(self->entry);
        if (self->position < 0) {
            self->next = self->count;
            return NULL;
        }
    }
    if (self->next >= self->count) {
        if (self->next == self->count && self->count > 0 && !owner->writing)
            parts_move_to(owner, self->field->index + 1, self->position);
        self->next = INT64_MAX; /* so that the end is reached only once */
        return NULL;
    }
    if (!part_is_there(owner->root, self->position, (uint64_t)self->entry_length))
        return part_ends_early(owner, self->field), NULL;
    Flyweight *entry = flyweight_nested(self->field->class, owner, self->field, self->position, self->entry_length);
    if (entry == NULL)
        return NULL;
    entry->writing = false;
    self->next++;
    self->position += self->entry_length;
    if (self->field->entry->part_count != 0)
        self->entry = (Flyweight *)Py_NewRef((PyObject *)entry);
    return (PyObject *)entry;
}

static PyObject *group_next(Group *self)
{
    return self->serial != 0 ? entry_to_write(self) : entry_to_read(self);
}

static PyObject *group_iter(Group *self)
{
    if (self->count < 0 && !open_group(self))
        return NULL;
    Group *iterator = group_new(group_iterator_type, self->parent, self->field);
    if (iterator == NULL)
        return NULL;
    iterator->count = self->count;
    iterator->entry_length = self->entry_length;
    iterator->position = self->position;
    return (PyObject *)iterator;
}

static Py_ssize_t group_length(Group *self)
{
    if (self->count < 0 && !open_group(self))
        return -1;
    return (Py_ssize_t)self->count;
}

/* Return the entry at an index. If entries have parts, all entries before it must be walked. */
static PyObject *group_item(Group *self, Py_ssize_t index)
{
    if (self->count < 0 && !open_group(self))
        return NULL;
    if (index < 0 || index >= self->count) {
        PyErr_Format(PyExc_IndexError, "there are %lld entries", (long long)self->count);
        return NULL;
    }
    Group *iterator = (Group *)group_iter(self);
    if (iterator == NULL)
        return NULL;
    PyObject *entry = NULL;
    if (self->field->entry->part_count == 0) {
        iterator->position += index * self->entry_length;
        index = 0;
    }
    do {
        Py_XDECREF(entry);
        entry = entry_to_read(iterator);
    } while (entry != NULL && index-- > 0);
    Py_DECREF((PyObject *)iterator);
    return entry;
}

static PyObject *self_iter(PyObject *self)
{
    return Py_NewRef(self);
}

static PyMethodDef methods[] = {
    {"encode", (PyCFunction)group_encode, METH_O,
     "encode($self, count, /)\n--\n\n"
     "Begins the group, and returns an iterator over its ``count`` entries. Write each entry before you ask for\n"
     "the next. Raises OrderError if another field must be written first; OutOfRangeError;\n"
     "MessageTooShortError."},
    {"__class_getitem__", (PyCFunction)Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot group_slots[] = {
    {Py_tp_doc, "The entries of a group. To read: ``len``, iteration and indexes. To write: ``encode(count)``."},
    {Py_tp_dealloc, group_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_iter, group_iter},
    {Py_sq_length, group_length},
    {Py_sq_item, group_item},
    {0, NULL},
};

static PyType_Spec group_spec = {"flyring._core.Group", sizeof(Group), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, group_slots};

static PyType_Slot iterator_slots[] = {
    {Py_tp_dealloc, group_dealloc},
    {Py_tp_iter, self_iter},
    {Py_tp_iternext, group_next},
    {0, NULL},
};

static PyType_Spec iterator_spec = {"flyring._core.GroupIterator", sizeof(Group), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, iterator_slots};

PyTypeObject *make_group_type(PyObject *module)
{
    return group_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &group_spec, NULL);
}

PyTypeObject *make_group_iterator_type(PyObject *module)
{
    return group_iterator_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &iterator_spec, NULL);
}
