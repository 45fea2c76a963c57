// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;

/** Tables of another boot: recovery, clean closes, lost and torn pages. */
class TableRecoveryTest {
    private static final int PAGE = 4096;
    private static final int SECTOR = 512;

    @RegisterExtension
    final Rings rings = new Rings();

    private final PayloadBuffer buffer = TableTest.buffer(new byte[256]);
    private int boots;

    private String path() {
        return rings.path("t.table");
    }

    private Identity boot(int number) {
        return new Identity().bootId(new UUID(26, number));
    }

    private Table create(TableOptions options) {
        return Table.create(path(), options.checked(true).identity(boot(boots)));
    }

    private Table open() {
        return Table.open(path(), new OpenOptions().identity(boot(boots)));
    }

    private String get(Table table, long key) {
        int length = table.get(key, buffer, 0);
        return length < 0 ? null : buffer.getStringWithoutLengthUtf8(0, length);
    }

    @Test
    void theFirstWriterOfAnotherBootRecovers() {
        long version;
        try (Table table = create(TableTest.integer())) {
            for (int key = 0; key < 5; key++) {
                TableTest.put(table, key, "v" + key);
            }
            table.remove(2);
            TableFile.open(path(), new OpenOptions()).word(Layout.TABLE_CONTROL_GENERATION, 7); // copy 1 is current
            version = table.version();
        }
        boots++;
        List<Long> progress = new ArrayList<>();
        try (Table table = Table.open(path(), new OpenOptions().identity(boot(boots))
            .recoveryProgress((done, all) -> progress.add(done * 100 + all))); Table reading = open()) {
            for (Executable read : List.<Executable>of(() -> get(table, 1), () -> reading.entry(1), reading::size,
                reading::version, () -> reading.forEach(item -> { }), () -> reading.snapshot(rings.path("s.table")),
                () -> reading.waitChanged(1, Duration.ZERO))) {
                assertEquals("needs-recovery", assertThrows(NeedsRecoveryException.class, read).code());
            }
            long next = TableTest.put(table, 7, "v7");
            assertEquals(List.of(8L, 808L), progress);
            assertEquals(version + (1L << 44) + 1, next >> 1);
            assertEquals("v1", get(reading, 1));
            assertNull(get(reading, 2));
            assertEquals(List.of(5L, 0L), List.of(reading.size(), reading.stats().damaged()));
            TableFile file = TableFile.open(path(), new OpenOptions());
            assertEquals(List.of(0L, 0L, 5L), List.of(file.generation(), file.word(Layout.TABLE_CONTROL_REBUILD),
                file.word(Layout.TABLE_CONTROL_FILLED)), "a new index in copy 0");
            for (int key = 10; key < 13; key++) {
                TableTest.put(table, key, "v" + key); // the freed cell, and the two that were never used
            }
            assertThrows(NoSpaceException.class, () -> TableTest.put(table, 13, "v13"));
        }
    }

    @Test
    void aTableWithoutChecksumsStaysAsItIs() {
        try (Table table = create(TableTest.integer().checked(false))) {
            TableTest.put(table, 1, "v1");
        }
        try (Table table = Table.replace(path(), TableTest.integer().checked(false).identity(boot(0)))) {
            assertFalse(table.checked());
            TableTest.put(table, 1, "v1");
        }
        boots++;
        try (Table table = open()) {
            NeedsRecoveryException error = assertThrows(NeedsRecoveryException.class,
                () -> TableTest.put(table, 1, "v2"));
            assertTrue(error.getMessage().contains("no checksums"), error.getMessage());
            assertThrows(NeedsRecoveryException.class, table::writer);
            table.close(true);
        }
        boots--;
        try (Table table = open()) {
            assertEquals("v1", get(table, 1));
            table.close(true);
        }
        boots++;
        try (Table table = open()) {
            assertEquals("v1", get(table, 1), "a clean table needs no checksums");
        }
    }

    @Test
    void aSyncedCloseNeedsNoRecoveryAndTheFirstChangeEndsThat() {
        try (Table table = create(TableTest.integer())) {
            TableTest.put(table, 1, "v1");
            table.close(true);
        }
        boots++;
        try (Table table = open()) {
            assertEquals("v1", get(table, 1));
            assertEquals(2, TableTest.put(table, 1, "v2") >> 1, "no jump");
            assertEquals("v2", get(table, 1));
        }
        boots++;
        try (Table table = open()) {
            assertThrows(NeedsRecoveryException.class, () -> get(table, 1));
            try (TableWriter writer = table.writer()) {
                assertEquals("v2", get(table, 1));
            }
            Table other = open();
            TableWriter writes = other.writer();
            table.close(true); // another process may change it at once
            writes.close();
            other.close();
        }
        boots++;
        try (Table table = open()) {
            assertThrows(NeedsRecoveryException.class, () -> get(table, 1));
        }
    }

