// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import org.agrona.AsciiEncoding;
import org.agrona.AsciiNumberFormatException;
import org.agrona.AsciiSequenceView;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * A window on memory with Agrona's {@link MutableDirectBuffer} interface; it needs no JVM flag. Messages and claims
 * hand out their payloads as one. Every access is checked against the window's bounds; one outside throws
 * {@link IndexOutOfBoundsException}. A write to a message's payload throws {@link java.nio.ReadOnlyBufferException}.
 * The buffer behaves like Agrona's UnsafeBuffer, byte for byte. The default byte order is the machine's, which is
 * little endian on all machines that Flyring supports. Wrapping allocates only for an array or buffer that is not
 * Flyring's. Not thread-safe.
 */
public final class PayloadBuffer extends Window implements MutableDirectBuffer {
    private static final ByteOrder NATIVE = ByteOrder.nativeOrder();

    /** Whether the buffer belongs to a claim or a message, which move it. */
    private final boolean lent;

    /** Creates an empty buffer, to be wrapped around memory. */
    public PayloadBuffer() {
        this.lent = false;
    }

    /** Creates the buffer of a claim or a message. */
    PayloadBuffer(Memory memory) {
        this.lent = true;
        window(memory, 0, CLOSED);
    }

    private void checkOwn() {
        if (lent) {
            throw new UnsupportedOperationException("This buffer belongs to a claim or a message."
                + " Wrap a new PayloadBuffer instead.");
        }
    }

    private void wrap(Memory memory, int offset, int length) {
        checkOwn();
        window(memory, offset, length);
    }

    /** Releases the wrapped memory: every access is out of bounds until the buffer wraps memory again. */
    public void unwrap() {
        checkOwn();
        invalidate();
    }

    @Override
    public void wrap(byte[] buffer) {
        wrap(buffer, 0, buffer.length);
    }

    @Override
    public void wrap(byte[] buffer, int offset, int length) {
        Objects.checkFromIndexSize(offset, length, buffer.length);
        wrap(Memory.of(ByteBuffer.wrap(buffer)), offset, length);
    }

    @Override
    public void wrap(ByteBuffer buffer) {
        wrap(buffer, 0, buffer.capacity());
    }

    @Override
    public void wrap(ByteBuffer buffer, int offset, int length) {
        Objects.checkFromIndexSize(offset, length, buffer.capacity());
        if (buffer.hasArray()) {
            wrap(buffer.array(), buffer.arrayOffset() + offset, length);
        } else {
            wrap(Memory.of(buffer), offset, length);
        }
    }

    @Override
    public void wrap(DirectBuffer buffer) {
        if (buffer instanceof PayloadBuffer other) {
            checkOwn();
            window(other);
        } else {
            wrap(buffer, 0, buffer.capacity());
        }
    }

    @Override
    public void wrap(DirectBuffer buffer, int offset, int length) {
        Objects.checkFromIndexSize(offset, length, buffer.capacity());
        if (buffer instanceof PayloadBuffer other) {
            wrap(other.memory(), other.base() + offset, length);
        } else if (buffer.byteArray() != null) {
            wrap(buffer.byteArray(), buffer.wrapAdjustment() + offset, length);
        } else if (buffer.byteBuffer() != null) {
            wrap(buffer.byteBuffer(), buffer.wrapAdjustment() + offset, length);
        } else {
            wrap(buffer.addressOffset() + offset, length);
        }
    }

    @Override
    public void wrap(long address, int length) {
        wrap(Memory.of(Sys.bufferAt(address, length)), 0, length);
    }

    /**
     * Where the window begins: an address, or for a wrapped array what Agrona calls its address offset. Code that reads
     * or writes through the address, as Agrona's UnsafeBuffer does, bypasses the bounds checks.
     *
     * @return the address in bytes.
     * @throws UnsupportedOperationException for a wrapped array in a JVM in which Agrona's UnsafeBuffer does not work.
     */
    @Override
    public long addressOffset() {
        return (memory().array() == null ? memory().address() : UnsafeArrays.offset()) + base();
    }

