// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.List;

/**
 * A publisher slot at one moment, and its ring, which has the same number.
 *
 * @param slot the slot.
 * @param state whether the slot is owned.
 * @param epoch the number of its owner, from 1; 0 if it never had one; -1 while its fields are changing.
 * @param name its name, empty if it has none.
 * @param pid process id of its owner, in the owner's pid namespace.
 * @param attachedAt when the slot was taken, in ns since 1970-01-01 UTC.
 * @param start the position of this owner's first record, in bytes.
 * @param published the end of what was published, in bytes.
 * @param claimed the end of what may be under change (written or cleared), in bytes.
 * @param messages the number of messages ever published; -1 if not known.
 * @param blockedSince since when the publisher is held back, in ns of CLOCK_MONOTONIC; 0 if it is not.
 * @param blockedFor how long the publisher has been held back, in ns; 0 if it is not.
 * @param blockedLength bytes of the record that found no room; 0 if the publisher is not held back.
 * @param blockedBy the subscriber slots that hold it back.
 * @param readers how many subscribers with an owner read the ring; in a queue, how many workers live.
 */
public record PublisherStats(int slot, SlotState state, long epoch, String name, int pid, long attachedAt,
    long start, long published, long claimed, long messages, long blockedSince, long blockedFor, long blockedLength,
    List<Integer> blockedBy, int readers) {
}
