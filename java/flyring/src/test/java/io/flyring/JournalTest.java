// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;

/** Journals: files, options, errors, attach, unlink, push, change, stats. */
class JournalTest {
    private static final Duration NOW = Duration.ZERO;

    @RegisterExtension
    final Rings rings = new Rings();

    private String path() {
        return rings.path("j.journal");
    }

    private Journal create() {
        return Journal.create(path(), Journals.small());
    }

    private static void refused(String argument, Executable call) {
        assertEquals(argument, assertThrows(InvalidArgumentException.class, call).argument());
    }

    @Test
    void aNewJournalHasTheBytesOfThePage() throws IOException {
        Identity identity = Journals.bootId(1).channelId(new java.util.UUID(3, 4)).createdAt(77);
        JournalOptions options = Journals.small().identity(identity).sync(JournalSync.every(Duration.ofMillis(5)))
            .maxAge(Duration.ofSeconds(2)).maxSize(1 << 20).trimConsumed(true);
        Journal.create(path(), options).close();
        assertEquals(List.of("0000000000000000000.seg", "control"), files());
        ByteBuffer control = Rings.load(Path.of(path(), "control"));
        assertEquals(4096 + 4096, control.capacity()); // 1024 + 4 * 256 bytes of control section
        assertEquals("FLYJRNL\0", new String(control.array(), 0, 8));
        assertEquals(1, control.getShort(8));
        assertEquals(8192, control.getLong(32));
        assertEquals(77, control.getLong(56));
        assertEquals(4, control.getInt(68));
        assertEquals(Journals.SMALL, control.getLong(72));
        assertEquals(64, control.getLong(4096 + 192)); // claimed, published, checked, ready
        assertEquals(64, control.getLong(4096 + 256));
        assertEquals(0, control.getLong(4096 + 272));
        assertEquals(Journals.SMALL, control.getLong(4096 + 320));
        assertEquals(5_000_000, control.getLong(4096 + 512));
        assertEquals(2_000_000_000L, control.getLong(4096 + 520));
        assertEquals(1 << 20, control.getLong(4096 + 528));
        assertEquals(1, control.getInt(4096 + 536));
        ByteBuffer segment = Rings.load(Path.of(Journals.segment(path(), 0)));
        assertEquals(4096 + Journals.SMALL, segment.capacity());
        assertEquals("FLYSEGM\0", new String(segment.array(), 0, 8));
        assertEquals(0, segment.getLong(32));
        assertEquals(Journals.SMALL, segment.getLong(40));
        assertEquals(64, segment.getInt(4096)); // the first check
        assertEquals(-3, segment.getInt(4096 + 4));
        assertEquals(0, segment.getInt(4096 + 32));
        assertEquals(0, segment.getLong(4096 + 64));
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(Path.of(path()))));
    }

    @Test
    void theFolderIsOpenToThoseThatMayUseTheFiles() throws IOException {
        int[][] modes = {{0600, 02700}, {0640, 02750}, {0660, 02770}, {0664, 02775}, {0620, 02730}};
        for (int[] mode : modes) {
            for (boolean there : new boolean[] {false, true}) {
                final Path folder = Path.of(path());
                if (there) { // the user's own folder keeps the bits that it has
                    Files.createDirectory(folder);
                    Files.setAttribute(folder, "unix:mode", 02700);
                }
                Journal.create(path(), Journals.small().mode(mode[0])).close();
                final int wanted = there ? mode[1] : mode[1] & 0777;
                assertEquals(wanted, (Integer) Files.getAttribute(folder, "unix:mode") & 07777);
                for (String file : files()) {
                    final int is = (Integer) Files.getAttribute(folder.resolve(file), "unix:mode") & 07777;
                    assertEquals(mode[0], is, file);
                }
                Journal.unlink(path());
            }
        }
    }

    private List<String> files() throws IOException {
        try (var all = Files.list(Path.of(path()))) {
            return all.map(each -> each.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void createOpenUnlink() throws IOException {
        assertThrows(NoSuchChannelException.class, () -> Journal.open(path()));
        try (Journal journal = create()) {
            assertEquals(path(), journal.path());
            assertEquals(path(), assertThrows(ChannelExistsException.class, this::create).path());
            try (Journal again = Journal.open(path())) {
                assertEquals(journal.id(), again.id());
                assertEquals(Journals.SMALL, again.segmentSize());
            }
            try (JournalWriter writer = journal.writer()) {
                assertEquals("writer", assertThrows(NoFreeSlotException.class, () -> Journal.unlink(path())).kind());
            }
            JournalReader reader = journal.reader();
            Journal.unlink(path());
            assertFalse(Files.exists(Path.of(path())));
            assertThrows(NoSuchChannelException.class, () -> Journal.unlink(path()));
            assertThrows(NoSuchChannelException.class, journal::writer);
            assertThrows(NoSuchChannelException.class, () -> journal.push(new byte[1]));
            assertThrows(NoSuchChannelException.class, () -> journal.consumer("c"));
            assertThrows(NoSuchChannelException.class, journal::reader);
            assertThrows(NoSuchChannelException.class, () -> reader.poll(message -> { })); // its segments are gone
            assertEquals(2, journal.stats().successor());
        }
        create().close();
        assertEquals(2, files().size());
    }

    @Test
    void aFolderWithOtherFilesIsNoJournal() throws IOException {
        Files.createDirectory(Path.of(path()));
        Files.createFile(Path.of(path(), "precious.txt"));
        assertThrows(NotAChannelException.class, this::create);
        assertThrows(NoSuchChannelException.class, () -> Journal.open(path()));
        Files.delete(Path.of(path(), "precious.txt"));
        Files.createFile(Path.of(Journals.segment(path(), 0))); // what a killed creator left is replaced
        Files.createFile(Path.of(Journals.segment(path(), 1 << 20)));
        create().close();
        assertEquals(List.of("0000000000000000000.seg", "control"), files());
        Files.createFile(Path.of(path(), "precious.txt"));
        Journal.unlink(path());
        assertEquals(List.of("precious.txt"), files());
        Files.delete(Path.of(path(), "precious.txt"));
        Files.delete(Path.of(path()));
        Files.createFile(Path.of(path()));
        assertThrows(NotAChannelException.class, this::create);
    }

    @Test
    void aLinkToAFolderIsNoJournal() throws IOException {
        final String real = rings.path("real.journal");
        Journal.create(real, Journals.small()).close();
        Files.createSymbolicLink(Path.of(path()), Path.of(real));
        assertThrows(NotAChannelException.class, this::create);
        assertThrows(NotAChannelException.class, () -> Journal.unlink(path()));
        assertTrue(Files.isSymbolicLink(Path.of(path())));
        Journal.open(real).close();
        Journal.unlink(real);
        assertThrows(NotAChannelException.class, this::create); // the link leads nowhere
        assertFalse(Files.exists(Path.of(real)));
    }

    /** What a creator has not named yet is the journal's own (channel.md 3.2); other files are a user's. */
    @Test
    void onlyTheJournalsOwnFilesAreRemoved() throws IOException {
        Files.createDirectory(Path.of(path()));
        final List<String> own = List.of(".control.0123456789abcdef.tmp", ".0000000000000065536.seg.77.tmp",
            Path.of(ChannelFile.temporary(path() + "/control")).getFileName().toString());
        final List<String> others = List.of(".control.tmp", ".note.tmp", ".note.1.tmp", ".x.seg.1.tmp", ".1.seg.1.tmp");
        for (String other : others) {
            Files.createFile(Path.of(path(), other));
            assertThrows(NotAChannelException.class, this::create, other);
            Files.delete(Path.of(path(), other));
        }
        for (String each : own) {
            assertTrue(each.matches("\\.(control|[0-9]{19}\\.seg)\\.[0-9A-Za-z]+\\.tmp"), each); // as Python says
            Files.createFile(Path.of(path(), each));
        }
        create().close();
        for (String other : others) {
            Files.createFile(Path.of(path(), other));
        }
        Journal.unlink(path());
        assertEquals(others.stream().sorted().toList(), files());
    }

    @Test
    void aBrokenJournalIsUnlinkedOnlyIfTheSlotIsFree() throws IOException {
        try (Journal journal = create()) {
            for (int at : new int[] {8, 70}) { // of a newer version, and broken
                try (JournalWriter writer = journal.writer("held")) {
                    Journals.flip(path() + "/control", at);
                    assertThrows(FlyringException.class, () -> Journal.open(path()));
                    assertThrows(NoFreeSlotException.class, () -> Journal.unlink(path()));
                    Journals.append(writer, "x");
                }
                if (at == 8) {
                    Journals.flip(path() + "/control", at);
                }
            }
            assertEquals(List.of("x", "x"), Journals.texts(journal));
        }
        Journal.unlink(path());
        assertFalse(Files.exists(Path.of(path())));
    }

    @Test
    void aSlotThatIsTakenNamesTheLastWriterIfThereWasOne() {
        try (Journal journal = create(); JournalFile other = JournalFile.open(path(), new OpenOptions());
            JournalSeat push = new JournalSeat(other)) {
            assertTrue(push.tryLock(Layout.JOURNAL_CONTROL_SLOT)); // as a push
            assertEquals(path() + ": the writer's slot is taken. Wait longer, close that writer, or kill its process if"
                + " it is stopped.", assertThrows(NoFreeSlotException.class, journal::writer).getMessage());
            push.close();
            final String pid = " (pid " + ProcessHandle.current().pid() + "). Wait longer";
            for (String name : List.of("", "held")) {
                try (JournalWriter writer = journal.writer(name)) {
                    final String last = name.isEmpty() ? "without a name" : "'held'";
                    final String text = assertThrows(NoFreeSlotException.class, journal::writer).getMessage();
                    assertTrue(text.contains("The last JournalWriter was " + last + pid), text);
                }
            }
        }
    }

    @Test
    void aFullDiskIsToldWithWhatHelps() {
        ChannelFile.allocations = file -> file.startsWith(path()) && file.contains(".seg") ? -Linux.ENOSPC : 0;
        try {
            final String created = assertThrows(NoSpaceException.class, this::create).getMessage();
            assertTrue(created.endsWith("Choose smaller segments, or make room on the disk."), created);
            ChannelFile.allocations = null;
            try (Journal journal = create(); JournalWriter writer = Journals.writer(journal)) {
                ChannelFile.allocations = file -> file.startsWith(path()) ? -Linux.ENOSPC : 0;
                final NoSpaceException full = assertThrows(NoSpaceException.class,
                    () -> Journals.fill(writer, Journals.SMALL, 1000));
                assertEquals(4096 + Journals.SMALL, full.needed());
                final String text = full.getMessage();
                assertTrue(text.endsWith("Trim the journal, or make room on the disk."), text);
            }
        } finally {
            ChannelFile.allocations = null;
        }
    }

    @Test
    void ofManyCreatorsAtOnceOneCreates() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        try {
            for (int round = 0; round < 10; round++) {
                List<Callable<Integer>> creators = new ArrayList<>();
                for (int i = 0; i < 4; i++) {
                    creators.add(() -> {
                        try (Journal journal = create()) {
                            journal.push("m0".getBytes());
                            return 1;
                        } catch (ChannelExistsException e) {
                            return 0;
                        }
                    });
                }
                int created = 0;
                for (Future<Integer> each : pool.invokeAll(creators)) {
                    created += each.get();
                }
                assertEquals(1, created);
                try (Journal journal = Journal.open(path())) {
                    assertEquals(List.of("m0"), Journals.texts(journal));
                }
                Journal.unlink(path());
            }
        } finally {
            pool.shutdownNow();
        }
    }

    @Test
    void optionsThatAreNotValid() {
        refused("segment_size", () -> Journal.create(path(), new JournalOptions().segmentSize(1 << 15)));
        refused("segment_size", () -> Journal.create(path(), new JournalOptions().segmentSize(100_000)));
        refused("consumers", () -> Journal.create(path(), Journals.small().consumers(1025)));
        refused("consumers", () -> Journal.create(path(), Journals.small().consumers(-1)));
        refused("sync", () -> JournalSync.every(Duration.ofNanos(999_999)));
        refused("sync", () -> JournalSync.every(Duration.ofHours(2)));
        refused("max_age", () -> Journal.create(path(), Journals.small().maxAge(Duration.ofNanos(-1))));
        refused("max_size", () -> Journal.create(path(), Journals.small().maxSize(-1)));
        refused("mode", () -> Journal.create(path(), Journals.small().mode(01000)));
        refused("name", () -> Journal.create("a b", Journals.small()));
        refused("options", () -> Journal.create(path(), null));
        assertFalse(Files.exists(Path.of(path())));
        assertThrows(IoException.class, () -> Journal.create(rings.path("none/j.journal"), Journals.small()));
    }

    @Test
    void openOrCreateComparesWhatWasGiven() {
        JournalOptions options = Journals.small().sync(JournalSync.EACH).maxSize(1 << 20);
        Journal.openOrCreate(path(), options).close();
        Journal.openOrCreate(path(), options).close();
        Journal.openOrCreate(path(), new JournalOptions()).close();
        differs("segment_size", "131072", "65536", new JournalOptions().segmentSize(1 << 17).consumers(5));
        differs("consumers", "5", "4", Journals.small().consumers(5).sync(JournalSync.NEVER));
        differs("content", "recording", "messages", new JournalOptions().content(1));
        differs("sync", "never", "each", new JournalOptions().sync(JournalSync.NEVER).maxAge(Duration.ofSeconds(1)));
        differs("max_age", "1000000000", "0", new JournalOptions().maxAge(Duration.ofSeconds(1)).maxSize(0));
        differs("max_size", "0", "1048576", new JournalOptions().maxSize(0).trimConsumed(true));
        differs("trim_consumed", "true", "false", new JournalOptions().trimConsumed(true));
        differs("schema_id", "7", "0", new JournalOptions().schema(new byte[1], 7, 0));
    }

    private void differs(String field, String expected, String actual, JournalOptions options) {
        ChannelDiffersException e = assertThrows(ChannelDiffersException.class,
            () -> Journal.openOrCreate(path(), options));
        assertEquals(field + " " + expected + " " + actual, e.field() + " " + e.expected() + " " + e.actual());
    }

    @Test
    void attachRefusesWhatIsBroken() throws IOException {
        create().close();
        byte[] good = Files.readAllBytes(Path.of(path(), "control"));
        for (int at : new int[] {70, 60, 4092}) {
            Journals.flip(path() + "/control", at);
            assertEquals("crc", assertThrows(CorruptHeaderException.class, () -> Journal.open(path())).field());
            Journals.flip(path() + "/control", at);
        }
        badField(good, "content", 64, 2);
        badField(good, "consumers", 68, 1025);
        badField(good, "segment_size", 72, 3 << 15);
        badField(good, "control_offset", 80, 8192);
        badField(good, "control_length", 88, 8192);
        badField(good, "schema_offset", 96, 4096);
        badField(good, "schema_length", 104, -1);
        badField(good, "schema_id", 112, 65536);
        badField(good, "schema_version", 116, 65536);
        Files.write(Path.of(path(), "control"), java.util.Arrays.copyOf(good, 5000));
        assertEquals(5000, assertThrows(TruncatedException.class, () -> Journal.open(path())).actual());
        Files.write(Path.of(path(), "control"), new byte[100]);
        assertThrows(NotAChannelException.class, () -> Journal.open(path()));
        assertThrows(NotAChannelException.class, () -> Journal.unlink(path()));
    }

    private void badField(byte[] good, String field, int at, int value) throws IOException {
        byte[] bad = good.clone();
        ByteBuffer page = ByteBuffer.wrap(bad).order(java.nio.ByteOrder.LITTLE_ENDIAN);
        page.putInt(at, value);
        page.putInt(4092, Header.crc(page));
        Files.write(Path.of(path(), "control"), bad);
        assertEquals(field, assertThrows(CorruptHeaderException.class, () -> Journal.open(path())).field());
    }

    @Test
    void readOnlyReadsAndWritesNothing() throws IOException {
        try (Journal journal = create(); Journal reading = Journal.open(path(), new OpenOptions().readOnly(true))) {
            journal.push("m0".getBytes());
            try (JournalReader reader = reading.reader()) {
                assertEquals(List.of("m0"), Journals.texts(reader));
            }
            for (Executable call : List.<Executable>of(reading::writer, () -> reading.push(new byte[1]),
                () -> reading.consumer("c"), reading::trimConsumed, () -> reading.trimSize(0),
                () -> reading.forget("c"), () -> reading.change(new JournalOptions().maxSize(1)))) {
                assertThrows(AccessDeniedException.class, call);
            }
            assertEquals(1, reading.stats().messages());
        }
    }

    @Test
    void pushIsAnAppendThatTakesTheSlot() throws IOException {
        try (Journal journal = create(); Journal other = Journal.open(path())) {
            assertEquals(64, journal.push("m0".getBytes()));
            assertEquals(128, journal.push("m1".getBytes()));
            long epoch = journal.stats().epoch();
            assertEquals(192, other.push("m2".getBytes())); // another owner in between
            assertTrue(journal.stats().epoch() > epoch);
            assertEquals(256, journal.push("m3".getBytes()));
            assertFalse(journal.stats().writing());
            assertEquals(Journals.numbered(0, 4), Journals.texts(other));
            refused("type", () -> journal.push(new byte[1], 0, NOW));
            refused("timeout", () -> journal.push(new byte[1], 1, Duration.ofNanos(-1)));
            assertThrows(MessageTooLargeException.class, () -> journal.push(new byte[Journals.SMALL / 4 - 15]));
            try (JournalWriter writer = journal.writer("held")) {
                assertThrows(BusyException.class, () -> journal.push(new byte[1]));
                NoFreeSlotException e = assertThrows(NoFreeSlotException.class,
                    () -> other.push(new byte[1], 1, Duration.ofMillis(5)));
                assertEquals("held", e.owners().get(0).name());
                Journals.append(writer, "m4");
            }
            journal.push("m5".getBytes());
            assertEquals(Journals.numbered(0, 6), Journals.texts(other));
        }
    }

    @Test
    void errorsComeInTheirOrder() {
        try (Journal journal = Journal.create(path(), Journals.small())) {
            Journal reading = Journal.open(path(), new OpenOptions().readOnly(true));
            for (boolean closed : new boolean[] {false, true}) {
                Class<? extends FlyringException> first = closed ? ClosedException.class
                    : InvalidArgumentException.class;
                Class<? extends FlyringException> second = closed ? ClosedException.class
                    : AccessDeniedException.class;
                assertThrows(first, () -> reading.writer("a b"));
                assertThrows(first, () -> reading.writer("", true, 0, Duration.ZERO));
                assertThrows(first, () -> reading.writer("", true, 17, Duration.ZERO));
                assertThrows(first, () -> reading.writer("", Duration.ofNanos(-1)));
                assertThrows(first, () -> reading.consumer(""));
                assertThrows(first, () -> reading.forget("a b"));
                assertThrows(first, () -> reading.trimPosition(-1));
                assertThrows(first, () -> reading.trimSize(-1));
                assertThrows(first, () -> reading.push(new byte[1], 0, Duration.ZERO));
                assertThrows(first, () -> reading.change(new JournalOptions().maxSize(-1)));
                assertThrows(second, reading::writer);
                assertThrows(second, () -> reading.consumer("c"));
                assertThrows(second, () -> reading.forget("c"));
                assertThrows(second, reading::trimConsumed);
                assertThrows(second, () -> reading.push(new byte[1]));
                assertThrows(second, () -> reading.change(new JournalOptions().maxSize(1)));
                if (!closed) {
                    reading.close();
                }
            }
            try (JournalWriter writer = Journals.writer(journal)) {
                assertThrows(BusyException.class, () -> journal.push(new byte[1]));
                assertThrows(MessageTooLargeException.class, () -> journal.push(new byte[Journals.SMALL]));
            }
        }
    }

    @Test
    void changeChangesWhatIsGiven() {
        try (Journal journal = create()) {
            journal.change(new JournalOptions().sync(JournalSync.EACH).maxAge(Duration.ofSeconds(3)));
            assertEquals(JournalSync.EACH, journal.stats().sync());
            journal.change(new JournalOptions().maxSize(5).trimConsumed(true));
            JournalStats stats = journal.stats();
            assertEquals(3_000_000_000L, stats.maxAge());
            assertEquals(5, stats.maxSize());
            assertTrue(stats.trimConsumed());
            refused("segment_size", () -> journal.change(Journals.small()));
            refused("max_size", () -> journal.change(new JournalOptions().maxSize(-1)));
        }
    }

    @Test
    void statsTellWhatThereIs() {
        long[] now = {1000};
        try (Journal journal = Journal.create(path(), Journals.small()
            .identity(new Identity().clock(() -> now[0]).pid(42)))) {
            JournalStats empty = journal.stats();
            assertEquals(0, empty.oldest() + empty.newest() + empty.unsyncedSince() + empty.messages());
            try (JournalWriter writer = Journals.writer(journal)) {
                Journals.append(writer, "m0");
                writer.sync();
                now[0] = 2000;
                Journals.append(writer, "m1");
                now[0] = 1500;
                Journals.append(writer, "m2");
                JournalConsumer consumer = journal.consumer("c");
                consumer.take();
                JournalStats stats = journal.stats();
                assertEquals(path(), stats.path());
                assertEquals("w", stats.writer());
                assertEquals(42, stats.pid());
                assertEquals(1000, stats.attachedAt());
                assertTrue(stats.writing() && !stats.helping() && !stats.failed() && !stats.needsRecovery());
                assertEquals(3, stats.messages());
                assertEquals(writer.position(), stats.published());
                assertEquals(128, stats.synced());
                assertEquals(1000, stats.oldest());
                assertEquals(2000, stats.newest());
                assertEquals(2000, stats.unsyncedSince());
                assertEquals(1, stats.segments());
                assertEquals(4096 + Journals.SMALL, stats.bytes());
                assertEquals(List.of(
                    new JournalConsumerStats(0, "c", 128, 2, writer.position() - 128, 0, true, 42, 1500)),
                    stats.consumers());
                consumer.close();
                assertFalse(journal.stats().consumers().get(0).live());
            }
            assertFalse(journal.stats().writing());
        }
    }

    @Test
    void afterCloseEveryVerbIsClosed() {
        Journal journal = create();
        JournalWriter writer = journal.writer();
        JournalReader reader = journal.reader();
        JournalConsumer consumer = journal.consumer("c");
        journal.close();
        journal.close();
        for (Executable call : List.<Executable>of(journal::writer, journal::reader, () -> journal.consumer("c"),
            () -> journal.push(new byte[1]), journal::stats, journal::trimConsumed, () -> journal.forget("c"),
            () -> writer.append(new byte[1]), () -> writer.claim(1), writer::sync, () -> writer.appendMany(),
            () -> reader.poll(message -> { }), reader::take, () -> reader.seek(JournalStart.OLDEST), consumer::pop,
            consumer::peek, consumer::size, consumer::sync)) {
            assertEquals("closed", assertThrows(ClosedException.class, call).code());
        }
        try (Journal again = Journal.open(path()); JournalWriter heir = again.writer()) {
            assertEquals(2, heir.epoch());
        }
    }

    @Test
    void waitForWaitsUntilThereIsAJournal() throws Exception {
        assertThrows(TimedOutException.class, () -> Journal.waitFor(path(), Duration.ofMillis(5)));
        Other<Journal> waiting = new Other<>(() -> Journal.waitFor(path(), Duration.ofSeconds(20)));
        Thread.sleep(20);
        try (Journal journal = create()) {
            assertEquals(journal.id(), waiting.result().id());
            waiting.result().close();
        }
    }
}
