// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Locale;

/** The type of a table's keys (table.md 2.1). */
public enum KeyType {
    /** Bytes: a {@link org.agrona.DirectBuffer}. */
    BYTES(Layout.TABLE_KEY_TYPE_BYTES),
    /** Text, stored as UTF-8: a {@link CharSequence}. */
    TEXT(Layout.TABLE_KEY_TYPE_TEXT),
    /** A signed integer of 64 bits: a {@code long}. */
    INTEGER(Layout.TABLE_KEY_TYPE_INTEGER);

    final int code;

    KeyType(int code) {
        this.code = code;
    }

    /** The type with that code; null if there is none. */
    static KeyType of(int code) {
        for (KeyType type : values()) {
            if (type.code == code) {
                return type;
            }
        }
        return null;
    }

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
