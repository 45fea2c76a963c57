// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;

/** Tables: files, options, errors; get, put, remove, iteration, the rebuild. Reads: {@link TableReadTest}. */
class TableTest {
    private static final Duration NOW = Duration.ZERO;

    @RegisterExtension
    final Rings rings = new Rings();

    private final PayloadBuffer buffer = direct(256);

    /** A buffer outside of the heap. A get of an integer key into it takes the short way, {@link TableLook#copy}. */
    static PayloadBuffer direct(int length) {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(ByteBuffer.allocateDirect(length));
        return buffer;
    }

    /** Gets the value the short way and through a look; both must return or throw the same. */
    static int get(Table table, long key, PayloadBuffer direct) {
        PayloadBuffer heap = buffer(new byte[direct.capacity()]);
        int length;
        try {
            length = table.get(key, direct, 0);
        } catch (FlyringException e) {
            assertEquals(e.getMessage(), assertThrows(e.getClass(), () -> table.get(key, heap, 0)).getMessage());
            throw e;
        }
        assertEquals(length, table.get(key, heap, 0));
        if (length > 0) {
            assertEquals(heap.getStringWithoutLengthAscii(0, length), direct.getStringWithoutLengthAscii(0, length));
        }
        return length;
    }

    static PayloadBuffer buffer(byte[] bytes) {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(bytes);
        return buffer;
    }

    static PayloadBuffer text(String text) {
        return buffer(text.getBytes(StandardCharsets.UTF_8));
    }

    static TableOptions text() {
        return TableOptions.text().capacity(8).valueBytes(40);
    }

    static TableOptions integer() {
        return TableOptions.integer().capacity(8).valueBytes(40);
    }

    private String path() {
        return rings.path("t.table");
    }

    static long put(TableVerbs table, String key, String value) {
        PayloadBuffer bytes = text(value);
        return table.put(key, bytes, 0, bytes.capacity());
    }

    static long put(TableVerbs table, long key, String value) {
        PayloadBuffer bytes = text(value);
        return table.put(key, bytes, 0, bytes.capacity());
    }

    private String get(Table table, String key) {
        int length = table.get(key, buffer, 0);
        return length < 0 ? null : buffer.getStringWithoutLengthUtf8(0, length);
    }

    private String get(Table table, long key) {
        int length = get(table, key, buffer);
        return length < 0 ? null : buffer.getStringWithoutLengthUtf8(0, length);
    }

    @Test
    void theHashIsThatOfTheVectors() throws IOException {
        int seen = 0;
        for (String line : Files.readAllLines(Rings.spec("../examples/routing/vectors.txt"))) {
            String[] words = line.split(" ", 4);
            if (!line.startsWith("#") && words.length == 4) {
                long expected = Long.parseUnsignedLong(words[0], 16);
                byte[] key = words[3].getBytes(StandardCharsets.UTF_8);
                assertEquals(expected, words[2].equals("integer") ? XxHash64.of(Long.parseLong(words[3]))
                    : XxHash64.of(key, key.length), line);
                seen++;
            }
        }
        assertTrue(seen >= 17, "vectors: " + seen);
    }

    @Test
    void aPutIsReadByOtherObjectsAndStaysAfterAClose() {
        try (Table table = Table.create(path(), text()); Table other = Table.open(path())) {
            assertNull(get(other, "one"));
            long first = put(table, "one", "1");
            assertEquals(1, first >> 1, "the stamp");
            assertEquals("1", get(other, "one"));
            long second = put(other, "one", "a longer value, of more than 32 bytes");
            assertEquals(2, second >> 1);
            assertNotEquals(first & 1, second & 1, "the other body");
            assertEquals("a longer value, of more than 32 bytes", get(table, "one"));
            assertEquals(List.of(1L, 2L, 2L), List.of(table.size(), table.version(), other.version()));
            put(table, "", "empty key");
            put(table, "Müller 東京 \uD83D\uDE00", "");
        }
        try (Table table = Table.open(path())) {
            assertEquals("empty key", get(table, ""));
            assertEquals("", get(table, "Müller 東京 \uD83D\uDE00"));
            assertEquals(3, table.size());
            assertEquals(KeyType.TEXT, table.keyType());
        }
    }

