// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.tomlj.Toml;
import org.tomlj.TomlArray;
import org.tomlj.TomlTable;

/** Attaching to files of every kind. */
class AttachTest {
    @RegisterExtension
    final Rings rings = new Rings();

    static Stream<String> golden() throws Exception {
        return GoldenTest.names();
    }

    /** Attaches; returns code and field of the error, or "ok". */
    private static String attach(Path file) {
        try {
            Channel.open(file.toString()).close();
            return "ok";
        } catch (CorruptHeaderException e) {
            return e.code() + " " + e.field();
        } catch (VersionTooNewException e) {
            return e.code() + " " + e.field();
        } catch (FlyringException e) {
            return e.code();
        }
    }

    private Path write(ByteBuffer bytes) throws Exception {
        Path file = rings.folder().resolve("file.ring");
        Files.write(file, bytes.array());
        return file;
    }

    @ParameterizedTest
    @MethodSource("golden")
    void aFileCutAnywhereIsSaidToBeTruncated(String name) throws Exception {
        byte[] whole = Files.readAllBytes(Rings.spec("golden/" + name + ".ring"));
        Path file = rings.folder().resolve("cut.ring");
        for (int length = 0; length < whole.length; length += 64) {
            Files.write(file, Arrays.copyOf(whole, length));
            assertEquals(length == 0 ? "not-a-channel" : "truncated", attach(file), name + " cut at " + length);
        }
        Files.write(file, whole);
        assertEquals("ok", attach(file));
    }

    @Test
    void aTruncatedFileSaysHowLongItShouldBeAndIs() throws Exception {
        byte[] whole = Files.readAllBytes(Rings.spec("golden/1.0/one-message.ring"));
        Path file = rings.folder().resolve("cut.ring");
        Files.write(file, Arrays.copyOf(whole, 8192));
        TruncatedException error = assertThrows(TruncatedException.class, () -> Channel.open(file.toString()));
        assertEquals(whole.length, error.expected());
        assertEquals(8192, error.actual());
    }

    @Test
    void aFileShorterThanItsHeaderSaysHowLongAHeaderIs() throws Exception {
        byte[] whole = Files.readAllBytes(Rings.spec("golden/1.0/one-message.ring"));
        Path file = rings.folder().resolve("cut.ring");
        for (int length : new int[] {8, 10, 24, 39, 40, 48, 4095}) {
            Files.write(file, Arrays.copyOf(whole, length));
            TruncatedException error = assertThrows(TruncatedException.class, () -> Channel.open(file.toString()));
            assertEquals(List.of(4096L, (long) length), List.of(error.expected(), error.actual()));
        }
    }

    @Test
    void bothForeignEndsAtOnceComeBeforeTheFieldsBehindThem() throws Exception {
        ByteBuffer bytes = Rings.load(Rings.spec("golden/1.0/one-message.ring"));
        bytes.putLong(Layout.HEADER_REQUIRED_FEATURES, 6);
        for (int kind : new int[] {0, Layout.KIND_INBOX}) {
            bytes.putInt(Layout.HEADER_KIND, kind);
            bytes.putInt(Layout.HEADER_CRC, Header.crc(bytes));
            assertEquals("corrupt-header required_features", attach(write(bytes)));
        }
    }

    @Test
    void eachFlippedHeaderByteIsTheErrorOfTheTable() throws Exception {
        TomlArray flips = Toml.parse(Rings.spec("layout.toml")).getArrayOrEmpty("flip");
        ByteBuffer golden = Rings.load(Rings.spec("golden/1.0/one-message.ring"));
        int next = 0;
        for (int i = 0; i < flips.size(); i++) {
            TomlTable flip = flips.getTable(i);
            assertEquals(next, flip.getLong("first"));
            for (; next <= flip.getLong("last"); next++) {
                ByteBuffer bytes = ByteBuffer.allocate(golden.capacity()).order(golden.order()).put(0, golden, 0,
                    golden.capacity());
                bytes.put(next, (byte) ~bytes.get(next));
                String expected = flip.getString("error");
                if (expected.equals("file_length")) {
                    expected = bytes.getLong(Layout.HEADER_FILE_LENGTH) > bytes.capacity() ? "truncated"
                        : "corrupt-header file_length";
                } else if (flip.contains("field")) {
                    expected += " " + flip.getString("field");
                }
                assertEquals(expected, attach(write(bytes)), "byte " + next);
            }
        }
        assertEquals(Layout.HEADER_LENGTH, next);
        assertEquals("ok", attach(write(golden)));
    }

