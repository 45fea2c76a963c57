/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the C core share. One interpreter only (module.c refuses a second): so plain statics. */
#ifndef FLYRING_CORE_H
#define FLYRING_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if ATOMIC_LLONG_LOCK_FREE != 2 || ATOMIC_INT_LOCK_FREE != 2
#error "Flyring needs lock-free 4- and 8-byte atomics"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Flyring's files are little endian and so must be the machine"
#endif

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Atomic access to mapped memory. `at` must be naturally aligned; the spec's layout sees to that. */
#define ATOMIC32(at) ((_Atomic int32_t *)(void *)(at))
#define ATOMIC64(at) ((_Atomic int64_t *)(void *)(at))
#define LOAD32_RELAXED(at) atomic_load_explicit(ATOMIC32(at), memory_order_relaxed)
#define LOAD32_ACQUIRE(at) atomic_load_explicit(ATOMIC32(at), memory_order_acquire)
#define LOAD64_RELAXED(at) atomic_load_explicit(ATOMIC64(at), memory_order_relaxed)
#define LOAD64_ACQUIRE(at) atomic_load_explicit(ATOMIC64(at), memory_order_acquire)
#define STORE32_RELAXED(at, v) atomic_store_explicit(ATOMIC32(at), (int32_t)(v), memory_order_relaxed)
#define STORE32_RELEASE(at, v) atomic_store_explicit(ATOMIC32(at), (int32_t)(v), memory_order_release)
#define STORE64_RELAXED(at, v) atomic_store_explicit(ATOMIC64(at), (int64_t)(v), memory_order_relaxed)
#define STORE64_RELEASE(at, v) atomic_store_explicit(ATOMIC64(at), (int64_t)(v), memory_order_release)
#define FENCE_ACQUIRE() atomic_thread_fence(memory_order_acquire)
#define FENCE_RELEASE() atomic_thread_fence(memory_order_release)
#define FENCE_SEQ_CST() atomic_thread_fence(memory_order_seq_cst)

/* module.c */

/* Raises flyring.errors.<name>(*args), args as for Py_BuildValue with an outer "(...)". Returns NULL. */
PyObject *core_raise(const char *name, const char *format, ...);
/* {name: value} of all that layout.h defines. */
/* The parameters of a METH_FASTCALL | METH_KEYWORDS function: their names, how many, how many must be given. */
typedef struct {
    const char *const *names;
    int count, required;
} signature;
/* Fills `values` (signature.count of them, NULL where not given). Raises TypeError and returns false if it does not
   fit. */
bool parse_arguments(const signature *expected, PyObject *const *args, Py_ssize_t n, PyObject *names,
                     PyObject **values);
/* A message's type: raises InvalidArgumentError and returns 0 unless it is 1 to 2^31-1. */
int32_t parse_type(PyObject *object);

/* An object that fork must disable: the child calls `forked` on each of these, before fork returns there. */
typedef struct fork_node {
    struct fork_node *previous, *next;
    void (*forked)(struct fork_node *self);
} fork_node;

void fork_lock(void);
void fork_unlock(void);
void fork_add(fork_node *node, void (*forked)(fork_node *));
void fork_remove(fork_node *node);

/* memory.c: the mapping of a channel's file, held through the buffer protocol so that nobody can unmap it. */

typedef struct {
    PyObject_HEAD
    Py_buffer view;
    uint8_t *base;
    int64_t length;
    int users; /* publishers and subscribers: the mapping stays while there are any */
    bool writable, closed, forked;
    PyObject *path; /* for errors */
    fork_node node;
} Memory;

extern PyTypeObject *memory_type;
/* Raises and returns false if closed, or not the whole of [offset, offset + length) is mapped. */
bool memory_covers(Memory *memory, int64_t offset, int64_t length);
void memory_use(Memory *memory);
void memory_unuse(Memory *memory);

/* Where things lie in a channel's file, checked against the length of its mapping (geometry.c). */
typedef struct {
    int32_t publishers, subscribers;
    int64_t capacity, alignment;
    int64_t control, rings, stride;
    int32_t foreign; /* 0 or the feature bit of 6.15: who is stock Agrona */
} geometry;

/* A tuple (publishers, subscribers, capacity, alignment, control_offset, rings_offset, ring_stride, foreign). Raises
   ValueError and returns false unless all of its slots and rings lie within `length` bytes. */
