// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongConsumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Snapshots of tables, and tables that grow (table.md 7, 9). */
class TableCopyTest {
    private static final Duration NOW = Duration.ZERO;
    private static final Duration LONG = Duration.ofSeconds(10);

    @RegisterExtension
    final Rings rings = new Rings();

    private final PayloadBuffer buffer = TableTest.buffer(new byte[256]);

    private String path() {
        return rings.path("t.table");
    }

    private Table create(TableOptions options) {
        return Table.create(path(), options.checked(true));
    }

    private Table open() {
        return Table.open(path());
    }

    private String get(Table table, long key) {
        int length = table.get(key, buffer, 0);
        return length < 0 ? null : buffer.getStringWithoutLengthUtf8(0, length);
    }

    @Test
    void aSnapshotIsAWholeTable() {
        String copy = rings.path("copy.table");
        try (Table table = create(TableTest.integer())) {
            for (int key = 0; key < 6; key++) {
                TableTest.put(table, key, "v" + key);
            }
            table.remove(0);
            table.remove(3);
            assertEquals(4, table.snapshot(copy));
            try (TableWriter writer = table.writer()) {
                TableTest.put(writer, 8, "v8");
                assertEquals(5, writer.snapshot(copy));
            }
            assertThrows(IoException.class, () -> table.snapshot(rings.path("none/copy.table")));
            try (Table other = Table.open(copy)) {
                assertFalse(other.id().equals(table.id()));
                assertEquals(List.of(5L, table.version()), List.of(other.size(), other.version()));
                for (int key = 0; key < 9; key++) {
                    assertEquals(get(table, key), get(other, key));
                    Versioned versioned = table.getVersioned(key);
                    assertEquals(versioned == null ? 0 : versioned.version(),
                        versioned == null ? 0 : other.getVersioned(key).version());
                }
                assertEquals(table.version() + 1, TableTest.put(other, 1, "next") >> 1);
            }
            assertEquals(List.of("copy.table", "t.table"), rings.files());
        }
    }

    /** How many descriptors and mappings this process has of files in the folder. */
    private List<Integer> held() throws IOException {
        int descriptors = 0;
        for (String each : Folder.names("/proc/self/fd")) {
            try {
                descriptors += Files.readSymbolicLink(Path.of("/proc/self/fd", each)).startsWith(rings.folder()) ? 1
                    : 0;
            } catch (IOException gone) {
                continue; // the listing's own descriptor
            }
        }
        try (Stream<String> lines = Files.lines(Path.of("/proc/self/maps"))) {
            return List.of(descriptors, (int) lines.filter(each -> each.contains(rings.folder().toString())).count());
        }
    }

    @Test
    void aTableThatGrowsLetsItsOldFilesGo() throws Exception {
        try (Table table = create(TableTest.integer()); Table other = open();
            Table reader = Table.open(path(), new OpenOptions().readOnly(true))) {
            TableTest.put(table, 1, "v");
            Entry entry = other.entry(1);
            assertEquals(1, entry.get(buffer, 0));
            List<Integer> before;
            try (TableWriter writer = table.writer()) {
                writer.grow(8); // gives up the description of single changes
                get(reader, 1);
                other.size();
                before = held();
                for (int i = 0; i < 100; i++) {
                    writer.grow(9 + i);
                    assertEquals(1, other.size());
                    assertEquals("v", get(reader, 1));
                    assertEquals(before, held());
                    assertEquals(1, entry.get(buffer, 0));
                }
            }
            TableTest.put(other, 1, "w");
            List<Integer> after = held();
            for (int i = 100; i < 200; i++) {
                other.grow(9 + i, LONG);
                assertEquals("w", get(table, 1));
                assertEquals("w", get(reader, 1));
                assertTrue(held().get(0) <= after.get(0) && held().get(1).equals(after.get(1)), () -> after + "");
            }
        }
        assertEquals(List.of(0, 0), held());
    }

    @Test
    void aWalkKeepsTheOldFile() throws Exception {
        try (Table table = create(TableTest.integer()); Table other = open()) {
            for (int key = 0; key < 5; key++) {
                TableTest.put(table, key, "v" + key);
            }
            List<Long> found = new ArrayList<>();
            List<Integer> before = held();
            table.forEach(item -> {
                found.add(item.integerKey());
                if (found.size() == 1) {
                    other.grow(20, LONG);
                    TableTest.put(other, 7, "v7");
                    assertEquals("v7", get(table, 7));
                    table.grow(30, LONG);
                }
            });
            assertEquals(List.of(0L, 1L, 2L, 3L, 4L), found);
            assertEquals("v7", get(other, 7));
            assertTrue(held().get(0) <= before.get(0) + 2, () -> before + "");
            assertEquals(before.get(1), held().get(1));
        }
    }

