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
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Readers of a journal: tail and cold, starts, damage, missing segments, durable. */
class JournalReadTest {
    private static final int Z = Journals.SMALL;
    /** A message of this length takes 1 KiB. */
    private static final int KB = 1008;

    @RegisterExtension
    final Rings rings = new Rings();

    private final List<Long> positions = new ArrayList<>();
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

    /** Appends messages of 1 KiB, whose first byte is their number, and their time 1000 more. */
    private void append(int messages) {
        for (int i = 0; i < messages; i++) {
            byte[] bytes = new byte[KB];
            bytes[0] = (byte) writer.number();
            positions.add(writer.append(bytes, 0, KB, 1, 1000 + writer.number()));
        }
    }

    /** The numbers that a reader hands out now, each checked against the message's bytes and position. */
    private List<Long> numbers(JournalReads reader) {
        List<Long> all = new ArrayList<>();
        while (reader.poll(message -> {
            assertEquals((byte) message.number(), message.buffer().getByte(0));
            assertEquals(KB, message.length());
            assertEquals(positions.get((int) message.number()), message.position());
            assertEquals(1000 + message.number(), message.time());
            all.add(message.number());
        }, 50) > 0) {
            continue;
        }
        return all;
    }

    private static List<Long> range(long from, long to) {
        List<Long> all = new ArrayList<>();
        for (long i = from; i < to; i++) {
            all.add(i);
        }
        return all;
    }

    /**
     * A writer is stopped, or was killed, between the commit of a batch and its store of published (append 5 and 6). A
     * tail hands out such messages: what it says of them must be a start.
     */
    @Test
    void beginsAtWhatIsCommittedAndNotYetPublished() throws IOException {
        append(600);
        final long end = writer.position();
        final long last = positions.get(599);
        for (long published : new long[] {positions.get(595), last}) {
            Journals.word(path(), Layout.JOURNAL_CONTROL_PUBLISHED, published);
            for (JournalStart start : List.of(JournalStart.position(last), JournalStart.number(599),
                JournalStart.time(1599))) {
                try (JournalReader reader = journal.reader(start)) {
                    assertEquals(599, reader.number(), start.toString());
                    assertEquals(0, reader.lost());
                    assertEquals(List.of(599L), numbers(reader));
                }
            }
            for (JournalStart start : List.of(JournalStart.position(end), JournalStart.number(600),
                JournalStart.time(1600))) {
                try (JournalReader reader = journal.reader(start)) {
                    assertEquals(600, reader.number());
                    assertEquals(end, reader.position());
                    assertNull(reader.take());
                }
            }
            try (JournalConsumer consumer = journal.consumer("c" + published, JournalStart.position(end))) {
                assertEquals(600, consumer.number());
            }
            for (JournalStart none : List.of(JournalStart.position(end + 64), JournalStart.position(end - 64),
                JournalStart.number(601))) {
                assertThrows(InvalidArgumentException.class, () -> journal.reader(none));
            }
            assertThrows(InvalidArgumentException.class, () -> journal.reader(JournalStart.position(end), true, false));
        }
        Journals.word(path(), Layout.JOURNAL_CONTROL_PUBLISHED, end);
    }

    @Test
    void readsFromDiskAndFollows() {
        append(300); // five segments
        JournalReader reader = journal.reader();
        assertEquals(range(0, 300), numbers(reader));
        assertEquals(writer.position(), reader.position());
        assertEquals(0, reader.poll(message -> { }));
        for (int round = 0; round < 200; round++) {
            append(round % 7);
            long from = reader.number();
            assertEquals(range(from, writer.number()), numbers(reader));
        }
        append(500); // it falls behind
        assertEquals(range(reader.number(), writer.number()), numbers(reader));
        assertEquals(0, reader.lost() + reader.cuts());
        assertFalse(reader.ended());
        writer.close();
        numbers(reader);
        assertTrue(reader.ended());
    }

