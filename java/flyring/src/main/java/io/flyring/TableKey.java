// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.agrona.DirectBuffer;

/** A key's bytes, zero-filled to whole words, and its hash. Allocates only for a key longer than all before. */
final class TableKey {
    private static final VarHandle LONGS =
        MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final int MAX_UTF8 = 3; // bytes of one char; a pair of surrogates has 4

    private byte[] bytes = new byte[64];
    private int length;
    private long hash;

    int length() {
        return length;
    }

    long hash() {
        return hash;
    }

    private static void checkType(TableHeader header, KeyType type, String path) {
        if (header.keyType != type) {
            throw new InvalidArgumentException("key", "The keys of " + path + " are "
                + switch (header.keyType) {
                    case INTEGER -> "integers: give a long";
                    case TEXT -> "text: give a CharSequence";
                    default -> "bytes: give a DirectBuffer";
                } + ".");
        }
    }

    private static MessageTooLargeException tooLong(long length, TableHeader header, String path) {
        return new MessageTooLargeException(length, header.keyBytes, "The key has " + length + " bytes; " + path
            + " takes at most " + header.keyBytes + ".");
    }

    TableKey set(TableHeader header, long key, String path) {
        checkType(header, KeyType.INTEGER, path);
        return set(key);
    }

    /** Takes an integer, which the caller knows to be a key of the table's type. */
    TableKey set(long key) {
        LONGS.set(bytes, 0, key);
        length = Long.BYTES;
        hash = XxHash64.of(key);
        return this;
    }

    TableKey set(TableHeader header, DirectBuffer key, String path) {
        checkType(header, KeyType.BYTES, path);
        if (key == null) {
            throw new InvalidArgumentException("key", "The key is null.");
        }
        int size = key.capacity();
        if (size > header.keyBytes) {
            throw tooLong(size, header, path);
        }
        reserve(size);
        key.getBytes(0, bytes, 0, size);
        end(size);
        return this;
    }

    TableKey set(TableHeader header, CharSequence key, String path) {
        checkType(header, KeyType.TEXT, path);
        if (key == null) {
            throw new InvalidArgumentException("key", "The key is null.");
        }
        int chars = key.length();
        if (chars > header.keyBytes) {
            throw tooLong(key.toString().getBytes(StandardCharsets.UTF_8).length, header, path);
        }
        reserve(chars * MAX_UTF8);
        int at = 0;
        for (int i = 0; i < chars; i++) {
            char c = key.charAt(i);
            if (c < 0x80) {
                bytes[at++] = (byte) c;
            } else if (c < 0x800) {
                bytes[at++] = (byte) (0xc0 | c >> 6);
                bytes[at++] = (byte) (0x80 | c & 0x3f);
            } else if (!Character.isSurrogate(c)) {
                bytes[at++] = (byte) (0xe0 | c >> 12);
                bytes[at++] = (byte) (0x80 | c >> 6 & 0x3f);
                bytes[at++] = (byte) (0x80 | c & 0x3f);
            } else if (i + 1 < chars && Character.isSurrogatePair(c, key.charAt(i + 1))) {
                int point = Character.toCodePoint(c, key.charAt(++i));
                bytes[at++] = (byte) (0xf0 | point >> 18);
                bytes[at++] = (byte) (0x80 | point >> 12 & 0x3f);
                bytes[at++] = (byte) (0x80 | point >> 6 & 0x3f);
                bytes[at++] = (byte) (0x80 | point & 0x3f);
            } else {
                throw new InvalidArgumentException("key", "The key has a lone surrogate at character " + i
                    + ", which UTF-8 does not have.");
            }
        }
        if (at > header.keyBytes) {
            throw tooLong(at, header, path);
        }
        end(at);
        return this;
    }

    /** Takes the key of a cell, whose length the caller has checked. */
    TableKey set(Memory memory, int keyAt, int size) {
        reserve(size);
        memory.getBytes(keyAt, bytes, 0, size);
        end(size);
        return this;
    }

    TableKey set(TableKey other) {
        reserve(other.length);
        System.arraycopy(other.bytes, 0, bytes, 0, other.length);
        end(other.length);
        return this;
    }

    /** Makes room for a key, whose bytes are stored next. */
    private void reserve(int size) {
        if (size + Long.BYTES > bytes.length) {
            bytes = new byte[size + 2 * Long.BYTES & -Long.BYTES];
        }
    }

    /** Zero-fills the last word and computes the hash. */
    private void end(int size) {
        length = size;
        for (int at = size; (at & Long.BYTES - 1) != 0; at++) {
            bytes[at] = 0;
        }
        hash = XxHash64.of(bytes, size);
    }

    /** Whether a cell's key is this one; {@code keyLength} may have any value. */
    boolean is(Memory memory, int keyAt, int keyLength) {
        if (keyLength != length) {
            return false;
        }
        for (int at = 0; at < length; at += Long.BYTES) {
            if (memory.getLongOpaque(keyAt + at) != (long) LONGS.get(bytes, at)) {
                return false;
            }
        }
        return true;
    }

    /** The same by address. It reads at most the words of this key, for which each cell has room. */
    boolean is(long keyAt, int keyLength) {
        if (keyLength != length || length > 0 && Raw.getLongOpaque(keyAt) != (long) LONGS.get(bytes, 0)) {
            return false;
        }
        if (length > Long.BYTES) { // the loop costs more than the comparison of an integer
            for (int at = Long.BYTES; at < length; at += Long.BYTES) {
                if (Raw.getLongOpaque(keyAt + at) != (long) LONGS.get(bytes, at)) {
                    return false;
                }
            }
        }
        return true;
    }

    void store(Memory memory, int keyAt) {
        for (int at = 0; at < length; at += Long.BYTES) {
            memory.putLongOpaque(keyAt + at, (long) LONGS.get(bytes, at));
        }
    }

    byte[] toByteArray() {
        byte[] copy = new byte[length];
        System.arraycopy(bytes, 0, copy, 0, length);
        return copy;
    }

    long toLong() {
        return (long) LONGS.get(bytes, 0);
    }

    @Override
    public String toString() {
        return new String(bytes, 0, length, StandardCharsets.UTF_8);
    }
}
