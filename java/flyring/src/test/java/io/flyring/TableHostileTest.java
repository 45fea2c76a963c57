// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Tables whose words are wrong (table.md 10). */
class TableHostileTest {
    private static final int KEYS = 8;

    @RegisterExtension
    final Rings rings = new Rings();

    private final PayloadBuffer buffer = TableTest.direct(64);
    private Table table;
    private TableFile file;

    @BeforeEach
    void make() {
        table = Table.create(rings.path("t.table"), TableTest.integer());
        file = TableFile.open(table.path(), new OpenOptions());
        for (int key = 0; key < 4; key++) {
            TableTest.put(table, key, "v" + key);
        }
        table.remove(3);
    }

    private int get(long key) {
        return TableTest.get(table, key, buffer);
    }

    private void cell(long cell, int at, int value) {
        file.cell(cell).putIntOpaque(file.cellAt(cell) + at, value);
    }

    private CorruptTableException corruptPut(long key) {
        return assertThrows(CorruptTableException.class, () -> TableTest.put(table, key, "x"));
    }

    @Test
    void entriesThatLeadNowhereAreSkipped() {
        for (long entry = 0; entry < file.header.entries; entry++) {
            if (file.entry(0, entry) == 0) {
                file.entry(0, entry, XxHash64.of(7) >>> 32 << 32 | file.header.cells + 1);
            }
        }
        assertEquals(-1, get(7));
        assertEquals(2, get(1));
        assertEquals("the index has no empty entry in copy 0",
            assertThrows(CorruptTableException.class, () -> {
                TableTest.put(table, 50, "takes the tombstone");
                TableTest.put(table, 51, "x");
            }).reason());
    }

    @Test
    void anEntryWithTheSameFingerprintDoesNotMakeTheKeyTheSame() {
        long hash = XxHash64.of(7);
        long at = file.home(hash);
        while (file.entry(0, at) != 0) {
            at = (at + 1) % file.header.entries;
        }
        file.entry(0, at, hash >>> 32 << 32 | 2); // leads to cell 1
        assertEquals(-1, get(7));
        assertEquals(2, get(1));
        TableTest.put(table, 7, "seven");
        assertEquals(5, get(7));
        assertEquals(2, get(1));
    }

    @Test
    void versionsBelowZeroAreNotLiveAndASeqThatNeverFitsIsBusy() {
        long version = table.getVersioned(1).version();
        int body = file.bodyAt(version);
        cell(1, body, (int) version + 2);
        long before = System.nanoTime();
        assertThrows(BusyException.class, () -> table.get(1, buffer, 0));
        assertTrue(System.nanoTime() - before >= 1_000_000);
        assertEquals(1, table.stats().busy());
        assertEquals(1, corruptPut(1).cell(), "no other process writes, so it stays so");
        file.cell(1).putLongOpaque(file.cellAt(1) + body, -5);
        assertEquals(-1, get(1));
        file.cell(1).putLongOpaque(file.cellAt(1), -version);
        assertEquals(-1, get(1));
        assertEquals(2, get(2));
    }