    @Override
    public byte[] byteArray() {
        return memory().array();
    }

    /** A view of the whole memory that the window is part of, from {@link #wrapAdjustment()}; null for an array. */
    @Override
    public ByteBuffer byteBuffer() {
        return memory().array() == null ? memory().view() : null;
    }

    @Override
    public int wrapAdjustment() {
        return base();
    }

    @Override
    public boolean isExpandable() {
        return false;
    }

    @Override
    public void checkLimit(int limit) {
        if (limit > capacity()) {
            throw new IndexOutOfBoundsException("limit=" + limit + " is beyond capacity=" + capacity());
        }
    }

    @Override
    public void boundsCheck(int index, int length) {
        Objects.checkFromIndexSize(index, length, capacity());
    }

    @Override
    public void setMemory(int index, int length, byte value) {
        memory().fill(at(index, length), length, value);
    }

    @Override
    public long getLong(int index, ByteOrder order) {
        long value = getLong(index);
        return order != NATIVE ? Long.reverseBytes(value) : value;
    }

    @Override
    public void putLong(int index, long value, ByteOrder order) {
        putLong(index, order != NATIVE ? Long.reverseBytes(value) : value);
    }

    @Override
    public int getInt(int index, ByteOrder order) {
        int value = getInt(index);
        return order != NATIVE ? Integer.reverseBytes(value) : value;
    }

    @Override
    public void putInt(int index, int value, ByteOrder order) {
        putInt(index, order != NATIVE ? Integer.reverseBytes(value) : value);
    }

    @Override
    public short getShort(int index, ByteOrder order) {
        short value = getShort(index);
        return order != NATIVE ? Short.reverseBytes(value) : value;
    }

    @Override
    public void putShort(int index, short value, ByteOrder order) {
        putShort(index, order != NATIVE ? Short.reverseBytes(value) : value);
    }

    @Override
    public char getChar(int index) {
        return (char) getShort(index);
    }

    @Override
    public char getChar(int index, ByteOrder order) {
        char value = getChar(index);
        return order != NATIVE ? Character.reverseBytes(value) : value;
    }

    @Override
    public void putChar(int index, char value) {
        putShort(index, (short) value);
    }

    @Override
    public void putChar(int index, char value, ByteOrder order) {
        putChar(index, order != NATIVE ? Character.reverseBytes(value) : value);
    }

    @Override
    public double getDouble(int index) {
        return Double.longBitsToDouble(getLong(index));
    }

    @Override
    public double getDouble(int index, ByteOrder order) {
        return Double.longBitsToDouble(getLong(index, order));
    }

    @Override
    public void putDouble(int index, double value) {
        putLong(index, Double.doubleToRawLongBits(value));
    }

    @Override
    public void putDouble(int index, double value, ByteOrder order) {
        putLong(index, Double.doubleToRawLongBits(value), order);
    }

    @Override
    public float getFloat(int index) {
        return Float.intBitsToFloat(getInt(index));
    }

    @Override
    public float getFloat(int index, ByteOrder order) {
        return Float.intBitsToFloat(getInt(index, order));
    }

    @Override
    public void putFloat(int index, float value) {
        putInt(index, Float.floatToRawIntBits(value));
    }

    @Override
    public void putFloat(int index, float value, ByteOrder order) {
        putInt(index, Float.floatToRawIntBits(value), order);
    }

    @Override
    public void getBytes(int index, byte[] target) {
        getBytes(index, target, 0, target.length);
    }

    @Override
    public void getBytes(int index, byte[] target, int offset, int length) {
        Objects.checkFromIndexSize(offset, length, target.length);
        if (!getFew(index, target, offset, length)) {
            memory().getBytes(at(index, length), target, offset, length);
        }
    }

    @Override
    public void getBytes(int index, MutableDirectBuffer target, int targetIndex, int length) {
        if (target instanceof PayloadBuffer other) {
            other.putBytes(targetIndex, this, index, length);
        } else {
            Objects.checkFromIndexSize(index, length, capacity());
            target.putBytes(targetIndex, memory().view(), base() + index, length);
        }
    }