    @Test
    void takeAndActions() {
        append(5);
        JournalReader reader = journal.reader();
        Message first = reader.take();
        Message second = reader.take(Duration.ofSeconds(1));
        assertEquals(0, first.number());
        assertEquals(1, second.buffer().getByte(0));
        assertEquals(KB, first.toByteArray().length);
        List<Long> seen = new ArrayList<>();
        assertEquals(1, reader.controlledPoll(message -> {
            seen.add(message.number());
            return seen.size() == 2 ? Action.ABORT : Action.CONTINUE;
        }));
        assertEquals(1, reader.controlledPoll(message -> {
            seen.add(message.number());
            return Action.BREAK;
        }));
        assertEquals(List.of(2L, 3L, 3L), seen);
        assertThrows(IllegalStateException.class, () -> reader.poll(message -> {
            throw new IllegalStateException("handler");
        }));
        assertEquals(5, reader.number()); // it counts as consumed
        assertNull(reader.take());
        assertThrows(InvalidArgumentException.class, () -> reader.take(Duration.ofNanos(-1)));
        append(1);
        assertThrows(TwoThreadsException.class, () -> reader.poll(message -> reader.take()));
        append(1);
        reader.poll(message -> assertThrows(ViewAliveException.class, reader::close));
    }

    @Test
    void messagesAreReadOnlyAndEndWithTheirHandler() {
        append(70);
        JournalReader reader = journal.reader();
        PayloadBuffer[] kept = new PayloadBuffer[1];
        for (int i = 0; i < 70; i++) { // cold, then the tail
            reader.poll(message -> {
                kept[0] = message.buffer();
                assertThrows(java.nio.ReadOnlyBufferException.class, () -> message.buffer().putByte(0, (byte) 1));
            }, 1);
            assertThrows(IndexOutOfBoundsException.class, () -> kept[0].getByte(0));
        }
    }

    @Test
    void startsAtPlaces() {
        append(200);
        JournalReader reader = journal.reader(JournalStart.NEWEST);
        assertEquals(200, reader.number());
        assertEquals(writer.position(), reader.position());
        append(1);
        assertEquals(List.of(200L), numbers(reader));
        for (int number : new int[] {0, 1, 62, 63, 64, 65, 127, 128, 199, 200}) {
            reader.seek(JournalStart.number(number));
            assertEquals(number, reader.number());
            assertEquals(range(number, 201), numbers(reader));
            reader.seek(JournalStart.position(positions.get(number)));
            assertEquals(number, reader.number());
            assertEquals(range(number, 201), numbers(reader));
            reader.seek(JournalStart.time(1000 + number));
            assertEquals(range(number, 201), numbers(reader));
        }
        reader.seek(JournalStart.OLDEST);
        assertEquals(0, reader.number());
        reader.seek(JournalStart.number(201));
        assertEquals(List.of(), numbers(reader));
        reader.seek(JournalStart.time(5000));
        assertEquals(201, reader.number());
        for (JournalStart wrong : List.of(JournalStart.number(202), JournalStart.number(-1),
            JournalStart.position(positions.get(5) + 64), JournalStart.position(positions.get(5) + 1),
            JournalStart.position(writer.position() + 64), JournalStart.position(-64))) {
            assertEquals("start", assertThrows(InvalidArgumentException.class, () -> reader.seek(wrong)).argument());
            assertThrows(InvalidArgumentException.class, () -> journal.reader(wrong));
        }
        assertEquals(201, reader.number());
        assertThrows(InvalidArgumentException.class, () -> journal.reader(null));
    }

