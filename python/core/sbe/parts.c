/* SPDX-License-Identifier: Apache-2.0 */
/* Groups and variable-length data, which follow a block in the schema's order.

   Reading: a flyweight knows where one of its parts begins, and finds the others by walking. Reading in order costs
   nothing; in any other order, it walks from the end of the block. Writing: the message keeps a frame for itself and
   for each open entry that has parts, and continues at its limit. */
#include "parts.h"

/* Reading */

int64_t part_ends_early(Flyweight *owner, Field *field)
{
    sbe_fail(owner, field, "MessageTooShortError", "the message ends within it");
    return -1;
}

static int64_t skip_parts(Flyweight *owner, Layout *layout, int from, int to, int64_t position);

int64_t part_dimension(Flyweight *owner, Field *field, int64_t position, int64_t *count, int64_t *entry_length)
{
    MessageFlyweight *root = owner->root;
    if (!part_is_there(root, position, (uint64_t)field->dimension_length))
        return part_ends_early(owner, field);
    const uint8_t *at = *root->source + position;
    uint64_t entries = load_place(at, &field->count), length = load_place(at, &field->entry_length), bytes;
    position += field->dimension_length;
    /* A message may claim any number of entries without bytes, and a loop over 2^62 of them would not end. */
    if (entries > INT64_MAX || length > INT64_MAX || __builtin_mul_overflow(entries, length, &bytes) ||
        !part_is_there(root, position, bytes) || (length == 0 && entries > (uint64_t)root->length))
        return part_ends_early(owner, field);
    *count = (int64_t)entries;
    *entry_length = (int64_t)length;
    return position;
}

static int64_t skip_part(Flyweight *owner, Field *field, int64_t position)
{
    if (owner->version < field->since)
        return position;
    if (field->entry == NULL) {
        if (!part_is_there(owner->root, position, (uint64_t)field->dimension_length))
            return part_ends_early(owner, field);
        uint64_t length = load_place(*owner->root->source + position, &field->count);
        position += field->dimension_length;
        return part_is_there(owner->root, position, length) ? position + (int64_t)length
                                                            : part_ends_early(owner, field);
    }
    int64_t count, entry_length;
    position = part_dimension(owner, field, position, &count, &entry_length);
    if (position < 0 || field->entry->part_count == 0)
        return position < 0 ? -1 : position + count * entry_length;
    for (int64_t before = -1; count > 0 && position != before && position >= 0; count--) { /* empty entries end it */
        before = position;
        if (!part_is_there(owner->root, position, (uint64_t)entry_length))
            return part_ends_early(owner, field);
        position = skip_parts(owner, field->entry, 0, field->entry->part_count, position + entry_length);
    }
    return position;
}

/* Walk over the parts `from` to `to` of a block. Returns the new position; -1 with an exception, which names the part
   of `owner`. */
static int64_t skip_parts(Flyweight *owner, Layout *layout, int from, int to, int64_t position)
{
    for (int i = from; i < to && position >= 0; i++)
        position = skip_part(owner, layout->parts[i], position);
    return position;
}

int64_t part_find(Flyweight *owner, int index)
{
    if (owner->part > index) {
        owner->part = 0;
        owner->position = owner->offset + owner->block_length;
    }
    int64_t position = skip_parts(owner, owner->layout, owner->part, index, owner->position);
    if (position >= 0) {
        owner->part = index;
        owner->position = position;
    }
    return position;
}

int64_t parts_end(Flyweight *owner)
{
    return owner->layout == NULL ? owner->offset + owner->block_length : part_find(owner, owner->layout->part_count);
}

int64_t message_end(MessageFlyweight *self)
{
    return self->base.writing ? self->limit : parts_end(&self->base);
}

/* Writing */

/* Raise OrderError about a part of the frame at `depth`. Returns false. */
static bool incomplete(MessageFlyweight *root, int depth, Field *part, int64_t done, int64_t count)
{
    PyObject *path = Py_NewRef(root->base.layout->name);
    for (int i = 1; i <= depth + 1 && path != NULL; i++) {
        PyObject *longer = PyUnicode_FromFormat("%U.%U", path, (i <= depth ? root->frames[i].via : part)->name);
        Py_DECREF(path);
        path = longer;
    }
    if (path == NULL)
        return false;
    if (count > 0)
        sbe_fail_named(path, "OrderError", "only %lld of its %lld entries were written", (long long)done,
                       (long long)count);
    else
        sbe_fail_named(path, "OrderError", "it was not written");
    Py_DECREF(path);
    return false;
}

/* Check that all entries of the last group at `depth` were begun. False with an exception. */
static bool group_done(MessageFlyweight *root, int depth)
{
    frame *at = &root->frames[depth];
    return at->begun == at->count || incomplete(root, depth, at->layout->parts[at->next - 1], at->begun, at->count);
}

bool parts_inner_done(MessageFlyweight *root, int depth)
{
    for (int i = root->depth; i > depth; i--) {
        frame *at = &root->frames[i];
        if (!group_done(root, i) ||
            (at->next < at->layout->part_count && !incomplete(root, i, at->layout->parts[at->next], 0, 0)))
            return false;
    }
    return true;
}

