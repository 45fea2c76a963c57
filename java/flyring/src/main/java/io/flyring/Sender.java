// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;

/**
 * The publisher of a message. Spec channel.md 6.14.
 *
 * @param ring the ring, which is also the publisher's slot.
 * @param name the publisher's name, empty if it has none or is not known.
 * @param epoch the number of this owner of the slot, from 1; 0 if not known.
 */
public record Sender(int ring, String name, long epoch) {
    /** The longest payload of an owner record, in bytes. */
    static final int LONGEST = Layout.OWNER_RECORD_NAME + Layout.MAX_NAME_LENGTH;

    static Sender unknown(int ring) {
        return new Sender(ring, "", 0);
    }

    /** The sender of what follows an owner record; unknown if the record is not valid (channel.md 6.14). */
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
