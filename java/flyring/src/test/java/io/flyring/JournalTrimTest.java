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
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Trim, the limits, and the helper that makes segments, syncs and trims. */
class JournalTrimTest {
    private static final int Z = Journals.SMALL;
    private static final long FILE = 4096 + Z;

    @RegisterExtension
    final Rings rings = new Rings();

    private volatile long now = 1000;
    private Journal journal;

    private String path() {
        return rings.path("j.journal");
    }

    @BeforeEach
    void create() {
        journal = Journal.create(path(), Journals.small().identity(new Identity().clock(() -> now)));
    }

    /** Five segments; segment k has the times from 1000 (k + 1) on. */
    private void fill(JournalWriter writer) {
        for (int k = 0; k < 5; k++) {
            now = 1000L * (k + 1);
            Journals.fill(writer, (long) k * Z + 64_000, 1000); // 63 messages: one more begins a segment
        }
    }

    private List<Long> bases() {
        return java.util.Arrays.stream(JournalFile.open(path(), new OpenOptions()).segments()).boxed().toList();
    }

    @Test
    void trimStopsAtTheSegmentOfSynced() {
        try (JournalWriter writer = Journals.writer(journal)) {
            fill(writer);
            assertEquals(0, journal.trimPosition(4L * Z)); // nothing is durable
            writer.sync();
            assertEquals(FILE, journal.trimPosition(2 * Z - 64));
            assertEquals(0, journal.trimPosition(2 * Z - 64));
            assertEquals((long) Z, journal.stats().trimmed());
            assertEquals(List.of((long) Z, 2L * Z, 3L * Z, 4L * Z), bases());
            assertEquals(3 * FILE, journal.trimPosition(Long.MAX_VALUE));
            assertEquals(List.of(4L * Z), bases());
            final long left = journal.reader().number();
            assertEquals(writer.number() - left, Journals.texts(journal).size());
            assertThrows(InvalidArgumentException.class, () -> journal.trimPosition(-1));
            assertThrows(InvalidArgumentException.class, () -> journal.trimSize(-1));
        }
    }

    @Test
    void trimByTimeAndBySize() {
        try (JournalWriter writer = Journals.writer(journal)) {
            fill(writer);
            writer.sync();
            assertEquals(0, journal.trimBefore(1000));
            assertEquals(FILE, journal.trimBefore(2000));
            assertEquals((long) Z, journal.stats().trimmed());
            assertEquals(0, journal.trimSize(4L * Z));
            assertEquals(2 * FILE, journal.trimSize(3L * Z - 1));
            assertEquals(List.of(3L * Z, 4L * Z), bases());
            assertEquals(FILE, journal.trimBefore(Long.MAX_VALUE));
        }
    }

    @Test
    void trimConsumedStopsAtTheLowestGate() {
        try (JournalWriter writer = Journals.writer(journal)) {
            fill(writer);
            writer.sync();
            assertEquals(0, journal.trimConsumed()); // there is no consumer
            JournalConsumer first = journal.consumer("a");
            JournalConsumer second = journal.consumer("b");
            Journals.texts(first);
            assertEquals(0, journal.trimConsumed());
            second.poll(message -> { }, 150);
            assertTrue(second.position() > 2 * Z && second.position() < 3 * Z);
            assertEquals(0, journal.trimPosition(Z - 1));
            assertEquals(2 * FILE, journal.trimConsumed());
            assertEquals(0, journal.trimSize(0));
            assertEquals(0, journal.trimBefore(Long.MAX_VALUE));
            second.close();
            journal.forget("b");
            assertEquals(2 * FILE, journal.trimConsumed());
            assertEquals(0, first.lost());
        }
    }

    @Test
    void whatAKilledTrimLeftGoesWithTheNextOne() throws IOException {
        JournalWriter writer = Journals.writer(journal);
        Journals.fill(writer, 3L * Z, 1000);
        writer.sync();
        byte[] first = Files.readAllBytes(Path.of(Journals.segment(path(), 0)));
        assertEquals(Z + 4096, journal.trimPosition(Z));
        assertEquals(0, journal.trimPosition(Z));
        Files.write(Path.of(Journals.segment(path(), 0)), first); // as if the kill had come before the unlink
        assertEquals(Z + 4096, journal.trimPosition(Z));
        assertFalse(Files.exists(Path.of(Journals.segment(path(), 0))));
        assertThrows(InvalidArgumentException.class, () -> journal.trimPosition(-1));
        assertEquals(Z + 4096, journal.trimPosition(2L * Z + 1));
    }

