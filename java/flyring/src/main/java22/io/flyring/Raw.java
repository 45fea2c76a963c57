// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;

/**
 * Unchecked access to memory by address, for {@link Memory} alone, which checks bounds and keeps the memory reachable:
 * through one constant segment over all of the address space, for Java 22 and newer.
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

    /** Takes {@link #ALL} as an argument: bound to it, it would cost the compiler a tenth more nodes an access. */
    private static VarHandle handle(ValueLayout layout) {
        return layout.varHandle().withInvokeExactBehavior();
    }

    /**
     * To be put around an address to which constant offsets are added. It changes nothing, but tells the compiler that
     * they lie within {@link #ALL}, so that it need not compare at each access.
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

    /** Of an address that is a multiple of 8. */
    static boolean compareAndSetLong(long address, long expected, long value) {
        return (boolean) ALIGNED_LONG.compareAndSet(ALL, address, expected, value);
    }

    static void putLongOpaque(long address, long value) {
        LONG.set(ALL, address, value);
    }
}
