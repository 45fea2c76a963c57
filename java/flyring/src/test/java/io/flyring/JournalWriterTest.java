// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The writer of a journal: appends, claims, batches, checks, rolls, and what they leave in the files. */
class JournalWriterTest {
    private static final int Z = Journals.SMALL;
    private static final int MESSAGES = 20_000;

    @RegisterExtension
    final Rings rings = new Rings();

    private String path() {
        return rings.path("j.journal");
    }

    private Journal create() {
        return Journal.create(path(), Journals.small());
    }

    /** One record of the files. */
    private record Found(long position, int type, int length, long time, String text) {
    }

    /** Reads all records from the files, with no code of the library, and proves each check. */
    private List<Found> records() throws IOException {
        List<Found> all = new ArrayList<>();
        CRC32C span = new CRC32C();
        long count = 0;
        long largest = 0;
        for (long base = 0; Files.exists(Path.of(Journals.segment(path(), base))); base += Z) {
            ByteBuffer file = Rings.load(Path.of(Journals.segment(path(), base)));
            for (int at = 0; at < Z && file.getInt(4096 + at) != 0;) {
                int index = 4096 + at;
                int length = file.getInt(index);
                int type = file.getInt(index + 4);
                int size = length + 63 & -64;
                if (type == -3) {
                    CRC32C own = new CRC32C();
                    own.update(file.array(), index, 60);
                    assertEquals((int) own.getValue(), file.getInt(index + 60));
                    assertEquals(base + at, file.getLong(index + 8));
                    assertEquals(count, file.getLong(index + 16));
                    assertEquals(largest, file.getLong(index + 24));
                    assertEquals((int) span.getValue(), file.getInt(index + 32), "span before " + (base + at));
                    span.reset();
                } else {
                    span.update(file.array(), index, type == -1 ? 8 : size);
                }
                if (type > 0) {
                    count++;
                    largest = Math.max(largest, file.getLong(index + 8));
                }
                all.add(new Found(base + at, type, length, type > 0 ? file.getLong(index + 8) : 0,
                    type > 0 ? new String(file.array(), index + 16, length - 16) : ""));
                at += size;
            }
        }
        return all;
    }

    @Test
    void anAppendHasTheBytesOfThePage() throws IOException {
        long[] now = {5};
        try (Journal journal = Journal.create(path(), Journals.small().identity(new Identity().clock(() -> now[0]++)));
            JournalWriter writer = Journals.writer(journal)) {
            now[0] = 100;
            assertEquals(64, Journals.append(writer, "m0"));
            assertEquals(128, writer.append("xabcx".getBytes(), 1, 3, 9));
            assertEquals(192, writer.append(TableTest.text("timed"), 0, 5, 2, 7));
            assertEquals(256, writer.append(ByteBuffer.wrap("buffer".getBytes()), 3));
            assertEquals(320, writer.append(new byte[0]));
            assertEquals(384, writer.position());
            assertEquals(5, writer.number());
            assertEquals(List.of(new Found(0, -3, 64, 0, ""), new Found(64, 1, 18, 100, "m0"),
                new Found(128, 9, 19, 101, "abc"), new Found(192, 2, 21, 7, "timed"),
                new Found(256, 3, 22, 102, "buffer"), new Found(320, 1, 16, 103, "")), records());
            assertEquals(384, Journals.word(path(), Layout.JOURNAL_CONTROL_PUBLISHED));
            assertEquals(5, Journals.word(path(), Layout.JOURNAL_CONTROL_MESSAGES));
            assertEquals(128 + 4096, Journals.word(path(), Layout.JOURNAL_CONTROL_CLAIMED)); // announced by the first
            writer.sync();
            assertEquals(384, Journals.word(path(), Layout.JOURNAL_CONTROL_CHECKED));
            assertEquals(384, Journals.word(path(), Layout.JOURNAL_CONTROL_SYNCED));
            assertEquals(448, writer.position());
            writer.sync(); // nothing since then: no further check
            assertEquals(448, writer.position());
            assertEquals(7, records().size());
        }
    }

