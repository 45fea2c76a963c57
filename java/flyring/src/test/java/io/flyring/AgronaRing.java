// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/**
 * Agrona's {@code OneToOneRingBuffer} (2.6.0), with the same stores and loads, on a mapped buffer: the library's tests
 * run without the flag that Agrona's own buffer needs. Does not use Flyring; the offsets are Agrona's.
 */
final class AgronaRing {
    static final int TRAILER_LENGTH = 768;
    static final int INSUFFICIENT_CAPACITY = -2;
    private static final int PADDING = -1;
    private static final int TAIL = 128;
    private static final int HEAD_CACHE = 256;
    private static final int HEAD = 384;
    private static final int TYPE = 4;
    private static final int HEADER = 8;
    private static final VarHandle INTS = MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle LONGS = MethodHandles.byteBufferViewVarHandle(long[].class,
        ByteOrder.LITTLE_ENDIAN);

    private final ByteBuffer buffer;
    private final int capacity;

    /** Receives each message. */
    @FunctionalInterface
    interface Handler {
        void onMessage(int type, byte[] payload);
    }

    /** Maps a channel's only ring as an Agrona process would, given only its offset and capacity. */
    AgronaRing(String path, long offset, int capacity) {
        this.capacity = capacity;
        try (FileChannel file = FileChannel.open(Path.of(path), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            buffer = file.map(FileChannel.MapMode.READ_WRITE, offset, capacity + TRAILER_LENGTH)
                .order(ByteOrder.LITTLE_ENDIAN);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    long tail() {
        return (long) LONGS.getVolatile(buffer, capacity + TAIL);
    }

    long head() {
        return (long) LONGS.getVolatile(buffer, capacity + HEAD);
    }

    /** The length at the place of a record that would begin at the ring's end. */
    int lengthBehind() {
        return (int) INTS.getVolatile(buffer, capacity);
    }

    long headCache() {
        return (long) LONGS.getVolatile(buffer, capacity + HEAD_CACHE);
    }

    int maxMessageLength() {
        return capacity >> 3;
    }

    boolean write(int type, byte[] message) {
        int index = claimCapacity(message.length + HEADER);
        if (index == INSUFFICIENT_CAPACITY) {
            return false;
        }
        INTS.setRelease(buffer, index, -(message.length + HEADER));
        VarHandle.releaseFence();
        buffer.put(index + HEADER, message);
        buffer.putInt(index + TYPE, type);
        INTS.setRelease(buffer, index, message.length + HEADER);
        return true;
    }

    /** Claims; returns the payload's index, or {@link #INSUFFICIENT_CAPACITY}. */
    int tryClaim(int type, int length) {
        int index = claimCapacity(length + HEADER);
        if (index == INSUFFICIENT_CAPACITY) {
            return index;
        }
        INTS.setRelease(buffer, index, -(length + HEADER));
        VarHandle.releaseFence();
        buffer.putInt(index + TYPE, type);
        return index + HEADER;
    }

    /** Writes the payload of a claim. */
    void put(int index, byte[] payload) {
        buffer.put(index, payload);
    }

    void commit(int index) {
        INTS.setRelease(buffer, index - HEADER, -buffer.getInt(index - HEADER));
    }

    void abort(int index) {
        buffer.putInt(index - HEADER + TYPE, PADDING);
        commit(index);
    }

    private int claimCapacity(int recordLength) {
        int aligned = align(recordLength);
        int required = aligned + HEADER;
        long head = buffer.getLong(capacity + HEAD_CACHE);
        long tail = buffer.getLong(capacity + TAIL);
        if (required > capacity - (int) (tail - head)) {
            head = head();
            if (required > capacity - (int) (tail - head)) {
                return INSUFFICIENT_CAPACITY;
            }
            buffer.putLong(capacity + HEAD_CACHE, head);
        }
        int padding = 0;
        int index = (int) tail & capacity - 1;
        int toEnd = capacity - index;
        int writeIndex = index;
        long nextTail = tail + aligned;
        if (aligned == toEnd) {
            LONGS.setRelease(buffer, capacity + TAIL, nextTail);
            buffer.putLong(0, 0);
            return index;
        }
        if (required > toEnd) {
            writeIndex = 0;
            if (required > ((int) head & capacity - 1)) {
                head = head();
                if (required > ((int) head & capacity - 1)) {
                    writeIndex = INSUFFICIENT_CAPACITY;
                    nextTail = tail;
                }
                buffer.putLong(capacity + HEAD_CACHE, head);
            }
            padding = toEnd;
            nextTail += padding;
        }
        LONGS.setRelease(buffer, capacity + TAIL, nextTail);
        if (padding != 0) {
            buffer.putLong(0, 0);
            INTS.setRelease(buffer, index, -padding);
            VarHandle.releaseFence();
            buffer.putInt(index + TYPE, PADDING);
            INTS.setRelease(buffer, index, padding);
        }
        if (writeIndex != INSUFFICIENT_CAPACITY) {
            buffer.putLong(writeIndex + aligned, 0);
        }
        return writeIndex;
    }

    /** Hands out messages up to the ring's end; every record that is not padding is a message. */
    int read(Handler handler, int limit) {
        long head = buffer.getLong(capacity + HEAD);
        int headIndex = (int) head & capacity - 1;
        int bytes = 0;
        int messages = 0;
        try {
            while (bytes < capacity - headIndex && messages < limit) {
                int index = headIndex + bytes;
                int length = (int) INTS.getVolatile(buffer, index);
                if (length <= 0) {
                    break;
                }
                bytes += align(length);
                int type = buffer.getInt(index + TYPE);
                if (type == PADDING) {
                    continue;
                }
                byte[] payload = new byte[length - HEADER];
                buffer.get(index + HEADER, payload);
                handler.onMessage(type, payload);
                messages++;
            }
        } finally {
            if (bytes > 0) {
                LONGS.setRelease(buffer, capacity + HEAD, head + bytes);
            }
        }
        return messages;
    }

    /** {@code controlledRead} with the action COMMIT: computes the bound once, and COMMIT does not change it. */
    int readCommitting(Handler handler, int limit) {
        long head = buffer.getLong(capacity + HEAD);
        int headIndex = (int) head & capacity - 1;
        int contiguous = capacity - headIndex;
        int bytes = 0;
        int messages = 0;
        try {
            while (bytes < contiguous && messages < limit) {
                int index = headIndex + bytes;
                int length = (int) INTS.getVolatile(buffer, index);
                if (length <= 0) {
                    break;
                }
                bytes += align(length);
                int type = buffer.getInt(index + TYPE);
                if (type == PADDING) {
                    continue;
                }
                messages++;
                byte[] payload = new byte[length - HEADER];
                buffer.get(index + HEADER, payload);
                handler.onMessage(type, payload);
                LONGS.setRelease(buffer, capacity + HEAD, head + bytes);
                headIndex += bytes;
                head += bytes;
                bytes = 0;
            }
        } finally {
            if (bytes > 0) {
                LONGS.setRelease(buffer, capacity + HEAD, head + bytes);
            }
        }
        return messages;
    }

    private static int align(int length) {
        return length + 7 & -8;
    }
}