    @Test
    void integersAndBytesAreKeys() {
        try (Table table = Table.create(path(), integer())) {
            for (long key : new long[] {0, -1, Long.MAX_VALUE, Long.MIN_VALUE}) {
                put(table, key, "v" + key);
            }
            assertEquals("v-1", get(table, -1));
            assertEquals("v" + Long.MIN_VALUE, get(table, Long.MIN_VALUE));
            assertNull(get(table, 1));
        }
        try (Table table = Table.replace(path(), TableOptions.bytes().capacity(4).keyBytes(9).valueBytes(8))) {
            PayloadBuffer value = text("v");
            table.put(text("a\0"), value, 0, 1);
            table.put(text("a"), value, 0, 0);
            table.put(text("123456789"), value, 0, 1);
            assertEquals(1, table.get(text("a\0"), buffer, 0));
            assertEquals(0, table.get(text("a"), buffer, 0));
            assertEquals(-1, table.get(text("a\0\0"), buffer, 0));
            assertEquals(1, table.get(text("123456789"), buffer, 0));
        }
    }

    @Test
    void theVerbsChangeWhatTheySayAndNothingElse() {
        try (Table table = Table.create(path(), text())) {
            PayloadBuffer one = text("one");
            assertEquals(0, table.compareAndPut("k", 5, one, 0, 3));
            assertFalse(table.remove("k"));
            assertEquals(0, table.update("k", value -> value.putByte(0, (byte) 'x')));
            assertEquals(0, table.version());
            long first = table.putIfAbsent("k", one, 0, 3);
            assertTrue(first > 0);
            assertEquals(0, table.putIfAbsent("k", one, 0, 2));
            assertEquals(0, table.compareAndPut("k", first + 2, one, 0, 2));
            assertEquals(0, table.compareAndPut("k", 0, one, 0, 2));
            assertEquals(2, table.put("k", "array".getBytes(StandardCharsets.UTF_8)) >> 1);
            assertEquals("array", get(table, "k"));
            first = table.put("k", new byte[0]);
            long second = table.compareAndPut("k", first, one, 1, 2);
            assertEquals("ne", get(table, "k"));
            Versioned got = table.getVersioned("k");
            assertEquals(second, got.version());
            assertArrayEquals("ne".getBytes(StandardCharsets.UTF_8), got.value());
            assertNull(table.getVersioned("x"));
            long third = table.update("k", value -> value.putByte(0, (byte) 'N'));
            assertTrue(third > second);
            assertEquals("Ne", get(table, "k"));
            assertThrows(ArithmeticException.class, () -> table.update("k", value -> {
                value.putByte(0, (byte) 'x');
                throw new ArithmeticException();
            }));
            assertThrows(ViewAliveException.class, () -> table.update("k", value -> put(table, "k", "nested")));
            assertThrows(ViewAliveException.class, () -> table.update("k", value -> table.close()));
            assertEquals("Ne", get(table, "k"));
            assertEquals(third, table.getVersioned("k").version());
            assertTrue(table.remove("k"));
            assertNull(get(table, "k"));
            assertEquals(List.of(0L, 6L), List.of(table.size(), table.version()));
            assertTrue(table.compareAndPut("k", 0, one, 0, 3) > third, "a version is never used again");
        }
    }

    @Test
    void aFullTableRefusesANewKeyAndTakesItAfterARemove() {
        try (Table table = Table.create(path(), integer())) {
            for (int key = 0; key < 8; key++) {
                put(table, key, "v" + key);
            }
            NoSpaceException full = assertThrows(NoSpaceException.class, () -> put(table, 8, "v8"));
            assertEquals(List.of(1L, 0L), List.of(full.needed(), full.free()));
            put(table, 3, "changed");
            assertTrue(table.remove(5));
            put(table, 8, "v8");
            assertEquals("v8", get(table, 8));
            assertNull(get(table, 5));
            assertEquals("changed", get(table, 3));
            Map<Long, String> seen = new TreeMap<>();
            table.forEach(item -> seen.put(item.integerKey(), item.value().getStringWithoutLengthUtf8(0,
                item.value().capacity())));
            assertEquals("{0=v0, 1=v1, 2=v2, 3=changed, 4=v4, 6=v6, 7=v7, 8=v8}", seen.toString());
            assertEquals(8, table.clear());
            assertEquals(List.of(0L, 0L), List.of(table.size(), table.clear()));
            assertNull(get(table, 0));
        }
    }

