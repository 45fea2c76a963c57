// SPDX-License-Identifier: Apache-2.0
package stock;

import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/** The deterministic stream of interop-tests/PEER.md. */
final class Stream {
    private static final long GAMMA = 0x9E3779B97F4A7C15L;

    private final long seed;
    private final long least;
    private final long span;
    private long state;
    /** Of the current message. */
    int length;
    int type;

    Stream(long seed, long least, long most) {
        this.seed = seed;
        this.least = least;
        this.span = most - least + 1;
    }

    /** Goes to message i: its length and type are known then, and its payload comes from put or matches, once. */
    void message(long i) {
        state = seed * GAMMA + i * 0xD1B54A32D192ED03L;
        length = (int) (least + Long.remainderUnsigned(next(), span));
        type = 1 + (int) Long.remainderUnsigned(next(), 1000);
    }

    void put(MutableDirectBuffer buffer, int at) {
        int done = 0;
        for (; done + 8 <= length; done += 8) {
            buffer.putLong(at + done, next());
        }
        for (long word = done < length ? next() : 0; done < length; done++, word >>>= 8) {
            buffer.putByte(at + done, (byte) word);
        }
    }

    boolean matches(DirectBuffer buffer, int at) {
        int done = 0;
        long different = 0;
        for (; done + 8 <= length; done += 8) {
            different |= buffer.getLong(at + done) ^ next();
        }
        for (long word = done < length ? next() : 0; done < length; done++, word >>>= 8) {
            different |= (byte) word ^ buffer.getByte(at + done);
        }
        return different == 0;
    }

    private long next() {
        state += GAMMA;
        long z = state;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }
}
