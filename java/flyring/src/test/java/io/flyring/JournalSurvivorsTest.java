// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;

/** What is left of a writer or consumer that dies: what was appended is there, whole and once. */
class JournalSurvivorsTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private String path() {
        return rings.path("j.journal");
    }

    @Test
    void whateverStoreIsTheLastNothingIsTornLostOrDoubled() throws Exception {
        List<String> lines = Stores.run(rings, JournalStores.class, rings.folder().toString());
        String last = lines.get(lines.size() - 1);
        System.out.println(last);
        assertTrue(last.startsWith("done: 17 scenarios") && lines.size() == 18, lines.toString());
        for (String line : lines.subList(0, lines.size() - 1)) {
            assertTrue(line.matches(".*: [1-9][0-9]* stores"), line);
        }
    }

    /** Reads all that comes; the result is how many messages it has seen. */
    private static long reads(JournalReads reader, AtomicBoolean stop) {
        long[] next = {reader.number()};
        while (!stop.get() || reader.poll(message -> next[0] = checked(message, next[0])) > 0) {
            reader.poll(message -> next[0] = checked(message, next[0]), 100, Duration.ofMillis(20));
        }
        return next[0];
    }

    private static long checked(Message message, long expected) {
        assertEquals(expected, message.number());
        assertEquals(expected, message.buffer().getLong(0));
        for (int i = 8; i < message.length(); i++) {
            assertEquals((byte) expected, message.buffer().getByte(i), "byte " + i + " of message " + expected);
        }
        return expected + 1;
    }

    @Test
    void aStoppedWriterKeepsItsSlotUntilItIsKilled() throws Exception {
        try (Journal journal = Journal.create(path(), Journals.small()); JournalReader reader = journal.reader()) {
            Process child = Rings.java(Child.class, "journal-writer", path()).start();
            assertEquals('r', child.getInputStream().read());
            Other.until(() -> journal.stats().messages() > 100);
            assertEquals(0, new ProcessBuilder("kill", "-STOP", Long.toString(child.pid())).start().waitFor());
            Thread.sleep(20);
            final long messages = journal.stats().messages();
            NoFreeSlotException e = assertThrows(NoFreeSlotException.class,
                () -> journal.writer("", Duration.ofMillis(20)));
            assertEquals(child.pid(), e.owners().get(0).pid());
            assertThrows(NoFreeSlotException.class, () -> journal.push(new byte[1], 1, Duration.ofMillis(20)));
            assertTrue(journal.stats().writing());
            assertTrue(Journals.texts(reader).size() >= messages); // it holds no reader back
            assertEquals(137, child.destroyForcibly().waitFor());
            try (JournalWriter heir = Journals.writer(journal)) {
                Journals.append(heir, "x");
                assertTrue(heir.number() > messages);
            }
        }
    }

    @Test
    void readersSeeEachMessageOnceWhileWritersAreKilled() throws Exception {
        try (Journal journal = Journal.create(path(), Journals.small())) {
            AtomicBoolean stop = new AtomicBoolean();
            Other<Long> reader = new Other<>(() -> reads(journal.reader(), stop));
            Other<Long> consumer = new Other<>(() -> reads(Journal.open(path()).consumer("c"), stop));
            long number = 0;
            try {
                for (int round = 0; round < 6; round++) {
                    Process child = Rings.java(Child.class, "journal-writer", path()).start();
                    assertEquals('r', child.getInputStream().read());
                    assertThrows(NoFreeSlotException.class, journal::writer);
                    final long last = number;
                    Other.until(() -> journal.stats().messages() > last);
                    Thread.sleep(30 + 7 * round);
                    assertEquals(137, child.destroyForcibly().waitFor());
                    try (JournalWriter writer = journal.writer("heir", Duration.ofSeconds(5))) {
                        assertEquals(2 * round + 2, writer.epoch());
                        assertTrue(writer.number() > number);
                        number = writer.number();
                        PayloadBuffer bytes = TableTest.buffer(new byte[100]);
                        bytes.setMemory(8, 92, (byte) number);
                        bytes.putLong(0, number++);
                        writer.append(bytes, 0, 100);
                    }
                }
            } finally {
                stop.set(true);
            }
            assertEquals(number, reader.result());
            assertEquals(number, consumer.result());
            System.out.println("messages: " + number);
        }
    }

    @Test
    void aClosedObjectHoldsNothing() throws IOException {
        try (Journal journal = Journal.create(path(), Journals.small())) {
            final long before = rings.held();
            for (boolean helper : new boolean[] {false, true}) {
                JournalWriter writer = journal.writer("w", helper, 1, Duration.ZERO);
                Journals.fill(writer, writer.position() + 4 * Journals.SMALL, 1000);
                writer.sync();
                JournalReader cold = journal.reader();
                JournalReader tail = journal.reader(JournalStart.NEWEST);
                JournalConsumer consumer = journal.consumer("c");
                assertNotNull(cold.take());
                assertNotNull(consumer.take());
                Journals.append(writer, "x");
                assertNotNull(tail.take());
                assertTrue(rings.held() > before + 4);
                cold.close();
                tail.close();
                consumer.close();
                writer.close();
                assertEquals(before, rings.held());
            }
            JournalReader reader = journal.reader();
            JournalWriter writer = journal.writer();
            assertNotNull(reader.take());
            journal.close();
            assertEquals(0, rings.held());
        }
    }

    @Test
    void aJournalIsClosedAlsoIfTheLastSyncFails() throws IOException {
        Journal journal = Journal.create(path(), Journals.small());
        JournalReader reader = journal.reader();
        JournalWriter writer = Journals.writer(journal);
        Journals.append(writer, "x");
        ChannelFile.syncs = file -> file.startsWith(path()) && file.endsWith(".seg") ? -Linux.EIO : 0;
        try {
            assertEquals(Linux.EIO, assertThrows(IoException.class, journal::close).errno());
        } finally {
            ChannelFile.syncs = null;
        }
        assertEquals(0, rings.held());
        assertThrows(ClosedException.class, reader::take);
        journal.close();
        try (Journal again = Journal.open(path()); JournalWriter heir = Journals.writer(again)) {
            assertEquals(1, heir.number());
            assertTrue(!again.stats().failed());
        }
    }

    @Test
    void aSyncThatFailsEndsTheWriterWithItsErrorNumber() {
        try (Journal journal = Journal.create(path(), Journals.small())) {
            JournalWriter writer = Journals.writer(journal);
            Journals.append(writer, "x");
            ChannelFile.syncs = file -> file.startsWith(path()) && file.endsWith(".seg") ? -Linux.ENOSPC : 0;
            try {
                assertEquals(Linux.ENOSPC, assertThrows(IoException.class, writer::sync).errno());
                assertEquals(Linux.ENOSPC, assertThrows(IoException.class,
                    () -> Journals.append(writer, "y")).errno());
                assertTrue(journal.stats().failed());
                assertEquals(List.of("x"), Journals.texts(journal)); // readers go on
                writer.close();
                assertThrows(IoException.class, () -> Journals.writer(journal)); // it writes again, and syncs
                assertTrue(journal.stats().failed());
            } finally {
                ChannelFile.syncs = null;
            }
            try (JournalWriter heir = Journals.writer(journal)) {
                assertTrue(!journal.stats().failed());
                Journals.append(heir, "z");
            }
            assertEquals(List.of("x", "z"), Journals.texts(journal));
        }
    }

    /** From now on a system call on files of the journal whose names end so fails, until the test's end. */
    private void fail(String call, String end, int errno) {
        ChannelFile.faults = (name, file) ->
            name.equals(call) && file.startsWith(path()) && file.endsWith(end) ? -errno : 0;
    }

    @AfterEach
    void repair() {
        ChannelFile.faults = null;
        ChannelFile.syncs = null;
        JournalHelper.threads = null;
    }

    @Test
    void aHelperThatCannotMapASegmentKeepsNoDescriptor() throws Exception {
        try (Journal journal = Journal.create(path(), Journals.small().sync(JournalSync.every(Duration.ofMillis(1))))) {
            final long before = rings.held();
            AtomicInteger calls = new AtomicInteger();
            ChannelFile.faults = (call, file) -> {
                final boolean helpers = Thread.currentThread().getName().equals("flyring-journal-helper");
                return helpers && call.equals("mmap") && file.startsWith(path()) && calls.incrementAndGet() > 0
                    ? -Linux.ENFILE : 0;
            };
            JournalWriter writer = journal.writer();
            Other.until(() -> calls.get() >= 5);
            writer.close();
            assertEquals(before, rings.held());
        }
    }

    /** Where a reader begins does not become another place when the segment cannot be mapped. */
    @Test
    void aReaderWhoseMapFailsGoesOnWhereItWas() {
        try (Journal journal = Journal.create(path(), Journals.small());
            JournalWriter writer = Journals.writer(journal); JournalReader reader = journal.reader();
            JournalReader skipping = journal.reader(JournalStart.OLDEST, false, true)) {
            Journals.append(writer, 0, 4);
            for (JournalReader each : List.of(reader, skipping)) {
                each.seek(JournalStart.number(2));
                fail("mmap", ".seg", Linux.ENFILE);
                assertEquals(Linux.ENFILE, assertThrows(IoException.class, each::take).errno());
                ChannelFile.faults = null;
            }
            writer.sync(); // a check: what lies before it is read as a span
            for (JournalReader each : List.of(reader, skipping)) {
                assertEquals(Journals.numbered(2, 4), Journals.texts(each));
                assertEquals(0, each.lost());
            }
        }
    }

    private void assertIsGivenBack(Journal journal, long before) throws IOException {
        assertEquals(before, rings.held());
        assertFalse(journal.stats().writing() || journal.stats().helping());
        final int closedAt = Layout.JOURNAL_CONTROL_SLOT + Layout.PUBLISHER_SLOT_CLOSED;
        assertEquals(1, (int) Journals.word(path(), closedAt));
        try (JournalWriter heir = journal.writer()) {
            Journals.append(heir, "x");
        }
    }

    @Test
    void aWriterWhoseHelperCannotBeMadeIsGivenBack() throws IOException {
        try (Journal journal = Journal.create(path(), Journals.small())) {
            final long before = rings.held();
            AtomicInteger calls = new AtomicInteger();
            ChannelFile.faults = (call, file) -> call.equals("open") && file.startsWith(path())
                && calls.incrementAndGet() > 1 ? -Linux.EMFILE : 0; // the first is that of the slot
            assertEquals(Linux.EMFILE, assertThrows(IoException.class, journal::writer).errno());
            ChannelFile.faults = null;
            assertEquals(2, calls.get());
            assertIsGivenBack(journal, before);
        }
    }

    @Test
    void aWriterWhoseHelperCannotStartIsGivenBack() throws IOException {
        try (Journal journal = Journal.create(path(), Journals.small())) {
            final long before = rings.held();
            JournalHelper.threads = work -> new Thread(work) {
                @Override
                public void start() {
                    throw new OutOfMemoryError("unable to create native thread");
                }
            };
            assertThrows(OutOfMemoryError.class, journal::writer);
            JournalHelper.threads = null;
            assertIsGivenBack(journal, before);
        }
    }

    @Test
    void aBatchThatIsCutOffByAnErrorLeavesAWriterThatCanBeClosed() throws IOException {
        try (Journal journal = Journal.create(path(), Journals.small())) {
            JournalWriter writer = Journals.writer(journal);
            Journals.fill(writer, Journals.SMALL - 300, 100);
            final long number = writer.number();
            ChannelFile.faults = (call, file) -> {
                if (call.equals("mmap") && file.startsWith(path())) {
                    throw new OutOfMemoryError("of a test");
                }
                return 0;
            };
            DirectBuffer large = TableTest.buffer(new byte[1000]);
            assertThrows(OutOfMemoryError.class, () -> writer.appendMany(large, large)); // in the next segment
            ChannelFile.faults = null;
            assertEquals(number, writer.number());
            assertEquals(2, writer.appendMany(large, large));
            writer.close();
            assertFalse(journal.stats().writing());
            assertEquals(number + 2, Journals.texts(journal).size());
        }
    }

    /** A clock that overflows the stack of an appender. */
    private static long timeOf(boolean fails) {
        if (fails && StackWalker.getInstance().walk(frames -> frames.anyMatch(
            frame -> frame.getClassName().endsWith(".JournalAppender") && !frame.getMethodName().equals("own")))) {
            throw new StackOverflowError();
        }
        return 1;
    }

    /** That a verb, whose middle throws an Error, ends a writer, which can be closed and has left nothing half. */
    private void assertEnds(Journal journal, JournalWriter writer, int whole, Executable verb) throws IOException {
        assertThrows(StackOverflowError.class, verb);
        Executable[] later = {() -> Journals.append(writer, "x"), () -> writer.append(TableTest.text("x"), 0, 1),
            () -> writer.append(ByteBuffer.wrap(new byte[1]), 1), () -> writer.claim(1), writer::sync,
            () -> writer.appendMany(TableTest.text("x"))};
        for (Executable each : later) {
            String told = assertThrows(ClosedException.class, each).getMessage();
            assertTrue(told.contains("java.lang.StackOverflowError") && told.contains("another one"), told);
        }
        assertTrue(journal.stats().writing());
        assertEquals(Journals.numbered(0, whole), Journals.texts(journal));
        writer.close();
        assertFalse(journal.stats().writing());
        assertEquals(Journals.numbered(0, whole), Journals.texts(journal));
        try (JournalWriter heir = journal.writer()) {
            assertEquals(whole, heir.number());
            Journals.append(heir, whole, whole + 3);
        }
        assertEquals(Journals.numbered(0, whole + 3), Journals.texts(journal));
    }

    @Test
    void anErrorInTheMiddleOfAVerbEndsTheWriter() throws IOException {
        boolean[] fails = {false};
        Identity identity = new Identity().clock(() -> timeOf(fails[0]));
        List<Function<JournalWriter, Executable>> verbs = List.of(
            writer -> () -> Journals.append(writer, "x"),
            writer -> () -> writer.append(TableTest.text("x"), 0, 1),
            writer -> () -> writer.append(ByteBuffer.wrap(new byte[1]), 1),
            writer -> {
                JournalClaim claim = writer.claim(2);
                return claim::commit;
            });
        for (Function<JournalWriter, Executable> verb : verbs) {
            try (Journal journal = Journal.create(path(), Journals.small().identity(identity))) {
                JournalWriter writer = Journals.writer(journal);
                Journals.append(writer, 0, 5);
                Executable call = verb.apply(writer);
                assertEnds(journal, writer, 5, () -> {
                    fails[0] = true;
                    try {
                        call.execute();
                    } finally {
                        fails[0] = false;
                    }
                });
            }
            Journal.unlink(path());
        }
    }

    @Test
    void anErrorInTheMiddleOfASyncEndsTheWriter() throws IOException {
        for (boolean each : new boolean[] {false, true}) {
            try (Journal journal = Journal.create(path(), Journals.small())) {
                JournalWriter writer = Journals.writer(journal);
                Journals.append(writer, 0, 5);
                if (each) {
                    journal.change(new JournalOptions().sync(JournalSync.EACH));
                }
                ChannelFile.syncs = file -> {
                    if (file.endsWith(".seg")) {
                        throw new StackOverflowError();
                    }
                    return 0;
                };
                assertEnds(journal, writer, each ? 6 : 5, () -> {
                    try {
                        if (each) {
                            Journals.append(writer, "m5"); // it is appended
                        } else {
                            writer.sync();
                        }
                    } finally {
                        ChannelFile.syncs = null;
                    }
                });
            }
            Journal.unlink(path());
        }
    }

    /** Appends by one of five verbs. */
    private static void appendBy(int verb, JournalWriter writer, byte[] bytes) {
        switch (verb) {
            case 0 -> writer.append(bytes);
            case 1 -> writer.append(TableTest.buffer(bytes), 0, bytes.length);
            case 2 -> writer.append(ByteBuffer.wrap(bytes), 1);
            case 3 -> writer.appendMany(TableTest.buffer(bytes));
            default -> {
                JournalClaim claim = writer.claim(bytes.length);
                claim.buffer().putBytes(0, bytes);
                claim.commit();
            }
        }
    }

    /** Each verb, cut off in its middle; the next writer finds what was appended, and goes on. */
    private static void diveOften(Journal journal, int rounds, Set<Long> appended, AtomicInteger ended) {
        for (int i = 0; i < rounds; i++) {
            final long round = i;
            JournalWriter writer = Journals.writer(journal);
            Dive.from(i, () -> {
                try {
                    appendBy((int) round % 5, writer, bytes(2 * round));
                    appended.add(2 * round);
                } catch (ClosedException e) {
                    ended.incrementAndGet();
                } catch (ViewAliveException e) { // cut off between a claim and its commit (verb 4)
                    assertFalse(appended.contains(2 * round));
                }
            }, 1, 2);
            writer.close();
            try (JournalWriter heir = Journals.writer(journal)) {
                appendBy((int) round % 5, heir, bytes(2 * round + 1));
                appended.add(2 * round + 1);
            }
        }
    }

    private static byte[] bytes(long number) {
        return ByteBuffer.allocate(100).putLong(number).array();
    }

    /** Closes by dives: all but the last close of each object are cut off somewhere. */
    private static void diveIntoCloses(Journal journal, int rounds) throws Exception {
        for (int i = 0; i < rounds; i++) {
            JournalWriter writer = journal.writer("w", i % 2 == 1, 1, Duration.ZERO);
            Journals.append(writer, i, i + 1);
            JournalConsumer consumer = journal.consumer("c");
            JournalReader reader = journal.reader();
            assertNotNull(reader.take());
            assertEquals("m" + i, Journals.text(consumer.take()));
            for (AutoCloseable each : List.of(writer, consumer, reader)) {
                Dive.intoClose(i, each);
            }
            assertFalse(journal.stats().writing() || journal.stats().helping());
            assertThrows(ClosedException.class, consumer::take);
            assertThrows(ClosedException.class, reader::take);
            assertThrows(ClosedException.class, writer::sync);
        }
    }

    @Test
    void aStackOverflowInTheCloseOfAJournalLeavesTheRestToTheNext() throws Exception {
        Journal.create(path(), Journals.small()).close();
        Dive.run(() -> {
            for (int i = 0; i < 20; i++) {
                Journal journal = Journal.open(path());
                journal.push(new byte[10]);
                journal.writer("w", i % 2 == 1, 1, Duration.ZERO);
                assertNotNull(journal.consumer("c").take());
                assertNotNull(journal.reader().take());
                Dive.intoClose(i, journal);
                assertThrows(ClosedException.class, journal::reader);
                assertEquals(0, rings.held());
            }
        });
        try (Journal journal = Journal.open(path())) {
            assertIsGivenBack(journal, rings.held());
        }
    }

    @Test
    void aStackOverflowInACloseLeavesTheRestToTheNext() throws Exception {
        try (Journal journal = Journal.create(path(), Journals.small())) {
            final long before = rings.held();
            Dive.run(() -> diveIntoCloses(journal, 20)); // the first of them load all classes
            assertIsGivenBack(journal, before);
        }
    }

    @Test
    void aStackOverflowInAVerbLeavesNothingHalf() throws Exception {
        Set<Long> appended = new HashSet<>();
        AtomicInteger ended = new AtomicInteger();
        try (Journal journal = Journal.create(path(), Journals.small().segmentSize(1 << 20))) {
            try (JournalWriter writer = Journals.writer(journal)) { // loads all classes
                for (int i = 0; i < 5; i++) {
                    appendBy(i, writer, bytes(-1 - i));
                }
                writer.close();
                assertThrows(ClosedException.class, () -> writer.claim(1));
            }
            Dive.run(() -> diveOften(journal, 100, appended, ended));
            assertTrue(ended.get() > 0);
            List<Long> read = new ArrayList<>();
            try (JournalReader reader = journal.reader()) {
                while (reader.poll(message -> read.add(message.buffer().getLong(0, ByteOrder.BIG_ENDIAN))) > 0) {
                    continue;
                }
            }
            assertTrue(read.containsAll(appended));
            assertEquals(new HashSet<>(read).size(), read.size(), read.toString());
        }
    }

    @Test
    void aJournalIsClosedAlsoIfTheLastSyncFindsWrongWords() throws IOException {
        Journal journal = Journal.create(path(), Journals.small());
        JournalReader reader = journal.reader();
        JournalWriter writer = Journals.writer(journal);
        Journals.append(writer, "x");
        Journals.word(path(), Layout.JOURNAL_CONTROL_SYNCED, 3);
        assertThrows(CorruptJournalException.class, journal::close);
        assertEquals(0, rings.held());
        assertThrows(ClosedException.class, reader::take);
        assertThrows(ClosedException.class, journal::stats);
        journal.close();
    }

    @Test
    void aCloseWaitsForTheHelperAlsoIfTheThreadIsInterrupted() throws Exception {
        CountDownLatch syncs = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        try (Journal journal = Journal.create(path(), Journals.small().sync(JournalSync.every(Duration.ofMillis(1))))) {
            ChannelFile.syncs = file -> {
                if (file.startsWith(path()) && Thread.currentThread().getName().equals("flyring-journal-helper")) {
                    syncs.countDown();
                    awaited(goOn);
                }
                return 0;
            };
            JournalWriter writer = journal.writer();
            Other.until(() -> journal.stats().helping());
            awaited(syncs); // it makes a segment, and holds the helper lock
            Other<Integer> later = new Other<>(() -> {
                Thread.sleep(100);
                goOn.countDown();
                return 0;
            });
            Thread.currentThread().interrupt();
            writer.close(false);
            assertTrue(Thread.interrupted());
            assertFalse(journal.stats().helping());
            later.result();
        } finally {
            goOn.countDown();
        }
    }

    private static void awaited(CountDownLatch latch) {
        try {
            assertTrue(latch.await(Other.PATIENCE, TimeUnit.SECONDS));
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** How many descriptors of the folder this process has, whether it is removed or not. */
    private long folders() throws IOException {
        long count = 0;
        for (String each : Folder.names("/proc/self/fd")) {
            try {
                final String file = Files.readSymbolicLink(Path.of("/proc/self/fd", each)).toString();
                count += file.equals(path()) ? 1 : 0;
            } catch (IOException e) {
                continue; // that of the listing
            }
        }
        return count;
    }

    private boolean isLookedAt() {
        try {
            return folders() == 2;
        } catch (IOException e) {
            throw new java.io.UncheckedIOException(e);
        }
    }

    @Test
    void anUnlinkThatComesTooLateRemovesNoNewerJournal() throws Exception {
        Journal.create(path(), Journals.small()).close();
        final int first = Sys.openFile(path(), Linux.O_RDONLY | Linux.O_DIRECTORY | Linux.O_CLOEXEC, 0);
        Other<Integer> late;
        try {
            assertEquals(0, Sys.lockFolder(first)); // as another unlink
            late = new Other<>(() -> {
                Journal.unlink(path());
                return 0;
            });
            Other.until(this::isLookedAt); // it waits, or will, for the lock of the folder that it has opened
            Folders.remove(Path.of(path()));
            Journal newer = Journal.create(path(), Journals.small());
            newer.push("x".getBytes());
            newer.close();
        } finally {
            Sys.closeFile(first);
        }
        assertThrows(NoSuchChannelException.class, late::result);
        try (Journal newer = Journal.open(path())) {
            assertEquals(List.of("x"), Journals.texts(newer));
        }
    }

    @Test
    void aLookAtTheFolderThatFailsIsToldWithItsErrorNumber() {
        fail("statx", "", Linux.EIO);
        IoException io = assertThrows(IoException.class, () -> Journal.create(path(), Journals.small()));
        assertEquals("statx 5", io.call() + " " + io.errno());
        fail("statx", "", Linux.EACCES);
        assertThrows(AccessDeniedException.class, () -> Journal.create(path(), Journals.small()));
        ChannelFile.faults = null;
        Journal.create(path(), Journals.small()).close();
        fail("statx", "", Linux.EIO);
        assertThrows(IoException.class, () -> Journal.unlink(path()));
        ChannelFile.faults = null;
        Journal.open(path()).close();
    }

    @Test
    void aFolderThatIsGoneHasNoNames() throws IOException {
        assertNull(Folder.names(path()));
        Files.createDirectory(Path.of(path()));
        assertEquals(List.of(), Folder.names(path()));
        Set<String> names = new HashSet<>();
        for (int i = 0; i < 300; i++) {
            String name = "x".repeat(i % 200) + i;
            names.add(name);
            Files.createFile(Path.of(path(), name));
        }
        assertEquals(names, new HashSet<>(Folder.names(path())));
        assertEquals(300, Folder.names(path()).size());
        assertThrows(IoException.class, () -> Folder.names(path() + "/0"));
    }
}
