// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What is left of a writer that dies: each key has its old value or its new one, whole. */
class TableSurvivorsTest {
    private static final int LONGEST = 200;

    @RegisterExtension
    final Rings rings = new Rings();

    private String path() {
        return rings.path("t.table");
    }

    @Test
    void whateverStoreIsTheLastNothingIsTornLostOrUndone() throws Exception {
        List<String> lines = Stores.run(rings, TableStores.class, rings.folder().toString());
        String last = lines.get(lines.size() - 1);
        System.out.println(last);
        assertTrue(last.startsWith("done: 20 scenarios") && lines.size() == 21, lines.toString());
        for (String line : lines.subList(0, lines.size() - 1)) {
            assertTrue(line.matches(".*: [1-9][0-9]* stores"), line);
        }
    }

    @Test
    void aStackOverflowInACloseLeavesTheRestToTheNext() throws Exception {
        Table.create(path(), TableOptions.integer().capacity(10).valueBytes(8)).close();
        Dive.run(() -> {
            for (int i = 0; i < 20; i++) {
                Table table = Table.open(path());
                TableWriter writer = table.writer();
                writer.put(1, TableTest.buffer(new byte[8]), 0, 8);
                Dive.intoClose(i, writer);
                assertThrows(ClosedException.class, () -> writer.remove(1));
                table.writer(); // the slot is free
                Dive.intoClose(i, table);
                assertThrows(ClosedException.class, table::size);
                assertEquals(0, rings.held());
            }
        });
        try (Table table = Table.open(path()); TableWriter writer = table.writer()) {
            assertTrue(writer.put(1, TableTest.buffer(new byte[8]), 0, 8) > 0);
        }
    }

    /** Reads keys again and again; the result is how many values it has seen. */
    private static long reads(Table table, AtomicBoolean stop) {
        PayloadBuffer value = TableTest.buffer(new byte[LONGEST]);
        long[] versions = new long[7];
        long seen = 0;
        while (!stop.get()) {
            for (int key = 0; key < versions.length; key++) {
                int length;
                try {
                    length = table.get(key, value, 0);
                } catch (BusyException e) { // allowed: the writer overwrote each try for 1 ms (spec/table.md 6)
                    continue;
                }
                for (int i = 1; i < length; i++) {
                    assertEquals(value.getByte(0), value.getByte(i), "byte " + i + " of key " + key);
                }
                long version;
                try {
                    Entry entry = table.entry(key);
                    version = entry == null ? 0 : entry.version();
                } catch (BusyException e) {
                    continue;
                }
                assertTrue(version == 0 || version >= versions[key], "a version went back");
                versions[key] = Math.max(version, versions[key]);
                seen += length > 0 ? 1 : 0;
            }
        }
        return seen;
    }

    @Test
    void readersSeeWholeValuesAndVersionsThatOnlyGrowWhileWritersAreKilled() throws Exception {
        try (Table table = Table.create(path(), TableOptions.integer().capacity(8).valueBytes(LONGEST))) {
            AtomicBoolean stop = new AtomicBoolean();
            Other<Long> one = new Other<>(() -> reads(table, stop));
            Other<Long> two = new Other<>(() -> reads(Table.open(path()), stop));
            long before = 0;
            try {
                for (int round = 0; round < 6; round++) {
                    Process child = Rings.java(Child.class, "table-writer", path()).start();
                    assertEquals('r', child.getInputStream().read());
                    assertThrows(NoFreeSlotException.class, table::writer);
                    long last = before;
                    Other.until(() -> table.version() > last); // a slow machine may let it wait
                    Thread.sleep(30 + 7 * round);
                    assertEquals(137, child.destroyForcibly().waitFor());
                    try (TableWriter writer = table.writer("heir", Duration.ofSeconds(5))) {
                        assertEquals(2 * round + 2, writer.epoch());
                        assertEquals(0, TableFile.open(path(), new OpenOptions()).word(Layout.TABLE_CONTROL_INTENT));
                    }
                    long[] keys = new long[1];
                    table.forEach(item -> keys[0]++);
                    assertEquals(keys[0], table.size());
                    assertTrue(table.version() > before);
                    before = table.version();
                }
            } finally {
                stop.set(true);
            }
            assertTrue(one.result() > 100 && two.result() > 100);
            System.out.println("changes: " + before);
        }
    }

    @Test
    void aChangeWhoseUnlockFailsIsMadeAndGivesTheSlotBack() {
        try (Table table = Table.create(path(), TableTest.integer()); Table other = Table.open(path())) {
            PayloadBuffer value = TableTest.buffer(new byte[8]);
            ChannelFile.faults = (call, file) -> call.equals("fcntl") && file.equals(path()) ? -Linux.EIO : 0;
            try {
                table.put(1, value, 0, 8);
                other.put(2, value, 0, 8);
                table.put(3, value, 0, 8);
            } finally {
                ChannelFile.faults = null;
            }
            assertEquals(3, other.size());
            try (TableWriter writer = other.writer()) {
                writer.put(4, value, 0, 8);
            }
            table.put(5, value, 0, 8);
        }
    }

    @Test
    void threadsOfOneProcessChangeOneAfterAnother() throws Exception {
        final int rounds = 3000;
        try (Table table = Table.create(path(), TableTest.integer()); Table other = Table.open(path())) {
            PayloadBuffer zero = TableTest.buffer(new byte[8]);
            table.put(1, zero, 0, 8);
            List<Other<Integer>> all = List.of(table, table, other).stream().map(each -> new Other<>(() -> {
                for (int i = 0; i < rounds; i++) {
                    each.update(1, value -> value.putLong(0, value.getLong(0) + 1));
                }
                return 0;
            })).toList();
            for (Other<Integer> each : all) {
                each.result();
            }
            assertEquals(3L * rounds, table.<Long>read(1, value -> value.getLong(0)));
            assertEquals(3 * rounds + 1, table.version());
        }
    }
}
