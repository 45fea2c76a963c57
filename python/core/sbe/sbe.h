/* SPDX-License-Identifier: Apache-2.0 */
/* SBE flyweights (spec/messages.md): objects that read and write the bytes of a message in place.

   A message knows where its bytes are: *source is NULL when they are gone. Composites and group entries hold a
   reference to their message, and check *source at each access. When a flyweight is made, each offset is checked
   against its block, and the block against the end of the bytes. These numbers are kept in 64 bits, and are read only
   once from bytes that another process may change. */
#ifndef FLYRING_SBE_H
#define FLYRING_SBE_H

#include "journal_writer.h"
#include "message.h"
#include "publisher.h"

typedef enum {
    CHAR,
    INT8,
    UINT8,
    INT16,
    UINT16,
    INT32,
    UINT32,
    INT64,
    UINT64,
    FLOAT,
    DOUBLE
} primitive; /* FLOAT and DOUBLE come last: `type >= FLOAT` tests for them */

/* The place of a number in a header. A constant has no bytes: `offset` is its value. */
typedef struct {
    int64_t offset;
    primitive type;
    bool swap, constant;
} place;

struct Flyweight;
struct Layout;

/* A data descriptor: one attribute of a class of flyweights. */
typedef struct Field {
    PyObject_HEAD
    /* `at` is the field's first byte; NULL for groups and data, which find it by walking. */
    PyObject *(*get)(struct Field *self, struct Flyweight *owner, const uint8_t *at);
    int (*set)(struct Field *self, struct Flyweight *owner, PyObject *value);
    int64_t offset, end; /* of the field in its block */
    int64_t since;
    primitive type;
    bool swap, optional, wire_order; /* wire_order: groups and data */
    uint64_t null, minimum, maximum; /* the bits of an int64 or uint64; for floats, of a double */
    int64_t length; /* of an array in elements; of text, octets and composites in bytes */
    PyObject *name; /* the schema's */
    PyObject *kind, *class; /* class: that of an enum, set, composite or entry, or None */
    PyObject *codec; /* Python's codec for text, or NULL */
    bool ascii, utf8;
    /* Of an enum, the members and their wire values; of a set, a cache of the members that were used. */
    PyObject **members; /* for types of one byte: 256 entries, by value; NULL: no member */
    PyObject *by_value; /* {wire value: member} */
    struct {
        uint64_t value;
        PyObject *member; /* borrowed from one of the tables above */
    } *pairs; /* of an enum */
    int pair_count;
    PyObject *make; /* sets: wire value -> member */
    /* Groups and data */
    int index; /* the index among the parts of its block */
    struct Layout *entry; /* the layout of a group's entries */
    int64_t dimension_length;
    place entry_length, count; /* in a group's dimension; for data, `count` is the place of the length */
} Field;

/* The layout of a message or entry class: its block, and the groups and data behind it. */
typedef struct Layout {
    PyObject_HEAD
    PyObject *name; /* the schema's */
    int64_t block_length;
    Field **parts; /* groups and data, in order */
    int part_count;
    int depth; /* how deep groups are nested that need a frame (see below) */
    /* Of a message class. */
    int64_t header_length;
    uint8_t *header; /* the header's bytes as encode writes them */
    place header_block_length, header_template_id, header_schema_id, header_version;
    uint64_t template_id, schema_id;
    int64_t version;
    int32_t type; /* the template id as a record's type; 0: it is not a valid type */
} Layout;

typedef struct Flyweight {
    PyObject_HEAD
    struct MessageFlyweight *root; /* of a message: itself; of others: kept alive by `parent` */
    struct Flyweight *parent; /* of a composite or entry; else NULL */
    Field *via; /* the parent's field for this flyweight; NULL for a message */
    Layout *layout; /* NULL for a composite */
    int64_t offset; /* of the block, counted from *source */
    int64_t block_length, version; /* those of the message that is read (SBE: "acting"), not of the class */
    bool writing;
    int part; /* reading: the group or data of that index begins at `position` */
    int64_t position;
    int depth; /* writing: the index of its frame; the frame is its own only while the frame's serial is equal */
    int64_t serial;
} Flyweight;

/* The state of writing groups and data: one frame for the message, and one for each open group inside the previous
   frame. */
typedef struct {
    Layout *layout;
    Field *via; /* for an entry: its group */
    int64_t serial; /* identifies the block, so that an earlier entry is recognised */
    int64_t group_serial, count, begun; /* of the last group: serial, entries, entries begun; 0 after data */
    int next; /* the index of the part to write next */
} frame;

