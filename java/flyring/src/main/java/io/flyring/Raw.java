// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static java.lang.invoke.MethodType.methodType;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.Field;

/**
 * Unchecked access to memory by address, through sun.misc.Unsafe, which needs no flag. Callers check bounds and keep
 * the memory reachable. The jar holds another version of this class for Java 22 and newer. Where that version is not
 * loaded, Java 24 and newer would warn of Unsafe, so {@link #AVAILABLE} is false there.
 */
final class Raw {
    /** Whether the methods below may be used. */
    static final boolean AVAILABLE;

    private static final int LAST_WITHOUT_WARNING = 23;

    private static final MethodHandle GET_BYTE;
    private static final MethodHandle PUT_BYTE;
    private static final MethodHandle GET_SHORT;
    private static final MethodHandle PUT_SHORT;
    private static final MethodHandle GET_INT;
    private static final MethodHandle PUT_INT;
    private static final MethodHandle GET_LONG;
    private static final MethodHandle PUT_LONG;
    private static final MethodHandle GET_INT_VOLATILE;
    private static final MethodHandle PUT_INT_ORDERED;
    private static final MethodHandle GET_LONG_VOLATILE;
    private static final MethodHandle PUT_LONG_ORDERED;
    private static final MethodHandle COMPARE_AND_SWAP_LONG;

    static {
        Object unsafe = Runtime.version().feature() <= LAST_WITHOUT_WARNING ? unsafe() : null;
        AVAILABLE = unsafe != null;
        GET_BYTE = get(unsafe, "getByte", byte.class);
        PUT_BYTE = put(unsafe, "putByte", byte.class);
        GET_SHORT = get(unsafe, "getShort", short.class);
        PUT_SHORT = put(unsafe, "putShort", short.class);
        GET_INT = get(unsafe, "getInt", int.class);
        PUT_INT = put(unsafe, "putInt", int.class);
        GET_LONG = get(unsafe, "getLong", long.class);
        PUT_LONG = put(unsafe, "putLong", long.class);
        GET_INT_VOLATILE = offHeap(unsafe, "getIntVolatile", int.class, Object.class, long.class);
        PUT_INT_ORDERED = offHeap(unsafe, "putOrderedInt", void.class, Object.class, long.class, int.class);
        GET_LONG_VOLATILE = offHeap(unsafe, "getLongVolatile", long.class, Object.class, long.class);
        PUT_LONG_ORDERED = offHeap(unsafe, "putOrderedLong", void.class, Object.class, long.class, long.class);
        COMPARE_AND_SWAP_LONG = offHeap(unsafe, "compareAndSwapLong", boolean.class, Object.class, long.class,
            long.class, long.class);
    }

    private Raw() {
    }

    private static Object unsafe() {
        try {
            Field field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
            field.setAccessible(true);
            return field.get(null);
        } catch (ReflectiveOperationException | RuntimeException e) {
            return null;
        }
    }

    private static MethodHandle get(Object unsafe, String name, Class<?> type) {
        return find(unsafe, name, type, long.class);
    }

    private static MethodHandle put(Object unsafe, String name, Class<?> type) {
        return find(unsafe, name, void.class, long.class, type);
    }

    /** A method with memory ordering. These take an object and an offset; bound to null, the offset is an address. */
    private static MethodHandle offHeap(Object unsafe, String name, Class<?> result, Class<?>... arguments) {
        MethodHandle handle = find(unsafe, name, result, arguments);
        return handle == null ? null : MethodHandles.insertArguments(handle, 0, (Object) null);
    }

    private static MethodHandle find(Object unsafe, String name, Class<?> result, Class<?>... arguments) {
        try {
            return unsafe == null ? null : MethodHandles.lookup()
                .findVirtual(unsafe.getClass(), name, methodType(result, arguments)).bindTo(unsafe);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /** Call this on an address before offsets are added; see the version of this class for Java 22. */
    static long base(long address) {
        return address;
    }

    static byte getByte(long address) {
        try {
            return (byte) GET_BYTE.invokeExact(address);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static void putByte(long address, byte value) {
        try {
            PUT_BYTE.invokeExact(address, value);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static short getShort(long address) {
        try {
            return (short) GET_SHORT.invokeExact(address);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static void putShort(long address, short value) {
        try {
            PUT_SHORT.invokeExact(address, value);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static int getInt(long address) {
        try {
            return (int) GET_INT.invokeExact(address);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static void putInt(long address, int value) {
        try {
            PUT_INT.invokeExact(address, value);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static long getLong(long address) {
        try {
            return (long) GET_LONG.invokeExact(address);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static void putLong(long address, long value) {
        try {
            PUT_LONG.invokeExact(address, value);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static int getIntAcquire(long address) {
        try {
            return (int) GET_INT_VOLATILE.invokeExact(address);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static int getIntOpaque(long address) {
        try {
            return (int) GET_INT.invokeExact(address);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static void putIntRelease(long address, int value) {
        try {
            PUT_INT_ORDERED.invokeExact(address, value);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static void putIntOpaque(long address, int value) {
        try {
            PUT_INT.invokeExact(address, value);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static long getLongAcquire(long address) {
        try {
            return (long) GET_LONG_VOLATILE.invokeExact(address);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static long getLongOpaque(long address) {
        try {
            return (long) GET_LONG.invokeExact(address);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static void putLongRelease(long address, long value) {
        try {
            PUT_LONG_ORDERED.invokeExact(address, value);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    /** The address must be a multiple of 8. */
    static boolean compareAndSetLong(long address, long expected, long value) {
        try {
            return (boolean) COMPARE_AND_SWAP_LONG.invokeExact(address, expected, value);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    static void putLongOpaque(long address, long value) {
        try {
            PUT_LONG.invokeExact(address, value);
        } catch (Throwable e) {
            throw impossible(e);
        }
    }

    /** Converts what a method handle throws: Unsafe throws only errors, as for memory of a truncated file. */
    private static Error impossible(Throwable error) {
        return error instanceof Error known ? known : new AssertionError(error);
    }
}
