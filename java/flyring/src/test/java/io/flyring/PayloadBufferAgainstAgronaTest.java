// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Compares every method of Agrona's interface with Agrona's UnsafeBuffer, in a JVM with the flag that UnsafeBuffer
 * needs.
 */
@Tag("agrona")
class PayloadBufferAgainstAgronaTest {
    private static final int CAPACITY = 96;
    private static final String TEXT = "abc\u00e9\u20acxyz0123456789";
    private static final Set<String> NOT_COMPARED = Set.of("wrap", "addressOffset", "byteArray", "byteBuffer",
        "wrapAdjustment", "compareTo");

    private final Random random = new Random(42);

    private static final class Side {
        final MutableDirectBuffer buffer;
        final ByteBuffer memory;
        final boolean ours;

        Side(boolean ours, byte[] content, int padding) {
            this.ours = ours;
            memory = ByteBuffer.allocateDirect(content.length + 2 * padding);
            memory.put(padding, content);
            buffer = ours ? new PayloadBuffer() : new UnsafeBuffer();
            buffer.wrap(memory, padding, content.length);
        }

        byte[] bytes() {
            byte[] bytes = new byte[memory.capacity()];
            memory.get(0, bytes);
            return bytes;
        }
    }

    private record Outcome(Object result, String error, List<Object> arguments) {
    }

    @Test
    @Tag("long")
    void everyMethodAnswersAsAgronasDoes() throws Exception {
        Set<String> succeeded = new TreeSet<>();
        Set<String> methods = new TreeSet<>();
        for (Method method : MutableDirectBuffer.class.getMethods()) {
            if (NOT_COMPARED.contains(method.getName()) || method.isSynthetic()) {
                continue;
            }
            methods.add(method.toString());
            for (int round = 0; round < 3000; round++) {
                byte[] content = content(method.getName());
                Side ours = new Side(true, content, 24);
                Side theirs = new Side(false, content, 24);
                long seed = random.nextLong();
                Outcome mine = call(method, ours, seed);
                Outcome agronas = call(method, theirs, seed);
                assertEquals(agronas.error, mine.error, () -> method + " seed " + seed + " " + mine.arguments);
                assertEquals(agronas.result, mine.result, () -> method + " seed " + seed + " " + mine.arguments);
                assertEquals(agronas.arguments, mine.arguments, () -> method + " seed " + seed);
                assertArrayEquals(theirs.bytes(), ours.bytes(), () -> method + " seed " + seed + " " + mine.arguments);
                if (mine.error == null) {
                    succeeded.add(method.toString());
                }
            }
        }
        assertEquals(methods, succeeded, "each method must have been seen to succeed");
        assertTrue(methods.size() > 70, "methods compared: " + methods.size());
    }

    private byte[] content(String method) {
        byte[] content = new byte[CAPACITY];
        random.nextBytes(content);
        boolean text = method.startsWith("getString");
        boolean digits = method.startsWith("parse");
        for (int i = 0; i < CAPACITY && (text || digits); i++) {
            content[i] = digits ? (byte) ('0' + random.nextInt(10)) : (byte) (i % 4 == 0 ? random.nextInt(24) : 0);
        }
        if (digits) {
            content[random.nextInt(CAPACITY)] = '-';
            content[random.nextInt(CAPACITY)] = 'x';
        }
        return content;
    }

    private Outcome call(Method method, Side side, long seed) throws Exception {
        Random r = new Random(seed);
        boolean natural = method.getName().contains("Natural") || method.getName().equals("getStringAscii");
        List<Object> arguments = new ArrayList<>();
        for (Class<?> type : method.getParameterTypes()) {
            arguments.add(argument(type, natural, method.getName(), r, side.ours));
        }
        Object result = null;
        String error = null;
        try {
            result = method.invoke(side.buffer, arguments.toArray());
        } catch (InvocationTargetException e) {
            error = e.getCause().getClass().getName();
        }
        List<Object> after = new ArrayList<>();
        for (Object argument : arguments) {
            after.add(comparable(argument));
        }
        return new Outcome(result, error, after);
    }

    private static Object comparable(Object argument) {
        if (argument instanceof byte[] array) {
            return ByteBuffer.wrap(array.clone());
        }
        if (argument instanceof ByteBuffer buffer) {
            return List.of(buffer.position(), buffer.duplicate().clear());
        }
        if (argument instanceof DirectBuffer buffer) {
            byte[] bytes = new byte[buffer.capacity()];
            buffer.getBytes(0, bytes);
            return ByteBuffer.wrap(bytes);
        }
        return argument instanceof StringBuilder ? argument.toString() : argument;
    }