    @Test
    void itIsLikeAHashMapThroughManyRebuilds() {
        Random random = new Random(26);
        Map<Long, String> map = new HashMap<>();
        try (Table table = Table.create(path(), TableOptions.integer().capacity(50).valueBytes(8));
            Table reader = Table.open(path())) {
            for (int i = 0; i < 20_000; i++) {
                long key = random.nextInt(80);
                if (random.nextInt(3) == 0) {
                    assertEquals(map.remove(key) != null, table.remove(key));
                } else if (map.size() < 50 || map.containsKey(key)) {
                    map.put(key, "v" + i);
                    put(table, key, "v" + i);
                }
                long asked = random.nextInt(80);
                assertEquals(map.get(asked), get(reader, asked), "key " + asked + " at change " + i);
            }
            assertEquals(map.size(), table.size());
            assertTrue(table.stats().filled() <= table.stats().entries() * 7 / 8, table.stats().toString());
            long generation = TableFile.open(path(), new OpenOptions()).generation();
            assertTrue(generation > 20, "rebuilds: " + generation);
            Map<Long, String> met = new HashMap<>();
            table.forEach(item -> met.put(item.integerKey(),
                item.value().getStringWithoutLengthUtf8(0, item.value().capacity())));
            assertEquals(map, met);
        }
    }

    @Test
    void oneWriterAtATime() throws Exception {
        try (Table table = Table.create(path(), text()); Table other = Table.open(path())) {
            PayloadBuffer one = text("1");
            TableWriter writer = table.writer("feed");
            assertEquals(1, writer.epoch());
            for (Executable refused : List.<Executable>of(other::writer, () -> other.writer("x", Duration.ofMillis(3)),
                () -> other.put("k", one, 0, 1, NOW), () -> table.writer("x", Duration.ofMillis(2)),
                () -> other.remove("k", NOW), () -> other.clear(NOW), () -> other.grow(100, NOW))) {
                NoFreeSlotException error = assertThrows(NoFreeSlotException.class, refused);
                assertEquals("writer", error.kind());
                assertEquals("feed", error.owners().get(0).name());
                assertTrue(error.getMessage().contains("'feed' (pid " + ProcessHandle.current().pid() + ")"),
                    error.getMessage());
            }
            assertTrue(other.stats().writing());
            put(writer, "k", "1");
            Other<Long> waits = new Other<>(() -> put(other, "k", "2"));
            Thread.sleep(20);
            assertFalse(waits.done());
            writer.close();
            writer.close();
            assertEquals(4, waits.result() & -2);
            assertThrows(ClosedException.class, () -> put(writer, "k", "3"));
            assertFalse(other.stats().writing());
            try (TableWriter next = other.writer("next", NOW)) {
                assertEquals(3, next.epoch());
                assertEquals("next", table.stats().writer());
            }
        }
    }

    @Test
    void aSingleChangeBesideTheWriterOfThisProcessIsBusyAtOnce() throws Exception {
        try (Table table = Table.create(path(), text())) {
            put(table, "k", "1");
            PayloadBuffer one = text("1");
            TableWriter writer = table.writer("feed");
            for (Executable refused : List.<Executable>of(() -> put(table, "k", "2"), () -> table.remove("k"),
                () -> table.putIfAbsent("k", one, 0, 1), () -> table.update("k", value -> { }), table::clear,
                () -> table.grow(100, Duration.ofHours(1)))) {
                BusyException error = assertThrows(BusyException.class, refused);
                assertTrue(error.getMessage().contains("has a writer open that was made from this very object: 'feed'"),
                    error.getMessage());
            }
            put(writer, "k", "2");
            writer.close();
            put(table, "k", "3");
            assertEquals("3", get(table, "k"));
        }
    }

