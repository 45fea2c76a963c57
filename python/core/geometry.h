/* SPDX-License-Identifier: Apache-2.0 */
/* The dimensions and offsets of a channel's file (spec/channel.md 4.1), checked once against its mapping's length. */
#ifndef FLYRING_GEOMETRY_H
#define FLYRING_GEOMETRY_H

#include "errors.h"
#include "layout.h"

typedef struct {
    int32_t publishers, subscribers;
    int64_t capacity, alignment;
    int64_t control, rings, stride;
    int32_t foreign; /* 0, or the feature bit of the end at which a stock Agrona process is (6.15) */
    bool queue; /* of spec/queue.md */
    bool service; /* of spec/service.md */
} geometry;

/* A tuple (publishers, subscribers, capacity, alignment, control_offset, rings_offset, ring_stride, foreign,
   kind). Raises ValueError and returns false unless all of its slots and rings lie within `length` bytes. */
bool geometry_parse(PyObject *tuple, int64_t length, geometry *shape);

static inline int64_t publisher_slot_offset(const geometry *shape, int32_t slot)
{
    return shape->control + CONTROL_SLOTS + CONTROL_SLOT_LENGTH * slot;
}

static inline int64_t subscriber_slot_offset(const geometry *shape, int32_t slot)
{
    return shape->control + CONTROL_SLOTS + CONTROL_SLOT_LENGTH * (shape->publishers + slot);
}

/* In a service, the subscriber slot with the only gate of this ring (service.md 2). */
static inline int32_t service_reader(const geometry *shape, int32_t ring)
{
    int32_t clients = shape->publishers / 2;
    return ring < clients ? 0 : 1 + ring - clients;
}

static inline int64_t ring_data_offset(const geometry *shape, int32_t ring)
{
    return shape->rings + shape->stride * ring;
}

static inline int64_t ring_trailer_offset(const geometry *shape, int32_t ring)
{
    return ring_data_offset(shape, ring) + shape->capacity;
}

#endif
