// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.List;

/**
 * A subscriber slot at one moment.
 *
 * @param slot the slot.
 * @param state whether somebody owns it.
 * @param epoch which owner it has, from 1; 0: it never had one; -1: its fields are changing.
 * @param name its name, empty if it has none.
 * @param pid process id of its owner, in the owner's pid namespace.
 * @param attachedAt when it was taken, ns since 1970.
 * @param kept whether it stays when its owner goes.
 * @param evicting whether it was evicted and nobody has joined since.
 * @param discarded messages that evictions of this slot lost.
 * @param inHand the job that a worker of a queue has; null: none.
 * @param outstanding of a client of a service: its calls without a final reply; -1: it is none.
 * @param expired of a client of a service: calls of this owner that ended as expired; -1: it is none.
 * @param gates the rings that it holds back.
 */
public record SubscriberStats(int slot, SlotState state, long epoch, String name, int pid, long attachedAt,
    boolean kept, boolean evicting, long discarded, InHandStats inHand, int outstanding, long expired,
    List<GateStats> gates) {
}