    /** Threads of one object: what they read may be the zeros that take the place of an old file. */
    @Test
    void threadsReadOnWhileAnotherGrowsTheirTable() throws Exception {
        try (Table table = create(TableTest.integer()); Table other = open()) {
            for (int key = 0; key < 8; key++) {
                TableTest.put(table, key, "value " + key);
            }
            AtomicBoolean end = new AtomicBoolean();
            List<Other<Long>> threads = new ArrayList<>();
            threads.add(again(end, turn -> {
                Versioned found = table.getVersioned(turn % 8);
                assertEquals("value " + turn % 8, new String(found.value(), StandardCharsets.UTF_8));
                assertNull(table.getVersioned(9));
            }));
            Entry entry = table.entry(3);
            PayloadBuffer own = TableTest.buffer(new byte[64]);
            threads.add(again(end, turn -> assertEquals(7, entry.get(own, 0))));
            threads.add(again(end, turn -> {
                assertEquals(8, table.size());
                assertTrue(table.version() >= 8);
                assertEquals(8, table.stats().size());
            }));
            threads.add(again(end, turn -> {
                long[] count = new long[1];
                table.forEach(item -> count[0]++);
                assertEquals(8, count[0]);
            }));
            threads.add(again(end, turn -> {
                TableTest.put(table, turn % 8, "value " + turn % 8);
                table.sync();
            }));
            threads.add(again(end, turn -> assertTrue(table.waitChanged(5, 0, LONG) > 0)));
            for (int i = 0; i < 200; i++) {
                (i % 2 == 0 ? table : other).grow(9 + i, LONG);
            }
            end.set(true);
            for (Other<Long> thread : threads) {
                assertTrue(thread.result() > 0);
            }
        }
    }

    /** Does something again and again in another thread; returns how often. */
    private static Other<Long> again(AtomicBoolean end, LongConsumer what) {
        return new Other<>(() -> {
            long turn = 0;
            while (!end.get()) {
                what.accept(turn++);
            }
            return turn;
        });
    }

    @Test
    void aTableThatGrowsKeepsItsKeysAndOthersFollow() throws Exception {
        try (Table table = create(TableTest.integer()); Table other = open(); Table third = open()) {
            long[] versions = new long[8];
            for (int key = 0; key < 8; key++) {
                versions[key] = TableTest.put(table, key, "v" + key);
            }
            Entry entry = other.entry(5);
            Other<Long> waits = new Other<>(() -> third.waitChanged(5, versions[5], Duration.ofSeconds(10)));
            assertEquals("capacity", assertThrows(InvalidArgumentException.class,
                () -> table.grow(7, Duration.ZERO)).argument());
            table.grow(100, Duration.ZERO);
            assertEquals(List.of(100L, 8L), List.of(table.capacity(), table.size()));
            Thread.sleep(2);
            assertEquals(versions[5], entry.version());
            assertEquals(List.of(100L, versions[7]), List.of(other.capacity(), other.getVersioned(7).version()));
            long next = TableTest.put(other, 5, "v5, next");
            assertEquals(table.version(), next >> 1);
            assertEquals("v5, next", get(table, 5));
            assertEquals(next, entry.version());
            assertEquals(next, waits.result());
            for (int key = 8; key < 100; key++) {
                TableTest.put(third, key, "v" + key);
            }
            try (TableWriter writer = other.writer("feed")) {
                writer.grow(200);
                assertThrows(NoFreeSlotException.class, () -> third.writer());
                assertEquals("feed", third.stats().writer());
                TableTest.put(writer, 100, "v100");
            }
            assertEquals("v100", get(table, 100));
            assertEquals(101, table.size());
            assertEquals(List.of("t.table"), rings.files());
        }
        try (Table table = Table.openOrCreate(path(), TableTest.integer())) {
            assertEquals("v100", get(table, 100));
        }
    }

    @Test
    void aSnapshotDoesNotReplaceItsOwnTable() {
        try (Table table = create(TableTest.integer())) {
            TableTest.put(table, 1, "v1");
            assertEquals("path", assertThrows(InvalidArgumentException.class, () -> table.snapshot(path()))
                .argument());
            TableTest.put(table, 1, "v2");
            assertEquals("v2", get(open(), 1));
            assertEquals(List.of("t.table"), rings.files());
        }
    }

