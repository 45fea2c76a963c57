// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Channels with a foreign end (channel.md 6.15): creating, attaching, and what is refused. */
class ForeignTest {
    private static final int CAPACITY = 4096;

    @RegisterExtension
    final Rings rings = new Rings();

    static ChannelOptions options(Foreign end) {
        return ChannelOptions.inbox().capacity(CAPACITY).publishers(1).subscribers(1).alignment(8).counters(2)
            .foreign(end);
    }

    private Channel create(Foreign end) {
        return Channel.create(rings.path("foreign.ring"), options(end));
    }

    @ParameterizedTest
    @CsvSource({"NONE,0", "PUBLISHER,2", "SUBSCRIBER,4"})
    void theFileSaysWhichEndIsForeign(Foreign end, long features) throws Exception {
        try (Channel channel = create(end); Channel opened = Channel.open(channel.path());
            Channel reading = Rings.openReadOnly(channel.path())) {
            assertEquals(List.of(end, end, end), List.of(channel.foreign(), opened.foreign(), reading.foreign()));
            assertEquals(features, Rings.load(Path.of(channel.path())).getLong(Layout.HEADER_REQUIRED_FEATURES));
        }
        try (Channel broadcast = Channel.create(rings.path("b.ring"), ChannelOptions.broadcast())) {
            assertEquals(Foreign.NONE, broadcast.foreign());
        }
    }

    @ParameterizedTest
    @EnumSource(names = "NONE", mode = EnumSource.Mode.EXCLUDE)
    void onlyAChannelLaidOutLikeAgronasRingCanHaveAForeignEnd(Foreign end) {
        invalid(ChannelOptions.broadcast().publishers(1).subscribers(1).alignment(8).foreign(end));
        invalid(options(end).publishers(2));
        assertEquals("subscribers", assertThrows(InvalidArgumentException.class,
            () -> Channel.create(rings.path("no.ring"), options(end).subscribers(2))).argument());
        invalid(options(end).alignment(64));
        invalid(ChannelOptions.inbox().foreign(end));
        assertEquals(List.of(), rings.files());
    }

    private void invalid(ChannelOptions options) {
        InvalidArgumentException error = assertThrows(InvalidArgumentException.class,
            () -> Channel.create(rings.path("no.ring"), options));
        assertEquals("foreign", error.argument(), error.getMessage());
        assertThrows(InvalidArgumentException.class, () -> Channel.openOrCreate(rings.path("no.ring"), options));
    }

    private String attach(ByteBuffer header, Consumer<ByteBuffer> change) throws Exception {
        ByteBuffer bytes = ByteBuffer.allocate(header.capacity()).order(header.order()).put(0, header, 0,
            header.capacity());
        change.accept(bytes);
        bytes.putInt(Layout.HEADER_CRC, Header.crc(bytes));
        Path file = Files.write(rings.folder().resolve("changed.ring"), bytes.array());
        try {
            return Channel.open(file.toString()).foreign().toString();
        } catch (CorruptHeaderException e) {
            return e.code() + " " + e.field();
        } catch (VersionTooNewException e) {
            assertEquals(6, e.supported());
            return e.code() + " " + e.field() + " " + e.found();
        }
    }

    private String attach(ByteBuffer header, long features) throws Exception {
        return attach(header, bytes -> bytes.putLong(Layout.HEADER_REQUIRED_FEATURES, features));
    }

