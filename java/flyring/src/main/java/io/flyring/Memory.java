// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Objects;

/**
 * A range of memory, little endian; every access is checked against its bounds. All access to mapped memory goes
 * through this class and {@link Raw}, which differs between versions of Java. Acquire, release and volatile accesses
 * need an index that is a multiple of their size. A write to read-only memory throws
 * {@link java.nio.ReadOnlyBufferException}.
 *
 * <p>The garbage collector unmaps the memory once it is unreachable, never before: a use after close finds stale bytes
 * at worst.
 */
final class Memory {
    /** Up to this many bytes, copying word by word is faster than a bulk copy, which has a higher set-up cost. */
    static final int SMALL = 64;

    /** Empty memory: every access is out of bounds. */
    static final Memory EMPTY = new Memory(ByteBuffer.allocateDirect(0), 0);

    private static final Cleaner CLEANER = Cleaner.create();

    private final ByteBuffer buffer;
    /** The memory's address; 0 if not known, as on the heap. */
    private final long address;
    /**
     * The number of bytes that may be read, and written, by address; 0 if only the buffer can be used, as on the heap.
     */
    private final int readable;
    private final int writable;
    /** The mapping that this memory is a part of; null if there is none. */
    private Mapping mapping;

    /** Mapped pages of a file; {@code run} unmaps them once the memory is unreachable. */
    private record Mapping(long address, long length) implements Runnable {
        @Override
        public void run() {
            Sys.unmap(address, length);
        }
    }

    private Memory(ByteBuffer buffer, long address) {
        this.buffer = buffer;
        this.address = address;
        this.readable = Raw.AVAILABLE && address != 0 ? buffer.capacity() : 0;
        this.writable = buffer.isReadOnly() ? 0 : readable;
    }

    static boolean inside(int index, int size, int capacity) {
        return index >= 0 && index <= capacity - size;
    }

    /** The whole buffer, whatever its position, limit and byte order, which do not change. */
    static Memory of(ByteBuffer buffer) {
        ByteBuffer own = buffer.duplicate().clear().order(ByteOrder.LITTLE_ENDIAN);
        return new Memory(own, own.isDirect() ? Sys.address(own) : 0);
    }

    /**
     * A part of a mapping. The garbage collector unmaps the mapping once the buffer that is made here, and every buffer
     * made from it, is unreachable.
     *
     * @param skipped bytes of the mapping in front of the part.
     */
    static Memory mapped(long mappedAt, int skipped, int length, boolean readOnly) {
        Mapping pages = new Mapping(mappedAt, skipped + (long) length);
        boolean done = false;
        try {
            ByteBuffer root = Sys.bufferAt(mappedAt + skipped, length);
            ByteBuffer view = (readOnly ? root.asReadOnlyBuffer() : root.duplicate()).order(ByteOrder.LITTLE_ENDIAN);
            Memory memory = new Memory(view, mappedAt + skipped);
            memory.mapping = pages;
            CLEANER.register(root, pages);
            done = true;
            return memory;
        } finally {
            if (!done) {
                pages.run();
            }
        }
    }

    /**
     * Replaces the mapped memory by private memory. A thread that still stores here does not change the file.
     */
    void detach(String path) {
        if (mapping != null) {
            long result = Sys.detach(mapping.address, mapping.length);
            if (result < 0) {
                throw ChannelFile.io("mmap", (int) -result, path);
            }
        }
    }

    /** Runs an action once an object has become unreachable. */
    static Cleaner.Cleanable whenForgotten(Object object, Runnable action) {
        return CLEANER.register(object, action);
    }

    int capacity() {
        return buffer.capacity();
    }

    long address() {
        return address;
    }

    /**
     * The memory's address if it can be read by address, else 0; for the hot path. The caller bounds each access, by a
     * mask or the layout, and keeps this object reachable meanwhile.
     */
    long readableAt() {
        return readable > 0 ? address : 0;
    }

    /** The same for writing. */
    long writableAt() {
        return writable > 0 ? address : 0;
    }

    /** The wrapped array, or null. */
    byte[] array() {
        return buffer.hasArray() ? buffer.array() : null;
    }

    boolean readOnly() {
        return buffer.isReadOnly();
    }

    /** A second buffer over the same memory, with its own position and limit. */
    ByteBuffer view() {
        return buffer.duplicate();
    }

    /** The buffer over this memory, for absolute accesses only: its position and limit must stay. */
    ByteBuffer shared() {
        return buffer;
    }

    /** Brings all pages in, so that the first lap has no page faults. Does nothing if the kernel is too old. */
    void prefault() {
        if (capacity() > 0) {
            Sys.advise(address, capacity(), readOnly() ? Linux.MADV_POPULATE_READ : Linux.MADV_POPULATE_WRITE);
        }
    }

    byte getByte(int index) {
        if (inside(index, 1, readable)) {
            byte value = Raw.getByte(address + index);
            Reference.reachabilityFence(this);
            return value;
        }
        return buffer.get(index);
    }

    void putByte(int index, byte value) {
        if (inside(index, 1, writable)) {
            Raw.putByte(address + index, value);
            Reference.reachabilityFence(this);
        } else {
            buffer.put(index, value);
        }
    }

    short getShort(int index) {
        if (inside(index, Short.BYTES, readable)) {
            short value = Raw.getShort(address + index);
            Reference.reachabilityFence(this);
            return value;
        }
        return Buffers.getShort(buffer, index);
    }

    void putShort(int index, short value) {
        if (inside(index, Short.BYTES, writable)) {
            Raw.putShort(address + index, value);
            Reference.reachabilityFence(this);
        } else {
            Buffers.setShort(buffer, index, value);
        }
    }