    @Test
    void aGrownTableHasItsIdAndBeginsAtItsFirstCell() {
        try (Table table = create(TableTest.integer())) {
            UUID id = table.id();
            for (int i = 0; i < 40; i++) {
                TableTest.put(table, i % 8, "v" + i);
                table.remove(i % 8 - 3);
            }
            TableFile old = TableFile.open(path(), new OpenOptions());
            table.grow(30, NOW);
            TableFile grown = TableFile.open(path(), new OpenOptions());
            assertEquals(id, table.id());
            assertEquals(old.header.createdAt, grown.header.createdAt);
            assertEquals(Layout.SUCCESSOR_REPLACED, old.successor());
            assertEquals(List.of(0L, table.size(), old.word(Layout.TABLE_CONTROL_STAMP), old.changed()),
                List.of(grown.generation(), grown.fresh(), grown.word(Layout.TABLE_CONTROL_STAMP), grown.changed()));
            assertEquals(old.changed(), table.version());
            table.grow(30, NOW); // as large as it is: a new file without tombstones
            assertEquals(grown.changed(), table.version());
            assertEquals(Layout.SUCCESSOR_REPLACED, grown.successor());
        }
    }

    @Test
    void aGrowThatDiedBeforeItsRenameIsForgotten() throws Exception {
        try (Table table = create(TableTest.integer()); Table other = open()) {
            TableTest.put(table, 1, "v1");
            TableFile file = TableFile.open(path(), new OpenOptions());
            file.successor(Layout.SUCCESSOR_REPLACED); // the last store of the dead process
            assertEquals("v1", get(other, 1));
            Other<Long> waits = new Other<>(() -> other.waitChanged(1, LONG));
            Thread.sleep(3);
            assertFalse(waits.done());
            assertEquals(Layout.SUCCESSOR_REPLACED, file.successor(), "only the owner of the slot clears it");
            TableTest.put(table, 1, "v2");
            assertEquals(0, file.successor());
            assertEquals(2, waits.result());
            file.successor(Layout.SUCCESSOR_UNLINKED);
            TableTest.put(table, 1, "v3");
            assertEquals(Layout.SUCCESSOR_UNLINKED, file.successor(), "not of a grow");
        }
    }

    @Test
    void aTableThatLostItsNameDoesNotGrow() {
        try (Table table = create(TableTest.integer()); TableWriter writer = table.writer()) {
            Table other = Table.replace(path(), TableTest.integer());
            for (int i = 0; i < 3; i++) {
                assertThrows(ChannelReplacedException.class, () -> writer.grow(100));
            }
            try (Table found = open()) {
                assertEquals(other.id(), found.id());
            }
            TableTest.put(writer, 1, "v1"); // in the old file
            writer.close();
            assertThrows(ChannelReplacedException.class, () -> table.grow(100, NOW));
            Table.unlink(path());
            assertThrows(NoSuchChannelException.class, () -> other.grow(100, NOW));
            TableWriter held = other.writer();
            assertThrows(NoSuchChannelException.class, () -> held.grow(100));
            TableTest.put(held, 1, "v1");
            assertEquals(List.of(), rings.files());
            other.close();
        }
    }

    @Test
    void aTableWithTheSameIdAndOtherValuesIsAnotherOne() {
        try (Table table = create(TableTest.integer())) {
            TableTest.put(table, 1, "v1");
            Identity same = new Identity().channelId(table.id())
                .createdAt(TableFile.open(path(), new OpenOptions()).header.createdAt);
            Table.replace(path(), TableTest.integer().valueBytes(48).checked(true).identity(same)).close();
            assertThrows(ChannelReplacedException.class, () -> TableTest.put(table, 1, "v2"));
            assertEquals("v1", get(table, 1));
        }
    }

    @Test
    void aWaitFollowsATableThatGrowsAndIsToldOfAChangeThere() throws Exception {
        try (Table table = create(TableTest.integer()); Table other = open()) {
            long version = TableTest.put(table, 1, "v1");
            Other<Long> key = new Other<>(() -> other.waitChanged(1, version, LONG));
            Other<Long> any = new Other<>(() -> other.waitChanged(1, LONG));
            Thread.sleep(5);
            table.grow(100, NOW);
            Thread.sleep(5);
            assertFalse(key.done() || any.done());
            long next = TableTest.put(table, 1, "v2");
            assertEquals(next, key.result());
            assertEquals(2, any.result());
        }
    }
}