    @Test
    void eachBadFieldIsNamed() throws Exception {
        try (Channel channel = Channel.create(rings.path("default.ring"), ChannelOptions.inbox())) {
            assertEquals(1 << 20, channel.capacity());
        }
        ByteBuffer good = Rings.load(Path.of(rings.path("default.ring")));
        TomlArray fields = Toml.parse(Rings.spec("layout.toml")).getArrayOrEmpty("bad_field");
        assertTrue(fields.size() > 50, "fields tried: " + fields.size());
        for (int i = 0; i < fields.size(); i++) {
            TomlTable field = fields.getTable(i);
            ByteBuffer bytes = ByteBuffer.allocate(good.capacity()).order(good.order()).put(0, good, 0,
                good.capacity());
            int offset = (int) Layout.class.getDeclaredField("HEADER_" + field.getString("field")
                .toUpperCase(Locale.ROOT)).get(null);
            long value = field.getLong("value");
            switch (field.getLong("size").intValue()) {
                case 2 -> bytes.putShort(offset, (short) value);
                case 4 -> bytes.putInt(offset, (int) value);
                default -> bytes.putLong(offset, value);
            }
            bytes.putInt(Layout.HEADER_CRC, Header.crc(bytes));
            String expected = field.getString("error");
            expected += expected.equals("truncated") ? "" : " " + field.getString("names");
            assertEquals(expected, attach(write(bytes)), field.toToml());
        }
    }

    @Test
    void aNewerMinorVersionAndUnknownOptionalFeaturesAreRead() throws Exception {
        ByteBuffer bytes = Rings.load(Rings.spec("golden/1.0/one-message.ring"));
        bytes.putShort(Layout.HEADER_MINOR, (short) 7);
        bytes.putLong(Layout.HEADER_OPTIONAL_FEATURES, -1);
        bytes.putLong(2000, 77);
        bytes.putInt(Layout.HEADER_CRC, Header.crc(bytes));
        assertEquals("ok", attach(write(bytes)));
    }

    @Test
    void anotherMajorVersionAndAnUnknownRequiredFeatureAreVersionTooNew() throws Exception {
        ByteBuffer bytes = Rings.load(Rings.spec("golden/1.0/one-message.ring"));
        bytes.putShort(Layout.HEADER_MAJOR, (short) 2);
        Path newer = write(bytes);
        VersionTooNewException error = assertThrows(VersionTooNewException.class,
            () -> Channel.open(newer.toString()));
        assertEquals("major", error.field());
        assertEquals(2, error.found());
        assertEquals(1, error.supported());
        bytes.putShort(Layout.HEADER_MAJOR, (short) 1);
        bytes.putLong(Layout.HEADER_REQUIRED_FEATURES, 1L << 40);
        bytes.putInt(Layout.HEADER_CRC, Header.crc(bytes));
        Path unknown = write(bytes);
        error = assertThrows(VersionTooNewException.class, () -> Channel.open(unknown.toString()));
        assertEquals("required_features", error.field());
        assertEquals(1L << 40, error.found());
        assertEquals(6, error.supported());
    }

    @Test
    void aFileThatIsNoChannelIsRefused() throws Exception {
        assertEquals("not-a-channel", attach(write(ByteBuffer.allocate(0))));
        assertEquals("not-a-channel", attach(write(ByteBuffer.wrap("FLY".getBytes()))));
        assertEquals("not-a-channel", attach(write(ByteBuffer.wrap("Dear reader, this is a text.\n".getBytes()))));
        assertEquals("not-a-channel", attach(write(ByteBuffer.allocate(100_000))));
        assertEquals("not-a-channel", attach(rings.folder()));
        Path link = rings.folder().resolve("link.ring");
        Files.createSymbolicLink(link, Rings.spec("golden/1.0/one-message.ring").toAbsolutePath());
        assertEquals("not-a-channel", attach(link));
        Path pipe = rings.folder().resolve("pipe.ring");
        assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
        assertEquals("not-a-channel", attach(pipe));
        assertEquals("no-such-channel", attach(rings.folder().resolve("missing.ring")));
        assertEquals("no-such-channel", attach(rings.folder().resolve("pipe.ring/deeper.ring")));
    }

    @Test
    void aChannelBeingCreatedIsThereWholeOrNotAtAll() throws Exception {
        ChannelOptions options = ChannelOptions.inbox().capacity(4096).publishers(2).subscribers(1).counters(4);
        AtomicReference<String> go = new AtomicReference<>("");
        TreeMap<String, Integer> seen = new TreeMap<>();
        List<Throwable> wrong = new ArrayList<>();
        Thread creator = new Thread(() -> {
            String last = "";
            while (!last.equals("stop")) {
                String next = go.get();
                if (next.equals(last)) {
                    Thread.onSpinWait();
                } else if (!next.equals("stop")) {
                    Channel.create(next, options).close();
                }
                last = next;
            }
        });
        creator.setUncaughtExceptionHandler((thread, error) -> wrong.add(error));
        creator.start();
        for (int race = 0; race < 1000; race++) {
            String path = rings.path("race-" + race + ".ring");
            go.set(path);
            for (String outcome = ""; !outcome.equals("ok");) {
                outcome = attach(Path.of(path));
                seen.merge(outcome, 1, Integer::sum);
                assertTrue(creator.isAlive(), () -> "the creator failed: " + wrong);
            }
        }
        go.set("stop");
        creator.join();
        assertEquals("[no-such-channel, ok]", seen.keySet().toString());
        assertEquals(1000, seen.get("ok"));
        assertEquals(List.of(), wrong);
    }
}
