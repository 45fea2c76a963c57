// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Access through a ByteBuffer, for {@link Memory} when access by address is not possible. This is a separate class,
 * because compilers inline the code of a VarHandle even where it rarely runs. Inside {@link Memory} that code would
 * make the hot methods too large to be inlined.
 */
final class Buffers {
    private static final VarHandle SHORT =
        MethodHandles.byteBufferViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INT = MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle LONG = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    private Buffers() {
    }

    static boolean compareAndSetLong(ByteBuffer buffer, int index, long expected, long value) {
        return LONG.compareAndSet(buffer, index, expected, value);
    }

    static int getAcquireInt(ByteBuffer buffer, int index) {
        return (int) INT.getAcquire(buffer, index);
    }

    static long getAcquireLong(ByteBuffer buffer, int index) {
        return (long) LONG.getAcquire(buffer, index);
    }

    static long getAndAddLong(ByteBuffer buffer, int index, long delta) {
        return (long) LONG.getAndAdd(buffer, index, delta);
    }

    static int getAndAddReleaseInt(ByteBuffer buffer, int index, int delta) {
        return (int) INT.getAndAddRelease(buffer, index, delta);
    }

    static int getAndBitwiseAndInt(ByteBuffer buffer, int index, int mask) {
        return (int) INT.getAndBitwiseAnd(buffer, index, mask);
    }

    static int getAndBitwiseOrInt(ByteBuffer buffer, int index, int mask) {
        return (int) INT.getAndBitwiseOr(buffer, index, mask);
    }

    static int getInt(ByteBuffer buffer, int index) {
        return (int) INT.get(buffer, index);
    }

    static long getLong(ByteBuffer buffer, int index) {
        return (long) LONG.get(buffer, index);
    }

    static int getOpaqueInt(ByteBuffer buffer, int index) {
        return (int) INT.getOpaque(buffer, index);
    }

    static long getOpaqueLong(ByteBuffer buffer, int index) {
        return (long) LONG.getOpaque(buffer, index);
    }

    static short getShort(ByteBuffer buffer, int index) {
        return (short) SHORT.get(buffer, index);
    }

    static long getVolatileLong(ByteBuffer buffer, int index) {
        return (long) LONG.getVolatile(buffer, index);
    }

    static void setInt(ByteBuffer buffer, int index, int value) {
        INT.set(buffer, index, value);
    }

    static void setLong(ByteBuffer buffer, int index, long value) {
        LONG.set(buffer, index, value);
    }

    static void setOpaqueInt(ByteBuffer buffer, int index, int value) {
        INT.setOpaque(buffer, index, value);
    }

    static void setOpaqueLong(ByteBuffer buffer, int index, long value) {
        LONG.setOpaque(buffer, index, value);
    }

    static void setReleaseInt(ByteBuffer buffer, int index, int value) {
        INT.setRelease(buffer, index, value);
    }

    static void setReleaseLong(ByteBuffer buffer, int index, long value) {
        LONG.setRelease(buffer, index, value);
    }

    static void setShort(ByteBuffer buffer, int index, short value) {
        SHORT.set(buffer, index, value);
    }

    static void setVolatileLong(ByteBuffer buffer, int index, long value) {
        LONG.setVolatile(buffer, index, value);
    }
}
