// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What the next writer does: after a kill, after another boot with lost and torn pages, after a sync that failed. */
class JournalRecoveryTest {
    private static final int Z = Journals.SMALL;
    private static final int PAGE = 4096;

    @RegisterExtension
    final Rings rings = new Rings();

    private String path() {
        return rings.path("j.journal");
    }

    private Journal create() {
        return Journal.create(path(), Journals.small().identity(Journals.bootId(1)));
    }

    private static Journal open(String path, int boot) {
        return Journal.open(path, Journals.boot(boot));
    }

    @Test
    void whatWasCommittedAndNotPublishedIsThere() throws IOException {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.append(writer, 0, 3);
            String copy = Journals.copy(path(), rings.path("copy.journal"));
            // The writer was killed behind the commit of m2, before it stored published.
            Journals.word(copy, Layout.JOURNAL_CONTROL_PUBLISHED, 192);
            Journals.word(copy, Layout.JOURNAL_CONTROL_MESSAGES, 2);
            // and there are torn bytes behind it, in what it had announced
            Journals.write(Journals.segment(copy, 0), PAGE + 256 + 8, new byte[] {7, 7, 7});
            Journals.write(Journals.segment(copy, 0), PAGE + 1024, new byte[] {7, 7, 7});
            try (Journal killed = open(copy, 1); JournalReader tail = killed.reader()) {
                assertEquals(Journals.numbered(0, 3), Journals.texts(tail)); // readers see it before, too
                try (JournalWriter heir = Journals.writer(killed)) {
                    assertEquals(256, heir.position());
                    assertEquals(3, heir.number());
                    assertNull(heir.recovery());
                    assertEquals(0, Rings.load(Path.of(Journals.segment(copy, 0))).getInt(PAGE + 1024));
                    assertEquals(256, Journals.append(heir, "m3"));
                    heir.sync();
                }
                assertEquals(Journals.numbered(3, 4), Journals.texts(tail));
                assertEquals(Journals.numbered(0, 4), Journals.texts(killed)); // proven by the check of close
            }
        }
    }

    @Test
    void aWriterMayDieAtEverySegmentBorder() throws IOException {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.fill(writer, Z - 1000, 100);
            final long number = writer.number();
            String copy = rings.path("copy.journal");
            for (int i = 0; i < 30; i++) {
                Journals.copy(path(), copy);
                try (Journal killed = open(copy, 1); JournalWriter heir = Journals.writer(killed)) {
                    assertEquals(writer.position(), heir.position());
                    assertEquals(number + i, heir.number());
                    Journals.append(heir, "x");
                    assertEquals(number + i + 1, Journals.texts(killed).size());
                }
                writer.append(new byte[100]);
            }
            assertTrue(writer.position() > Z);
        }
    }

    @Test
    void wordsThatDoNotFollowFromEachOtherAreRefused() throws IOException {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.append(writer, 0, 3);
        }
        String copy = rings.path("copy.journal");
        int[] words = {Layout.JOURNAL_CONTROL_PUBLISHED, Layout.JOURNAL_CONTROL_CLAIMED,
            Layout.JOURNAL_CONTROL_CHECKED};
        long[][] wrong = {{-64, 3, 1L << 62, 1 << 20}, {-64, 3, 128, 2 * Z}, {-64, 3, 64, 1 << 20}};
        for (int i = 0; i < words.length; i++) {
            for (long value : wrong[i]) {
                Journals.copy(path(), copy);
                Journals.word(copy, words[i], value);
                try (Journal broken = open(copy, 1)) {
                    assertThrows(CorruptJournalException.class, broken::writer, i + ": " + value);
                    assertThrows(CorruptJournalException.class, () -> broken.push(new byte[1]));
                }
            }
        }
    }

    @Test
    void afterAnotherBootTheSyncedPartIsThereAndTheRestIsCut() throws IOException {
        final long synced;
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.append(writer, 0, 3);
            writer.sync();
            synced = writer.position();
            Journals.append(writer, 3, 6);
            writer.close(false);
        }
        try (Journal later = open(path(), 2)) {
            assertEquals(Journals.numbered(0, 3), Journals.texts(later)); // without a recovery, only what is proven
            JournalReader waiting = later.reader();
            assertEquals(Journals.numbered(0, 3), Journals.texts(waiting));
            List<Long> progress = new ArrayList<>();
            try (Journal recovering = Journal.open(path(), Journals.boot(2)
                .recoveryProgress((done, all) -> progress.add(done))); JournalWriter writer = recovering.writer()) {
                JournalRecovery recovery = writer.recovery();
                assertEquals(new JournalRecovery(synced, Z, 3, synced + 3 * 64, 1), recovery);
                assertEquals(List.of(progress.get(0)), progress.stream().distinct().toList());
                assertEquals(Z, Journals.append(writer, "n0") - 64);
                assertEquals(3, writer.number() - 1);
            }
            assertEquals(List.of("n0"), Journals.texts(waiting));
            assertEquals(1, waiting.cuts());
            assertEquals(4, waiting.number());
            assertEquals(List.of("m0", "m1", "m2", "n0"), Journals.texts(later));
            try (JournalReader kept = later.reader(JournalStart.position(synced + 64))) { // the position of a lost one
                assertEquals(Z, kept.position());
                assertEquals(List.of("n0"), Journals.texts(kept));
            }
            assertEquals(List.of("n0"), Journals.texts(later.reader(JournalStart.number(3))));
        }
        try (Journal again = open(path(), 3); JournalWriter writer = again.writer()) {
            assertNotNull(writer.recovery());
            assertEquals(List.of("m0", "m1", "m2", "n0"), Journals.texts(again));
        }
    }

    /**
     * Below synced it loses what is damaged, exactly. What is not proven behind it is not damaged: it waits there, and
     * the recovery cuts it off.
     */
    @Test
    void aReaderThatSkipsInAnotherBootLosesOnlyWhatWasDurable() throws IOException {
        final List<Long> positions = new ArrayList<>();
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            while (positions.size() < 200) {
                if (positions.size() == 100) {
                    writer.sync();
                }
                positions.add(writer.append(new byte[1000]));
            }
            writer.close(false);
        }
        for (int message : new int[] {30, 170}) {
            final long at = positions.get(message);
            Journals.flip(Journals.segment(path(), at - at % Z), Layout.HEADER_LENGTH + at % Z + 20);
        }
        try (Journal later = open(path(), 2); JournalReader reader = later.reader(JournalStart.OLDEST, false, true)) {
            final int read = Journals.texts(reader).size();
            final long lost = reader.lost();
            final long end = reader.number();
            assertTrue(lost > 0 && positions.get(30 + (int) lost) - positions.get(30) <= 65536 + 2048, "lost " + lost);
            assertEquals(end, read + lost);
            assertTrue(end > 100 && end <= 170, "end " + end);
            try (JournalWriter writer = Journals.writer(later)) {
                assertEquals(end, writer.recovery().messages());
                Journals.append(writer, "next");
            }
            assertEquals(List.of("next"), Journals.texts(reader));
            assertEquals(lost, reader.lost());
            assertEquals(1, reader.cuts());
        }
    }

    @Test
    void aTrimmedJournalOfAnotherBootIsReadFromItsBeginning() {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.fill(writer, 3L * Z, 1000);
            writer.sync();
            assertTrue(journal.trimPosition(2L * Z) > 0);
            Journals.append(writer, "gone");
            writer.close(false);
        }
        try (Journal later = open(path(), 2); JournalReader waiting = later.reader()) {
            final long first = waiting.number();
            final int there = Journals.texts(waiting).size();
            assertTrue(first > 100 && there > 60, first + ", " + there);
            assertEquals(0, later.reader(JournalStart.NEWEST).poll(message -> { }));
            assertEquals(there, Journals.texts(later.reader(JournalStart.OLDEST, true, false)).size());
            try (JournalWriter writer = Journals.writer(later)) {
                assertEquals(first + there, writer.number());
                Journals.append(writer, "next");
            }
            assertEquals(List.of("next"), Journals.texts(waiting));
        }
    }

    @Test
    void whatRightChecksProveIsKept() {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.fill(writer, 3 * Z, 1000); // never synced
            writer.close(false);
        }
        try (Journal later = open(path(), 2)) {
            final int proven = Journals.texts(later).size();
            try (JournalWriter writer = Journals.writer(later)) {
                assertEquals(proven, writer.recovery().messages());
                assertTrue(proven > 180, "proven: " + proven);
                assertEquals(4 * Z, writer.recovery().next());
            }
            assertEquals(proven, Journals.texts(later).size());
        }
    }

    @Test
    void consumersThatConfirmedWhatIsGoneGoOnBehindTheCut() throws IOException {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.append(writer, 0, 3);
            writer.sync();
            JournalConsumer behind = journal.consumer("behind");
            behind.take();
            Journals.append(writer, 3, 6);
            JournalConsumer ahead = journal.consumer("ahead");
            Journals.texts(ahead);
            behind.close();
            ahead.close();
            writer.close(false);
        }
        // a pair of another age
        Journals.word(path(), JournalHeader.consumerSlot(0) + Layout.JOURNAL_CONSUMER_PAIR_0, 0);
        Journals.word(path(), JournalHeader.consumerSlot(0) + Layout.JOURNAL_CONSUMER_PAIR_1, 0);
        try (Journal later = open(path(), 2)) {
            try (JournalWriter writer = later.writer()) {
                Journals.append(writer, "n0");
            }
            assertEquals(3, later.stats().consumers().get(0).behind());
            assertEquals(1, later.stats().consumers().get(1).behind());
            assertEquals(Z, later.stats().consumers().get(1).position());
            try (JournalConsumer ahead = later.consumer("ahead"); JournalConsumer behind = later.consumer("behind")) {
                assertEquals(3, ahead.number());
                assertEquals(List.of("n0"), Journals.texts(ahead));
                assertEquals(List.of("m1", "m2", "n0"), Journals.texts(behind));
            }
        }
    }

    @Test
    void noPageThatIsLostOrTornBreaksThePromise() throws IOException {
        final List<String> synced;
        final List<String> all;
        String before = rings.path("before.journal");
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Random random = new Random(1);
            appendRandomly(writer, random, 0, 250);
            writer.sync();
            synced = Journals.texts(journal);
            Journals.copy(path(), before);
            appendRandomly(writer, random, 250, 500);
            all = Journals.texts(journal);
            writer.close(false);
        }
        String lost = rings.path("lost.journal");
        int cut = 0;
        for (int seed = 0; seed < 150; seed++) {
            losePower(before, lost, new Random(seed));
            List<String> found;
            try (Journal later = open(lost, 2)) {
                found = Journals.texts(later);
                assertTrue(found.size() >= synced.size(), "seed " + seed + ": " + found.size());
                assertEquals(all.subList(0, found.size()), found, "seed " + seed);
                killRecovery(lost, seed);
                try (JournalWriter writer = later.writer()) {
                    assertEquals(found.size(), writer.number(), "seed " + seed);
                    Journals.append(writer, "new");
                    cut += writer.recovery().reached() > writer.recovery().position() ? 1 : 0;
                }
                List<String> now = Journals.texts(later);
                assertEquals(found, now.subList(0, now.size() - 1), "seed " + seed);
                assertEquals("new", now.get(now.size() - 1));
            }
            try (Journal third = open(lost, 3); JournalWriter writer = Journals.writer(third)) {
                assertEquals(found.size() + 1, writer.number());
                assertEquals(found.size() + 1, Journals.texts(third).size());
            }
        }
        assertTrue(cut > 20, "cut off: " + cut);
    }

    private static void appendRandomly(JournalWriter writer, Random random, int from, int to) {
        for (int i = from; i < to; i++) {
            Journals.append(writer, "m" + i + "x".repeat(random.nextInt(1500)));
        }
    }

    /** Each page of the files is as it was at the sync, or as it was at the end, or half of each. */
    private void losePower(String before, String to, Random random) throws IOException {
        Journals.copy(path(), to);
        try (var files = Files.list(Path.of(to))) {
            for (Path file : files.toList()) {
                byte[] now = Files.readAllBytes(file);
                Path then = Path.of(before, file.getFileName().toString());
                boolean isNew = !Files.exists(then);
                boolean control = file.endsWith("control");
                byte[] old = isNew ? new byte[now.length] : Files.readAllBytes(then);
                for (int page = isNew ? PAGE : 0; page < now.length; page += PAGE) {
                    int what = random.nextInt(control ? 2 : 4);
                    if (what == 0) {
                        System.arraycopy(old, page, now, page, PAGE);
                    } else if (what == 1 && !control) {
                        System.arraycopy(old, page + 512, now, page + 512, 512 * (1 + random.nextInt(7)));
                    }
                }
                Files.write(file, now);
            }
        }
    }

    /** A recovery that is killed is done again: here it ends before it stores the boot's id. */
    private void killRecovery(String path, int seed) throws IOException {
        if (seed % 3 == 0) {
            byte[] boot = java.util.Arrays.copyOfRange(Files.readAllBytes(Path.of(path, "control")), PAGE, PAGE + 16);
            try (Journal first = open(path, 2); JournalWriter writer = Journals.writer(first)) {
                writer.close(false);
            }
            Journals.write(path + "/control", PAGE, boot);
        }
    }

    @Test
    void afterAFailedSyncTheWriterEndsAndTheNextOneWritesAgain() throws IOException {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.append(writer, 0, 2);
            writer.sync();
            Journals.append(writer, 2, 4);
            JournalFile file = JournalFile.open(path(), Journals.boot(1));
            file.fail(28); // as a helper of another process does when its sync fails
            assertTrue(journal.stats().failed());
            IoException e = assertThrows(IoException.class, () -> Journals.append(writer, "m4"));
            assertEquals("fdatasync", e.call());
            assertThrows(IoException.class, writer::sync);
            assertThrows(IoException.class, () -> writer.claim(1));
            assertEquals(Journals.numbered(0, 4), Journals.texts(journal)); // readers go on
            assertThrows(NoFreeSlotException.class, () -> Journals.writer(journal)); // until it is closed
            writer.close();
            try (JournalWriter heir = Journals.writer(journal)) {
                assertNull(heir.recovery());
                assertEquals(heir.position() - 64, journal.stats().synced());
                Journals.append(heir, "m4");
            }
            assertEquals(Journals.numbered(0, 5), Journals.texts(journal));
        }
        try (Journal journal = open(path(), 1)) {
            assertTrue(!journal.stats().failed());
        }
    }

    @Test
    void aCloseWithinTheProgressOfARecoveryIsRefused() {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.append(writer, 0, 2);
        }
        final List<Journal> opened = new ArrayList<>();
        final List<Long> refused = new ArrayList<>();
        for (int boot = 2; boot < 4; boot++) {
            try (Journal journal = Journal.open(path(), Journals.boot(boot).recoveryProgress((done, all) -> {
                assertThrows(ViewAliveException.class, opened.get(opened.size() - 1)::close);
                refused.add(done);
            }))) {
                opened.add(journal);
                if (boot == 2) {
                    journal.writer().close();
                } else {
                    journal.push(new byte[1]);
                }
            }
            assertTrue(refused.size() >= boot - 1);
        }
    }

    @Test
    void aSyncIsIoIfASegmentWasRemovedByHand() throws IOException {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.fill(writer, 2 * Z + 1000, 1000);
            final Path segment = Path.of(Journals.segment(path(), Z));
            final Path kept = Files.move(segment, segment.resolveSibling("../kept"));
            for (int i = 0; i < 2; i++) {
                IoException e = assertThrows(IoException.class, writer::sync);
                assertEquals(List.of("open", segment.toString()), List.of(e.call(), e.path()));
                assertEquals(Linux.ENOENT, e.errno());
                assertEquals(0, journal.stats().synced());
                assertTrue(!journal.stats().failed());
                Journals.append(writer, "goes on");
            }
            Files.move(kept, segment);
            writer.sync();
            assertTrue(journal.stats().synced() > 2 * Z);
        }
    }

    @Test
    void readersAtTheEndFollowTheCutOfAFailedSync() throws Exception {
        try (Journal journal = create(); JournalReader polls = journal.reader(); JournalReader slept = journal.reader();
            JournalReader waits = journal.reader()) {
            try (JournalWriter writer = Journals.writer(journal)) {
                Journals.append(writer, 0, 2);
                writer.sync();
                Journals.fill(writer, Z + 1000, 1000);
                Journals.texts(polls);
                Journals.texts(slept);
                Journals.texts(waits);
                JournalFile.open(path(), Journals.boot(1)).fail(5);
                assertThrows(IoException.class, () -> Journals.append(writer, "m4"));
            }
            final Other<Message> waiting = new Other<>(() -> waits.take(Publisher.FOREVER));
            Thread.sleep(50); // it sleeps
            Journals.write(Journals.segment(path(), 0), PAGE + 8192, new byte[PAGE]); // a page that was dropped
            try (JournalWriter heir = Journals.writer(journal)) {
                assertEquals(2, heir.recovery().reason());
                Journals.append(heir, "n0");
            }
            assertEquals("n0", Journals.text(waiting.result()));
            Message found = null;
            for (int i = 0; i < 1024 && found == null; i++) {
                found = polls.take(); // one of so many loads published
            }
            assertEquals("n0", Journals.text(found));
            assertNull(slept.take()); // this look does not
            slept.waiting().look(); // as a wait does after a sleep
            assertTrue(slept.waiting().isReady());
            assertEquals("n0", Journals.text(slept.take()));
            assertEquals(List.of(1L, 1L, 1L), List.of(polls.cuts(), slept.cuts(), waits.cuts()));
        }
    }

    @Test
    void afterAFailedSyncWhatTheKernelDroppedIsCut() throws IOException {
        try (Journal journal = create()) {
            try (JournalWriter writer = Journals.writer(journal)) {
                Journals.append(writer, 0, 2);
                writer.sync();
                Journals.fill(writer, Z + 1000, 1000);
                JournalFile.open(path(), Journals.boot(1)).fail(5);
                assertThrows(IoException.class, () -> Journals.append(writer, "m4"));
            }
            JournalReader ahead = journal.reader(JournalStart.NEWEST);
            Journals.write(Journals.segment(path(), 0), PAGE + 8192, new byte[PAGE]); // a page that was dropped
            try (JournalWriter heir = Journals.writer(journal)) {
                assertEquals(2, heir.recovery().reason());
                assertEquals(2, heir.number());
                Journals.append(heir, "n0");
            }
            assertEquals(List.of("m0", "m1", "n0"), Journals.texts(journal));
            assertEquals(List.of("n0"), Journals.texts(ahead)); // it had read what is gone
            assertEquals(1, ahead.cuts());
            assertEquals(3, ahead.number());
        }
    }
}
