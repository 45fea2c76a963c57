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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Consumers of a journal: names, gates and pairs, the deque, what trim takes from them, forget. */
class JournalConsumerTest {
    private static final int Z = Journals.SMALL;

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

    @Test
    void gateMayLieBehindARecordThatIsNotYetPublished() throws IOException {
        Journals.append(writer, 0, 500);
        while (writer.position() < 2 * Z) {
            writer.append(new byte[1000]);
        }
        writer.sync();
        final long last = writer.append(new byte[10]);
        final long end = writer.position();
        try (JournalConsumer consumer = journal.consumer("c")) {
            consumer.poll(message -> { }, 10_000);
            assertEquals(end, consumer.position());
        }
        Journals.word(path(), Layout.JOURNAL_CONTROL_PUBLISHED, last); // as a writer that is stopped behind append 5
        for (int i = 0; i < 2; i++) {
            try (JournalConsumer consumer = journal.consumer("c")) {
                assertEquals(end, consumer.position());
                assertEquals(writer.number(), consumer.number());
                assertEquals(0, consumer.lost());
                assertNull(consumer.take());
            }
        }
        assertTrue(journal.trimConsumed() > 0);
        final int gate = JournalHeader.consumerSlot(0) + Layout.JOURNAL_CONSUMER_GATE;
        Journals.word(path(), gate, end + 64); // there is no record
        assertThrows(CorruptJournalException.class, () -> journal.consumer("c"));
        Journals.word(path(), gate, end);
        Journals.word(path(), Layout.JOURNAL_CONTROL_PUBLISHED, end);
    }

    @Test
    void goesOnWhereItStopped() {
        Journals.append(writer, 0, 5);
        JournalConsumer consumer = journal.consumer("c");
        assertEquals("c", consumer.name());
        assertEquals(1, consumer.epoch());
        assertEquals(2, consumer.poll(message -> { }, 2));
        consumer.close();
        consumer.close();
        try (Journal other = Journal.open(path()); JournalConsumer again = other.consumer("c", JournalStart.NEWEST)) {
            assertEquals(2, again.epoch());
            assertEquals(2, again.number());
            assertEquals(3, again.size());
            assertEquals(Journals.numbered(2, 5), Journals.texts(again));
            assertEquals(0, again.lost());
        }
        JournalConsumer newest = journal.consumer("n", JournalStart.NEWEST);
        Journals.append(writer, 5, 7);
        assertEquals(Journals.numbered(5, 7), Journals.texts(newest));
        JournalConsumer third = journal.consumer("third", JournalStart.number(3));
        assertEquals(Journals.numbered(3, 7), Journals.texts(third));
    }

    @Test
    void aDeque() throws Exception {
        journal.change(new JournalOptions().trimConsumed(true));
        JournalConsumer consumer = journal.consumer("c");
        assertEquals(0, consumer.size());
        assertNull(consumer.peek());
        assertNull(consumer.pop(Duration.ofMillis(3)));
        Journals.append(writer, 0, 3);
        assertEquals(3, consumer.size());
        assertEquals("m0", Journals.text(consumer.peek()));
        assertEquals("m0", Journals.text(consumer.peek()));
        assertEquals("m0", Journals.text(consumer.pop()));
        assertEquals(2, consumer.size());
        assertEquals(0, consumer.slot());
        assertEquals(Journals.numbered(1, 3), Journals.texts(consumer));
        Other<Message> waiting = new Other<>(() -> consumer.pop(Publisher.FOREVER));
        Thread.sleep(30);
        Journals.append(writer, 3, 4);
        assertEquals("m3", Journals.text(waiting.result()));
        consumer.sync();
        assertNull(consumer.pop());
        assertThrows(InvalidArgumentException.class, () -> consumer.pop(Duration.ofNanos(-1)));
        consumer.forget();
        assertEquals(List.of(), journal.stats().consumers());
        assertThrows(ClosedException.class, consumer::pop);
    }

