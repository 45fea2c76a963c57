/* SPDX-License-Identifier: Apache-2.0 */
/* The constants and offsets (bytes) of spec/layout.toml that the data path needs, under the names of flyring/layout.py,
   where all of them stand. Tests compare both with spec/layout.toml. */
#ifndef FLYRING_LAYOUT_H
#define FLYRING_LAYOUT_H

#define FLYRING_LAYOUT(X) \
    X(MIN_CAPACITY, 4096) \
    X(MAX_CAPACITY, 1073741824) \
    X(MAX_SUBSCRIBERS, 1024) \
    X(MAX_PUBLISHERS, 1024) \
    X(SECTION_ALIGNMENT, 4096) \
    X(HEADER_LENGTH, 4096) \
    X(MAX_POSITION, 4611686018427387904) \
    X(DEFAULT_POLL_LIMIT, 256) \
    X(TYPE_PADDING, -1) \
    X(TYPE_OWNER, -2) \
    X(NOT_GATING, -1) \
    X(BACK_PRESSURED, -1) \
    X(MAX_NAME_LENGTH, 64) \
    X(BOUNDARIES, 8) \
    X(MAX_MESSAGE_DIVISOR, 4) \
    X(GATE_STORE_DIVISOR, 8) \
    X(CONTROL_SLOTS, 256) \
    X(CONTROL_SLOT_LENGTH, 256) \
    X(CONTROL_SLOT_LOCK, 0) \
    X(PUBLISHER_SLOT_EPOCH, 0) \
    X(PUBLISHER_SLOT_CLOSED, 16) \
    X(SUBSCRIBER_SLOT_EPOCH, 0) \
    X(SUBSCRIBER_SLOT_KEPT, 16) \
    X(OWNER_RECORD_EPOCH, 0) \
    X(OWNER_RECORD_NAME_LENGTH, 8) \
    X(OWNER_RECORD_NAME, 12) \
    X(RECORD_LENGTH, 0) \
    X(RECORD_TYPE, 4) \
    X(RECORD_PAYLOAD, 8) \
    X(RECORD_HEADER_LENGTH, 8) \
    X(TRAILER_BOUNDARY, 0) \
    X(TRAILER_BOUNDARY_COUNT, 8) \
    X(TRAILER_BOUNDARY_STRIDE, 16) \
    X(TRAILER_CLAIMED, 128) \
    X(TRAILER_PUBLISHED, 136) \
    X(TRAILER_MESSAGES_BEGUN, 144) \
    X(TRAILER_MESSAGES_DONE, 152) \
    X(TRAILER_GATE, 384) \
    X(TRAILER_LENGTH, 768) \
    X(TRAILER_MORE_GATES, 768) \
    X(TRAILER_GATE_STRIDE, 128)

#define FLYRING_LAYOUT_CONSTANT(name, value) static const int64_t name __attribute__((unused)) = value;
FLYRING_LAYOUT(FLYRING_LAYOUT_CONSTANT)

#endif