    @Test
    void aReaderGoesOverFiveRollsWhileATrimRemovesWhatItHasRead() {
        JournalWriter writer = Journals.writer(journal);
        JournalReader reader = journal.reader();
        JournalReader behind = journal.reader();
        assertNull(behind.take());
        for (int roll = 1; roll <= 5; roll++) {
            Journals.fill(writer, (long) roll * Z + 1000, 1000);
            Journals.texts(reader);
            assertEquals(writer.number(), reader.number());
            writer.sync();
            journal.trimPosition(reader.position());
            assertEquals((long) roll * Z, journal.stats().trimmed());
        }
        assertEquals(0, reader.lost());
        assertEquals(5, writer.unprepared()); // without a helper
        int read = Journals.texts(behind).size();
        assertEquals(writer.number(), behind.lost() + read);
        assertTrue(behind.lost() > 0 && read > 0);
    }

    @Test
    void aReaderAtThePlaceWhereTheJournalBeginsLosesNothing() {
        JournalWriter writer = Journals.writer(journal);
        JournalReader reader = journal.reader();
        Journals.fill(writer, 1, 1000);
        while (writer.position() < 2 * Z) { // of the second segment: all messages, and not the padding behind them
            Journals.texts(reader);
            Journals.fill(writer, writer.position() + 1, 1000);
        }
        assertEquals(writer.number() - 1, reader.number());
        Journals.fill(writer, 4L * Z, 1000);
        writer.sync();
        journal.trimPosition(2 * Z);
        assertEquals(2 * Z, journal.stats().trimmed());
        Journals.texts(reader);
        assertEquals(writer.number(), reader.number());
        assertEquals(0, reader.lost());
    }

    @Test
    void aNewestMessageThatIsTrimmedMeanwhileLeadsToTheOldest() throws IOException {
        JournalWriter writer = Journals.writer(journal);
        Journals.fill(writer, Z + 1000, 1000);
        final byte[] words = new byte[24]; // published, messages, checked
        try (java.io.RandomAccessFile control = new java.io.RandomAccessFile(journal.path() + "/control", "rw")) {
            control.seek(4096 + 256);
            control.readFully(words);
            Journals.fill(writer, 3L * Z, 1000);
            writer.sync();
            journal.trimPosition(2 * Z);
            control.seek(4096 + 256); // as a reader sees them that stands still behind its loads
            control.write(words);
        }
        assertEquals(2 * Z, journal.reader(JournalStart.NEWEST).position());
    }