    @Test
    void namesAndSlots() {
        for (String wrong : new String[] {"", "a b", null}) {
            assertEquals("name",
                assertThrows(InvalidArgumentException.class, () -> journal.consumer(wrong)).argument());
        }
        JournalConsumer first = journal.consumer("c0");
        NoFreeSlotException e = assertThrows(NoFreeSlotException.class, () -> journal.consumer("c0"));
        assertEquals("consumer 4 c0", e.kind() + " " + e.slots() + " " + e.owners().get(0).name());
        for (int i = 1; i < 4; i++) {
            journal.consumer("c" + i).close();
        }
        assertThrows(NoFreeSlotException.class, () -> journal.consumer("c4"));
        assertThrows(BusyException.class, () -> journal.forget("c0"));
        assertThrows(InvalidArgumentException.class, () -> journal.forget("none"));
        journal.forget("c2");
        assertThrows(InvalidArgumentException.class, () -> journal.forget("c2"));
        Journals.append(writer, 0, 2);
        try (JournalConsumer fresh = journal.consumer("c4", JournalStart.NEWEST)) {
            assertEquals(0, fresh.size());
        }
        try (JournalConsumer again = journal.consumer("c1")) {
            assertEquals(2, again.size());
        }
        assertEquals(List.of("c0", "c1", "c4", "c3"),
            journal.stats().consumers().stream().map(JournalConsumerStats::name).toList());
        first.close();
        journal.forget("c0");
        assertThrows(ClosedException.class, first::take);
    }

    @Test
    void aDeathHandsOutAgainWhatWasConsumedSinceTheGate() {
        Journals.append(writer, 0, 100);
        JournalConsumer consumer = journal.consumer("c");
        consumer.poll(message -> { }, 10);
        String copy = rings.path("copy.journal");
        consumer.poll(message -> {
            if (message.number() == 29) { // within a poll: killed here
                Journals.copy(path(), copy);
            }
        }, 50);
        try (Journal killed = Journal.open(copy); JournalConsumer heir = killed.consumer("c")) {
            assertEquals(Journals.numbered(10, 100), Journals.texts(heir));
        }
        assertEquals(Journals.numbered(60, 100), Journals.texts(consumer));
        consumer.controlledPoll(message -> Action.CONTINUE);
        Journals.append(writer, 100, 110);
        consumer.controlledPoll(message -> {
            if (message.number() == 106) {
                Journals.copy(path(), copy);
            }
            return message.number() == 104 ? Action.COMMIT : Action.CONTINUE;
        });
        try (Journal killed = Journal.open(copy); JournalConsumer heir = killed.consumer("c")) {
            assertEquals(Journals.numbered(105, 110), Journals.texts(heir));
        }
    }

    @Test
    void theGateIsStoredEach64KiBOfALongPoll() throws IOException {
        Journals.fill(writer, 3 * Z, 1000);
        JournalConsumer consumer = journal.consumer("c");
        final int slot = JournalHeader.consumerSlot(0) + Layout.JOURNAL_CONSUMER_GATE;
        long[] most = new long[1];
        consumer.poll(message -> {
            try {
                most[0] = Math.max(most[0], message.position() - Journals.word(path(), slot));
            } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        }, 1000);
        assertTrue(most[0] > Z - 2000 && most[0] <= Z + 2048, "behind: " + most[0]);
        assertEquals(consumer.position(), Journals.word(path(), slot));
    }

    @Test
    void aPairProvesTheGate() throws IOException {
        Journals.append(writer, 0, 10);
        JournalConsumer consumer = journal.consumer("c");
        JournalFile file = JournalFile.open(path(), new OpenOptions());
        JournalGate gate = new JournalGate(file, 0);
        for (int i = 1; i < 6; i++) {
            consumer.take();
            gate.read();
            assertEquals(i, gate.count());
            assertEquals(consumer.position(), gate.position());
        }
        consumer.close();
        final int pairs = JournalHeader.consumerSlot(0) + Layout.JOURNAL_CONSUMER_PAIR_0;
        // Both pairs are of another age: the count is told by a walk.
        Journals.word(path(), pairs + Layout.JOURNAL_PAIR_COUNT, 77);
        Journals.word(path(), pairs + Layout.JOURNAL_PAIR_SIZE + Layout.JOURNAL_PAIR_COUNT, 78);
        gate.read();
        assertEquals(-1, gate.count());
        assertEquals(-1, journal.stats().consumers().get(0).behind());
        try (JournalConsumer again = journal.consumer("c")) {
            assertEquals(5, again.number());
            assertEquals(Journals.numbered(5, 10), Journals.texts(again));
        }
        gate.read();
        assertEquals(10, gate.count());
    }