typedef struct MessageFlyweight {
    Flyweight base;
    uint8_t *const *source; /* never NULL; *source is NULL if the bytes are gone */
    int64_t start, length; /* where the header (or block) starts and the bytes end, counted from *source */
    Claim claim; /* .publisher or .journal: of a typed claim, else NULL; .data: the bytes of a claim or a user's buffer
                  */
    PyObject *owner; /* the flyring.Message or Claim whose `data` is the source, or NULL */
    Py_buffer view; /* the export of a user's buffer; .obj is NULL: none */
    /* Writing. */
    int64_t limit; /* the end of the written bytes */
    frame *frames; /* layout->depth + 1 frames; NULL without groups and data */
    int depth;
    int64_t serials;
} MessageFlyweight;

extern PyTypeObject *flyweight_type, *message_flyweight_type, *field_type, *layout_type;

/* Bytes. */

static inline int primitive_size(primitive type)
{
    static const uint8_t sizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
    return sizes[type];
}

/* Read a value exactly once: the compiler cannot read it again. */
#define READ_ONCE_AS(type, at) \
    __extension__({ \
        type value_; \
        memcpy(&value_, (at), sizeof value_); \
        __asm__ volatile("" : "+r"(value_)); \
        value_; \
    })

/* Load an integer, sign-extended, or the bits of a float. */
static inline uint64_t load_bits(const uint8_t *at, primitive type, bool swap)
{
    switch (type) {
    case INT8:
        return (uint64_t)(int64_t)READ_ONCE_AS(int8_t, at);
    case CHAR:
    case UINT8:
        return READ_ONCE_AS(uint8_t, at);
    case INT16:
    case UINT16: {
        uint16_t bits = READ_ONCE_AS(uint16_t, at);
        bits = swap ? __builtin_bswap16(bits) : bits;
        return type == INT16 ? (uint64_t)(int16_t)bits : bits;
    }
    case INT32:
    case UINT32:
    case FLOAT: {
        uint32_t bits = READ_ONCE_AS(uint32_t, at);
        bits = swap ? __builtin_bswap32(bits) : bits;
        return type == INT32 ? (uint64_t)(int32_t)bits : bits;
    }
    default: {
        uint64_t bits = READ_ONCE_AS(uint64_t, at);
        return swap ? __builtin_bswap64(bits) : bits;
    }
    }
}

static inline void store_bits(uint8_t *at, primitive type, bool swap, uint64_t value)
{
    switch (primitive_size(type)) {
    case 1:
        *at = (uint8_t)value;
        break;
    case 2: {
        uint16_t bits = swap ? __builtin_bswap16((uint16_t)value) : (uint16_t)value;
        memcpy(at, &bits, 2);
        break;
    }
    case 4: {
        uint32_t bits = swap ? __builtin_bswap32((uint32_t)value) : (uint32_t)value;
        memcpy(at, &bits, 4);
        break;
    }
    default:
        value = swap ? __builtin_bswap64(value) : value;
        memcpy(at, &value, 8);
    }
}

/* Load a number from its place, which `header` must contain. A negative number becomes greater than any length. */
static inline uint64_t load_place(const uint8_t *header, const place *where)
{
    return UNLIKELY(where->constant) ? (uint64_t)where->offset
                                     : load_bits(header + where->offset, where->type, where->swap);
}

static inline void store_place(uint8_t *header, const place *where, uint64_t value)
{
    if (LIKELY(!where->constant))
        store_bits(header + where->offset, where->type, where->swap, value);
}

/* Return the bytes from which all offsets count, or NULL. */
static inline const uint8_t *flyweight_data(const Flyweight *self)
{
    return *self->root->source;
}

/* flyweight.c */

/* Raise flyring.sbe.errors.<name>(message, "Message.path.field"). The field may be NULL. Returns NULL. */
PyObject *sbe_fail(Flyweight *owner, Field *field, const char *name, const char *format, ...);
PyObject *sbe_fail_named(PyObject *path, const char *name, const char *format, ...);
/* Raise ClosedError. Returns NULL. */
PyObject *sbe_dead(Flyweight *self);
/* Make a composite or entry at `offset`, counted from *source. */
Flyweight *flyweight_nested(PyObject *class, Flyweight *parent, Field *via, int64_t offset, int64_t block_length);
/* Parse the name of a primitive, and below "<" or ">". False with an exception. */
bool parse_primitive(const char *text, primitive *type);
bool parse_byte_order(const char *text, bool *swap);
/* Return where to write the field; NULL with an exception. No Python code may run between this call and the writing. */
uint8_t *field_to_write(Field *self, Flyweight *owner);