    @Test
    void theBodyOfTheVersionIsTakenElseTheOtherGoodOne() {
        TableFile file;
        try (Table table = create(TableTest.integer())) {
            for (int key = 0; key < 4; key++) {
                TableTest.put(table, key, "old" + key);
                TableTest.put(table, key, "new" + key);
            }
            file = TableFile.open(path(), new OpenOptions());
        }
        tear(file, 0, 0); // the newer body: versions 2, 4, ...
        tear(file, 1, 0);
        tear(file, 1, 1);
        Memory memory = file.cell(2); // its writer died before it stored version
        int at = file.cellAt(2);
        memory.putLongOpaque(at, memory.getLongOpaque(at + file.bodyAt(~memory.getLongOpaque(at))));
        boots++;
        try (Table table = open(); TableWriter writer = table.writer()) {
            assertEquals("old0", get(table, 0));
            assertNull(get(table, 1));
            assertEquals("old2", get(table, 2));
            assertEquals("new3", get(table, 3));
            assertEquals(List.of(3L, 1L), List.of(table.size(), table.stats().damaged()));
            assertEquals("x", get(table, TableTest.put(writer, 1, "x") > 0 ? 1 : 2));
        }
    }

    /** Changes a byte of a value. */
    private static void tear(TableFile file, long cell, int body) {
        int at = file.cellAt(cell) + file.bodyAt(body) + Layout.TABLE_BODY_VALUE;
        file.cell(cell).putByte(at, (byte) ~file.cell(cell).getByte(at));
    }

    @Test
    void lostAndTornPagesDeliverNoTornValueNoOtherKeysAndNoOldOneThatWasSynced() throws IOException {
        Random random = new Random(9);
        for (int round = 0; round < 150; round++) {
            Files.deleteIfExists(Path.of(path()));
            Map<Long, List<String>> ever = new HashMap<>();
            Map<Long, String> synced = new HashMap<>();
            Table table = create(TableOptions.integer().capacity(40).valueBytes(120));
            change(table, random, ever, synced, 60);
            table.sync();
            byte[] before = Files.readAllBytes(Path.of(path()));
            Map<Long, String> known = new HashMap<>(synced);
            List<Long> changed = change(table, random, ever, synced, random.nextInt(60));
            byte[] after = Files.readAllBytes(Path.of(path()));
            table.close();
            Files.write(Path.of(path()), mix(random, before, after));
            boots++;
            try (Table reading = open(); TableWriter writer = reading.writer()) {
                Map<Long, String> found = new HashMap<>();
                reading.forEach(item -> assertNull(found.put(item.integerKey(),
                    item.value().getStringWithoutLengthUtf8(0, item.value().capacity())), "a key twice"));
                found.forEach((key, value) -> assertTrue(ever.get(key).contains(value), key + "=" + value));
                known.forEach((key, value) -> {
                    if (!changed.contains(key)) {
                        assertEquals(value, found.get(key), "a synced value of key " + key);
                    }
                });
                for (long key = 0; key < 30; key++) {
                    assertEquals(found.get(key), get(reading, key));
                    if (known.get(key) == null && !changed.contains(key)) {
                        assertNull(found.get(key), "key " + key + " is back");
                    }
                }
                assertEquals(found.size(), reading.size());
                assertTrue(TableTest.put(writer, 99, "next") >> 1 > (1L << 44));
            }
        }
    }

    private List<Long> change(Table table, Random random, Map<Long, List<String>> ever, Map<Long, String> now,
        int changes) {
        List<Long> changed = new ArrayList<>();
        for (int i = 0; i < changes; i++) {
            long key = random.nextInt(30);
            changed.add(key);
            if (random.nextInt(4) == 0) {
                table.remove(key);
                now.remove(key);
            } else {
                String value = (key + "." + random.nextInt() + ";").repeat(1 + random.nextInt(6));
                TableTest.put(table, key, value);
                ever.computeIfAbsent(key, each -> new ArrayList<>()).add(value);
                now.put(key, value);
            }
        }
        return changed;
    }

    /** What a loss of power leaves: each page is old or new, or torn between two sectors. */
    private static byte[] mix(Random random, byte[] before, byte[] after) {
        byte[] mixed = after.clone();
        for (int page = PAGE; page < mixed.length; page += PAGE) {
            int kind = random.nextInt(3);
            for (int at = page; at < page + PAGE; at += SECTOR) {
                if (kind == 0 || kind == 1 && random.nextBoolean()) {
                    System.arraycopy(before, at, mixed, at, SECTOR);
                }
            }
        }
        return mixed;
    }
}
