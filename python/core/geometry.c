/* SPDX-License-Identifier: Apache-2.0 */
#include "geometry.h"

bool geometry_parse(PyObject *tuple, int64_t length, geometry *shape)
{
    long long publishers, subscribers, capacity, alignment, control, rings, stride;
    int foreign, kind;
    if (!PyArg_ParseTuple(tuple, "LLLLLLLii:geometry", &publishers, &subscribers, &capacity, &alignment, &control,
                          &rings, &stride, &foreign, &kind))
        return false;
    bool queue = kind == KIND_QUEUE, service = kind == KIND_SERVICE;
    bool valid = publishers >= 1 && publishers <= MAX_PUBLISHERS && subscribers >= 0 &&
                 subscribers <= MAX_SUBSCRIBERS && capacity >= MIN_CAPACITY && capacity <= MAX_CAPACITY &&
                 (capacity & (capacity - 1)) == 0 && (alignment == 8 || alignment == 64) &&
                 (foreign == 0 || ((foreign == FEATURE_FOREIGN_PUBLISHER || foreign == FEATURE_FOREIGN_SUBSCRIBER) &&
                                   publishers == 1 && subscribers == 1 && alignment == 8)) &&
                 (!queue || (foreign == 0 && publishers >= MIN_QUEUE_SLOTS && subscribers >= MIN_QUEUE_SLOTS)) &&
                 (!service || (foreign == 0 && publishers % 2 == 0 && subscribers == publishers / 2 + 1));
    if (valid) {
        int64_t trailer = TRAILER_LENGTH + TRAILER_GATE_STRIDE * (subscribers > 1 && !service ? subscribers - 1 : 0);
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
    *shape = (geometry){(int32_t)publishers,
                        (int32_t)subscribers,
                        capacity,
                        alignment,
                        control,
                        rings,
                        stride,
                        foreign,
                        queue,
                        service};
    return true;
}