    @Test
    void aHandlerMayNotChangeItsTable() {
        try (Table table = Table.create(path(), text()); TableWriter writer = table.writer()) {
            PayloadBuffer one = text("1");
            put(writer, "k", "1");
            for (Executable inside : List.<Executable>of(() -> put(table, "k", "2"), () -> put(writer, "k", "2"),
                () -> table.remove("x"), () -> writer.remove("x"), () -> table.put(7, one, 0, 1), table::close,
                writer::close, table::writer, table::clear, writer::clear, () -> writer.grow(100),
                () -> table.grow(100, NOW), () -> writer.put(7, one, 0, 1),
                () -> writer.snapshot(rings.path("s.table")), () -> table.close(true),
                () -> writer.put(table.entry("k"), one, 0, 1))) {
                assertTrue(writer.update("k", value -> {
                    value.putByte(0, (byte) (value.getByte(0) + 1));
                    assertThrows(ViewAliveException.class, inside);
                    assertNull(get(table, "x"), "a read is allowed");
                }) > 0);
            }
            assertEquals(Character.toString('1' + 16), get(table, "k"));
        }
        assertEquals(List.of("t.table"), rings.files());
    }

    @Test
    void aReplacedTableIsReadOnAndTellsItsWriters() throws Exception {
        try (Table table = Table.create(path(), text()); Table held = Table.open(path())) {
            put(table, "k", "1");
            try (TableWriter writer = held.writer(); Table next = Table.replace(path(), text())) {
                Thread.sleep(2);
                assertEquals("1", get(table, "k"));
                assertEquals(List.of(1L, 1L), List.of(table.size(), held.version()));
                table.forEach(item -> assertEquals("k", item.textKey()));
                ChannelReplacedException error = assertThrows(ChannelReplacedException.class,
                    () -> put(writer, "k", "2"));
                assertEquals(next.id(), error.channelId());
                put(writer, "k", "3"); // it was told once
                assertEquals("3", get(table, "k"));
                assertThrows(NoFreeSlotException.class, () -> table.put("k", text("4"), 0, 1, NOW));
                writer.close();
                for (int i = 0; i < 2; i++) {
                    assertThrows(ChannelReplacedException.class, () -> table.put("k", text("4"), 0, 1, NOW));
                    assertThrows(ChannelReplacedException.class, table::writer);
                    assertThrows(ChannelReplacedException.class, () -> table.waitChanged(table.version(), NOW));
                    assertThrows(ChannelReplacedException.class, () -> table.waitChanged("x", 0, NOW));
                }
                assertEquals(2, table.waitChanged(1, NOW), "it has changed");
                assertNull(get(next, "k"));
            }
        }
    }

    @Test
    void aSingleChangeStoresThatItsOwnerIsThereAndWakes() {
        try (Table table = Table.create(path(), text());
            Table quiet = Table.open(path(), new OpenOptions().wake(false))) {
            TableFile file = TableFile.open(path(), new OpenOptions());
            try (TableWriter writer = table.writer("feed")) {
                assertEquals(List.of(0, 1L, 1L), slot(file));
                assertEquals(1, writer.epoch());
            }
            assertEquals(List.of(1, 1L, 1L), slot(file));
            put(quiet, "k", "1");
            assertEquals(List.of(0, 0L, 2L), slot(file));
            assertFalse(TableSlot.ownerWakes(file));
            put(table, "k", "1");
            assertEquals(List.of(0, 3L, 3L), slot(file));
            assertTrue(TableSlot.ownerWakes(file));
            quiet.writer("").close();
            assertEquals(List.of(1, 0L, 4L), slot(file));
            assertTrue(TableSlot.ownerWakes(file), "there is no owner");
        }
    }

    private static List<Object> slot(TableFile file) {
        int at = Layout.TABLE_CONTROL_SLOT;
        return List.of(file.control.getInt(at + Layout.PUBLISHER_SLOT_CLOSED),
            file.word(at + Layout.PUBLISHER_SLOT_WAKES), file.word(at + Layout.PUBLISHER_SLOT_EPOCH));
    }

