// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Sleeping until a key or a table changes, being woken, and what ends such a wait. */
class TableWaitingTest {
    private static final Duration LONG = Duration.ofSeconds(10);

    @RegisterExtension
    final Rings rings = new Rings();

    private String path() {
        return rings.path("t.table");
    }

    /** Waits until a thread, which is to sleep there, has set its bit. */
    private static void untilAsleep(WaitingWords words, Other<Long> sleeper) throws Exception {
        sleeper.goesOnUntil(() -> (words.control().getIntOpaque(words.asleep()) & 1) != 0);
    }

    @Test
    void aPutWakesWhoWaitsForTheKeyForAnAbsentOneAndForAny() throws Exception {
        try (Table table = Table.create(path(), TableTest.text()); Table other = Table.open(path())) {
            TableFile file = TableFile.open(path(), new OpenOptions());
            long first = TableTest.put(table, "k", "1");
            Other<Long> key = new Other<>(() -> other.waitChanged("k", first, LONG));
            Other<Long> entry = new Other<>(() -> other.entry("k").waitChanged(first, LONG));
            Other<Long> any = new Other<>(() -> other.waitChanged(1, LONG));
            Other<Long> absent = new Other<>(() -> other.waitChanged("x", 0, LONG));
            untilAsleep(file.waitingOf(0), key);
            untilAsleep(file.data(), any);
            Thread.sleep(150); // longer than the cap
            assertFalse(key.done() || entry.done() || any.done() || absent.done());
            long before = System.nanoTime();
            long second = TableTest.put(table, "k", "2");
            assertEquals(second, key.result());
            assertEquals(second, entry.result());
            assertEquals(2, any.result());
            assertTrue(System.nanoTime() - before < 90_000_000, "woken, not by the cap");
            assertFalse(absent.done());
            assertEquals(TableTest.put(table, "x", "3"), absent.result());
            Other<Long> gone = new Other<>(() -> other.waitChanged("k", second, LONG));
            untilAsleep(file.waitingOf(0), gone);
            table.remove("k");
            assertEquals(0, gone.result());
            assertEquals(0, other.waitChanged("k", 5, LONG), "it has another version already");
            assertEquals(4, other.waitChanged(3, LONG));
        }
    }

    /** How long six changes take to reach a sleeper; each cap of 100 ms would end about 80 ms after the change. */
    private static long delays(Table writing, Table waiting, boolean any) throws Exception {
        long sum = 0;
        for (int i = 0; i < 6; i++) {
            long version = any ? waiting.version() : waiting.getVersioned("k").version();
            Other<Long> waits = new Other<>(() -> any ? waiting.waitChanged(version, LONG)
                : waiting.waitChanged("k", version, LONG));
            Thread.sleep(20);
            long before = System.nanoTime();
            TableTest.put(writing, "k", "v" + i);
            waits.result();
            sum += System.nanoTime() - before;
        }
        return sum;
    }

    @Test
    void aSleeperIsWokenAndDoesNotWaitForTheCap() throws Exception {
        try (Table table = Table.create(path(), TableTest.text()); Table other = Table.open(path());
            Table quiet = Table.open(path(), new OpenOptions().wake(false))) {
            TableTest.put(table, "k", "0");
            for (boolean any : new boolean[] {true, false}) {
                assertTrue(delays(table, other, any) < 250_000_000, "woken, any: " + any);
                TableTest.put(quiet, "k", "1");
                assertTrue(delays(quiet, other, any) < 250_000_000, "looked at each millisecond, any: " + any);
                TableTest.put(table, "k", "2");
            }
        }
    }

    @Test
    void aWaitEndsAtItsTimeOutACloseAndAReplace() throws Exception {
        try (Table table = Table.create(path(), TableTest.text())) {
            long version = TableTest.put(table, "k", "1");
            long before = System.nanoTime();
            assertThrows(TimedOutException.class, () -> table.waitChanged("k", version, Duration.ofMillis(20)));
            assertThrows(TimedOutException.class, () -> table.waitChanged("x", 0, Duration.ofMillis(1)));
            assertThrows(TimedOutException.class, () -> table.waitChanged(1, Duration.ZERO));
            assertTrue(System.nanoTime() - before >= 21_000_000);
            Table other = Table.open(path());
            Other<Long> closed = new Other<>(() -> other.waitChanged("k", version, LONG));
            untilAsleep(TableFile.open(path(), new OpenOptions()).waitingOf(0), closed);
            other.close();
            assertThrows(ClosedException.class, closed::result);
            Other<Long> replaced = new Other<>(() -> table.waitChanged("k", version, LONG));
            Table.replace(path(), TableTest.text()).close();
            assertThrows(ChannelReplacedException.class, replaced::result);
            try (Table fresh = Table.open(path())) {
                Other<Long> interrupted = new Other<>(() -> fresh.waitChanged("k", 0, LONG));
                untilAsleep(TableFile.open(path(), new OpenOptions()).data(), interrupted);
                interrupted.interrupt();
                assertThrows(CancelledException.class, interrupted::result);
            }
        }
    }

    /** The fastest of some closes is far quicker than the cap of 100 ms. */
    @Test
    void aCloseEndsTheWaitsOfItsObject() throws Exception {
        try (Table table = Table.create(path(), TableTest.text())) {
            long version = TableTest.put(table, "k", "1");
            for (int kind = 0; kind < 4; kind++) {
                long fastest = Long.MAX_VALUE;
                for (int i = 0; i < 5; i++) {
                    Table own = Table.open(path());
                    Entry entry = own.entry("k");
                    int what = kind;
                    Other<Long> waits = new Other<>(() -> what == 0 ? own.waitChanged("k", version, LONG)
                        : what == 1 ? own.waitChanged("x", 0, LONG)
                        : what == 2 ? own.waitChanged(own.version(), LONG) : entry.waitChanged(version, LONG));
                    Thread.sleep(15);
                    long before = System.nanoTime();
                    own.close();
                    assertThrows(ClosedException.class, waits::result);
                    fastest = Math.min(fastest, System.nanoTime() - before);
                }
                assertTrue(fastest < 60_000_000, "woken, not by the cap: " + kind);
            }
        }
    }

    @Test
    void aReaderWithoutRightsAndAWriterThatWakesNoProcessAreLookedAfterEachMillisecond() throws Exception {
        try (Table table = Table.create(path(), TableTest.text().wake(false));
            Table reading = Table.open(path(), new OpenOptions().readOnly(true)); Table other = Table.open(path())) {
            long first = TableTest.put(table, "k", "1");
            assertFalse(TableSlot.ownerWakes(TableFile.open(path(), new OpenOptions())));
            for (Table each : new Table[] {reading, other}) {
                long version = each.getVersioned("k").version();
                Other<Long> waits = new Other<>(() -> each.waitChanged("k", version, LONG));
                Thread.sleep(20);
                long before = System.nanoTime();
                assertEquals(TableTest.put(table, "k", "2"), waits.result());
                assertTrue(System.nanoTime() - before < 90_000_000, "looked at before the cap of 100 ms");
            }
            TableTest.put(other, "k", "3");
            assertTrue(TableSlot.ownerWakes(TableFile.open(path(), new OpenOptions())));
            assertTrue(first > 0);
        }
    }
}
