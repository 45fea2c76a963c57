// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/** Copies payloads into a ring. */
final class Copy {
    private static final VarHandle SHORTS =
        MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.nativeOrder());
    private static final VarHandle INTS =
        MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.nativeOrder());
    private static final VarHandle LONGS =
        MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.nativeOrder());

    private Copy() {
    }

    /**
     * Copies 0 to 127 bytes between ranges that do not overlap. There is no loop, because its safepoint polls cost more
     * than the copy.
     */
    static void words(long source, long target, int length) {
        long from = source;
        long to = target;
        if ((length & 8 * Long.BYTES) != 0) {
            fourWords(from, to);
            fourWords(from + 4 * Long.BYTES, to + 4 * Long.BYTES);
            from += 8 * Long.BYTES;
            to += 8 * Long.BYTES;
        }
        if ((length & 4 * Long.BYTES) != 0) {
            fourWords(from, to);
            from += 4 * Long.BYTES;
            to += 4 * Long.BYTES;
        }
        if ((length & 2 * Long.BYTES) != 0) {
            Raw.putLong(to, Raw.getLong(from));
            Raw.putLong(to + 8, Raw.getLong(from + 8));
            from += 2 * Long.BYTES;
            to += 2 * Long.BYTES;
        }
        if ((length & Long.BYTES) != 0) {
            Raw.putLong(to, Raw.getLong(from));
            from += Long.BYTES;
            to += Long.BYTES;
        }
        if ((length & Integer.BYTES) != 0) {
            Raw.putInt(to, Raw.getInt(from));
            from += Integer.BYTES;
            to += Integer.BYTES;
        }
        if ((length & Short.BYTES) != 0) {
            Raw.putShort(to, Raw.getShort(from));
            from += Short.BYTES;
            to += Short.BYTES;
        }
        if ((length & 1) != 0) {
            Raw.putByte(to, Raw.getByte(from));
        }
    }

    private static void fourWords(long from, long to) {
        Raw.putLong(to, Raw.getLong(from));
        Raw.putLong(to + 8, Raw.getLong(from + 8));
        Raw.putLong(to + 16, Raw.getLong(from + 16));
        Raw.putLong(to + 24, Raw.getLong(from + 24));
    }

    /** Copies fewer than 32 bytes out of an array; the caller has checked the bounds. */
    static void words(byte[] source, int offset, long target, int length) {
        int from = offset;
        long to = target;
        if ((length & 2 * Long.BYTES) != 0) {
            Raw.putLong(to, (long) LONGS.get(source, from));
            Raw.putLong(to + 8, (long) LONGS.get(source, from + 8));
            from += 2 * Long.BYTES;
            to += 2 * Long.BYTES;
        }
        if ((length & Long.BYTES) != 0) {
            Raw.putLong(to, (long) LONGS.get(source, from));
            from += Long.BYTES;
            to += Long.BYTES;
        }
        if ((length & Integer.BYTES) != 0) {
            Raw.putInt(to, (int) INTS.get(source, from));
            from += Integer.BYTES;
            to += Integer.BYTES;
        }
        if ((length & Short.BYTES) != 0) {
            Raw.putShort(to, (short) SHORTS.get(source, from));
            from += Short.BYTES;
            to += Short.BYTES;
        }
        if ((length & 1) != 0) {
            Raw.putByte(to, source[from]);
        }
    }

    /** Copies fewer than 32 bytes into an array; the caller has checked the bounds. */
    static void words(long source, byte[] target, int offset, int length) {
        long from = source;
        int to = offset;
        if ((length & 2 * Long.BYTES) != 0) {
            LONGS.set(target, to, Raw.getLong(from));
            LONGS.set(target, to + 8, Raw.getLong(from + 8));
            from += 2 * Long.BYTES;
            to += 2 * Long.BYTES;
        }
        if ((length & Long.BYTES) != 0) {
            LONGS.set(target, to, Raw.getLong(from));
            from += Long.BYTES;
            to += Long.BYTES;
        }
        if ((length & Integer.BYTES) != 0) {
            INTS.set(target, to, Raw.getInt(from));
            from += Integer.BYTES;
            to += Integer.BYTES;
        }
        if ((length & Short.BYTES) != 0) {
            SHORTS.set(target, to, Raw.getShort(from));
            from += Short.BYTES;
            to += Short.BYTES;
        }
        if ((length & 1) != 0) {
            target[to] = Raw.getByte(from);
        }
    }

    /** Copies from any buffer into memory; the caller has checked the source's bounds, the memory checks its own. */
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

    /** Copies out of memory into any buffer; the caller has checked the target's bounds. */
    static void to(Memory source, int index, MutableDirectBuffer target, int offset, int length) {
        if (target instanceof PayloadBuffer ours) {
            ours.memory().putBytes(ours.wrapAdjustment() + offset, source, index, length);
        } else if (length > Memory.SMALL) {
            target.putBytes(offset, source.shared(), index, length);
        } else {
            int i = 0;
            for (; i <= length - Long.BYTES; i += Long.BYTES) {
                target.putLong(offset + i, source.getLong(index + i));
            }
            for (; i < length; i++) {
                target.putByte(offset + i, source.getByte(index + i));
            }
        }
    }
}
