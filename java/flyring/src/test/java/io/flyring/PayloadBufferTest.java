// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import org.junit.jupiter.api.Test;

class PayloadBufferTest {
    @Test
    void everythingOutsideTheWindowIsOutOfBounds() {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(ByteBuffer.allocateDirect(64), 8, 16);
        assertThrows(IndexOutOfBoundsException.class, () -> buffer.getLong(9));
        assertThrows(IndexOutOfBoundsException.class, () -> buffer.getLong(-1));
        assertThrows(IndexOutOfBoundsException.class, () -> buffer.putByte(16, (byte) 1));
        assertThrows(IndexOutOfBoundsException.class, () -> buffer.putBytes(8, new byte[9]));
        assertThrows(IndexOutOfBoundsException.class, () -> buffer.setMemory(Integer.MAX_VALUE, 8, (byte) 0));
        assertThrows(IndexOutOfBoundsException.class, () -> buffer.getInt(Integer.MIN_VALUE));
        buffer.putLong(8, 5);
        assertEquals(5, buffer.getLong(8));
    }

    @Test
    void aReadOnlyWindowRefusesWrites() {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(ByteBuffer.allocateDirect(64).asReadOnlyBuffer());
        assertEquals(0, buffer.getLong(0));
        assertThrows(ReadOnlyBufferException.class, () -> buffer.putLong(0, 1));
        assertThrows(ReadOnlyBufferException.class, () -> buffer.putByte(0, (byte) 1));
        assertThrows(ReadOnlyBufferException.class, () -> buffer.putBytes(0, new byte[4]));
        assertThrows(ReadOnlyBufferException.class, () -> buffer.byteBuffer().put(0, (byte) 1));
    }

    @Test
    void aWrappedArrayHasNoAddressWithoutAgronasFlag() {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(new byte[8]);
        buffer.putInt(4, 77);
        assertEquals(77, buffer.getInt(4));
        assertThrows(UnsupportedOperationException.class, buffer::addressOffset);
    }
}