    private static Object argument(Class<?> type, boolean natural, String method, Random r, boolean ours) {
        if (type == int.class) {
            return switch (r.nextInt(8)) {
                case 0 -> natural ? r.nextInt(CAPACITY) : r.nextInt(CAPACITY + 40) - 20;
                case 1 -> method.endsWith("IntAscii") || method.startsWith("putInt")
                    ? r.nextInt() & (natural ? Integer.MAX_VALUE : -1) : r.nextInt(40);
                case 2 -> 0;
                default -> r.nextInt(24);
            };
        }
        if (type == long.class) {
            long value = r.nextLong() >> r.nextInt(64);
            return natural ? value & Long.MAX_VALUE : r.nextInt(50) == 0 ? Long.MIN_VALUE : value;
        }
        if (type == short.class) {
            return (short) r.nextInt();
        }
        if (type == char.class) {
            return (char) r.nextInt();
        }
        if (type == byte.class) {
            return (byte) r.nextInt();
        }
        if (type == double.class) {
            return r.nextGaussian();
        }
        if (type == float.class) {
            return r.nextFloat();
        }
        if (type == ByteOrder.class) {
            return r.nextBoolean() ? ByteOrder.BIG_ENDIAN : ByteOrder.LITTLE_ENDIAN;
        }
        if (type == String.class || type == CharSequence.class) {
            return r.nextInt(10) == 0 ? null : TEXT.substring(r.nextInt(4), 4 + r.nextInt(12));
        }
        if (type == Appendable.class) {
            return new StringBuilder();
        }
        byte[] bytes = new byte[48];
        r.nextBytes(bytes);
        boolean direct = r.nextBoolean();
        int position = r.nextInt(12);
        if (type == byte[].class) {
            return bytes;
        }
        ByteBuffer memory = direct ? ByteBuffer.allocateDirect(bytes.length) : ByteBuffer.allocate(bytes.length);
        memory.put(bytes).position(position).limit(r.nextBoolean() ? memory.capacity() : 36);
        if (type == ByteBuffer.class) {
            return memory;
        }
        MutableDirectBuffer buffer = r.nextBoolean() & ours ? new PayloadBuffer() : new UnsafeBuffer();
        buffer.wrap(memory);
        return buffer;
    }

    @Test
    void eachWrapsTheOther() {
        byte[] content = new byte[64];
        random.nextBytes(content);
        byte[] array = new byte[80];
        System.arraycopy(content, 0, array, 9, 64);
        ByteBuffer direct = ByteBuffer.allocateDirect(80).put(0, array);
        for (DirectBuffer theirs : List.of(new UnsafeBuffer(array, 9, 64), new UnsafeBuffer(direct, 9, 64),
            new UnsafeBuffer(new UnsafeBuffer(direct).addressOffset() + 9, 64))) {
            PayloadBuffer ours = new PayloadBuffer();
            ours.wrap(theirs, 8, 40);
            UnsafeBuffer back = new UnsafeBuffer(ours, 8, 24);
            for (int i = 0; i < 24; i++) {
                assertEquals(content[i + 16], back.getByte(i));
                assertEquals(content[i + 16], ours.getByte(i + 8));
            }
            assertEquals(0, ours.compareTo(new UnsafeBuffer(theirs, 8, 40)));
            assertEquals(new UnsafeBuffer(theirs, 8, 40).hashCode(), ours.hashCode());
            ours.putLong(8, 77);
            assertEquals(77, back.getLong(0));
            ours.putLong(8, new UnsafeBuffer(content).getLong(16));
        }
    }

    @Test
    void comparesAsAgronasDoes() {
        for (int round = 0; round < 2000; round++) {
            List<MutableDirectBuffer> all = Stream.of(true, true, false, false).map(ours -> {
                MutableDirectBuffer buffer = ours ? new PayloadBuffer() : new UnsafeBuffer();
                buffer.wrap(new byte[20]);
                return buffer;
            }).toList();
            for (int i = 0; i < 2; i++) {
                for (int at = 0; at < 20; at++) {
                    byte value = (byte) (random.nextInt(40) == 0 ? random.nextInt() : 1);
                    all.get(i).putByte(at, value);
                    all.get(i + 2).putByte(at, value);
                }
            }
            assertEquals(all.get(2).compareTo(all.get(3)), all.get(0).compareTo(all.get(1)));
            assertEquals(all.get(2).compareTo(all.get(3)), all.get(0).compareTo(all.get(3)));
            assertEquals(all.get(2).equals(all.get(3)), all.get(0).equals(all.get(1)));
            assertEquals(0, all.get(0).compareTo(all.get(2)));
            assertFalse(all.get(0).equals(null));
        }
    }
}
