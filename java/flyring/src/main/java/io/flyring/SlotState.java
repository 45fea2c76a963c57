// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Locale;

/** Whether somebody owns a slot. */
public enum SlotState {
    /** Nobody ever had it. */
    UNUSED,
    /** A live process owns it. */
    LIVE,
    /** Its owner died, or went. */
    AWAY,
    /** Of a publisher: its owner closed it. */
    CLOSED,
    /** A process with other software is at this end; whether it lives cannot be told. */
    FOREIGN,
    /** Of a queue's slot 0: it stands for the jobs that no worker has taken. */
    SHARED,
    /** Of a queue's last publisher slot: its ring has the jobs that were released. */
    RETURNS;

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
