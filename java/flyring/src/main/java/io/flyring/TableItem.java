// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * One key of a table with its value, as {@link Table#forEach} passes it. Key and value are copies, valid until the
 * action returns.
 */
public final class TableItem {
    private final TableLook look;
    private final Memory bytes;
    private final PayloadBuffer value;

    TableItem(TableHeader header) {
        look = new TableLook();
        bytes = Memory.of(ByteBuffer.allocateDirect(header.valueBytes));
        value = new PayloadBuffer(bytes);
    }

    /** Reads a cell; returns whether it is live. */
    boolean read(TableFile file, long cell) {
        boolean live = look.readAny(file, cell, bytes);
        if (live) {
            value.window(bytes, 0, look.length);
        }
        return live;
    }

    TableKey rawKey() {
        return look.key;
    }

    /**
     * The key's bytes.
     *
     * @return a copy.
     */
    public byte[] key() {
        return look.key.toByteArray();
    }

    /**
     * The key as a number; it has a meaning only if the table's keys are integers.
     *
     * @return the key.
     */
    public long integerKey() {
        return look.key.toLong();
    }

    /**
     * The key as text; bytes that are not UTF-8 become U+FFFD.
     *
     * @return the key.
     */
    public String textKey() {
        return new String(look.key.toByteArray(), StandardCharsets.UTF_8);
    }

    /**
     * The value.
     *
     * @return a buffer over a copy of the value.
     */
    public PayloadBuffer value() {
        return value;
    }

    /**
     * The value's version.
     *
     * @return the version; each later version of the key is larger.
     */
    public long version() {
        return look.version;
    }
}