    @Test
    void statsTellWhoWritesAndWhatIsLeftToDo() {
        try (Table table = Table.create(path(), text())) {
            put(table, "a", "1");
            TableFile file = TableFile.open(path(), new OpenOptions());
            try (TableWriter writer = table.writer("feed")) {
                put(writer, "b", "2");
                TableStats stats = table.stats();
                assertEquals(List.of(path(), table.id(), 8L, 2L, 2L, 16L, 2L, 0L), List.of(stats.path(), stats.id(),
                    stats.capacity(), stats.size(), stats.version(), stats.entries(), stats.filled(),
                    stats.rebuild()));
                assertEquals(List.of(true, false, false, "feed", 2L, 0, false, false), List.of(stats.writing(),
                    stats.closed(), stats.unfinished(), stats.writer(), stats.epoch(), stats.successor(),
                    stats.needsRecovery(), stats.clean()));
                assertEquals(ProcessHandle.current().pid(), stats.pid());
                file.word(Layout.TABLE_CONTROL_INTENT, file.entry(0, file.home(1)));
                file.word(Layout.TABLE_CONTROL_STAMP, 3);
                assertFalse(table.stats().unfinished(), "its writer may finish it");
            }
            assertTrue(table.stats().closed());
            assertTrue(table.stats().unfinished());
            put(table, "a", "1");
            assertFalse(table.stats().unfinished());
            table.close(true);
        }
        try (Table table = Table.open(path(), new OpenOptions().identity(new Identity().bootId(new UUID(2, 6))))) {
            assertTrue(table.stats().clean());
            assertFalse(table.stats().needsRecovery());
            TableFile.open(path(), new OpenOptions()).control.putInt(Layout.TABLE_CONTROL_CLEAN, 0);
        }
        try (Table table = Table.open(path(), new OpenOptions().identity(new Identity().bootId(new UUID(2, 6))))) {
            assertTrue(table.stats().needsRecovery());
            assertThrows(NeedsRecoveryException.class, table::size);
        }
    }

    @Test
    void aWriterWhoseSlotWasTakenLosesIt() {
        try (Table table = Table.create(path(), text()); TableWriter writer = table.writer()) {
            put(writer, "k", "1");
            TableFile file = TableFile.open(path(), new OpenOptions());
            file.wordRelease(Layout.TABLE_CONTROL_SLOT + Layout.PUBLISHER_SLOT_EPOCH, 7);
            for (Executable change : List.<Executable>of(() -> put(writer, "k", "2"), () -> writer.grow(100),
                writer::clear, () -> writer.snapshot(rings.path("s.table")))) {
                assertThrows(SlotLostException.class, change);
            }
            assertEquals("1", get(table, "k"));
            assertEquals(List.of("t.table"), rings.files());
        }
    }

    @Test
    void whatIsNotValidIsRefusedAndChangesNothing() {
        PayloadBuffer value = buffer(new byte[64]);
        try (Table table = Table.create(path(), text().keyBytes(4)); TableWriter writer = table.writer()) {
            for (TableVerbs verbs : List.of(table, writer)) {
                assertEquals("key", assertThrows(InvalidArgumentException.class, () -> verbs.put(1, value, 0, 1))
                    .argument());
                assertThrows(InvalidArgumentException.class, () -> verbs.put(value, value, 0, 1));
                assertThrows(InvalidArgumentException.class, () -> verbs.put("\uD83D", value, 0, 1));
                assertThrows(InvalidArgumentException.class, () -> verbs.put((CharSequence) null, value, 0, 1));
                MessageTooLargeException large = assertThrows(MessageTooLargeException.class,
                    () -> verbs.put("Mülle", value, 0, 1));
                assertEquals(List.of(6L, 4L), List.of(large.length(), large.limit()));
                large = assertThrows(MessageTooLargeException.class, () -> verbs.put("k", value, 0, 41));
                assertEquals(List.of(41L, 40L), List.of(large.length(), large.limit()));
                assertThrows(IndexOutOfBoundsException.class, () -> verbs.put("k", value, 60, 8));
                assertThrows(IndexOutOfBoundsException.class, () -> verbs.put("k", value, 0, -1));
            }
            assertThrows(InvalidArgumentException.class, () -> table.put("k", value, 0, 1, Duration.ofNanos(-1)));
            assertThrows(InvalidArgumentException.class, () -> table.writer("a b"));
            assertEquals(0, table.version());
            put(writer, "k", "12345678");
            MessageTooLargeException small = assertThrows(MessageTooLargeException.class,
                () -> table.get("k", buffer(new byte[10]), 3));
            assertEquals(List.of(8L, 7L), List.of(small.length(), small.limit()));
        }
    }