    @Test
    void brokenGatesAreRefused() throws IOException {
        Journals.append(writer, 0, 10);
        journal.consumer("c").close();
        final int at = JournalHeader.consumerSlot(0) + Layout.JOURNAL_CONSUMER_GATE;
        Journals.append(writer, "a message of more than one unit, so that a gate can lie within its record, 64 bytes");
        final long end = writer.position();
        for (long wrong : new long[] {-1, 1, 65, 1L << 62, 1L << 40, end + 8192, end - 64}) {
            Journals.word(path(), at, wrong);
            assertThrows(CorruptJournalException.class, () -> journal.consumer("c"), "gate " + wrong);
            assertEquals(1, journal.stats().consumers().get(0).pid() > 0 ? 1 : 0);
        }
        Journals.word(path(), at, 128);
        assertEquals(Journals.numbered(1, 3), Journals.texts(journal.consumer("c")).subList(0, 2));
    }

    @Test
    void whatALimitTrimsIsCountedOnce() throws IOException {
        JournalConsumer early = journal.consumer("c");
        Journals.fill(writer, 4 * Z + 1000, 1000);
        early.poll(message -> { }, 5);
        early.close();
        writer.sync();
        assertEquals(0, journal.trimConsumed()); // consumers hold back every trim but that of the limits
        assertEquals(0, journal.trimSize(0));
        assertEquals(4L * (4096 + Z), new JournalTrim(JournalFile.open(path(), new OpenOptions())).size(0, false));
        final long total = writer.number();
        JournalConsumer consumer = journal.consumer("c");
        long[] first = {-1};
        consumer.poll(message -> first[0] = first[0] < 0 ? message.number() : first[0], 1);
        assertEquals(first[0] - 5, consumer.lost());
        assertTrue(consumer.lost() > 200);
        final long lost = consumer.lost();
        String copy = Journals.copy(path(), rings.path("copy.journal"));
        try (Journal killed = Journal.open(copy); JournalConsumer heir = killed.consumer("c")) {
            assertEquals(lost, heir.lost());
            assertEquals(total, Journals.texts(heir).size() + lost + 6);
            assertEquals(lost, heir.lost());
        }
        consumer.close();
        assertEquals(lost, journal.stats().consumers().get(0).lost());
        JournalReader reader = journal.reader(JournalStart.number(3));
        assertEquals(first[0] - 3, reader.lost());
        assertEquals(4L * Z + 64, reader.position());
        assertEquals(4L * Z, journal.reader(JournalStart.position(128)).position());
    }

    /** Opens a consumer, and calls {@code last} at the last read of the walk to its start, which needs no lock. */
    private JournalConsumer openBeside(JournalStart start, Runnable last) {
        final int[] reads = new int[1];
        ChannelFile.faults = (call, file) -> {
            reads[0] += call.equals("pread") && file.endsWith(".seg") ? 1 : 0;
            return 0;
        };
        try {
            journal.reader(start).close(); // the same walk
            assertTrue(reads[0] > 0);
            ChannelFile.faults = (call, file) -> {
                if (call.equals("pread") && file.endsWith(".seg") && --reads[0] == 0) {
                    last.run();
                }
                return 0;
            };
            return journal.consumer("c", start);
        } finally {
            ChannelFile.faults = null;
            assertTrue(reads[0] <= 0);
        }
    }

    /** So that nothing waits for a long walk. A trim may come in between: then the messages are lost, and counted. */
    @Test
    void walksToTheStartOfANewNameWithoutTheControlLock() {
        Journals.fill(writer, 3 * Z, 1000);
        writer.sync();
        JournalConsumer consumer = openBeside(JournalStart.number(10), () -> assertTrue(journal.trimSize(Z) > 0));
        assertEquals(journal.stats().trimmed(), consumer.position());
        assertTrue(consumer.position() > 0);
        assertEquals(consumer.number() - 10, consumer.lost());
        assertEquals(consumer.lost(), journal.stats().consumers().get(0).lost());
        assertEquals(10 + consumer.lost(), consumer.take().number());
    }

    @Test
    void aConsumerOfTheSameNameMayComeFirstDuringTheWalk() {
        Journals.append(writer, 0, 20);
        JournalConsumer consumer = openBeside(JournalStart.number(10), () -> {
            try (JournalConsumer first = journal.consumer("c", JournalStart.number(3))) {
                first.take();
            }
        });
        assertEquals(4, consumer.number());
        assertEquals(2, consumer.epoch());
        assertEquals(Journals.numbered(4, 20), Journals.texts(consumer));
        consumer.forget();
        assertThrows(NoFreeSlotException.class,
            () -> openBeside(JournalStart.number(10), () -> journal.consumer("c")));
    }