    @Test
    void checksCloseEachSpanAndSegmentsFollowEachOther() throws IOException {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            for (int i = 0; i < 4000; i++) {
                writer.append(Rings.pattern(i, i % 500));
                if (i % 37 == 0) {
                    JournalClaim claim = writer.claim(100);
                    claim.buffer().setMemory(0, 100, (byte) i);
                    claim.abort();
                }
            }
        }
        List<Found> all = records();
        assertEquals(4000, all.stream().filter(each -> each.type() > 0).count());
        long end = 0;
        for (Found each : all) {
            assertEquals(end, each.position());
            end += each.length() + 63 & -64;
            if (each.position() % Z == 0) {
                assertEquals(-3, each.type());
            }
            if (end % Z == 0) {
                assertTrue(each.type() == -3 || each.type() == -1, "the last record is of type " + each.type());
            }
        }
        assertTrue(end > 10 * Z);
    }

    @Test
    void aCheckComesEach64KiBInALargeSegment() throws IOException {
        try (Journal journal = Journal.create(path(), Journals.small().segmentSize(1 << 20));
            JournalWriter writer = Journals.writer(journal)) {
            Journals.fill(writer, 900_000, 1000);
            try (JournalReader reader = journal.reader()) {
                assertEquals(writer.number(), Journals.texts(reader).size());
            }
            assertTrue(Journals.word(path(), Layout.JOURNAL_CONTROL_CHECKED) > 900_000 - 66_600);
        }
        ByteBuffer file = Rings.load(Path.of(Journals.segment(path(), 0)));
        int checks = 0;
        for (int at = 0; at < 1 << 20 && file.getInt(4096 + at) != 0; at += file.getInt(4096 + at) + 63 & -64) {
            checks += file.getInt(4096 + at + 4) == -3 ? 1 : 0;
        }
        assertEquals(15, checks); // the first one, 13 of full spans, that of close
    }

    @Test
    void claims() {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            JournalClaim claim = writer.claim(2, 5);
            assertEquals(2, claim.length());
            assertThrows(ViewAliveException.class, () -> writer.append(new byte[1]));
            assertThrows(ViewAliveException.class, writer::sync);
            claim.buffer().putStringWithoutLengthUtf8(0, "m0");
            assertEquals(64, claim.commit());
            assertEquals(0, claim.length());
            assertThrows(ClosedException.class, claim::commit);
            assertThrows(IndexOutOfBoundsException.class, () -> claim.buffer().putByte(0, (byte) 1));
            try (JournalClaim aborted = writer.claim(1000)) {
                aborted.buffer().setMemory(0, 1000, (byte) 77);
            }
            Journals.append(writer, "m1");
            assertEquals(2, writer.number());
            assertEquals(List.of("m0", "m1"), Journals.texts(journal));
            writer.claim(100); // left open: close aborts it
        }
        try (Journal journal = Journal.open(path())) {
            assertEquals(List.of("m0", "m1"), Journals.texts(journal));
        }
    }

    @Test
    void batchesAreWholeAndHaveOneTime() throws IOException {
        long[] now = {5};
        try (Journal journal = Journal.create(path(), Journals.small().identity(new Identity().clock(() -> now[0]++)));
            JournalWriter writer = Journals.writer(journal)) {
            DirectBuffer[] messages = new DirectBuffer[300];
            for (int i = 0; i < messages.length; i++) {
                messages[i] = TableTest.buffer(Rings.pattern(i, i * 3));
            }
            now[0] = 50;
            assertEquals(300, writer.appendMany(messages)); // 135 KB: three segments
            assertEquals(300, writer.number());
            assertEquals(0, writer.appendMany());
            assertEquals(2, writer.appendMany(messages, 3, 2, 9, 77));
            List<Found> all = records().stream().filter(each -> each.type() > 0).toList();
            for (int i = 0; i < 300; i++) {
                assertEquals(i * 3 + 16, all.get(i).length());
                assertEquals(50, all.get(i).time());
            }
            assertEquals(9, all.get(301).type());
            assertEquals(77, all.get(301).time());
            List<byte[]> read = new ArrayList<>();
            try (JournalReader reader = journal.reader()) {
                while (reader.poll(message -> read.add(message.toByteArray())) > 0) {
                    continue;
                }
            }
            for (int i = 0; i < 300; i++) {
                org.junit.jupiter.api.Assertions.assertArrayEquals(Rings.pattern(i, i * 3), read.get(i));
            }
            assertThrows(MessageTooLargeException.class,
                () -> writer.appendMany(TableTest.text("x"), TableTest.buffer(new byte[Z / 4])));
            assertEquals(302, writer.number());
        }
    }

    @Test
    void lengthsAndTypes() {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            int most = Z / 4 - 16;
            assertEquals(most, writer.maxMessageLength());
            for (int i = 0; i < 9; i++) {
                writer.append(new byte[most]);
            }
            MessageTooLargeException e = assertThrows(MessageTooLargeException.class,
                () -> writer.append(new byte[most + 1]));
            assertEquals(most + 1, e.length());
            assertEquals(most, e.limit());
            assertThrows(MessageTooLargeException.class, () -> writer.claim(most + 1));
            assertThrows(InvalidArgumentException.class, () -> writer.append(new byte[1], 0, 1, 0));
            assertThrows(InvalidArgumentException.class, () -> writer.claim(-1));
            assertThrows(IndexOutOfBoundsException.class, () -> writer.append(new byte[1], 0, 2, 1));
            assertThrows(IndexOutOfBoundsException.class, () -> writer.append(TableTest.text("x"), 1, 1));
            assertEquals(9, writer.number());
            assertEquals(9, Journals.texts(journal).size());
        }
    }

    @Test
    void aSourceThatThrowsLeavesPadding() throws IOException {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            DirectBuffer bad = badSource(100);
            assertThrows(IllegalStateException.class, () -> writer.append(bad, 0, 100));
            assertThrows(IllegalStateException.class, () -> writer.appendMany(TableTest.text("a"), bad));
            Journals.append(writer, "m0");
            assertEquals(List.of("m0"), Journals.texts(journal));
            writer.sync();
        }
        assertEquals(2, records().stream().filter(each -> each.type() == -1).count());
    }

    /** A span has at most 65536 bytes and a record behind that (spec/journal.md 10): else it is taken for damaged. */
    @Test
    void sourcesThatThrowLeaveNoSpanThatIsTooLong() {
        try (Journal journal = Journal.create(path(), Journals.small().segmentSize(1 << 18));
            JournalWriter writer = Journals.writer(journal)) {
            Journals.append(writer, "m0");
            for (int i = 0; i < 6; i++) {
                assertThrows(IllegalStateException.class, () -> writer.append(badSource(65_000), 0, 65_000));
            }
            Journals.append(writer, "m1");
            writer.sync();
            assertEquals(List.of("m0", "m1"), Journals.texts(journal));
        }
    }

    private static DirectBuffer badSource(int length) {
        return (DirectBuffer) Proxy.newProxyInstance(JournalWriterTest.class.getClassLoader(),
            new Class<?>[] {DirectBuffer.class}, (proxy, method, arguments) -> {
                if (method.getName().equals("getBytes")) {
                    throw new IllegalStateException("bad source");
                }
                return method.getName().equals("capacity") ? length : null;
            });
    }

    @Test
    void oneWriterAtATime() {
        try (Journal journal = create(); Journal other = Journal.open(path())) {
            JournalWriter writer = journal.writer("first");
            assertEquals("first", writer.name());
            assertEquals(1, writer.epoch());
            assertNull(writer.recovery());
            NoFreeSlotException e = assertThrows(NoFreeSlotException.class, () -> other.writer("second"));
            assertEquals("writer first 1", e.kind() + " " + e.owners().get(0).name() + " " + e.slots());
            assertThrows(NoFreeSlotException.class, () -> journal.writer("", Duration.ofMillis(5)));
            writer.close();
            writer.close();
            JournalWriter second = other.writer("second", Duration.ofSeconds(5));
            assertEquals(2, second.epoch());
            assertThrows(ClosedException.class, () -> writer.append(new byte[1]));
            Journals.word(path(), Layout.JOURNAL_CONTROL_SLOT + Layout.PUBLISHER_SLOT_EPOCH, 9);
            assertThrows(SlotLostException.class, () -> second.append(new byte[1]));
            assertThrows(SlotLostException.class, second::sync);
            second.close();
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    @Test
    void aFullDiskIsNoSpaceAndChangesNothing() throws IOException {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.fill(writer, Z - 300, 100);
            final long end = writer.position();
            final long number = writer.number();
            // A folder in the place of the next segment: it cannot be made, as on a full disk.
            Files.createDirectories(Path.of(Journals.segment(path(), Z), "x"));
            assertThrows(FlyringException.class, () -> Journals.fill(writer, 2 * Z, 100));
            assertTrue(writer.position() - end < 300 && writer.position() <= Z - 64);
            final long before = writer.position();
            assertThrows(FlyringException.class, () -> writer.append(new byte[1000]));
            assertEquals(before, writer.position());
            writer.sync(); // a check still fits
            Files.delete(Path.of(Journals.segment(path(), Z), "x"));
            Files.delete(Path.of(Journals.segment(path(), Z)));
            Journals.fill(writer, Z + 1000, 100);
            assertTrue(writer.number() > number);
            assertEquals(writer.number(), Journals.texts(journal).size());
        }
        assertFalse(records().isEmpty());
    }

    @Test
    void syncPolicies() throws IOException {
        try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
            Journals.append(writer, "m0");
            assertEquals(0, journal.stats().synced());
            journal.change(new JournalOptions().sync(JournalSync.EACH));
            for (int i = 1; i < 4; i++) {
                Journals.append(writer, "m" + i);
                assertEquals(writer.position() - 64, journal.stats().synced());
                assertEquals(0, journal.stats().unsyncedSince());
            }
            writer.appendMany(TableTest.text("m4"), TableTest.text("m5"));
            assertEquals(writer.position() - 64, journal.stats().synced());
            journal.change(new JournalOptions().sync(JournalSync.every(Duration.ofMillis(1))));
            final long checked = Journals.word(path(), Layout.JOURNAL_CONTROL_CHECKED);
            Pause.nanos(2_000_000);
            Journals.append(writer, "m6");
            assertEquals(writer.position() - 64, Journals.word(path(), Layout.JOURNAL_CONTROL_CHECKED));
            assertTrue(Journals.word(path(), Layout.JOURNAL_CONTROL_CHECKED) > checked);
            assertEquals(Journals.numbered(0, 7), Journals.texts(journal));
        }
    }

    @Test
    void appendingAndReadingDoNotAllocate() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        PayloadBuffer source = new PayloadBuffer();
        source.wrap(ByteBuffer.allocateDirect(64));
        byte[] array = new byte[32];
        long[] sum = new long[1];
        MessageHandler handler = message -> sum[0] += message.number() + message.time();
        try (Journal journal = Journal.create(path(), Journals.small().segmentSize(1 << 24));
            JournalWriter writer = Journals.writer(journal); JournalReader reader = journal.reader()) {
            long least = Long.MAX_VALUE;
            for (int round = 0; round < 4; round++) {
                long before = threads.getCurrentThreadAllocatedBytes();
                for (int i = 0; i < MESSAGES; i++) {
                    writer.append(source, 0, 64);
                    writer.append(array);
                    JournalClaim claim = writer.claim(32, 5);
                    claim.buffer().putLong(0, i);
                    claim.commit();
                    reader.poll(handler, 10);
                }
                least = Math.min(least, threads.getCurrentThreadAllocatedBytes() - before);
            }
            // A span that is read cold may open a file: some hundred bytes each 64 KiB at most.
            assertTrue(least < MESSAGES, "bytes allocated: " + least);
            assertEquals(4L * 3 * MESSAGES, reader.number());
        }
    }
}
