// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.ReadOnlyBufferException;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** The class for all memory access: by address if possible, else through a buffer. */
class MemoryTest {
    private static final int CAPACITY = 64;

    private static List<ByteBuffer> buffers() {
        return List.of(ByteBuffer.allocateDirect(CAPACITY), ByteBuffer.allocate(CAPACITY));
    }

    @Test
    void everyAccessIsLittleEndianAndReadsWhatWasWritten() {
        for (ByteBuffer bytes : buffers()) {
            Memory memory = Memory.of(bytes);
            bytes.order(ByteOrder.LITTLE_ENDIAN);
            memory.putByte(1, (byte) -5);
            assertEquals(List.of((byte) -5, (byte) -5), List.of(memory.getByte(1), bytes.get(1)));
            memory.putShort(3, (short) -500);
            assertEquals(List.of((short) -500, (short) -500), List.of(memory.getShort(3), bytes.getShort(3)));
            memory.putInt(5, -50_000);
            assertEquals(List.of(-50_000, -50_000), List.of(memory.getInt(5), bytes.getInt(5)));
            memory.putLong(9, Long.MIN_VALUE + 7);
            assertEquals(List.of(Long.MIN_VALUE + 7, Long.MIN_VALUE + 7), List.of(memory.getLong(9), bytes.getLong(9)));
            if (!bytes.isDirect()) {
                continue;
            }
            memory.putIntRelease(20, 11);
            assertEquals(List.of(11, 11), List.of(memory.getIntAcquire(20), memory.getIntOpaque(20)));
            memory.putIntOpaque(20, 12);
            assertEquals(12, bytes.getInt(20));
            memory.putLongRelease(24, 13);
            assertEquals(List.of(13L, 13L), List.of(memory.getLongAcquire(24), memory.getLongOpaque(24)));
            memory.putLongOpaque(24, 14);
            memory.putLongVolatile(32, memory.getLongVolatile(24));
            assertEquals(14, memory.getAndAddLong(32, 5));
            assertTrue(memory.compareAndSetLong(32, 19, -1));
            assertFalse(memory.compareAndSetLong(32, 19, 1));
            assertEquals(-1, bytes.getLong(32));
        }
    }

    @Test
    void everyAccessIsCheckedAgainstTheBounds() {
        for (ByteBuffer bytes : buffers()) {
            Memory memory = Memory.of(bytes);
            for (int index : new int[] {-1, -8, Integer.MIN_VALUE, CAPACITY, CAPACITY + 8, Integer.MAX_VALUE}) {
                outOfBounds(() -> memory.getByte(index), () -> memory.putByte(index, (byte) 1),
                    () -> memory.getShort(index), () -> memory.putShort(index, (short) 1),
                    () -> memory.getInt(index), () -> memory.putInt(index, 1),
                    () -> memory.getLong(index), () -> memory.putLong(index, 1),
                    () -> memory.fill(index, 1, (byte) 1), () -> memory.putBytes(index, new byte[1], 0, 1),
                    () -> memory.putBytes(index, memory, 0, 1), () -> memory.putBytes(0, memory, index, 1));
                if (!bytes.isDirect()) {
                    continue;
                }
                outOfBounds(() -> memory.getIntAcquire(index), () -> memory.putIntRelease(index, 1),
                    () -> memory.putIntOpaque(index, 1), () -> memory.getIntOpaque(index),
                    () -> memory.getLongAcquire(index), () -> memory.putLongRelease(index, 1),
                    () -> memory.getLongOpaque(index), () -> memory.putLongOpaque(index, 1),
                    () -> memory.getLongVolatile(index), () -> memory.getAndAddLong(index, 1));
            }
            outOfBounds(() -> memory.getShort(CAPACITY - 1), () -> memory.putInt(CAPACITY - 3, 1),
                () -> memory.getLong(CAPACITY - 7), () -> memory.putLong(CAPACITY - 7, 1));
            assertArrayEquals(new byte[CAPACITY], bytes(bytes));
        }
        outOfBounds(() -> Memory.EMPTY.getByte(0), () -> Memory.EMPTY.putLong(0, 1));
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[CAPACITY];
        buffer.get(0, bytes);
        return bytes;
    }

    private static void outOfBounds(Executable... accesses) {
        for (Executable access : accesses) {
            assertThrows(IndexOutOfBoundsException.class, access);
        }
    }

    @Test
    void bytesAreCopiedWithinAndBetweenMemoriesOfEachKind() {
        byte[] start = Rings.pattern(3, CAPACITY);
        for (ByteBuffer from : buffers()) {
            for (ByteBuffer to : buffers()) {
                for (int length = 0; length <= CAPACITY; length++) {
                    for (int offset : new int[] {0, 1, CAPACITY - length}) {
                        if (offset + length > CAPACITY) {
                            continue;
                        }
                        from.put(0, start);
                        to.put(0, new byte[CAPACITY]);
                        Memory.of(to).putBytes(CAPACITY - length, Memory.of(from), offset, length);
                        byte[] expected = new byte[CAPACITY];
                        System.arraycopy(start, offset, expected, CAPACITY - length, length);
                        assertArrayEquals(expected, bytes(to));
                        // A copy onto itself, through a second view that overlaps.
                        Memory.of(from).putBytes(CAPACITY - length, Memory.of(from), offset, length);
                        expected = start.clone();
                        System.arraycopy(start, offset, expected, CAPACITY - length, length);
                        assertArrayEquals(expected, bytes(from), "offset " + offset + " length " + length);
                    }
                }
            }
        }
    }

    @Test
    void whatIsReadOnlyIsNotWritten() {
        for (ByteBuffer bytes : buffers()) {
            Memory memory = Memory.of(bytes.asReadOnlyBuffer());
            assertTrue(memory.readOnly());
            assertEquals(0, memory.getLong(8));
            for (Executable write : List.<Executable>of(() -> memory.putByte(0, (byte) 1),
                () -> memory.putShort(0, (short) 1), () -> memory.putInt(0, 1), () -> memory.putLong(0, 1),
                () -> memory.fill(0, 8, (byte) 1), () -> memory.putBytes(0, new byte[8], 0, 8))) {
                assertThrows(ReadOnlyBufferException.class, write);
            }
        }
        Memory direct = Memory.of(ByteBuffer.allocateDirect(CAPACITY).asReadOnlyBuffer());
        for (Executable write : List.<Executable>of(() -> direct.putIntRelease(0, 1), () -> direct.putIntOpaque(0, 1),
            () -> direct.putLongRelease(0, 1), () -> direct.putLongOpaque(0, 1), () -> direct.putLongVolatile(0, 1),
            () -> direct.getAndAddLong(0, 1), () -> direct.compareAndSetLong(0, 0, 1))) {
            assertThrows(ReadOnlyBufferException.class, write);
        }
    }

    @Test
    void memoryIsAccessedByAddressWhereThatNeedsNoFlagAndRaisesNoWarning() {
        boolean ffm = Boolean.getBoolean("flyring.expect.ffm");
        assertEquals(ffm || Runtime.version().feature() < 24, Raw.AVAILABLE);
    }
}