    @Test
    void aFlippedBitIsDamagedAndCanBeSkipped() throws IOException {
        append(200);
        writer.close();
        long damaged = positions.get(100);
        Journals.flip(Journals.segment(path(), damaged & -Z), 4096 + damaged % Z + 500);
        JournalReader reader = journal.reader();
        List<Long> before = new ArrayList<>(numbers(reader, true));
        assertTrue(before.size() < 101 && before.size() > 30, "handed out " + before.size());
        DamagedException e = assertThrows(DamagedException.class, () -> reader.poll(message -> { }));
        assertThrows(DamagedException.class, reader::take); // it stays where it is
        assertEquals(reader.position(), e.from());
        assertEquals("damaged", e.code());
        assertTrue(e.from() <= damaged && e.to() > damaged, e.from() + " to " + e.to());
        JournalReader skips = journal.reader(JournalStart.OLDEST, false, true);
        List<Long> all = numbers(skips);
        assertEquals(e.messages(), skips.lost());
        assertEquals(200, all.size() + skips.lost());
        assertEquals(range(0, before.size()), all.subList(0, before.size()));
        assertEquals(range(before.size() + e.messages(), 200), all.subList(before.size(), all.size()));
        JournalReader behind = journal.reader(JournalStart.number(150));
        assertEquals(range(150, 200), numbers(behind));
    }

    private List<Long> numbers(JournalReader reader, boolean untilDamage) {
        List<Long> all = new ArrayList<>();
        try {
            while (reader.poll(message -> all.add(message.number()), 50) > 0) {
                continue;
            }
        } catch (DamagedException e) {
            assertTrue(untilDamage);
        }
        return all;
    }

    @Test
    void aMissingSegmentIsDamaged() throws IOException {
        append(300);
        writer.close();
        Files.delete(Path.of(Journals.segment(path(), 2 * Z)));
        JournalReader reader = journal.reader();
        long handed = numbers(reader, true).size();
        DamagedException e = assertThrows(DamagedException.class, reader::take);
        assertTrue(e.from() <= 2 * Z && e.to() == 3 * Z, e.getMessage());
        JournalReader skips = journal.reader(JournalStart.OLDEST, false, true);
        List<Long> all = numbers(skips);
        assertEquals(300 - all.size(), skips.lost());
        assertEquals(e.messages(), skips.lost());
        assertEquals(handed + e.messages(), all.get((int) handed));
        Files.write(Path.of(Journals.segment(path(), 2 * Z)), new byte[100]); // not whole: it counts as missing
        assertThrows(DamagedException.class, reader::take);
    }

    @Test
    void theFirstCheckOfTheOldestSegmentIsDamaged() throws IOException {
        append(300);
        Journals.flip(Journals.segment(path(), 0), 4096 + 30);
        DamagedException e = assertThrows(DamagedException.class, () -> journal.reader());
        assertEquals(0, e.from());
        assertEquals(-1, e.messages());
        JournalReader skips = journal.reader(JournalStart.OLDEST, false, true);
        assertEquals(e.to() + 64, skips.position());
        assertTrue(skips.number() > 0);
        assertEquals(range((int) skips.number(), 300), numbers(skips));
    }

    /** The helper has mapped it already: what is appended there would be lost. */
    @Test
    void aPreparedSegmentThatIsRemovedByHandIsMadeAgain() throws Exception {
        writer.close();
        try (JournalWriter helped = journal.writer()) {
            for (long segment = Z; segment <= 3L * Z; segment += Z) {
                while (Journals.word(path(), Layout.JOURNAL_CONTROL_READY) < segment + Z) {
                    Thread.sleep(1);
                }
                Thread.sleep(20); // it maps the segment by now, which no word shows
                Files.delete(Path.of(Journals.segment(path(), segment)));
                while (helped.position() < segment + Z / 2) {
                    Journals.append(helped, "x".repeat(300));
                }
                assertTrue(Files.exists(Path.of(Journals.segment(path(), segment))));
            }
            assertEquals(3, helped.unprepared());
            assertEquals(helped.number(), Journals.texts(journal.reader()).size());
        }
    }

