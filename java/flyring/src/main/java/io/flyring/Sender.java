// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;

/**
 * Who published a message. Spec 6.14.
 *
 * @param ring the ring, which is also the publisher's slot.
 * @param name the publisher's name, empty if it has none or is not known.
 * @param epoch which owner of the slot it was, from 1; 0: not known.
 */
public record Sender(int ring, String name, long epoch) {
    /** The most that an owner record can tell, in bytes of payload. */
    static final int LONGEST = Layout.OWNER_RECORD_NAME + Layout.MAX_NAME_LENGTH;

    static Sender unknown(int ring) {
        return new Sender(ring, "", 0);
    }

    /** Who sends what follows an owner record of so many bytes of payload; unknown if that says nothing. */
    static Sender after(Sender before, Memory memory, int payload, int length) {
        if (length >= Layout.OWNER_RECORD_NAME) {
            long epoch = memory.getLong(payload + Layout.OWNER_RECORD_EPOCH);
            int nameLength = memory.getInt(payload + Layout.OWNER_RECORD_NAME_LENGTH);
            if (epoch > 0 && nameLength >= 0 && nameLength <= Layout.MAX_NAME_LENGTH
                && nameLength <= length - Layout.OWNER_RECORD_NAME) {
                byte[] name = new byte[nameLength];
                memory.getBytes(payload + Layout.OWNER_RECORD_NAME, name, 0, nameLength);
                return new Sender(before.ring, new String(name, StandardCharsets.UTF_8), epoch);
            }
        }
        return unknown(before.ring);
    }
}
