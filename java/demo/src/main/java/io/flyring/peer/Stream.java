// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/** The deterministic stream of interop-tests/PEER.md: message i is made from the seed and i alone. */
final class Stream {
    private static final long GAMMA = 0x9E3779B97F4A7C15L;
    private static final long STEP = 0xD1B54A32D192ED03L;
    private static final int TYPES = 1000;

    private final long seed;
    private final long min;
    private final long max;
    private final int fixedType;
    private long state;
    private int length;
    private int type;

    /** A stream of messages of {@code min} to {@code max} bytes; {@code fixedType} 0: types differ. */
    Stream(long seed, long min, long max, int fixedType) {
        this.seed = seed;
        this.min = min;
        this.max = max;
        this.fixedType = fixedType;
    }

    private long next() {
        state += GAMMA;
        long z = state;
        z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
        z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
        return z ^ z >>> 31;
    }

    /** Goes to message i; its length and type are known then, its payload comes by {@link #write} or {@link #check}. */
    void at(long i) {
        state = seed * GAMMA + i * STEP;
        length = (int) (min + Long.remainderUnsigned(next(), max - min + 1));
        int drawn = (int) (1 + Long.remainderUnsigned(next(), TYPES));
        type = fixedType > 0 ? fixedType : drawn;
    }

    int length() {
        return length;
    }

    int type() {
        return type;
    }

    void write(MutableDirectBuffer buffer, int offset) {
        int i = 0;
        for (; i <= length - Long.BYTES; i += Long.BYTES) {
            buffer.putLong(offset + i, next());
        }
        for (long rest = i < length ? next() : 0; i < length; i++, rest >>>= Byte.SIZE) {
            buffer.putByte(offset + i, (byte) rest);
        }
    }

    /** What is wrong with a payload, or null. */
    String check(DirectBuffer buffer, int actualLength, int actualType) {
        if (actualLength != length) {
            return "length " + actualLength + " instead of " + length;
        }
        if (actualType != type) {
            return "type " + actualType + " instead of " + type;
        }
        int i = 0;
        for (; i <= length - Long.BYTES; i += Long.BYTES) {
            if (buffer.getLong(i) != next()) {
                return "payload at " + i;
            }
        }
        for (long rest = i < length ? next() : 0; i < length; i++, rest >>>= Byte.SIZE) {
            if (buffer.getByte(i) != (byte) rest) {
                return "payload at " + i;
            }
        }
        return null;
    }
}
