// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.BackoffIdleStrategy;

/** The deterministic stream of interop-tests/PEER.md: message i depends only on the seed and i. */
final class Stream {
    private static final long GAMMA = 0x9E3779B97F4A7C15L;
    private static final long STEP = 0xD1B54A32D192ED03L;
    private static final int TYPES = 1000;

    private final long seed;
    private final long min;
    private final long max;
    private final int fixedType;
    private final boolean numbered;
    private long sequence;
    private long state;
    private int length;
    private int type;

    /**
     * Creates a stream of messages of {@code min} to {@code max} bytes. With {@code fixedType} 0, types differ. With
     * {@code numbered}, message i begins with i, in 8 bytes.
     */
    Stream(long seed, long min, long max, int fixedType, boolean numbered) {
        this.seed = seed;
        this.min = min;
        this.max = max;
        this.fixedType = fixedType;
        this.numbered = numbered;
        if (numbered && min < Long.BYTES) {
            throw new Request.Bad("The messages of a numbered stream have at least 8 bytes, not " + min + ".");
        }
    }

    static Stream of(Request request) {
        return new Stream(request.number("seed"), request.number("min"), request.number("max"),
            request.integer("type", 0), request.flag("numbered"));
    }

    /** The idle strategy of peers: spin, then yield, then sleep up to 50 us. */
    static BackoffIdleStrategy patience() {
        return new BackoffIdleStrategy(1000, 100, 1000, 50_000);
    }

    private long next() {
        state += GAMMA;
        long z = state;
        z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
        z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
        return z ^ z >>> 31;
    }

    /** Moves to message i: sets length and type. {@link #write} and {@link #check} handle its payload. */
    void at(long i) {
        sequence = i;
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

    /** The eight bytes of the payload at an index that is a multiple of eight. */
    private long word(int at) {
        long word = next();
        return numbered && at == 0 ? sequence : word;
    }

    void write(MutableDirectBuffer buffer, int offset) {
        int i = 0;
        for (; i <= length - Long.BYTES; i += Long.BYTES) {
            buffer.putLong(offset + i, word(i));
        }
        for (long rest = i < length ? next() : 0; i < length; i++, rest >>>= Byte.SIZE) {
            buffer.putByte(offset + i, (byte) rest);
        }
    }

    /** What is wrong with a payload; null if nothing is. */
    String check(DirectBuffer buffer, int actualLength, int actualType) {
        if (actualLength != length) {
            return "length " + actualLength + " instead of " + length;
        }
        if (actualType != type) {
            return "type " + actualType + " instead of " + type;
        }
        int i = 0;
        for (; i <= length - Long.BYTES; i += Long.BYTES) {
            if (buffer.getLong(i) != word(i)) {
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