/* layout.c */

/* Return the layout of a class derived from type `of`: borrowed, or NULL with an exception. */
Layout *layout_of(PyObject *class, PyTypeObject *of);

/* values.c, text.c, enums.c: the functions for a Field's get and set. */
PyObject *get_integer(Field *, Flyweight *, const uint8_t *);
int set_integer(Field *, Flyweight *, PyObject *);
PyObject *get_float(Field *, Flyweight *, const uint8_t *);
int set_float(Field *, Flyweight *, PyObject *);
PyObject *get_char(Field *, Flyweight *, const uint8_t *);
int set_char(Field *, Flyweight *, PyObject *);
PyObject *get_array(Field *, Flyweight *, const uint8_t *);
int set_array(Field *, Flyweight *, PyObject *);
PyObject *get_text(Field *, Flyweight *, const uint8_t *);
int set_text(Field *, Flyweight *, PyObject *);
PyObject *get_octets(Field *, Flyweight *, const uint8_t *);
int set_octets(Field *, Flyweight *, PyObject *);
PyObject *get_enum(Field *, Flyweight *, const uint8_t *);
int set_enum(Field *, Flyweight *, PyObject *);
PyObject *get_set(Field *, Flyweight *, const uint8_t *);
int set_set(Field *, Flyweight *, PyObject *);
PyObject *get_composite(Field *, Flyweight *, const uint8_t *);
int set_composite(Field *, Flyweight *, PyObject *);
/* parts.c, groups.c */
PyObject *get_group(Field *, Flyweight *, const uint8_t *);
int set_group(Field *, Flyweight *, PyObject *);
PyObject *get_data(Field *, Flyweight *, const uint8_t *);
int set_data(Field *, Flyweight *, PyObject *);

/* Parse the constructor's argument for an enum (pairs of wire value and member) or a set (mask, maker). */
bool field_take_members(Field *self, PyObject *extra);
/* Decode text in the field's character encoding. `bytes` must not change meanwhile. */
PyObject *decode_text(Field *self, Flyweight *owner, const char *bytes, Py_ssize_t length);
/* Encode `value` in the field's character encoding. `holder` gets NULL or an object to release afterwards. */
const char *encode_text(Field *self, Flyweight *owner, PyObject *value, Py_ssize_t *length, PyObject **holder);

/* parts.c */

/* Check that all groups and data are written. False with an exception. */
bool parts_complete(MessageFlyweight *self);
/* Return where the message ends, counted from *source; -1 with an exception. */
int64_t message_end(MessageFlyweight *self);

/* message.c */

/* Initialise a message over the bytes of `source`. The block must lie within `length`. */
void message_begin(MessageFlyweight *self, uint8_t *const *source, int64_t start, int64_t length, int64_t offset,
                   int64_t block_length, int64_t version, bool writing);
/* Allocate the frames of a message to be written, before message_begin. False with an exception. */
bool message_make_frames(MessageFlyweight *self);

/* claim.c */

/* claim(Message, variable_length=0, timeout=0) */
PyObject *publisher_claim_message(Publisher *self, PyObject *const *args, Py_ssize_t n, PyObject *names, bool must);
/* claim(Message, variable_length=0) of a journal */
PyObject *journal_claim_message(JournalWriter *self, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* The bytes of a message that is to be offered, and its type: a new reference, or NULL with an exception. If `object`
   is not a message, the exception that is set stays. */
PyObject *message_to_offer(PyObject *object, PyObject *type_given, int32_t *type);
/* Make a message without bytes. */
MessageFlyweight *message_of(PyObject *class, Layout *layout);
extern uint8_t *const no_bytes; /* the source of a message whose bytes are gone */

PyTypeObject *make_flyweight_type(PyObject *module), *make_dispatcher_type(PyObject *module),
    *make_message_flyweight_type(PyObject *module), *make_field_type(PyObject *module),
    *make_layout_type(PyObject *module), *make_group_type(PyObject *module),
    *make_group_iterator_type(PyObject *module);
/* offer_array.c: the method _offer_array */
PyObject *publisher_offer_array(Publisher *self, PyObject *const *args, Py_ssize_t n);
/* dispatch.c: the function dispatch */
PyObject *sbe_dispatch(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names);

#endif
