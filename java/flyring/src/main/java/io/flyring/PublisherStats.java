// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.List;

/**
 * A publisher slot at one moment, and its ring, which has the same number.
 *
 * @param slot the slot.
 * @param state whether somebody owns it.
 * @param epoch which owner it has, from 1; 0: it never had one; -1: its fields are changing.
 * @param name its name, empty if it has none.
 * @param pid process id of its owner, in the owner's pid namespace.
 * @param attachedAt when it was taken, ns since 1970.
 * @param start where this owner's first record lies, in bytes.
 * @param published end of what was published, in bytes.
 * @param claimed end of what may be being written or cleared, in bytes.
 * @param messages messages ever published; -1 if that is not known.
 * @param blockedSince since when it is held back, ns of CLOCK_MONOTONIC; 0: it is not.
 * @param blockedFor for how long it has been held back, ns; 0: it is not.
 * @param blockedLength bytes of the record that found no room; 0: it is not held back.
 * @param blockedBy the subscriber slots that hold it back.
 */
public record PublisherStats(int slot, SlotState state, long epoch, String name, int pid, long attachedAt,
    long start, long published, long claimed, long messages, long blockedSince, long blockedFor, long blockedLength,
    List<Integer> blockedBy) {
}