    @Override
    public void getBytes(int index, ByteBuffer target, int length) {
        int position = target.position();
        getBytes(index, target, position, length);
        target.position(position + length);
    }

    @Override
    public void getBytes(int index, ByteBuffer target, int offset, int length) {
        memory().getBytes(at(index, length), whole(target), offset, length);
    }

    @Override
    public void putBytes(int index, byte[] source) {
        putBytes(index, source, 0, source.length);
    }

    @Override
    public void putBytes(int index, byte[] source, int offset, int length) {
        Objects.checkFromIndexSize(offset, length, source.length);
        if (!putFew(index, source, offset, length)) {
            memory().putBytes(at(index, length), source, offset, length);
        }
    }

    @Override
    public void putBytes(int index, ByteBuffer source, int length) {
        int position = source.position();
        putBytes(index, source, position, length);
        source.position(position + length);
    }

    @Override
    public void putBytes(int index, ByteBuffer source, int offset, int length) {
        memory().putBytes(at(index, length), whole(source), offset, length);
    }

    @Override
    public void putBytes(int index, DirectBuffer source, int sourceIndex, int length) {
        int start = at(index, length);
        if (source instanceof PayloadBuffer other) {
            memory().putBytes(start, other.memory(), other.at(sourceIndex, length), length);
        } else {
            source.boundsCheck(sourceIndex, length);
            source.getBytes(sourceIndex, memory().view(), start, length);
        }
    }

    /** The buffer with its capacity as limit: Agrona's bounds for buffers ignore the limit. */
    private static ByteBuffer whole(ByteBuffer buffer) {
        return buffer.limit() == buffer.capacity() ? buffer : buffer.duplicate().clear();
    }

    private static byte ascii(char c) {
        return c > 127 ? (byte) '?' : (byte) c;
    }

    private void putAscii(int start, CharSequence value, int from, int length) {
        for (int i = 0; i < length; i++) {
            memory().putByte(start + i, ascii(value.charAt(from + i)));
        }
    }

    private String string(int index, int length, java.nio.charset.Charset charset) {
        int start = at(index, length);
        byte[] bytes = new byte[length];
        memory().getBytes(start, bytes, 0, length);
        return new String(bytes, charset);
    }

    @Override
    public String getStringAscii(int index) {
        return getStringAscii(index, getInt(index));
    }

    @Override
    public int getStringAscii(int index, Appendable appendable) {
        return getStringAscii(index, getInt(index), appendable);
    }

    @Override
    public String getStringAscii(int index, ByteOrder order) {
        return getStringAscii(index, getInt(index, order));
    }

    @Override
    public int getStringAscii(int index, Appendable appendable, ByteOrder order) {
        return getStringAscii(index, getInt(index, order), appendable);
    }

    @Override
    public String getStringAscii(int index, int length) {
        return getStringWithoutLengthAscii(index + STR_HEADER_LEN, length);
    }

    @Override
    public int getStringAscii(int index, int length, Appendable appendable) {
        return getStringWithoutLengthAscii(index + STR_HEADER_LEN, length, appendable);
    }

    @Override
    public String getStringWithoutLengthAscii(int index, int length) {
        return string(index, length, StandardCharsets.US_ASCII);
    }

