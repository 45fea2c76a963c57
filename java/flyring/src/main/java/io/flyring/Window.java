// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Reference;
import java.util.Objects;

/** What {@link PayloadBuffer} does on the hot path: a window on memory, moved without allocation, and its words. */
abstract class Window {
    Memory memory = Memory.EMPTY;
    int base;
    int capacity;
    /** Where the window lies, and its bytes if they can be read, and written, by address; 0 if not. */
    private long address;
    private int readable;
    private int writable;

    /** The hot path's wrap: bounds are the caller's affair here, and are checked again at each access. */
    final void window(Memory newMemory, int newBase, int newCapacity) {
        if (memory != newMemory) {
            // A reference that does not change is not stored: the garbage collector's barrier has a fence in it.
            memory = newMemory;
        }
        base = newBase;
        capacity = newCapacity;
        address = newMemory.address() + newBase;
        readable = newMemory.readable(newBase, newCapacity);
        writable = newMemory.writable(newBase, newCapacity);
    }

    /** Makes every access out of bounds. */
    final void invalidate() {
        capacity = 0;
        readable = 0;
        writable = 0;
    }

    /** The memory below, for copies inside the package. */
    final Memory memory() {
        return memory;
    }

    final int at(int index, int length) {
        return base + Objects.checkFromIndexSize(index, length, capacity);
    }

    /**
     * Reads a 64-bit word.
     *
     * @param index offset in the window, in bytes.
     * @return its value.
     */
    public final long getLong(int index) {
        if (Memory.inside(index, Long.BYTES, readable)) {
            long value = Raw.getLong(address + index);
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
        if (Memory.inside(index, Long.BYTES, writable)) {
            Raw.putLong(address + index, value);
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
        if (Memory.inside(index, Integer.BYTES, readable)) {
            int value = Raw.getInt(address + index);
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
        if (Memory.inside(index, Integer.BYTES, writable)) {
            Raw.putInt(address + index, value);
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
        if (Memory.inside(index, Short.BYTES, readable)) {
            short value = Raw.getShort(address + index);
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
        if (Memory.inside(index, Short.BYTES, writable)) {
            Raw.putShort(address + index, value);
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
        if (Memory.inside(index, 1, readable)) {
            byte value = Raw.getByte(address + index);
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
        if (Memory.inside(index, 1, writable)) {
            Raw.putByte(address + index, value);
            Reference.reachabilityFence(memory);
        } else {
            memory.putByte(at(index, 1), value);
        }
    }
}
