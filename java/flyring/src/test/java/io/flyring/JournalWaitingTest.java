// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Readers of a journal that sleep, and what ends their waits. */
class JournalWaitingTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private Journal journal;
    private JournalWriter writer;

    private String path() {
        return rings.path("j.journal");
    }

    @BeforeEach
    void create() {
        journal = Journal.create(path(), Journals.small());
        writer = Journals.writer(journal);
    }

    private void append(int messages) {
        for (int i = 0; i < messages; i++) {
            writer.append(Rings.pattern((int) writer.number(), 1008));
        }
    }

    @Test
    void waitsEndWithAMessageAndWithAClose() throws Exception {
        JournalReader reader = journal.reader();
        JournalReader durable = journal.reader(JournalStart.OLDEST, true, false);
        assertNull(reader.take(Duration.ofMillis(3)));
        Other<Message> waiting = new Other<>(() -> reader.take(Publisher.FOREVER));
        Other<Message> waitingToo = new Other<>(() -> durable.take(Publisher.FOREVER));
        Thread.sleep(150); // both sleep
        final Memory control = JournalFile.open(path(), new OpenOptions()).control;
        final int wakes = control.getInt(Layout.JOURNAL_CONTROL_DATA_SEQUENCE);
        append(1);
        assertTrue(control.getInt(Layout.JOURNAL_CONTROL_DATA_SEQUENCE) != wakes, "no wake-up");
        assertEquals(0, waiting.result().number());
        assertFalse(waitingToo.done());
        writer.sync();
        assertEquals(0, waitingToo.result().number());
        Other<Message> again = new Other<>(() -> reader.take(Publisher.FOREVER));
        Thread.sleep(50);
        assertThrows(TwoThreadsException.class, reader::take);
        reader.close();
        assertThrows(ClosedException.class, again::result);
        Other<Message> other = new Other<>(() -> durable.take(Publisher.FOREVER));
        Thread.sleep(50);
        other.interrupt();
        assertThrows(CancelledException.class, other::result);
    }

    private static Memory control(String path) {
        return JournalFile.open(path, new OpenOptions()).control;
    }

    @Test
    void paddingAndChecksWakeNoReader() {
        for (boolean each : new boolean[] {false, true}) {
            final String path = rings.path("padded" + each + ".journal");
            final JournalSync sync = each ? JournalSync.EACH : JournalSync.NEVER;
            try (Journal padded = Journal.create(path, Journals.small().sync(sync));
                JournalWriter aborts = Journals.writer(padded)) {
                aborts.append(new byte[1]);
                final Memory control = control(path);
                control.putInt(Layout.JOURNAL_CONTROL_DATA_ASLEEP, 1);
                final int before = control.getInt(Layout.JOURNAL_CONTROL_DATA_SEQUENCE);
                final long synced = control.getLong(Layout.JOURNAL_CONTROL_SYNCED);
                for (int i = 0; i < 20; i++) {
                    aborts.claim(16000).abort();
                }
                assertTrue(control.getLong(Layout.JOURNAL_CONTROL_CHECKED) > 3 * Journals.SMALL);
                assertEquals(before, control.getInt(Layout.JOURNAL_CONTROL_DATA_SEQUENCE));
                assertEquals(1, control.getInt(Layout.JOURNAL_CONTROL_DATA_ASLEEP));
                assertEquals(synced, control.getLong(Layout.JOURNAL_CONTROL_SYNCED), "no sync is due by an abort");
                aborts.sync();
                assertEquals(before + 1, control.getInt(Layout.JOURNAL_CONTROL_DATA_SEQUENCE), "all, at its end");
                assertEquals(1, control.getInt(Layout.JOURNAL_CONTROL_DATA_ASLEEP), "its check wakes no reader");
                aborts.append(new byte[1]);
                assertEquals(before + (each ? 3 : 2), control.getInt(Layout.JOURNAL_CONTROL_DATA_SEQUENCE));
                assertEquals(0, control.getInt(Layout.JOURNAL_CONTROL_DATA_ASLEEP));
            }
        }
    }

    @Test
    void aCheckThatIsDueWakesTheHelper() throws Exception {
        final String path = rings.path("due.journal");
        try (Journal due = Journal.create(path, Journals.small().sync(JournalSync.every(Duration.ofMillis(1))));
            JournalWriter appends = Journals.writer(due)) {
            appends.append(new byte[1]);
            Thread.sleep(2);
            final Memory control = control(path);
            control.putInt(Layout.JOURNAL_CONTROL_WORK_ASLEEP, 1);
            final long checked = control.getLong(Layout.JOURNAL_CONTROL_CHECKED);
            appends.append(new byte[1]);
            assertTrue(control.getLong(Layout.JOURNAL_CONTROL_CHECKED) > checked);
            assertEquals(0, control.getInt(Layout.JOURNAL_CONTROL_WORK_ASLEEP));
        }
    }

    /** An interrupt that is pending ends a wait, and nothing else: an append, a roll, a sync and a read go on. */
    @Test
    void anInterruptEndsWaitsAndNothingElse() throws Exception {
        new Other<>(() -> {
            JournalReader reader = journal.reader();
            JournalConsumer consumer = journal.consumer("c");
            Thread.currentThread().interrupt();
            append(200); // with rolls
            writer.sync();
            assertTrue(Thread.currentThread().isInterrupted());
            assertEquals(200, Journals.texts(reader).size());
            assertEquals(200, Journals.texts(consumer).size());
            assertTrue(journal.stats().segments() > 2);
            assertTrue(journal.trimConsumed() > 0);
            consumer.sync();
            journal.reader(JournalStart.number(190)).close();
            assertTrue(Thread.currentThread().isInterrupted());
            assertThrows(CancelledException.class, () -> reader.take(Publisher.FOREVER));
            append(1);
            assertEquals(1, Journals.texts(reader).size());
            return true;
        }).result();
        append(1); // nothing was closed
        writer.sync();
    }

    @Test
    void waitSetsHaveReadersAndConsumers() throws Exception {
        JournalReader reader = journal.reader();
        JournalConsumer consumer = journal.consumer("c");
        WaitSet set = new WaitSet().add(reader).add(consumer);
        assertNull(reader.take()); // goes behind the first check
        assertNull(consumer.take());
        assertEquals(java.util.List.of(), set.await(Duration.ofMillis(3)));
        Other<Integer> waiting = new Other<>(() -> set.await(Duration.ofSeconds(10)).size());
        Thread.sleep(30);
        append(1);
        assertTrue(waiting.result() >= 1);
        assertEquals(java.util.List.of(reader, consumer), set.await(Duration.ZERO));
        reader.take();
        assertEquals(java.util.List.of(consumer), set.await(Duration.ZERO));
        consumer.close();
        assertEquals(java.util.List.of(consumer), set.await(Duration.ZERO));
    }
}