    @Override
    public int getStringWithoutLengthAscii(int index, int length, Appendable appendable) {
        int start = at(index, length);
        try {
            for (int i = start; i < start + length; i++) {
                byte b = memory().getByte(i);
                appendable.append(b < 0 ? '?' : (char) b);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return length;
    }

    @Override
    public int putStringAscii(int index, String value) {
        return putStringAscii(index, (CharSequence) value, ByteOrder.nativeOrder());
    }

    @Override
    public int putStringAscii(int index, CharSequence value) {
        return putStringAscii(index, value, ByteOrder.nativeOrder());
    }

    @Override
    public int putStringAscii(int index, String value, ByteOrder order) {
        return putStringAscii(index, (CharSequence) value, order);
    }

    @Override
    public int putStringAscii(int index, CharSequence value, ByteOrder order) {
        int length = value == null ? 0 : value.length();
        int start = at(index, STR_HEADER_LEN + length);
        putInt(index, length, order);
        if (length > 0) {
            putAscii(start + STR_HEADER_LEN, value, 0, length);
        }
        return STR_HEADER_LEN + length;
    }

    @Override
    public int putStringWithoutLengthAscii(int index, String value) {
        return putStringWithoutLengthAscii(index, (CharSequence) value);
    }

    @Override
    public int putStringWithoutLengthAscii(int index, CharSequence value) {
        return value == null ? 0 : putStringWithoutLengthAscii(index, value, 0, value.length());
    }

    @Override
    public int putStringWithoutLengthAscii(int index, String value, int offset, int length) {
        return putStringWithoutLengthAscii(index, (CharSequence) value, offset, length);
    }

    @Override
    public int putStringWithoutLengthAscii(int index, CharSequence value, int offset, int length) {
        if (value == null) {
            return 0;
        }
        int count = Math.min(value.length() - offset, length);
        putAscii(at(index, count), value, offset, count);
        return count;
    }

    @Override
    public String getStringUtf8(int index) {
        return getStringUtf8(index, getInt(index));
    }

    @Override
    public String getStringUtf8(int index, ByteOrder order) {
        return getStringUtf8(index, getInt(index, order));
    }

    @Override
    public String getStringUtf8(int index, int length) {
        return getStringWithoutLengthUtf8(index + STR_HEADER_LEN, length);
    }

    @Override
    public String getStringWithoutLengthUtf8(int index, int length) {
        return string(index, length, StandardCharsets.UTF_8);
    }

    @Override
    public int putStringUtf8(int index, String value) {
        return putStringUtf8(index, value, ByteOrder.nativeOrder(), Integer.MAX_VALUE);
    }

    @Override
    public int putStringUtf8(int index, String value, ByteOrder order) {
        return putStringUtf8(index, value, order, Integer.MAX_VALUE);
    }

    @Override
    public int putStringUtf8(int index, String value, int maxEncodedLength) {
        return putStringUtf8(index, value, ByteOrder.nativeOrder(), maxEncodedLength);
    }

    /** A null is written as {@code "null"}, as Agrona does. */
    @Override
    public int putStringUtf8(int index, String value, ByteOrder order, int maxEncodedLength) {
        byte[] bytes = String.valueOf(value).getBytes(StandardCharsets.UTF_8);
        if (bytes.length > maxEncodedLength) {
            throw new IllegalArgumentException("Encoded string larger than maximum size: " + maxEncodedLength);
        }
        int start = at(index, STR_HEADER_LEN + bytes.length);
        putInt(index, bytes.length, order);
        memory().putBytes(start + STR_HEADER_LEN, bytes, 0, bytes.length);
        return STR_HEADER_LEN + bytes.length;
    }

    /** A null is written as {@code "null"}, as Agrona does. */
    @Override
    public int putStringWithoutLengthUtf8(int index, String value) {
        byte[] bytes = String.valueOf(value).getBytes(StandardCharsets.UTF_8);
        putBytes(index, bytes);
        return bytes.length;
    }

    private AsciiSequenceView digits(int index, int length, boolean natural, String type) {
        Objects.checkFromIndexSize(index, length, capacity());
        if (natural && length > 0 && getByte(index) == '-') {
            throw new AsciiNumberFormatException(
                "error parsing " + type + ": " + getStringWithoutLengthAscii(index, length));
        }
        return new AsciiSequenceView(this, index, length);
    }

    @Override
    public int parseNaturalIntAscii(int index, int length) {
        return AsciiEncoding.parseIntAscii(digits(index, length, true, "int"), 0, length);
    }

    @Override
    public long parseNaturalLongAscii(int index, int length) {
        return AsciiEncoding.parseLongAscii(digits(index, length, true, "long"), 0, length);
    }

    @Override
    public int parseIntAscii(int index, int length) {
        return AsciiEncoding.parseIntAscii(digits(index, length, false, "int"), 0, length);
    }

    @Override
    public long parseLongAscii(int index, int length) {
        return AsciiEncoding.parseLongAscii(digits(index, length, false, "long"), 0, length);
    }

    @Override
    public int putIntAscii(int index, int value) {
        return putLongAscii(index, value);
    }

    @Override
    public int putLongAscii(int index, long value) {
        if (value >= 0) {
            return putNaturalLongAscii(index, value);
        }
        if (value == Long.MIN_VALUE) {
            putBytes(index, AsciiEncoding.MIN_LONG_VALUE);
            return AsciiEncoding.MIN_LONG_VALUE.length;
        }
        int count = AsciiEncoding.digitCount(-value);
        int start = at(index, count + 1);
        memory().putByte(start, (byte) '-');
        putDigits(start + 1, count, -value);
        return count + 1;
    }

    @Override
    public int putNaturalIntAscii(int index, int value) {
        return putNaturalLongAscii(index, value);
    }

    @Override
    public int putNaturalLongAscii(int index, long value) {
        natural(value);
        int count = AsciiEncoding.digitCount(value);
        putDigits(at(index, count), count, value);
        return count;
    }

    @Override
    public void putNaturalPaddedIntAscii(int index, int length, int value) {
        natural(value);
        if (putDigits(at(index, length), length, value) != 0) {
            throw new NumberFormatException("Cannot write " + value + " in " + length + " bytes");
        }
    }

    /** Writes nothing for 0, as Agrona does. */
    @Override
    public int putNaturalIntAsciiFromEnd(int value, int endExclusive) {
        natural(value);
        int count = AsciiEncoding.digitCount(value);
        int start = at(endExclusive - count, count);
        if (value == 0) {
            return endExclusive;
        }
        putDigits(start, count, value);
        return endExclusive - count;
    }

    private static void natural(long value) {
        if (value < 0) {
            throw new NumberFormatException("A natural number is not negative: " + value);
        }
    }

    /** Writes the last {@code count} digits of a number and returns the rest of it. */
    private long putDigits(int start, int count, long value) {
        long rest = value;
        for (int i = start + count - 1; i >= start; i--) {
            memory().putByte(i, (byte) ('0' + rest % 10));
            rest /= 10;
        }
        return rest;
    }

    @Override
    public boolean equals(Object object) {
        return object instanceof PayloadBuffer other && capacity() == other.capacity() && compareTo(other) == 0;
    }

    @Override
    public int hashCode() {
        int hash = 19;
        int i = 0;
        for (; i < (capacity() & ~7); i += Long.BYTES) {
            hash = 31 * hash + Long.hashCode(getLong(i));
        }
        for (; i < capacity(); i++) {
            hash = 31 * hash + getByte(i);
        }
        return hash;
    }

    @Override
    public int compareTo(DirectBuffer that) {
        int length = Math.min(capacity(), that.capacity());
        int order = 0;
        int i = 0;
        for (; order == 0 && i < (length & ~7); i += Long.BYTES) {
            order = Long.compare(getLong(i), that.getLong(i));
        }
        for (; order == 0 && i < length; i++) {
            order = Byte.compare(getByte(i), that.getByte(i));
        }
        return order == 0 ? Integer.compare(capacity(), that.capacity()) : order;
    }

    @Override
    public String toString() {
        return "PayloadBuffer{capacity=" + capacity() + (memory().readOnly() ? ", read-only}" : "}");
    }

    /**
     * Asks Agrona's UnsafeBuffer where the bytes of an array begin; a separate class, so that it is loaded on demand.
     */
    private static final class UnsafeArrays {
        private static long offset() {
            try {
                return new org.agrona.concurrent.UnsafeBuffer(new byte[0]).addressOffset();
            } catch (LinkageError e) {
                throw new UnsupportedOperationException("The address of an array is something for Agrona's UnsafeBuffer"
                    + " only, which needs --add-opens java.base/jdk.internal.misc=ALL-UNNAMED.", e);
            }
        }
    }
}
