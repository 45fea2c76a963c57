// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;

/**
 * Unchecked access to memory by address, through one constant segment over the whole address space, for Java 22 and
 * newer. Callers check bounds and keep the memory reachable.
 */
@SuppressWarnings("restricted")
final class Raw {
    /** Whether the methods below may be used. */
    static final boolean AVAILABLE = true;

    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);
    private static final VarHandle BYTE = handle(ValueLayout.JAVA_BYTE);
    private static final VarHandle SHORT = handle(ValueLayout.JAVA_SHORT_UNALIGNED);
    private static final VarHandle INT = handle(ValueLayout.JAVA_INT_UNALIGNED);
    private static final VarHandle LONG = handle(ValueLayout.JAVA_LONG_UNALIGNED);
    private static final VarHandle ALIGNED_LONG = handle(ValueLayout.JAVA_LONG);
    private static final long NOT_NEGATIVE = Long.MAX_VALUE >>> 1;

    private Raw() {
    }

    /**
     * The handle takes {@link #ALL} as an argument: bound to it, each access would cost the compiler a tenth more
     * nodes.
     */
    private static VarHandle handle(ValueLayout layout) {
        return layout.varHandle().withInvokeExactBehavior();
    }

    /**
     * Call this on an address before constant offsets are added. It does not change the address, but tells the compiler
     * that the sums lie within {@link #ALL}, so that it omits the bounds check of each access.
     */
    static long base(long address) {
        return address & NOT_NEGATIVE;
    }

    static byte getByte(long address) {
        return (byte) BYTE.get(ALL, address);
    }

    static void putByte(long address, byte value) {
        BYTE.set(ALL, address, value);
    }

    static short getShort(long address) {
        return (short) SHORT.get(ALL, address);
    }

    static void putShort(long address, short value) {
        SHORT.set(ALL, address, value);
    }

    static int getInt(long address) {
        return (int) INT.get(ALL, address);
    }

    static void putInt(long address, int value) {
        INT.set(ALL, address, value);
    }

    static long getLong(long address) {
        return (long) LONG.get(ALL, address);
    }

    static void putLong(long address, long value) {
        LONG.set(ALL, address, value);
    }

    static int getIntAcquire(long address) {
        int value = (int) INT.get(ALL, address);
        VarHandle.acquireFence();
        return value;
    }

    static int getIntOpaque(long address) {
        return (int) INT.get(ALL, address);
    }

    static void putIntRelease(long address, int value) {
        VarHandle.releaseFence();
        INT.set(ALL, address, value);
    }

    static void putIntOpaque(long address, int value) {
        INT.set(ALL, address, value);
    }

    static long getLongAcquire(long address) {
        long value = (long) LONG.get(ALL, address);
        VarHandle.acquireFence();
        return value;
    }

    static long getLongOpaque(long address) {
        return (long) LONG.get(ALL, address);
    }

    static void putLongRelease(long address, long value) {
        VarHandle.releaseFence();
        LONG.set(ALL, address, value);
    }

    /** The address must be a multiple of 8. */
    static boolean compareAndSetLong(long address, long expected, long value) {
        return (boolean) ALIGNED_LONG.compareAndSet(ALL, address, expected, value);
    }

    static void putLongOpaque(long address, long value) {
        LONG.set(ALL, address, value);
    }
}
