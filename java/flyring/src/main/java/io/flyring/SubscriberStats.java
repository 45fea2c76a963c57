// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.List;

/**
 * A subscriber slot at one moment.
 *
 * @param slot the slot.
 * @param state whether the slot is owned.
 * @param epoch the number of its owner, from 1; 0 if it never had one; -1 while its fields are changing.
 * @param name its name, empty if it has none.
 * @param pid process id of its owner, in the owner's pid namespace.
 * @param attachedAt when the slot was taken, in ns since 1970-01-01 UTC.
 * @param kept whether publishers wait for the slot's next owner when its owner goes.
 * @param evicting whether the slot was evicted and no owner has joined since.
 * @param discarded the number of messages that evictions of this slot lost.
 * @param inHand the job that a worker of a queue has in hand; null if there is none.
 * @param outstanding of a client of a service: its calls without a final reply; else -1.
 * @param expired of a client of a service: calls of this owner that ended as expired; else -1.
 * @param gates the gates of the rings that the slot holds back.
 */
public record SubscriberStats(int slot, SlotState state, long epoch, String name, int pid, long attachedAt,
    boolean kept, boolean evicting, long discarded, InHandStats inHand, int outstanding, long expired,
    List<GateStats> gates) {
}