    @Test
    void optionsOutsideTheirRangeAreRefused() {
        Map<String, TableOptions> bad = new HashMap<>();
        bad.put("capacity", TableOptions.text().valueBytes(1));
        bad.put("value_bytes", TableOptions.text().capacity(1));
        bad.put("key_bytes", text().keyBytes(1025));
        bad.put("mode", text().mode(01000));
        bad.forEach((argument, options) -> assertEquals(argument, assertThrows(InvalidArgumentException.class,
            () -> Table.create(path(), options)).argument()));
        for (TableOptions options : List.of(text().capacity(0), text().capacity((1 << 30) + 1), text().keyBytes(0),
            integer().keyBytes(4), text().valueBytes((1 << 24) + 1), text().valueBytes(-1))) {
            assertThrows(InvalidArgumentException.class, () -> Table.create(path(), options));
            assertThrows(InvalidArgumentException.class, () -> Table.openOrCreate(path(), options));
        }
        assertEquals(List.of(), rings.files());
    }

    @Test
    void openOrCreateComparesAndReplaceReplaces() {
        try (Table table = Table.openOrCreate(path(), text())) {
            put(table, "k", "1");
            assertThrows(ChannelExistsException.class, () -> Table.create(path(), text()));
            try (Table same = Table.openOrCreate(path(), text().capacity(5))) {
                assertEquals("1", get(same, "k"));
            }
            Map<String, TableOptions> other = new HashMap<>();
            other.put("key_type", TableOptions.bytes().capacity(8).valueBytes(40));
            other.put("key_bytes", text().keyBytes(33));
            other.put("value_bytes", text().valueBytes(41));
            other.put("capacity", text().capacity(9));
            other.put("checked", text().checked(true));
            other.forEach((field, options) -> assertEquals(field, assertThrows(ChannelDiffersException.class,
                () -> Table.openOrCreate(path(), options)).field()));
            try (Table replaced = Table.replace(path(), text())) {
                assertNull(get(replaced, "k"));
                ChannelReplacedException error = assertThrows(ChannelReplacedException.class,
                    () -> put(table, "k", "2"));
                assertEquals(replaced.id(), error.channelId());
            }
            Table.unlink(path());
            assertThrows(NoSuchChannelException.class, () -> Table.open(path()));
            assertThrows(NoSuchChannelException.class, () -> Table.unlink(path()));
            assertEquals(List.of(), rings.files());
        }
    }

    @Test
    void aTableIsNoChannelAndAChannelNoTable() throws IOException {
        Table.create(path(), text()).close();
        Channel.create(rings.path("c.ring"), ChannelOptions.broadcast()).close();
        assertThrows(NotAChannelException.class, () -> Channel.open(path()));
        assertThrows(NotAChannelException.class, () -> Channel.unlink(path()));
        assertThrows(NotAChannelException.class, () -> Table.open(rings.path("c.ring")));
        assertThrows(NotAChannelException.class, () -> Table.unlink(rings.path("c.ring")));
        assertEquals(List.of("c.ring", "t.table"), rings.files());
        Files.createDirectory(Path.of(rings.path("d.table")));
        assertThrows(NotAChannelException.class, () -> Table.open(rings.path("d.table")));
        assertTrue(Table.waitFor(path(), Duration.ofSeconds(1)).path().endsWith("/t.table"));
        assertThrows(TimedOutException.class, () -> Table.waitFor(rings.path("x.table"), Duration.ofMillis(3)));
    }

    @Test
    void readOnlyReadsAndChangesNothing() {
        try (Table table = Table.create(path(), text());
            Table reading = Table.open(path(), new OpenOptions().readOnly(true))) {
            put(table, "k", "1");
            assertEquals("1", get(reading, "k"));
            assertEquals(1, reading.size());
            PayloadBuffer one = text("1");
            for (Executable write : List.<Executable>of(reading::writer, () -> reading.put("k", one, 0, 1),
                () -> reading.remove("k"), reading::clear, reading::sync, () -> reading.grow(100, NOW))) {
                assertEquals("read-only", assertThrows(AccessDeniedException.class, write).reason());
            }
            assertEquals("1", reading.entry("k").read(value -> value.getStringWithoutLengthUtf8(0, 1)));
            assertEquals(2, reading.stats().version() + 1);
        }
    }

