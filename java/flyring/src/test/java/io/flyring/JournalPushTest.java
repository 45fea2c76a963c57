// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What a push does without a helper: syncs and trims. */
class JournalPushTest {
    private static final int Z = Journals.SMALL;
    private static final long HOUR = 3_600_000_000_000L;
    private static final long START = 1_000_000 * HOUR;

    @RegisterExtension
    final Rings rings = new Rings();

    private long now = START;
    private Journal journal;

    private String path() {
        return rings.path("j.journal");
    }

    private Journal create(JournalSync sync) {
        journal = Journal.create(path(), Journals.small().sync(sync).identity(new Identity().clock(() -> now)));
        return journal;
    }

    private Journal everyHour() {
        return create(JournalSync.every(Duration.ofHours(1)));
    }

    @AfterEach
    void close() {
        ChannelFile.syncs = null;
        ChannelFile.allocations = null;
        if (journal != null) {
            journal.close();
        }
    }

    private long pushAt(long time) {
        now = time;
        return journal.push(new byte[1]);
    }

    /** Pushes until a message lies in this segment. */
    private void pushTo(long segment) {
        while (journal.push(new byte[4000]) < segment) {
            continue;
        }
    }

    private long word(int at) {
        try {
            return Journals.word(path(), at);
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    private long synced() {
        return word(Layout.JOURNAL_CONTROL_SYNCED);
    }

    private long published() {
        return word(Layout.JOURNAL_CONTROL_PUBLISHED);
    }

    private long trimmed() {
        return word(Layout.JOURNAL_CONTROL_TRIMMED);
    }

    private boolean allIsSynced() {
        return synced() == published() - 64;
    }

    @Test
    void aPushSyncsWhenTheIntervalHasPassedSinceTheLastSync() {
        everyHour();
        assertEquals(64, pushAt(START)); // there was no sync yet
        assertTrue(allIsSynced());
        assertEquals(START, word(Layout.JOURNAL_CONTROL_SYNCED_AT));
        final long first = synced();
        assertEquals(192, pushAt(START + 1)); // behind the check of the sync
        assertEquals(256, pushAt(START + HOUR / 2));
        assertEquals(320, published()); // and no check
        assertEquals(first, synced());
        assertEquals(320, pushAt(START + HOUR));
        assertTrue(allIsSynced());
        assertEquals(START + HOUR, word(Layout.JOURNAL_CONTROL_SYNCED_AT));
        assertEquals(448, pushAt(START + HOUR + 1));
        assertFalse(allIsSynced());
    }

    @Test
    void aClockThatWasSetMakesOneSync() throws IOException {
        everyHour();
        for (long time : new long[] {START, START - 10 * HOUR, START + 10 * HOUR, 1}) {
            pushAt(time);
            assertTrue(allIsSynced(), "at " + time);
            for (int i = 1; i < 4; i++) {
                pushAt(time + i);
                assertFalse(allIsSynced(), "at " + time);
            }
        }
        for (long hostile : new long[] {Long.MIN_VALUE, -1, Long.MAX_VALUE}) {
            Journals.word(path(), Layout.JOURNAL_CONTROL_SYNCED_AT, hostile);
            pushAt(START);
            assertTrue(allIsSynced(), "at " + hostile);
        }
    }

    @Test
    void aPushSyncsWhenItEntersAnotherSegment() {
        for (JournalSync sync : List.of(JournalSync.NEVER, JournalSync.every(Duration.ofHours(1)))) {
            create(sync);
            journal.push(new byte[1]);
            final long before = synced(); // with an interval the first push syncs
            while (published() < Z - 5000) {
                journal.push(new byte[4000]);
                assertEquals(before, synced());
            }
            pushTo(Z);
            assertTrue(allIsSynced());
            final long entered = synced();
            journal.push(new byte[1]);
            assertEquals(entered, synced());
            journal.close();
            Journal.unlink(path());
        }
    }

    private boolean isClosed() {
        try {
            journal.stats();
            return false;
        } catch (ClosedException e) {
            return true;
        }
    }

    /** Does this while a push syncs. */
    private void beside(Runnable other) {
        final AtomicBoolean once = new AtomicBoolean();
        ChannelFile.syncs = file -> {
            if (!once.getAndSet(true)) {
                other.run();
            }
            return 0;
        };
        assertEquals(64, journal.push(new byte[1]));
        assertTrue(once.get());
    }

    @Test
    void aCloseByAnotherThreadWaitsForAPushThatHasTheSlot() throws Exception {
        create(JournalSync.EACH);
        final AtomicReference<Other<Boolean>> closer = new AtomicReference<>();
        beside(() -> {
            closer.set(new Other<>(() -> {
                journal.close();
                return true;
            }));
            Other.until(this::isClosed);
            LockSupport.parkNanos(10_000_000);
            assertFalse(closer.get().done());
        });
        assertTrue(closer.get().result());
        assertTrue(allIsSynced());
        assertThrows(ClosedException.class, () -> journal.push(new byte[1]));
    }

    @Test
    void theTimeOutOfAPushCountsAlsoBesideAPushOfAnotherThread() {
        create(JournalSync.EACH);
        beside(() -> {
            final Other<Long> second = new Other<>(() -> journal.push(new byte[1], 1, Duration.ofMillis(5)));
            assertThrows(NoFreeSlotException.class, second::result);
        });
    }

    @Test
    void aPushThatWaitsForTheSlotEndsWithACloseByAnotherThread() throws Exception {
        create(JournalSync.NEVER);
        try (Journal other = Journal.open(path()); JournalWriter holder = Journals.writer(other)) {
            assertEquals(64, holder.position());
            final Other<Long> pushing = new Other<>(() -> journal.push(new byte[1]));
            LockSupport.parkNanos(20_000_000);
            journal.close();
            assertThrows(ClosedException.class, pushing::result);
            assertEquals(64, published());
        }
    }

    @Test
    void aPushSyncsWhatAWriterHasLeft() {
        create(JournalSync.NEVER);
        JournalWriter writer = Journals.writer(journal);
        Journals.fill(writer, 2 * Z + 100, 4000);
        writer.close(false); // as one that is killed
        assertEquals(0, synced());
        journal.push(new byte[1]);
        assertTrue(allIsSynced());
    }

    @Test
    void aPushTrimsWhenItEntersAnotherSegment() {
        create(JournalSync.NEVER);
        JournalConsumer consumer = journal.consumer("c");
        pushTo(2 * Z);
        Journals.texts(consumer);
        journal.change(new JournalOptions().trimConsumed(true));
        journal.push(new byte[1]);
        assertEquals(0, trimmed()); // within a segment
        pushTo(3 * Z);
        assertEquals(2 * Z, trimmed());
        pushTo(4 * Z);
        assertEquals(2 * Z, trimmed()); // that of the gate
        assertEquals(0, consumer.lost());
        journal.change(new JournalOptions().trimConsumed(false).maxSize(2L * Z));
        pushTo(5 * Z);
        assertEquals(4 * Z, trimmed());
        journal.change(new JournalOptions().maxSize(0).maxAge(Duration.ofNanos(1)));
        do {
            now += 2;
        } while (journal.push(new byte[4000]) < 6 * Z);
        assertEquals(6 * Z, trimmed());
        assertFalse(Files.exists(Path.of(Journals.segment(path(), 5 * Z))));
    }

    @Test
    void aPushLeavesSyncsAndTrimsToAHelper() throws IOException {
        everyHour();
        journal.change(new JournalOptions().maxSize(Z));
        try (JournalSeat helper = new JournalSeat(JournalFile.open(path(), new OpenOptions()))) {
            assertTrue(helper.tryLock(Layout.JOURNAL_CONTROL_HELPER_LOCK)); // as another process has it
            pushAt(START);
            assertEquals(0, synced());
            assertTrue(word(Layout.JOURNAL_CONTROL_CHECKED) > 0); // which the helper would sync
            Journals.write(path() + "/control", Layout.HEADER_LENGTH + Layout.JOURNAL_CONTROL_WORK_ASLEEP,
                new byte[] {1});
            pushAt(START + HOUR);
            assertEquals(0, (int) word(Layout.JOURNAL_CONTROL_WORK_ASLEEP)); // it is woken
            pushTo(2 * Z);
            assertEquals(0, synced());
            assertEquals(0, trimmed());
        }
        pushTo(3 * Z);
        assertTrue(allIsSynced());
        assertEquals(3 * Z, trimmed());
    }

    @Test
    void aPushWhoseSyncFailsIsIoAndHasAppended() {
        everyHour();
        ChannelFile.syncs = file -> file.startsWith(path()) && file.endsWith(".seg") ? -Linux.EIO : 0;
        assertThrows(IoException.class, () -> journal.push("one".getBytes()));
        assertTrue(journal.stats().failed());
        assertThrows(IoException.class, () -> journal.push("two".getBytes())); // what was before is not written again
        ChannelFile.syncs = null;
        assertEquals(0, synced());
        journal.push("three".getBytes()); // writes again, and syncs
        assertFalse(journal.stats().failed());
        assertTrue(synced() > 0);
        assertEquals(List.of("one", "three"), Journals.texts(journal));
    }

    @Test
    void aPushOnAFullDiskTrims() {
        create(JournalSync.NEVER);
        journal.change(new JournalOptions().trimConsumed(true));
        JournalConsumer consumer = journal.consumer("c");
        pushTo(2 * Z);
        while (published() % Z < Z - 5000) {
            journal.push(new byte[4000]);
        }
        final Path first = Path.of(Journals.segment(path(), 0));
        ChannelFile.allocations = file -> Files.exists(first) ? -Linux.ENOSPC : 0;
        final long end = published();
        assertThrows(NoSpaceException.class, () -> pushTo(3 * Z)); // the consumer needs it all
        assertTrue(published() >= end && published() < 3 * Z);
        Journals.texts(consumer);
        try (JournalSeat helper = new JournalSeat(JournalFile.open(path(), new OpenOptions()))) {
            assertTrue(helper.tryLock(Layout.JOURNAL_CONTROL_HELPER_LOCK)); // as another process has it
            assertThrows(NoSpaceException.class, () -> pushTo(3 * Z)); // the helper trims
            assertEquals(0, trimmed());
        }
        pushTo(3 * Z);
        assertEquals(0, consumer.lost());
    }

    @Test
    void aTrimThatFailsIsNoErrorOfAPush() throws IOException {
        create(JournalSync.NEVER);
        journal.change(new JournalOptions().maxSize(Z));
        final Path first = Path.of(Journals.segment(path(), 0));
        while (published() < Z - 5000) {
            journal.push(new byte[4000]);
        }
        ChannelFile.syncs = file -> file.endsWith("control") ? -Linux.EIO : 0;
        pushTo(Z);
        ChannelFile.syncs = null;
        assertTrue(Files.exists(first));
        pushTo(2 * Z);
        assertFalse(Files.exists(first));
        assertEquals(2 * Z, trimmed());
    }

    private boolean checksAt(long time) {
        now = time;
        final long before = word(Layout.JOURNAL_CONTROL_CHECKED);
        try (JournalWriter writer = Journals.writer(journal)) {
            Journals.append(writer, "x");
            writer.close(false);
        }
        return word(Layout.JOURNAL_CONTROL_CHECKED) > before;
    }

    @Test
    void aNewOwnerCountsTheIntervalFromTheLastSync() {
        everyHour();
        assertTrue(checksAt(START)); // there was no sync yet
        pushAt(START);
        assertFalse(checksAt(START + HOUR / 2));
        assertTrue(checksAt(START + HOUR));
        assertTrue(checksAt(START - 1)); // the clock was set back
    }
}