    @Test
    void anUnlinkDuringTheWalkIsNoSuchChannel() {
        Journals.append(writer, 0, 20);
        writer.close();
        assertThrows(NoSuchChannelException.class,
            () -> openBeside(JournalStart.number(10), () -> Journal.unlink(path())));
    }

    /** The walk to it is made under the control lock: it must not be made again and again. */
    @Test
    void aGateInASegmentThatIsGoneIsDamaged() throws IOException {
        Journals.fill(writer, 4 * Z, 1000);
        journal.consumer("c").close();
        Files.delete(Path.of(Journals.segment(path(), 2 * Z)));
        for (long gate : new long[] {2 * Z, 2 * Z + 64, 3 * Z - 64}) {
            Journals.word(path(), JournalHeader.consumerSlot(0) + Layout.JOURNAL_CONSUMER_GATE, gate);
            int[] reads = new int[1];
            ChannelFile.faults = (call, file) -> {
                reads[0] += call.equals("pread") ? 1 : 0;
                return 0;
            };
            try {
                assertEquals(gate, assertThrows(DamagedException.class, () -> journal.consumer("c")).from());
            } finally {
                ChannelFile.faults = null;
            }
            assertTrue(reads[0] < 20, "reads: " + reads[0]);
        }
    }

    /** Behind the next right check, and the pair tells how many messages are lost. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aGateInWhatIsDamagedCanBeSkipped(boolean wholeSegment) throws IOException {
        Journals.fill(writer, 4 * Z, 1000);
        writer.sync();
        final long gate;
        final long number;
        try (JournalConsumer consumer = journal.consumer("c")) {
            while (consumer.position() < 2 * Z + 2000) {
                consumer.pop();
            }
            gate = consumer.position();
            number = consumer.number();
        }
        if (wholeSegment) {
            Files.delete(Path.of(Journals.segment(path(), 2 * Z)));
        } else { // in front of the gate: no walk leads there
            Journals.write(Journals.segment(path(), 2 * Z), 4096 + 64, new byte[] {-1, -1, -1, -1, -1, -1, -1, -1});
        }
        final DamagedException e = assertThrows(DamagedException.class, () -> journal.consumer("c"));
        assertEquals(gate, e.from());
        assertTrue(e.to() > gate && e.to() <= 3 * Z, e.getMessage());
        try (JournalConsumer consumer = journal.consumer("c", JournalStart.OLDEST, true)) {
            assertEquals(e.to() + 64, consumer.position());
            assertTrue(e.messages() > 0);
            assertEquals(e.messages(), consumer.lost());
            assertEquals(e.messages(), consumer.number() - number);
            final long size = consumer.size();
            assertEquals(size, Journals.texts(consumer).size());
        }
        assertEquals(e.messages(), journal.stats().consumers().get(0).lost());
        try (JournalConsumer consumer = journal.consumer("c")) {
            assertEquals(e.messages(), consumer.lost());
            assertEquals(0, consumer.size());
        }
        final DamagedException other = assertThrows(DamagedException.class,
            () -> journal.reader(JournalStart.position(gate)));
        assertEquals(gate, other.from());
        assertEquals(e.to(), other.to());
        assertEquals(-1, other.messages());
        try (JournalReader reader = journal.reader(JournalStart.position(gate), false, true)) {
            assertEquals(e.to() + 64, reader.position());
            assertEquals(0, reader.lost());
        }
    }

    @Test
    void aConsumerOfAnotherBootWaitsForTheRecovery() {
        Journals.append(writer, 0, 3);
        journal.consumer("c").close();
        writer.close();
        journal.close();
        try (Journal later = Journal.open(path(), Journals.boot(2))) {
            assertEquals(path(), assertThrows(NeedsRecoveryException.class, () -> later.consumer("c")).path());
            assertThrows(NeedsRecoveryException.class, () -> later.forget("c"));
            assertThrows(NeedsRecoveryException.class, later::trimConsumed);
            assertTrue(later.stats().needsRecovery());
            later.push("m3".getBytes());
            assertFalse(later.stats().needsRecovery());
            try (JournalConsumer consumer = later.consumer("c")) {
                assertEquals(Journals.numbered(0, 4), Journals.texts(consumer));
            }
        }
        assertTrue(Files.exists(Path.of(path())));
    }
}