    @Test
    void afterACloseEveryVerbIsClosed() {
        Table table = Table.create(path(), text());
        put(table, "k", "1");
        Entry entry = table.entry("k");
        TableWriter writer = table.writer();
        table.close();
        table.close();
        for (Executable verb : List.<Executable>of(() -> table.get("k", buffer, 0), () -> put(table, "k", "2"),
            table::size, table::version, table::writer, entry::version, () -> put(writer, "k", "2"), table::stats,
            () -> table.waitChanged("k", 0, NOW), () -> table.forEach(item -> { }), table::clear, table::sync)) {
            assertThrows(ClosedException.class, verb);
        }
        try (Table again = Table.open(path()); TableWriter free = again.writer()) {
            assertNotNull(free);
        }
    }

    @Test
    void aHeaderThatIsWrongIsRefused() throws IOException {
        Table.create(path(), text()).close();
        Path file = Path.of(path());
        byte[] good = Files.readAllBytes(file);
        for (int at = 0; at < Layout.TABLE_HEADER_VALUE_TEMPLATE + 4; at++) {
            byte[] bytes = good.clone();
            bytes[at] ^= 0x55;
            Files.write(file, bytes);
            int where = at;
            FlyringException error = assertThrows(FlyringException.class, () -> Table.open(path()), "byte " + where);
            assertEquals(at < 8 ? "not-a-channel" : at < 10 || at >= 16 && at < 24 ? "version-too-new"
                : at >= 32 && at < 40 ? error.code() : "corrupt-header", error.code(), "byte " + at);
            ByteBuffer page = ByteBuffer.wrap(bytes).order(java.nio.ByteOrder.LITTLE_ENDIAN);
            page.putInt(Layout.TABLE_HEADER_CRC, Header.crc(page));
            Files.write(file, bytes);
            boolean free = at == 10 || at == 11 || at >= 24 && at < 32 || at >= 40 && at < 64
                || at >= 160 && at % 4 < 2; // an id or version may be any number of 16 bits
            if (free) {
                Table.open(path()).close();
            } else {
                assertThrows(FlyringException.class, () -> Table.open(path()), "byte " + where + " with a crc");
            }
        }
        for (int length : new int[] {0, 7, 9, 100, 4095, 4096, good.length - 1}) {
            Files.write(file, java.util.Arrays.copyOf(good, length));
            String code = assertThrows(FlyringException.class, () -> Table.open(path())).code();
            assertEquals(length < 8 ? "not-a-channel" : "truncated", code, "length " + length);
        }
    }

    @Test
    void aTableOfMoreThanOnePieceIsWhole() throws IOException {
        Path folder = Files.createTempDirectory("flyring-java-test"); // on disk: it is long, and hardly written
        try (Table table = Table.create(folder + "/big.table", TableOptions.integer().capacity(40)
            .valueBytes(Layout.TABLE_MAX_VALUE_BYTES).anyFileSystem(true));
            Table other = Table.open(folder + "/big.table", new OpenOptions().anyFileSystem(true))) {
            TableFile file = TableFile.open(table.path(), new OpenOptions().anyFileSystem(true));
            assertEquals(41, file.header.cells);
            int crossing = (int) ((1L << 30) / file.header.cellStride);
            assertEquals(List.of(true, false, true), List.of(file.usable(crossing - 1), file.usable(crossing),
                file.usable(crossing + 1)));
            for (int key = 0; key < 40; key++) {
                put(table, key, "v" + key);
            }
            assertThrows(NoSpaceException.class, () -> put(table, 40, "v40"));
            for (int key = 0; key < 40; key++) {
                assertEquals("v" + key, get(other, key));
            }
            long[] met = new long[1];
            other.forEach(item -> met[0]++);
            assertEquals(40, met[0]);
        } finally {
            Folders.remove(folder);
        }
    }

    @Test
    void noCellCrossesAPiece() {
        for (long stride : new long[] {192, 64 * 3 + 128, 1 << 20, (1 << 24) + 192, 3 << 20}) {
            for (long capacity : new long[] {1, 1000, 6_000_000, 1 << 30}) {
                long cells = TableHeader.cells(capacity, stride);
                long crossing = 0;
                for (long m = 1; m <= (cells * stride - 1) >> 30; m++) {
                    crossing += (m << 30) % stride == 0 ? 0 : 1;
                }
                assertEquals(capacity, cells - crossing, stride + " " + capacity);
                long last = (cells - 1) * stride;
                assertEquals(last >> 30, last + stride - 1 >> 30, "the last one is usable");
            }
        }
    }
}
