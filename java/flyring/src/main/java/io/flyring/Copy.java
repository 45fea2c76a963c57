// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.DirectBuffer;

/** Copies payloads into a ring. */
final class Copy {
    private Copy() {
    }

    /** Copies from any buffer, whose bounds were checked, into memory, which checks its own. */
    static void from(DirectBuffer source, int offset, Memory target, int index, int length) {
        if (source instanceof PayloadBuffer ours) {
            target.putBytes(index, ours.memory(), ours.wrapAdjustment() + offset, length);
        } else if (length > Memory.SMALL) {
            source.getBytes(offset, target.view(), index, length);
        } else {
            int i = 0;
            for (; i <= length - Long.BYTES; i += Long.BYTES) {
                target.putLong(index + i, source.getLong(offset + i));
            }
            for (; i < length; i++) {
                target.putByte(index + i, source.getByte(offset + i));
            }
        }
    }
}