bool geometry_parse(PyObject *tuple, int64_t length, geometry *shape);
int64_t publisher_slot_offset(const geometry *shape, int32_t slot);
int64_t subscriber_slot_offset(const geometry *shape, int32_t slot);
int64_t ring_data_offset(const geometry *shape, int32_t ring);
int64_t ring_trailer_offset(const geometry *shape, int32_t ring);
/* All gates of a subscriber slot := -1 (release): spec 6.6, 6.7, 6.11. */
void gates_clear(const geometry *shape, uint8_t *base, int32_t slot);
/* 6.14: the ring's publisher closed, and the cursor is at the end. Of a foreign one nobody knows. */
bool ring_ended(const geometry *shape, const uint8_t *base, int32_t ring, int64_t cursor);
/* 6.11, under the control lock: takes a subscriber slot away from its owner. */
void slot_evict(const geometry *shape, uint8_t *base, int32_t slot);

/* lock.c */

typedef struct {
    PyObject_HEAD
    int fd; /* -1: closed */
    uint64_t device, inode; /* of the file: the number may be another file's by now, after a closefrom */
    fork_node node;
} LockFile;

extern PyTypeObject *lock_file_type;
/* One byte of the file: true if the lock was got. Never blocks. */
bool lock_try(LockFile *lock, int64_t at);
void lock_release(LockFile *lock, int64_t at);
/* Unlocks everything and closes. */
void lock_shut(LockFile *lock);

/* message.c */

struct sender; /* sender.h */

typedef struct Message {
    PyObject_VAR_HEAD /* size: bytes stored in `bytes`; 0 if in place */
    PyObject *owner; /* in place: the subscriber, which keeps the memory; NULL: the bytes are our own, or expired */
    const uint8_t *data; /* NULL: expired */
    Py_ssize_t length;
    Py_ssize_t exports;
    int64_t position;
    int32_t type, ring;
    PyObject *sender; /* flyring.Sender, or NULL */
    struct sender *from; /* with an owner: its own, or NULL: `sender` has it */
    struct Message **held; /* with an owner: where it has a borrowed pointer to this, having been peeked at, or NULL */
    uint8_t bytes[];
} Message;

extern PyTypeObject *message_type;
extern PyObject *sender_class; /* flyring.Sender */
/* An empty shell for in-place use by `owner`. */
Message *message_in_place(PyObject *owner);
/* One that owns its bytes, still to be filled in. `sender` is borrowed. */
static inline Message *message_new(Py_ssize_t length, int32_t type, int32_t ring, int64_t position, PyObject *sender)
{
    Message *self = PyObject_NewVar(Message, message_type, length);
    if (UNLIKELY(self == NULL))
        return NULL;
    self->owner = NULL;
    self->data = self->bytes;
    self->length = length;
    self->exports = 0;
    self->position = position;
    self->type = type;
    self->ring = ring;
    self->sender = Py_NewRef(sender);
    return self;
}
/* After the handler: no new exports. The owner stays referenced until the last export is gone. */
void message_expire(Message *message);

/* wait.c */

enum { WAIT_SPIN, WAIT_YIELD, WAIT_BACKOFF };
#define WAIT_FOR_EVER INT64_MAX
#define WAIT_NOT 0

int64_t now_ns(void); /* CLOCK_MONOTONIC */
/* "spin", "yield" or "backoff" -> 0; anything else raises and returns -1. */
int wait_parse(PyObject *name, int *strategy);
/* Seconds as a number, or None for ever -> nanoseconds. Returns -1 with an exception set if it is neither. */
int64_t wait_timeout(PyObject *seconds);

typedef struct {
    int strategy;
    int64_t deadline; /* by now_ns, or WAIT_FOR_EVER */
    int64_t sleep; /* ns of the next sleep of WAIT_BACKOFF */
    bool spun;
} wait_state;

void wait_begin(wait_state *state, int strategy, int64_t timeout);
/* Waits until `ready`, the deadline, or a few milliseconds have passed: 1 ready, 0 not ready (call again, after what
   has to be done now and then), -1 an exception (a signal's handler raised), -2 the deadline has passed. */
int wait_some(wait_state *state, bool (*ready)(void *), void *context);

/* publisher.c, subscriber.c, lossy.c, claim.c */

extern PyTypeObject *publisher_type, *subscriber_type, *lossy_type, *claim_type;
PyTypeObject *make_memory_type(PyObject *module), *make_lock_file_type(PyObject *module),
    *make_message_type(PyObject *module), *make_publisher_type(PyObject *module), *make_claim_type(PyObject *module),
    *make_subscriber_type(PyObject *module), *make_lossy_type(PyObject *module);
/* 6.13, now and then: calls the method _look of a publisher or subscriber. False with an exception. */
bool core_look(PyObject *self);

/* Nothing here uses Py_RETURN_NONE: Python 3.12 and 3.13 define it without a reference, and an extension built there
   would then break 3.11, where None is counted. */

/* What closed and forked objects compare their epoch with: never equal to what they expect. */
extern const int64_t dead_epoch_word;

#endif