    @Test
    void damageBehindTheLastCheckOfASkippingReaderWaits() throws IOException {
        append(3);
        Journals.write(Journals.segment(path(), 0), 4096 + positions.get(1), new byte[8]);
        JournalReader reader = journal.reader();
        assertEquals(List.of(), numbers(reader, true));
        DamagedException e = assertThrows(DamagedException.class, reader::take);
        assertEquals(-1, e.messages());
        assertEquals(writer.position(), e.to());
        JournalReader skips = journal.reader(JournalStart.OLDEST, false, true);
        assertNull(skips.take(Duration.ofMillis(5)));
        writer.sync(); // a check
        append(1);
        assertEquals(List.of(3L), numbers(skips));
        assertEquals(3, skips.lost());
    }

    @Test
    void durableReadersStayBehindTheSync() {
        JournalReader reader = journal.reader(JournalStart.OLDEST, true, false);
        append(100);
        assertEquals(List.of(), numbers(reader));
        writer.sync();
        assertEquals(range(0, 100), numbers(reader));
        append(70);
        assertEquals(List.of(), numbers(reader));
        writer.sync();
        assertEquals(range(100, 170), numbers(reader));
        JournalReader newest = journal.reader(JournalStart.NEWEST, true, false);
        append(1);
        assertEquals(List.of(), numbers(newest));
        writer.sync();
        assertEquals(List.of(170L), numbers(newest));
    }

    @Test
    void readersFollowAWriterInAnotherThreadAcrossSegments() throws Exception {
        final int messages = 200_000;
        try (JournalReader reader = journal.reader(); JournalReader late = journal.reader()) {
            Other<Long> reading = new Other<>(() -> {
                long[] sum = new long[1];
                while (reader.number() < messages) {
                    reader.poll(message -> {
                        assertEquals(message.number(), message.buffer().getLong(0));
                        sum[0] += message.length();
                    }, 100, Duration.ofSeconds(10));
                }
                return sum[0];
            });
            PayloadBuffer bytes = TableTest.buffer(new byte[300]);
            long sum = 0;
            for (int i = 0; i < messages; i++) {
                bytes.putLong(0, i);
                int length = 8 + i % 200;
                sum += length;
                writer.append(bytes, 0, length);
            }
            assertEquals(sum, reading.result());
            assertEquals(messages, Journals.texts(late).size());
        }
    }

    /** Of a segment whose first check is damaged only what lies up to its next check cannot be found. */
    @Test
    void aSeekPassesASegmentWithoutItsFirstCheck() throws IOException {
        final int size = 1 << 17; // two spans
        final int messages = 700;
        final String path = rings.path("damaged.journal");
        for (int segment = 1; segment < 6; segment++) {
            try (Journal damaged = Journal.create(path, Journals.small().segmentSize(size))) {
                long[] positions = new long[messages];
                try (JournalWriter appends = Journals.writer(damaged)) {
                    for (int i = 0; i < messages; i++) {
                        positions[i] = appends.append(new byte[900], 0, 900, 1, 10L * i);
                    }
                }
                final long base = (long) segment * size;
                Journals.write(Journals.segment(path, base), 4096, new byte[64]);
                int first = 0;
                while (positions[first] < base) {
                    first++;
                }
                int next = first;
                while (next < messages && positions[next] - positions[first] < 1 << 16) {
                    next++;
                }
                for (int wanted = 0; wanted < messages; wanted += 3) {
                    final int found = wanted >= first && wanted < next ? next : wanted;
                    try (JournalReader reader = damaged.reader(JournalStart.number(wanted));
                        JournalReader timed = damaged.reader(JournalStart.time(10L * wanted - 9))) {
                        assertEquals(found, reader.number(), "segment " + segment + ", message " + wanted);
                        assertEquals(found - wanted, reader.lost());
                        assertEquals(found, timed.number(), "segment " + segment + ", message " + wanted);
                    }
                }
            }
            Journal.unlink(path);
        }
    }
}