bool parts_complete(MessageFlyweight *self)
{
    if (self->frames == NULL)
        return true;
    int next = self->frames->next;
    return parts_inner_done(self, 0) && group_done(self, 0) &&
           (next == self->base.layout->part_count || incomplete(self, 0, self->base.layout->parts[next], 0, 0));
}

frame *part_begin(Field *self, Flyweight *owner)
{
    MessageFlyweight *root = owner->root;
    if (flyweight_data(owner) == NULL) {
        sbe_dead(owner);
        return NULL;
    }
    if (!owner->writing) {
        sbe_fail(owner, self, "SbeError", "this message was not made by encode or claim: it can only be read");
        return NULL;
    }
    frame *at = &root->frames[owner->depth];
    if (owner->depth > root->depth || at->serial != owner->serial) {
        sbe_fail(owner, self, "OrderError", "its entry is over: what follows it was begun");
        return NULL;
    }
    if (!parts_inner_done(root, owner->depth) || !group_done(root, owner->depth))
        return NULL;
    if (at->next == self->index)
        return at;
    if (at->next > self->index)
        sbe_fail(owner, self, "OrderError", "it was written before");
    else
        sbe_fail(owner, self, "OrderError", "%U comes before it, and was not written",
                 owner->layout->parts[at->next]->name);
    return NULL;
}

bool part_too_short(Field *self, Flyweight *owner, uint64_t needed)
{
    sbe_fail(owner, self, "MessageTooShortError", "it needs %llu bytes at %lld of %lld", (unsigned long long)needed,
             (long long)(owner->root->limit - owner->root->start),
             (long long)(owner->root->length - owner->root->start));
    return false;
}

void part_begun(frame *at, MessageFlyweight *root, int depth, int64_t count)
{
    at->next++;
    at->count = count;
    at->begun = 0;
    at->group_serial = ++root->serials;
    root->depth = depth;
}

bool parts_readable(Flyweight *owner)
{
    if (!owner->writing)
        return true;
    if (owner->parent == NULL)
        return parts_complete(owner->root);
    sbe_fail(owner, NULL, "OrderError", "an entry that is being written cannot be read");
    return false;
}

/* Data */

PyObject *get_data(Field *self, Flyweight *owner, const uint8_t *unused)
{
    (void)unused;
    if (!parts_readable(owner))
        return NULL;
    if (owner->version < self->since)
        return self->codec == NULL ? PyBytes_FromStringAndSize(NULL, 0) : PyUnicode_FromString("");
    int64_t position = part_find(owner, self->index);
    if (position < 0)
        return NULL;
    if (!part_is_there(owner->root, position, (uint64_t)self->dimension_length))
        return part_ends_early(owner, self), NULL;
    const uint8_t *at = *owner->root->source + position;
    uint64_t length = load_place(at, &self->count);
    position += self->dimension_length;
    if (!part_is_there(owner->root, position, length))
        return part_ends_early(owner, self), NULL;
    parts_move_to(owner, self->index + 1, position + (int64_t)length);
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)at + self->dimension_length, (Py_ssize_t)length);
    if (bytes == NULL || self->codec == NULL)
        return bytes;
    PyObject *text = decode_text(self, owner, PyBytes_AsString(bytes), PyBytes_Size(bytes));
    Py_DECREF(bytes);
    return text;
}

static bool write_data(Field *self, Flyweight *owner, const void *bytes, Py_ssize_t length)
{
    if ((uint64_t)length > self->maximum) {
        sbe_fail(owner, self, "OutOfRangeError", "%zd bytes are more than %llu", length,
                 (unsigned long long)self->maximum);
        return false;
    }
    frame *at = part_begin(self, owner);
    if (at == NULL)
        return false;
    MessageFlyweight *root = owner->root;
    uint64_t needed = (uint64_t)self->dimension_length + (uint64_t)length;
    if (!part_is_there(root, root->limit, needed))
        return part_too_short(self, owner, needed);
    uint8_t *to = (uint8_t *)*root->source + root->limit;
    memmove(to + self->dimension_length, bytes, (size_t)length);
    store_place(to, &self->count, (uint64_t)length);
    root->limit += (int64_t)needed;
    part_begun(at, root, owner->depth, 0);
    return true;
}

int set_data(Field *self, Flyweight *owner, PyObject *value)
{
    bool done;
    if (self->codec != NULL) {
        PyObject *holder;
        Py_ssize_t length;
        const char *bytes = encode_text(self, owner, value, &length, &holder);
        done = bytes != NULL && write_data(self, owner, bytes, length);
        Py_XDECREF(holder);
        return done ? 0 : -1;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) < 0) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            sbe_fail(owner, self, "WrongTypeError", "bytes are expected, not %R", value);
        }
        return -1;
    }
    done = write_data(self, owner, view.buf, view.len);
    PyBuffer_Release(&view);
    return done ? 0 : -1;
}
