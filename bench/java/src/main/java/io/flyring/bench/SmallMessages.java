// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/** Whole messages of 32 bytes, without a loop or a lookup, as the C++ compiler compiles its template for them. */
final class SmallMessages extends Messages {
    static final int SIZE = 32;

    SmallMessages() {
        super(SIZE, true);
    }

    @Override
    void write(MutableDirectBuffer to, int at, long tag) {
        long word = tag * FACTOR;
        long end = tag >> 63; // the one tag below 0 is END, and all of its words are
        to.putLong(at, tag);
        to.putLong(at + 8, word + FACTOR | end);
        to.putLong(at + 16, word + 2 * FACTOR | end);
        to.putLong(at + 24, word + 3 * FACTOR | end);
    }

    @Override
    boolean is(DirectBuffer from, int at, long tag) {
        long word = tag * FACTOR;
        long difference = from.getLong(at) ^ tag;
        difference |= from.getLong(at + 8) ^ word + FACTOR;
        difference |= from.getLong(at + 16) ^ word + 2 * FACTOR;
        difference |= from.getLong(at + 24) ^ word + 3 * FACTOR;
        return difference == 0;
    }
}
