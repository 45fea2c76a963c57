// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/** xxHash64 with seed 0, of the start of an array (table.md 2.4). */
final class XxHash64 {
    private static final VarHandle LONGS =
        MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INTS = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final long P1 = 0x9E3779B185EBCA87L;
    private static final long P2 = 0xC2B2AE3D27D4EB4FL;
    private static final long P3 = 0x165667B19E3779F9L;
    private static final long P4 = 0x85EBCA77C2B2AE63L;
    private static final long P5 = 0x27D4EB2F165667C5L;
    private static final int STRIPE = 32;

    private XxHash64() {
    }

    static long of(byte[] bytes, int length) {
        int at = 0;
        long hash = P5;
        if (length >= STRIPE) {
            long a = P1 + P2;
            long b = P2;
            long c = 0;
            long d = -P1;
            for (; at <= length - STRIPE; at += STRIPE) {
                a = round(a, (long) LONGS.get(bytes, at));
                b = round(b, (long) LONGS.get(bytes, at + 8));
                c = round(c, (long) LONGS.get(bytes, at + 16));
                d = round(d, (long) LONGS.get(bytes, at + 24));
            }
            hash = Long.rotateLeft(a, 1) + Long.rotateLeft(b, 7) + Long.rotateLeft(c, 12) + Long.rotateLeft(d, 18);
            hash = merge(merge(merge(merge(hash, a), b), c), d);
        }
        hash += length;
        for (; at <= length - Long.BYTES; at += Long.BYTES) {
            hash = word(hash, (long) LONGS.get(bytes, at));
        }
        if (at <= length - Integer.BYTES) {
            hash ^= ((int) INTS.get(bytes, at) & 0xffffffffL) * P1;
            hash = Long.rotateLeft(hash, 23) * P2 + P3;
            at += Integer.BYTES;
        }
        for (; at < length; at++) {
            hash ^= (bytes[at] & 0xff) * P5;
            hash = Long.rotateLeft(hash, 11) * P1;
        }
        return end(hash);
    }

    /** The hash of the 8 bytes of one word, little endian. */
    static long of(long value) {
        return end(word(P5 + Long.BYTES, value));
    }

    private static long round(long lane, long value) {
        return Long.rotateLeft(lane + value * P2, 31) * P1;
    }

    private static long merge(long hash, long lane) {
        return (hash ^ round(0, lane)) * P1 + P4;
    }

    private static long word(long hash, long value) {
        return Long.rotateLeft(hash ^ round(0, value), 27) * P1 + P4;
    }

    private static long end(long hash) {
        long mixed = (hash ^ hash >>> 33) * P2;
        mixed = (mixed ^ mixed >>> 29) * P3;
        return mixed ^ mixed >>> 32;
    }
}
