// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;

/** Tables: reads in place, reads beside a change, entries, and what a get copies. */
class TableReadTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private final PayloadBuffer buffer = TableTest.direct(256);

    private String path() {
        return rings.path("t.table");
    }

    private String get(Table table, String key) {
        int length = table.get(key, buffer, 0);
        return length < 0 ? null : buffer.getStringWithoutLengthUtf8(0, length);
    }

    @Test
    void aReadInPlaceSeesTheValueAndMayReadOn() {
        try (Table table = Table.create(path(), TableTest.text())) {
            TableTest.put(table, "a", "1234");
            TableTest.put(table, "b", "56");
            String both = table.read("a", a -> a.getStringWithoutLengthUtf8(0, a.capacity())
                + table.read("b", b -> b.getStringWithoutLengthUtf8(0, b.capacity())));
            assertEquals("123456", both);
            assertNull(table.read("c", c -> "c"));
            assertThrows(java.nio.ReadOnlyBufferException.class, () -> table.read("a", a -> {
                a.putByte(0, (byte) 0);
                return 0;
            }));
            assertEquals("1234", get(table, "a"));
            PayloadBuffer[] kept = new PayloadBuffer[1];
            assertEquals(4, table.<Integer>read("a", a -> {
                kept[0] = a;
                return a.capacity();
            }));
            assertThrows(IndexOutOfBoundsException.class, () -> kept[0].getByte(0));
        }
    }

    @Test
    void aValueThatChangesWhileItIsReadIsReadAgain() {
        try (Table table = Table.create(path(), TableTest.text()); Table other = Table.open(path())) {
            TableTest.put(table, "k", "old");
            for (int changes = 1; changes <= 3; changes++) {
                int[] calls = new int[1];
                int most = changes;
                ValueHandler<String> handler = value -> {
                    if (calls[0]++ == 0) {
                        for (int i = 0; i < most; i++) {
                            TableTest.put(other, "k", "new" + i);
                        }
                        if (most > 1) {
                            throw new ArithmeticException("of a value that is not whole");
                        }
                    }
                    return value.getStringWithoutLengthUtf8(0, value.capacity());
                };
                assertEquals(changes == 1 ? "old" : "new" + (changes - 1), table.read("k", handler));
                assertEquals(changes == 1 ? 1 : 2, calls[0], "one change leaves the old body as it is");
                TableTest.put(table, "k", "old");
            }
        }
    }

    @Test
    void anEntryFollowsItsKey() {
        try (Table table = Table.create(path(), TableTest.text()); TableWriter writer = table.writer("feed")) {
            assertNull(table.entry("k"));
            TableTest.put(writer, "other", "o");
            long first = TableTest.put(writer, "k", "1");
            Entry entry = table.entry("k");
            assertEquals(first, entry.version());
            assertEquals(1, entry.get(buffer, 3));
            assertEquals('1', buffer.getByte(3));
            PayloadBuffer two = TableTest.text("22");
            long second = writer.put(entry, two, 0, 2);
            assertEquals(second, entry.version());
            assertEquals("22", entry.read(value -> value.getStringWithoutLengthUtf8(0, value.capacity())));
            assertTrue(writer.update(entry, value -> value.putByte(1, (byte) '3')) > second);
            assertEquals("23", get(table, "k"));
            writer.remove("k");
            assertEquals(List.of(0L, -1), List.of(entry.version(), entry.get(buffer, 0)));
            assertEquals(0, writer.update(entry, value -> { }));
            TableTest.put(writer, "else", "in its cell");
            assertEquals(-1, entry.get(buffer, 0));
            TableTest.put(writer, "k", "elsewhere");
            assertEquals(9, entry.get(buffer, 0));
            try (Table again = Table.open(path())) {
                assertThrows(InvalidArgumentException.class, () -> writer.put(again.entry("k"), two, 0, 1));
            }
        }
        Table.unlink(path());
        try (Table table = Table.create(path(), TableTest.integer()); TableWriter writer = table.writer("feed")) {
            assertNull(table.entry(-5));
            TableTest.put(writer, 1, "other");
            TableTest.put(writer, -5, "ab");
            Entry entry = table.entry(-5);
            assertEquals(2, entry.get(buffer, 3));
            assertEquals("ab", buffer.getStringWithoutLengthUtf8(3, 2));
            assertEquals(2, entry.<Integer>read(value -> entry.get(buffer, 0)), "inside its own handler");
            for (Executable get : List.<Executable>of(() -> entry.get(buffer, -1), () -> table.get(-5, buffer, -1))) {
                assertThrows(IndexOutOfBoundsException.class, get);
            }
            int last = buffer.capacity() - 1;
            for (Executable get : List.<Executable>of(() -> entry.get(buffer, last),
                () -> table.get(-5, buffer, last))) {
                assertEquals(2, assertThrows(MessageTooLargeException.class, get).length());
            }
            writer.remove(-5);
            assertEquals(List.of(-1, -1), List.of(entry.get(buffer, 0), table.get(-5, buffer, 0)));
            TableTest.put(writer, 2, "in its cell");
            assertEquals(List.of(-1, -1), List.of(entry.get(buffer, 0), table.get(-5, buffer, 0)));
            TableTest.put(writer, -5, "elsewhere");
            assertEquals(List.of(9, 9), List.of(entry.get(buffer, 0), table.get(-5, buffer, 0)));
        }
    }

    @Test
    void valuesOfEachLengthAreCopiedWholeAndNothingBeside() {
        byte[] bytes = new byte[100];
        new Random(27).nextBytes(bytes);
        PayloadBuffer all = TableTest.buffer(bytes);
        for (int most : new int[] {64, 100}) { // the short way copies at most 64 bytes
            try (Table table = Table.replace(path(), TableOptions.integer().capacity(8).valueBytes(most))) {
                Entry entry = null;
                for (int length = 0; length <= most; length++) {
                    table.put(7, all, 0, length);
                    entry = entry == null ? table.entry(7) : entry;
                    for (int way = 0; way < 2; way++) {
                        buffer.setMemory(0, buffer.capacity(), (byte) 0x5a);
                        assertEquals(length, way == 0 ? table.get(7, buffer, 3) : entry.get(buffer, 3));
                        for (int i = 0; i < buffer.capacity(); i++) {
                            byte expected = i >= 3 && i < 3 + length ? bytes[i - 3] : 0x5a;
                            assertEquals(expected, buffer.getByte(i), "byte " + i + " of " + length);
                        }
                    }
                }
            }
        }
    }

    @Test
    void noCopyIsTornWhileAnotherThreadChangesTheValue() throws Exception {
        final int words = 6;
        final Thread changes;
        try (Table table = Table.create(path(), TableTest.integer().valueBytes(words * Long.BYTES));
            TableWriter writer = table.writer("feed")) {
            PayloadBuffer value = TableTest.direct(words * Long.BYTES);
            writer.put(1, value, 0, value.capacity());
            changes = new Thread(() -> {
                for (long n = 1; !Thread.currentThread().isInterrupted(); n++) {
                    for (int i = 0; i < words; i++) {
                        value.putLong(i * Long.BYTES, n);
                    }
                    writer.put(1, value, 0, value.capacity());
                }
            });
            Entry entry = table.entry(1);
            changes.start();
            try {
                long last = 0;
                for (long end = System.nanoTime() + 300_000_000; System.nanoTime() < end;) {
                    for (int i = 0; i < 1000; i++) {
                        try {
                            assertEquals(value.capacity(),
                                (i & 1) == 0 ? table.get(1, buffer, 0) : entry.get(buffer, 0));
                        } catch (BusyException e) {
                            continue; // this thread lost its core for 1 ms
                        }
                        long first = buffer.getLong(0);
                        assertTrue(first >= last, "an older value");
                        last = first;
                        for (int word = 1; word < words; word++) {
                            assertEquals(first, buffer.getLong(word * Long.BYTES));
                        }
                    }
                }
                assertTrue(last > 0, "no change was seen");
            } finally {
                changes.interrupt();
                changes.join();
            }
        }
    }
}