    int getInt(int index) {
        if (inside(index, Integer.BYTES, readable)) {
            int value = Raw.getInt(address + index);
            Reference.reachabilityFence(this);
            return value;
        }
        return Buffers.getInt(buffer, index);
    }

    void putInt(int index, int value) {
        if (inside(index, Integer.BYTES, writable)) {
            Raw.putInt(address + index, value);
            Reference.reachabilityFence(this);
        } else {
            Buffers.setInt(buffer, index, value);
        }
    }

    long getLong(int index) {
        if (inside(index, Long.BYTES, readable)) {
            long value = Raw.getLong(address + index);
            Reference.reachabilityFence(this);
            return value;
        }
        return Buffers.getLong(buffer, index);
    }

    void putLong(int index, long value) {
        if (inside(index, Long.BYTES, writable)) {
            Raw.putLong(address + index, value);
            Reference.reachabilityFence(this);
        } else {
            Buffers.setLong(buffer, index, value);
        }
    }

    int getIntAcquire(int index) {
        if (inside(index, Integer.BYTES, readable)) {
            int value = Raw.getIntAcquire(address + index);
            Reference.reachabilityFence(this);
            return value;
        }
        return Buffers.getAcquireInt(buffer, index);
    }

    void putIntRelease(int index, int value) {
        if (inside(index, Integer.BYTES, writable)) {
            Raw.putIntRelease(address + index, value);
            Reference.reachabilityFence(this);
        } else {
            Buffers.setReleaseInt(buffer, index, value);
        }
    }

    void putIntOpaque(int index, int value) {
        if (inside(index, Integer.BYTES, writable)) {
            Raw.putIntOpaque(address + index, value);
            Reference.reachabilityFence(this);
        } else {
            Buffers.setOpaqueInt(buffer, index, value);
        }
    }

    int getIntOpaque(int index) {
        return Buffers.getOpaqueInt(buffer, index);
    }

    long getLongOpaque(int index) {
        if (inside(index, Long.BYTES, readable)) {
            long value = Raw.getLongOpaque(address + index);
            Reference.reachabilityFence(this);
            return value;
        }
        return Buffers.getOpaqueLong(buffer, index);
    }

    void putLongOpaque(int index, long value) {
        if (inside(index, Long.BYTES, writable)) {
            Raw.putLongOpaque(address + index, value);
            Reference.reachabilityFence(this);
        } else {
            Buffers.setOpaqueLong(buffer, index, value);
        }
    }

    long getLongAcquire(int index) {
        if (inside(index, Long.BYTES, readable)) {
            long value = Raw.getLongAcquire(address + index);
            Reference.reachabilityFence(this);
            return value;
        }
        return Buffers.getAcquireLong(buffer, index);
    }

    void putLongRelease(int index, long value) {
        if (inside(index, Long.BYTES, writable)) {
            Raw.putLongRelease(address + index, value);
            Reference.reachabilityFence(this);
        } else {
            Buffers.setReleaseLong(buffer, index, value);
        }
    }

    long getLongVolatile(int index) {
        return Buffers.getVolatileLong(buffer, index);
    }

    void putLongVolatile(int index, long value) {
        Buffers.setVolatileLong(buffer, index, value);
    }

    long getAndAddLong(int index, long delta) {
        return Buffers.getAndAddLong(buffer, index, delta);
    }

    void addRelease(int index, int delta) {
        Buffers.getAndAddReleaseInt(buffer, index, delta);
    }

    void setBits(int index, int bits) {
        Buffers.getAndBitwiseOrInt(buffer, index, bits);
    }

    void clearBits(int index, int bits) {
        Buffers.getAndBitwiseAndInt(buffer, index, ~bits);
    }

    boolean compareAndSetLong(int index, long expected, long value) {
        if (inside(index, Long.BYTES, writable)) {
            boolean done = Raw.compareAndSetLong(address + index, expected, value);
            Reference.reachabilityFence(this);
            return done;
        }
        return Buffers.compareAndSetLong(buffer, index, expected, value);
    }

    void getBytes(int index, byte[] target, int offset, int length) {
        buffer.get(index, target, offset, length);
    }

    void putBytes(int index, byte[] source, int offset, int length) {
        buffer.put(index, source, offset, length);
    }

    /** Copies from any buffer, absolute on both sides. */
    void putBytes(int index, ByteBuffer source, int offset, int length) {
        buffer.put(index, source, offset, length);
    }

    /** Copies from other memory or from this one; the ranges may overlap. */
    void putBytes(int index, Memory source, int offset, int length) {
        boolean apart = Math.abs(address + index - source.address - offset) >= length;
        if (apart && length >= 0 && length <= SMALL && inside(index, length, writable)
            && inside(offset, length, source.readable)) {
            Copy.words(source.address + offset, address + index, length);
            Reference.reachabilityFence(source);
            Reference.reachabilityFence(this);
        } else {
            buffer.put(index, source.buffer, offset, length);
        }
    }

    /** Copies into any buffer, absolute on both sides. */
    void getBytes(int index, ByteBuffer target, int offset, int length) {
        target.put(offset, buffer, index, length);
    }

    void fill(int index, int length, byte value) {
        Objects.checkFromIndexSize(index, length, capacity());
        long word = (value & 0xffL) * 0x0101010101010101L;
        int at = index;
        for (int end = index + (length & ~7); at < end; at += 8) {
            Buffers.setLong(buffer, at, word);
        }
        for (int end = index + length; at < end; at++) {
            buffer.put(at, value);
        }
    }
}
