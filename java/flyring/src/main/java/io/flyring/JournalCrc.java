// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;
import java.util.zip.CRC32C;

/** CRC-32C over ranges of memory. Allocates nothing while the memory stays the same. */
final class JournalCrc {
    private final CRC32C crc = new CRC32C();
    private Memory memory;
    private ByteBuffer view;

    void reset() {
        crc.reset();
    }

    void add(Memory from, int index, int length) {
        if (from != memory) {
            memory = from;
            view = from.view();
        }
        view.limit(index + length).position(index);
        crc.update(view);
    }

    int value() {
        return (int) crc.getValue();
    }

    int of(Memory from, int index, int length) {
        reset();
        add(from, index, length);
        return value();
    }

    /** Lets go of the memory, which then can be unmapped. */
    void forget() {
        memory = null;
        view = null;
    }
}
