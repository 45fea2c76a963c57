// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Locale;

/** Whether a slot is owned. */
public enum SlotState {
    /** The slot never had an owner. */
    UNUSED,
    /** A live process owns it. */
    LIVE,
    /** The slot has no live owner: its last one died or closed. */
    AWAY,
    /** Of a publisher slot: its last owner closed. */
    CLOSED,
    /** A process without Flyring is at this end; its liveness is not known. */
    FOREIGN,
    /** Slot 0 of a queue, which stands for the jobs that no worker has taken. */
    SHARED,
    /** The last publisher slot of a queue; its ring holds the jobs that were released. */
    RETURNS;

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
