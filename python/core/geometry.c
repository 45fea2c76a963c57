/* SPDX-License-Identifier: Apache-2.0 */
/* Where slots, rings and gates lie (spec 4.1), checked once against the length of the mapping. */
#include "core.h"
#include "ring.h"

bool geometry_parse(PyObject *tuple, int64_t length, geometry *shape)
{
    long long publishers, subscribers, capacity, alignment, control, rings, stride;
    int foreign;
    if (!PyArg_ParseTuple(tuple, "LLLLLLLi:geometry", &publishers, &subscribers, &capacity, &alignment, &control,
                          &rings, &stride, &foreign))
        return false;
    bool valid = publishers >= 1 && publishers <= MAX_PUBLISHERS && subscribers >= 0 &&
                 subscribers <= MAX_SUBSCRIBERS && capacity >= MIN_CAPACITY && capacity <= MAX_CAPACITY &&
                 (capacity & (capacity - 1)) == 0 && (alignment == 8 || alignment == 64) &&
                 (foreign == 0 || ((foreign == FEATURE_FOREIGN_PUBLISHER || foreign == FEATURE_FOREIGN_SUBSCRIBER) &&
                                   publishers == 1 && subscribers == 1 && alignment == 8));
    if (valid) {
        int64_t trailer = TRAILER_LENGTH + TRAILER_GATE_STRIDE * (subscribers > 1 ? subscribers - 1 : 0);
        int64_t slots = CONTROL_SLOTS + CONTROL_SLOT_LENGTH * (publishers + subscribers);
        valid = control >= HEADER_LENGTH && control % SECTION_ALIGNMENT == 0 && control <= length - slots &&
                rings >= control + slots && rings % SECTION_ALIGNMENT == 0 && rings <= length &&
                stride >= capacity + trailer && stride % SECTION_ALIGNMENT == 0 &&
                stride <= (length - rings) / publishers;
    }
    if (!valid) {
        PyErr_SetString(PyExc_ValueError, "this geometry does not fit into the mapping");
        return false;
    }
    *shape =
        (geometry){(int32_t)publishers, (int32_t)subscribers, capacity, alignment, control, rings, stride, foreign};
    return true;
}

int64_t publisher_slot_offset(const geometry *shape, int32_t slot)
{
    return shape->control + CONTROL_SLOTS + CONTROL_SLOT_LENGTH * slot;
}

int64_t subscriber_slot_offset(const geometry *shape, int32_t slot)
{
    return shape->control + CONTROL_SLOTS + CONTROL_SLOT_LENGTH * (shape->publishers + slot);
}

int64_t ring_data_offset(const geometry *shape, int32_t ring)
{
    return shape->rings + shape->stride * ring;
}

int64_t ring_trailer_offset(const geometry *shape, int32_t ring)
{
    return ring_data_offset(shape, ring) + shape->capacity;
}

void gates_clear(const geometry *shape, uint8_t *base, int32_t slot)
{
    for (int32_t ring = 0; ring < shape->publishers; ring++) {
        /* 6.6, 6.7: after the last read of what is given up; pairs with the acquire of 6.2, 2 */
        STORE64_RELEASE(base + ring_trailer_offset(shape, ring) + gate_offset(slot), NOT_GATING);
    }
}

void slot_evict(const geometry *shape, uint8_t *base, int32_t slot)
{
    uint8_t *at = base + subscriber_slot_offset(shape, slot);
    atomic_fetch_add_explicit(ATOMIC64(at + SUBSCRIBER_SLOT_EPOCH), 1,
                              memory_order_seq_cst); /* pairs with 5.4, 6.9, 5 */
    STORE32_RELEASE(at + SUBSCRIBER_SLOT_EVICTING, 1); /* until somebody joins: 5.3, 4 (acquire) */
    gates_clear(shape, base, slot);
}

bool ring_ended(const geometry *shape, const uint8_t *base, int32_t ring, int64_t cursor)
{
    const uint8_t *slot = base + publisher_slot_offset(shape, ring), *trailer = base + ring_trailer_offset(shape, ring);
    return shape->foreign != FEATURE_FOREIGN_PUBLISHER && /* 6.15 */
           LOAD32_ACQUIRE(slot + PUBLISHER_SLOT_CLOSED) == 1 && /* 6.14; pairs with 5.2, close (release) */
           LOAD64_ACQUIRE(trailer + TRAILER_PUBLISHED) == cursor; /* pairs with publish 7 */
}