    /** Open descriptors, and mappings of segments. */
    private static int[] use() {
        try (java.util.stream.Stream<Path> open = Files.list(Path.of("/proc/self/fd"));
            java.util.stream.Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            return new int[] {(int) open.count(), (int) maps.filter(line -> line.contains(".seg")).count()};
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    /** {@code -Dflyring.long.journal=BYTES} is the nightly run (./dev journals). */
    @Test
    void aLongRunKeepsMemoryDescriptorsAndMappingsFlat() {
        final long bytes = Long.getLong("flyring.long.journal", 64L << 20);
        // A container has 64 MiB of shared memory.
        final int large = Long.getLong("flyring.long.journal") == null ? 4 << 20 : 64 << 20;
        try (Journal big = Journal.create(rings.path("big.journal"), new JournalOptions().segmentSize(large)
            .maxSize(2L * large)); JournalWriter writer = big.writer(); JournalReader reader = big.reader()) {
            final byte[] payload = new byte[large / 64];
            int[] first = null;
            while (writer.position() < bytes) {
                writer.append(payload);
                while (reader.poll(message -> { }) > 0) {
                    continue;
                }
                if (first == null && writer.position() > large + large / 2) {
                    first = use();
                }
            }
            assertEquals(writer.number(), reader.number());
            assertEquals(0, reader.lost());
            Other.until(() -> big.stats().bytes() <= 2L * (large + 4096));
            Other.until(() -> use()[1] <= 5); // the helper unmaps what the writer has left when it comes to it
            final int most = first[0] + 3;
            assertTrue(use()[0] <= most, "descriptors " + most + " " + use()[0]);
        }
    }

    @Test
    void aReaderThatIsOvertakenCountsWhatItLost() {
        try (JournalWriter writer = Journals.writer(journal)) {
            fill(writer);
            writer.sync();
            JournalReader reader = journal.reader();
            reader.poll(message -> { }, 10);
            journal.trimPosition(3L * Z);
            long read = Journals.texts(reader).size() + 10;
            assertTrue(reader.lost() > 100);
            assertEquals(writer.number(), read + reader.lost());
            assertEquals(writer.number(), reader.number());
        }
    }

    @Test
    void theHelperMakesSegmentsAndSyncs() {
        try (JournalWriter writer = journal.writer("w", true, 2, Duration.ZERO)) {
            Other.until(() -> journal.stats().ready() == 3L * Z);
            assertTrue(journal.stats().helping());
            Journals.fill(writer, Z + 1000, 1000);
            Other.until(() -> journal.stats().ready() == 4L * Z);
            Other.until(() -> journal.stats().synced() >= Z); // the finished segment
            assertTrue(journal.stats().synced() < writer.position());
            journal.change(new JournalOptions().sync(JournalSync.every(Duration.ofMillis(2))));
            Other.until(() -> {
                Journals.append(writer, "x");
                Pause.nanos(1_000_000);
                return journal.stats().synced() > Z + 1500;
            });
            assertEquals(writer.number(), Journals.texts(journal).size());
        }
        assertFalse(journal.stats().helping());
    }

    @Test
    void theHelperTrims() {
        journal.change(new JournalOptions().maxSize(3L * Z));
        try (JournalWriter writer = journal.writer()) {
            fill(writer);
            Other.until(() -> bases().size() <= 3);
            assertTrue(journal.stats().trimmed() > 0);
            journal.change(new JournalOptions().maxSize(0).maxAge(Duration.ofNanos(500)));
            now = 6000;
            Journals.fill(writer, writer.position() + 2 * Z, 1000);
            Other.until(() -> journal.stats().trimmed() >= 5L * Z);
            JournalConsumer consumer = journal.consumer("c");
            journal.change(new JournalOptions().maxAge(Duration.ZERO).trimConsumed(true));
            Journals.fill(writer, writer.position() + 2 * Z, 1000);
            Journals.texts(consumer);
            final long gate = consumer.position();
            Other.until(() -> journal.stats().trimmed() == (gate & -Z) || journal.stats().trimmed()
                == (journal.stats().synced() & -Z));
            assertEquals(0, consumer.lost());
        }
    }

    private static boolean isMapped(long base) {
        try (java.util.stream.Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            return maps.anyMatch(line -> line.endsWith(Journals.segment("", base)));
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    @Test
    void theHelperMapsAllSegmentsThatItKeepsAhead() {
        try (JournalWriter writer = journal.writer("w", true, 3, Duration.ZERO)) {
            Other.until(() -> isMapped(Z) && isMapped(2 * Z) && isMapped(3 * Z));
            Journals.fill(writer, 2 * Z + 64, 200);
            Other.until(() -> isMapped(3 * Z) && isMapped(4 * Z) && isMapped(5 * Z));
            Other.until(() -> !isMapped(0) && !isMapped(Z)); // what the writer has left
            assertEquals(0, writer.unprepared());
        }
        for (int i = 0; i < 6; i++) {
            assertFalse(isMapped(i * (long) Z), "segment " + i);
        }
    }

    @Test
    void ofTwoHelpersOneHelps() {
        try (JournalWriter writer = journal.writer(); Journal other = Journal.open(path())) {
            Other.until(() -> other.stats().helping());
            JournalFile file = JournalFile.open(path(), new OpenOptions());
            JournalHandover handover = new JournalHandover();
            JournalHelper second = new JournalHelper(file, handover, 1);
            second.start();
            Other.until(() -> handover.offered() == Z); // it brings in the pages for its own writer
            Journals.append(writer, "m0");
            second.stop();
            assertEquals(-1, handover.offered());
            assertTrue(other.stats().helping());
        }
        assertTrue(Files.exists(Path.of(Journals.segment(path(), Z))));
    }
}
