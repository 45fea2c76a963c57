/* SPDX-License-Identifier: Apache-2.0 */
/* The code that client and server of a service share (spec/service.md): prefixes, the clock, and liveness. */
#ifndef FLYRING_SERVICE_H
#define FLYRING_SERVICE_H

#include "reader.h"
#include "writer.h"

/* The first bytes of a message to the server (service.md 2). */
typedef struct {
    uint32_t sequence;
    uint16_t operation, credit;
    int64_t deadline;
    uint32_t client_epoch, server_epoch;
} request_prefix;
_Static_assert(sizeof(request_prefix) == 24 && offsetof(request_prefix, server_epoch) == 20,
               "as spec/service.md 2 has it");

/* The first bytes of a message to a client (service.md 2). */
typedef struct {
    uint32_t client_epoch, sequence;
    int32_t status, flags;
} reply_prefix;
_Static_assert(sizeof(reply_prefix) == 16 && offsetof(reply_prefix, flags) == 12, "as spec/service.md 2 has it");

#define MOST_CREDIT 65535

/* A message that owns its bytes: a server's reply. A Request has the same first fields. */
typedef struct {
    Message message;
    bool repeat;
    uint8_t bytes[];
} Answer;

/* Make an Answer with these bytes. `sender` is borrowed. NULL with an exception. */
Answer *answer_new(const uint8_t *bytes, int64_t length, int32_t type, int32_t ring, int64_t position, bool repeat,
                   PyObject *sender);
PyTypeObject *make_answer_type(PyObject *module);
/* The function message_behind of the module. */
PyObject *message_behind(PyObject *module, PyObject *args);

/* The clock of deadlines (channel.md 10): ns, at least 1. */
typedef struct {
    int64_t injected; /* a value for tests; 0: the real clock */
    int64_t offset; /* of CLOCK_MONOTONIC in this time namespace */
} service_clock;

static inline int64_t service_now(const service_clock *clock)
{
    if (UNLIKELY(clock->injected != 0))
        return clock->injected;
    int64_t now = now_ns() - clock->offset;
    return now < 1 ? 1 : now;
}

/* The time `timeout` ns after `now`. */
static inline int64_t service_later(int64_t now, int64_t timeout)
{
    return timeout > INT64_MAX - now ? INT64_MAX : now + timeout;
}

static inline uint32_t low_bits(int64_t epoch)
{
    return (uint32_t)(epoch & 0xFFFFFFFF);
}

/* Whether this is a valid position (spec/channel.md 9). */
static inline bool is_position(const geometry *shape, int64_t position)
{
    return position >= 0 && position < MAX_POSITION && (position & (shape->alignment - 1)) == 0;
}

/* Increment a count; an unknown count stays unknown. */
static inline int64_t count_on(int64_t count)
{
    return count == COUNT_UNKNOWN ? count : (int64_t)((uint64_t)count + 1);
}

/* Publish a message of two parts (channel.md 6.1), for a service: 1 published, 0 no room, -1 an exception. */
static inline int service_publish(slot_writer *writer, const void *prefix, int64_t prefix_length, const void *bytes,
                                  int64_t length, int32_t type)
{
    ring_writer *ring = &writer->ring;
    int64_t whole = RECORD_HEADER_LENGTH + prefix_length + length, n = ring_record_size(ring, whole);
    if (UNLIKELY(ring->end + n > ring->cleared || writer->owner_pending)) {
        int room = writer_reserve(writer, n);
        if (room <= 0)
            return room;
        ring_announce(ring, n);
    }
    uint8_t *payload = ring->data + (ring->end & ring->mask) + RECORD_PAYLOAD;
    memcpy(payload, prefix, (size_t)prefix_length); /* 5 */
    if (length != 0)
        memcpy(payload + prefix_length, bytes, (size_t)length);
    ring_set_type(ring, type);
    ring_commit(ring, whole);
    ring_advance(ring, n, 1);
    return 1;
}

/* Whether a server is running with the epoch `e` of slot 0 (service.md 6). `lock` is a description of the file. */
bool server_lives(const geometry *shape, const uint8_t *base, const File *lock, int64_t e);

#endif
