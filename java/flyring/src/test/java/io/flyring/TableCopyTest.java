// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.List;
import java.util.UUID;
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