    @Test
    void lengthsOutsideTheirRangeAreCorruptForThatCellOnly() {
        long version = table.getVersioned(1).version();
        for (int length : new int[] {-2, 41, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
            cell(1, file.bodyAt(version) + Layout.TABLE_BODY_LENGTH, length);
            CorruptTableException error = assertThrows(CorruptTableException.class, () -> get(1));
            assertEquals(1, error.cell());
            assertThrows(CorruptTableException.class, () -> table.forEach(item -> { }));
        }
        cell(1, file.bodyAt(version) + Layout.TABLE_BODY_LENGTH, 2);
        for (int length : new int[] {-1, 9, Integer.MAX_VALUE}) {
            cell(1, Layout.TABLE_CELL_KEY_LENGTH, length);
            assertThrows(CorruptTableException.class, () -> get(1));
        }
        cell(1, Layout.TABLE_CELL_KEY_LENGTH, 8);
        assertEquals(2, get(1));
    }

    @Test
    void theWordsOfTheWriterAreCheckedByWriters() {
        Memory control = file.control;
        int top = control.getIntOpaque(Layout.TABLE_CONTROL_TOP);
        assertEquals(4, top, "cell 3 is free");
        for (int wrong : new int[] {1, 5, 9, 10, -1}) { // live, not used yet, no cell
            control.putIntOpaque(Layout.TABLE_CONTROL_TOP, wrong);
            assertTrue(corruptPut(9).reason().contains("(top)"));
            assertThrows(CorruptTableException.class, () -> table.remove(1));
        }
        control.putIntOpaque(Layout.TABLE_CONTROL_TOP, top);
        for (int wrong : new int[] {1, 4, 9, -1}) { // live, itself
            cell(3, Layout.TABLE_CELL_NEXT, wrong);
            assertEquals(3, corruptPut(9).cell());
        }
        cell(3, Layout.TABLE_CELL_NEXT, 0);
        control.putIntOpaque(Layout.TABLE_CONTROL_TOP, 0);
        for (int wrong : new int[] {0, 2, 9, -1}) {
            control.putIntOpaque(Layout.TABLE_CONTROL_FRESH, wrong);
            assertTrue(corruptPut(9).reason().contains("(fresh)"));
        }
        control.putIntOpaque(Layout.TABLE_CONTROL_FRESH, 4);
        long stamp = file.word(Layout.TABLE_CONTROL_STAMP);
        for (long wrong : new long[] {-1, Long.MIN_VALUE, Long.MAX_VALUE, (1L << 62) - 1}) {
            file.word(Layout.TABLE_CONTROL_STAMP, wrong);
            assertTrue(corruptPut(9).reason().contains("(stamp)"));
        }
        file.word(Layout.TABLE_CONTROL_STAMP, stamp);
        for (long wrong : new long[] {-1, Long.MIN_VALUE, Long.MAX_VALUE}) {
            file.word(Layout.TABLE_CONTROL_CHANGED, wrong);
            TableTest.put(table, 1, "v1");
            assertEquals(++stamp, table.version(), "the next change stores it");
        }
        assertEquals(2, get(1));
        TableTest.put(table, 9, "good again");
        assertEquals(10, get(9));
    }

    @Test
    void rebuildAndIntentThatAreNotValidCountAsNone() {
        for (long wrong : new long[] {-1, 2 * file.header.entries + 2, Long.MAX_VALUE}) {
            file.word(Layout.TABLE_CONTROL_REBUILD, wrong);
            TableTest.put(table, 1, "x");
            file.word(Layout.TABLE_CONTROL_INTENT, wrong << 32 | file.header.cells + 1);
            TableTest.put(table, 1, "y");
            assertEquals(0, file.word(Layout.TABLE_CONTROL_INTENT));
        }
        for (long wrong : new long[] {-1, Long.MAX_VALUE, Long.MIN_VALUE}) {
            file.word(Layout.TABLE_CONTROL_SIZE, wrong);
            file.word(Layout.TABLE_CONTROL_FILLED, wrong);
            file.word(Layout.TABLE_CONTROL_DAMAGED, wrong);
            table.size();
            table.stats();
            TableTest.put(table, 1, "z");
            assertEquals(1, get(1));
        }
    }

    @Test
    void anythingMayLieInTheFileAndEveryVerbEnds() {
        Random random = new Random(10);
        int errors = 0;
        for (int round = 0; round < 3000; round++) {
            int words = 1 + random.nextInt(6);
            for (int i = 0; i < words; i++) {
                smash(random);
            }
            for (int verb = 0; verb < 8; verb++) {
                long key = random.nextInt(KEYS);
                try {
                    verb(verb, key);
                } catch (CorruptTableException | BusyException | NoSpaceException | NeedsRecoveryException e) {
                    errors++;
                }
            }
        }
        assertTrue(errors > 100, "errors: " + errors);
    }

    private void verb(int verb, long key) {
        switch (verb) {
            case 0 -> get(key);
            case 1 -> TableTest.put(table, key, "value " + key);
            case 2 -> table.remove(key);
            case 3 -> table.forEach(item -> item.value().capacity());
            case 4 -> table.read(key, PayloadBuffer::capacity);
            case 5 -> table.update(key, value -> value.setMemory(0, value.capacity(), (byte) 7));
            case 6 -> table.stats();
            default -> table.clear();
        }
    }

    private void smash(Random random) {
        long[] values = {0, -1, 1, random.nextInt(12), random.nextLong(), Long.MIN_VALUE, 1L << 40, 0xffff_ffffL};
        long value = values[random.nextInt(values.length)];
        switch (random.nextInt(4)) {
            case 0 -> {
                int at = 128 + 8 * random.nextInt(25);
                if (at != Layout.TABLE_CONTROL_CLEAN) {
                    file.word(at, value);
                }
            }
            case 1 -> file.entry(random.nextInt(2), random.nextInt((int) file.header.entries), value);
            case 2 -> {
                long cell = random.nextInt((int) file.header.cells);
                int words = file.header.cellStride / 8;
                file.cell(cell).putLongOpaque(file.cellAt(cell) + 8 * random.nextInt(words), value);
            }
            default -> {
                long cell = random.nextInt((int) file.header.cells);
                file.cell(cell).putLongOpaque(file.cellAt(cell) + 8 * random.nextInt(4), value);
            }
        }
    }
}