    @Test
    void aFileWithAnImpossibleForeignEndIsRefused() throws Exception {
        create(Foreign.NONE).close();
        ByteBuffer good = Rings.load(Path.of(rings.path("foreign.ring")));
        assertEquals(List.of("none", "publisher", "subscriber"),
            List.of(attach(good, 0), attach(good, 2), attach(good, 4)));
        assertEquals("corrupt-header required_features", attach(good, 6));
        for (long unknown : new long[] {1, 3, 5, 7, 8, 10, 1L << 33, 2 | 1L << 62}) {
            assertEquals("version-too-new required_features " + unknown, attach(good, unknown));
        }
        // The feature bits are checked in the order of the fields; what a foreign end needs, after all fields.
        assertEquals("corrupt-header required_features", attach(good, bytes ->
            bytes.putLong(Layout.HEADER_REQUIRED_FEATURES, 6).putInt(Layout.HEADER_KIND, 9)));
        assertEquals("corrupt-header counters", attach(good, bytes ->
            bytes.putLong(Layout.HEADER_REQUIRED_FEATURES, 2).putInt(Layout.HEADER_ALIGNMENT, 64)
                .putInt(Layout.HEADER_COUNTERS, -1)));
        int others = 0;
        for (ChannelOptions other : List.of(options(Foreign.NONE).alignment(64), options(Foreign.NONE).publishers(2),
            ChannelOptions.broadcast().alignment(8).publishers(1)
                .subscribers(2), ChannelOptions.broadcast().alignment(8).publishers(1)
                .subscribers(1))) {
            String path = rings.path("other-" + others++ + ".ring");
            Channel.create(path, other).close();
            ByteBuffer header = Rings.load(Path.of(path));
            assertEquals("none", attach(header, 0));
            assertEquals("corrupt-header required_features", attach(header, 2), path);
            assertEquals("corrupt-header required_features", attach(header, 4), path);
        }
    }

    @Test
    void openOrCreateComparesTheForeignEndBetweenAlignmentAndCounters() {
        try (Channel made = Channel.openOrCreate(rings.path("foreign.ring"), options(Foreign.SUBSCRIBER));
            Channel found = Channel.openOrCreate(rings.path("foreign.ring"), options(Foreign.SUBSCRIBER))) {
            assertEquals(made.id(), found.id());
        }
        differs("alignment", options(Foreign.NONE).alignment(64).counters(9));
        ChannelDiffersException error = differs("foreign", options(Foreign.PUBLISHER).counters(9));
        assertEquals(List.of("publisher", "subscriber"), List.of(error.expected(), error.actual()));
        assertEquals("none", differs("foreign", options(Foreign.NONE)).expected());
        differs("counters", options(Foreign.SUBSCRIBER).counters(9));
    }

    private ChannelDiffersException differs(String field, ChannelOptions options) {
        ChannelDiffersException error = assertThrows(ChannelDiffersException.class,
            () -> Channel.openOrCreate(rings.path("foreign.ring"), options));
        assertEquals(field, error.field());
        return error;
    }

    /** Checks that each action is refused because of the foreign end, and does not change the file. */
    private void refused(Channel channel, List<Executable> actions) throws Exception {
        byte[] before = Files.readAllBytes(Path.of(channel.path()));
        for (Executable action : actions) {
            InvalidArgumentException error = assertThrows(InvalidArgumentException.class, action);
            assertEquals(List.of("invalid-argument", "foreign"), List.of(error.code(), error.argument()));
            assertTrue(error.getMessage().contains(channel.path()), error.getMessage());
        }
        assertArrayEquals(before, Files.readAllBytes(Path.of(channel.path())));
    }

    @Test
    void theForeignSubscribersSlotCannotBeTakenOrMoved() throws Exception {
        try (Channel channel = create(Foreign.SUBSCRIBER)) {
            refused(channel, List.of(channel::subscriber, () -> channel.subscriber("s", true),
                () -> channel.subscriber("", false, 0), () -> channel.evict(0),
                () -> channel.publisher("p", CAPACITY), () -> channel.publisher("p", CAPACITY / 2)));
            channel.publisher("p", 0).close();
            channel.lossySubscriber().close();
        }
    }

    @Test
    void theForeignPublishersSlotCannotBeTakenAndItsReaderNotForgotten() throws Exception {
        try (Channel channel = create(Foreign.PUBLISHER); Channel reading = Rings.openReadOnly(channel.path());
            Subscriber subscriber = channel.subscriber("s", false)) {
            refused(channel, List.of(channel::publisher, () -> channel.publisher("p", CAPACITY),
                channel::lossySubscriber, () -> channel.lossySubscriber(Start.OLDEST, 0), reading::lossySubscriber,
                () -> channel.evict(0), subscriber::forget));
            assertTrue(subscriber.kept());
            assertEquals(0, subscriber.poll(message -> { }), "a refused forget has closed nothing");
            AgronaRing foreign = new AgronaRing(channel.path(), channel.header().ringsOffset, CAPACITY);
            assertTrue(foreign.write(1, new byte[9]));
            assertEquals(9, subscriber.take().length());
        }
    }
}
