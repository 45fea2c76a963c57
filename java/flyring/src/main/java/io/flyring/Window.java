// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Reference;
import java.util.Objects;

/** The hot path of {@link PayloadBuffer}: a window on memory, which moves without allocation, and access to words. */
abstract class Window {
    /** The state of a window over nothing. */
    static final int CLOSED = -1;
    /** The state of a claim's window while its publisher publishes something else. */
    static final int BUSY = -2;

    /** Up to this many bytes, copying word by word is faster than a bulk copy. */
    private static final int FEW = 31;

    private Memory memory = Memory.EMPTY;
    /** The length in bytes, or a state below 0: then every access is out of bounds. */
    private int capacity = CLOSED;
    /** Where the window begins: the memory's address (0 on the heap) plus the offset in the memory. */
    private long address;
    /** Whether the memory can be read, and written, by address. */
    private boolean readable;
    private boolean writable;

    /** Moves the window to other memory. The caller guarantees that the window lies within the memory. */
    final void window(Memory newMemory, int offset, int newCapacity) {
        memory = newMemory;
        readable = newMemory.readableAt() != 0;
        writable = newMemory.writableAt() != 0;
        move(newMemory.address() + offset, newCapacity);
    }

    /** Moves to the place of another window; stores no reference if the memory is the same as before. */
    final void window(Window other) {
        if (memory != other.memory) {
            memory = other.memory;
            readable = other.readable;
            writable = other.writable;
        }
        move(other.address, other.capacity);
    }

    /** Moves the window within the same memory: the hot path's wrap. */
    final void move(long newAddress, int newCapacity) {
        address = newAddress;
        capacity = newCapacity;
    }

    /** The address at which the window begins. */
    final long address() {
        return address;
    }

    /**
     * Copies at most {@link Memory#SMALL} bytes from an address into the window. Returns false, and copies nothing, if
     * they do not fit or the window cannot be written by address. The caller keeps the source reachable.
     */
    final boolean take(int offset, long source, int length) {
        if (!writable || offset < 0 || length > capacity - offset) {
            return false;
        }
        Copy.words(source, Raw.base(address) + offset, length);
        Reference.reachabilityFence(memory);
        return true;
    }

    /** Makes every access out of bounds. */
    final void invalidate() {
        capacity = CLOSED;
    }

    /** Marks the window as in use, which refuses claims until {@link #invalidate()}. */
    final void busy() {
        capacity = BUSY;
    }

    /** The capacity, or {@link #CLOSED}, or {@link #BUSY}. */
    final int state() {
        return capacity;
    }

    /** The memory that the window lies in, for copies inside the package. */
    final Memory memory() {
        return memory;
    }

    /** The offset of the window in its memory. */
    final int base() {
        return (int) (address - memory.address());
    }

    /**
     * Checks the index of an access and returns it. Compares the last byte and the first byte separately, with the
     * unchanged capacity. Only in this form does HotSpot merge the checks of a message's fields, as for the elements of
     * an array, into one check of the farthest field.
     */
    private int first(int index, int length) {
        Objects.checkIndex(index + (length - 1), capacity);
        return Objects.checkIndex(index, capacity);
    }

    final int at(int index, int length) {
        return base() + Objects.checkFromIndexSize(index, length, capacity());
    }

    /**
     * The length of the window.
     *
     * @return the length, in bytes.
     */
    public final int capacity() {
        return Math.max(capacity, 0);
    }

    /**
     * Reads a 64-bit word.
     *
     * @param index offset in the window, in bytes.
     * @return its value.
     */
    public final long getLong(int index) {
        if (readable) {
            final long offset = first(index, Long.BYTES);
            long value = Raw.getLong(Raw.base(address) + offset);
            Reference.reachabilityFence(memory);
            return value;
        }
        return memory.getLong(at(index, Long.BYTES));
    }

    /**
     * Writes a 64-bit word.
     *
     * @param index offset in the window, in bytes.
     * @param value its value.
     */
    public final void putLong(int index, long value) {
        if (writable) {
            final long offset = first(index, Long.BYTES);
            Raw.putLong(Raw.base(address) + offset, value);
            Reference.reachabilityFence(memory);
        } else {
            memory.putLong(at(index, Long.BYTES), value);
        }
    }

    /**
     * Reads a 32-bit word.
     *
     * @param index offset in the window, in bytes.
     * @return its value.
     */
    public final int getInt(int index) {
        if (readable) {
            final long offset = first(index, Integer.BYTES);
            int value = Raw.getInt(Raw.base(address) + offset);
            Reference.reachabilityFence(memory);
            return value;
        }
        return memory.getInt(at(index, Integer.BYTES));
    }

    /**
     * Writes a 32-bit word.
     *
     * @param index offset in the window, in bytes.
     * @param value its value.
     */
    public final void putInt(int index, int value) {
        if (writable) {
            final long offset = first(index, Integer.BYTES);
            Raw.putInt(Raw.base(address) + offset, value);
            Reference.reachabilityFence(memory);
        } else {
            memory.putInt(at(index, Integer.BYTES), value);
        }
    }

    /**
     * Reads a 16-bit word.
     *
     * @param index offset in the window, in bytes.
     * @return its value.
     */
    public final short getShort(int index) {
        if (readable) {
            final long offset = first(index, Short.BYTES);
            short value = Raw.getShort(Raw.base(address) + offset);
            Reference.reachabilityFence(memory);
            return value;
        }
        return memory.getShort(at(index, Short.BYTES));
    }

    /**
     * Writes a 16-bit word.
     *
     * @param index offset in the window, in bytes.
     * @param value its value.
     */
    public final void putShort(int index, short value) {
        if (writable) {
            final long offset = first(index, Short.BYTES);
            Raw.putShort(Raw.base(address) + offset, value);
            Reference.reachabilityFence(memory);
        } else {
            memory.putShort(at(index, Short.BYTES), value);
        }
    }

    /**
     * Reads a byte.
     *
     * @param index offset in the window, in bytes.
     * @return its value.
     */
    public final byte getByte(int index) {
        if (readable) {
            final long offset = first(index, 1);
            byte value = Raw.getByte(Raw.base(address) + offset);
            Reference.reachabilityFence(memory);
            return value;
        }
        return memory.getByte(at(index, 1));
    }

    /**
     * Writes a byte.
     *
     * @param index offset in the window, in bytes.
     * @param value its value.
     */
    public final void putByte(int index, byte value) {
        if (writable) {
            final long offset = first(index, 1);
            Raw.putByte(Raw.base(address) + offset, value);
            Reference.reachabilityFence(memory);
        } else {
            memory.putByte(at(index, 1), value);
        }
    }

    /**
     * Copies a few bytes out by address, such as a text of fixed length. The caller has checked the array's bounds.
     * Returns false, without copying, if the memory has no address or the length is not 1 to 31.
     */
    final boolean getFew(int index, byte[] target, int offset, int length) {
        if (!readable || length > FEW || length <= 0) {
            return false;
        }
        Copy.words(Raw.base(address) + first(index, length), target, offset, length);
        Reference.reachabilityFence(memory);
        return true;
    }

    /** Copies a few bytes in, in the same way. */
    final boolean putFew(int index, byte[] source, int offset, int length) {
        if (!writable || length > FEW || length <= 0) {
            return false;
        }
        Copy.words(source, offset, Raw.base(address) + first(index, length), length);
        Reference.reachabilityFence(memory);
        return true;
    }
}
