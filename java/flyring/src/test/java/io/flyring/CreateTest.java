// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Creating channels, and the errors. */
class CreateTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private static ChannelOptions small() {
        return ChannelOptions.broadcast().capacity(4096).publishers(1).subscribers(1).counters(0);
    }

    @Test
    void aNewChannelIsWhatWasAskedFor() throws Exception {
        String path = rings.path("new.ring");
        try (Channel channel = Channel.create(path, ChannelOptions.inbox().schema("<x/>", 7, 8).mode(0640))) {
            assertEquals(path, channel.path());
            assertEquals(Kind.INBOX, channel.kind());
            assertEquals(1 << 20, channel.capacity());
            assertEquals(List.of(4, 1, 64, 64), List.of(channel.publishers(), channel.subscribers(),
                channel.alignment(), channel.counterSlots()));
            assertEquals("<x/>", channel.schema());
            assertEquals(7, channel.schemaId());
            assertEquals(8, channel.schemaVersion());
            assertTrue(Math.abs(channel.createdAt() - System.currentTimeMillis() * 1_000_000) < 60_000_000_000L);
        }
        assertEquals("rw-r-----", PosixFilePermissions.toString(Files.getPosixFilePermissions(Path.of(path))));
        assertEquals(List.of("new.ring"), rings.files());
    }

    @Test
    void theDefaultChannelHasTheSizeOfTheSpecification() throws Exception {
        String path = rings.path("default.ring");
        Channel.create(path, ChannelOptions.broadcast()).close();
        assertEquals(4_259_840, Files.size(Path.of(path)));
    }

    @Test
    void aNameThatExistsIsRefusedAndLeftAlone() {
        String path = rings.path("one.ring");
        try (Channel first = Channel.create(path, small())) {
            ChannelExistsException error = assertThrows(ChannelExistsException.class,
                () -> Channel.create(path, small()));
            assertEquals(path, error.path());
            assertEquals("exists", error.code());
            try (Channel again = Channel.open(path)) {
                assertEquals(first.id(), again.id());
            }
        }
        assertEquals(List.of("one.ring"), rings.files());
    }

    @Test
    void openOrCreateNamesTheFirstFieldThatDiffers() {
        String path = rings.path("one.ring");
        ChannelOptions options = small().counters(2).schema("<a/>", 1, 2);
        try (Channel made = Channel.openOrCreate(path, options); Channel found = Channel.openOrCreate(path, options)) {
            assertEquals(made.id(), found.id());
        }
        differs(path, "kind", ChannelOptions.inbox().capacity(4096).publishers(1).subscribers(1).counters(0));
        differs(path, "capacity", small().capacity(8192).publishers(3));
        differs(path, "publishers", small().publishers(3).subscribers(3));
        differs(path, "subscribers", small().subscribers(3).alignment(8));
        differs(path, "alignment", small().alignment(8).counters(9));
        differs(path, "counters", small().counters(9));
        differs(path, "schema_id", small().counters(2).schema("<b/>", 3, 3));
        differs(path, "schema_version", small().counters(2).schema("<b/>", 1, 3));
        Channel.openOrCreate(path, small().counters(2).schema("<b/>", 1, 1)).close(); // a reader of an older version
    }

    @Test
    void whatDiffersIsSaidInAtMostTwoHundredCharacters() {
        String path = rings.path("many.ring");
        int[] many = IntStream.range(0, 100).toArray();
        try (Channel channel = Channel.create(path, small().publishers(100))) {
            channel.subscriber("kept", true, many).close();
            ChannelDiffersException error = assertThrows(ChannelDiffersException.class,
                () -> channel.subscriber("kept", true, 1, 2));
            assertEquals(List.of("rings", "[1, 2]", 200), List.of(error.field(), error.expected(),
                error.actual().length()));
            assertTrue(error.actual().startsWith("[0, 1, 2, ") && error.actual().endsWith("..."), error.actual());
            assertTrue(error.getMessage().length() < 1000, error.getMessage());
        }
    }

    private static void differs(String path, String field, ChannelOptions options) {
        ChannelDiffersException error = assertThrows(ChannelDiffersException.class,
            () -> Channel.openOrCreate(path, options));
        assertEquals(field, error.field());
        assertNotEquals(error.expected(), error.actual());
    }

    @Test
    void aReplacedChannelWorksOnForItsUsers() {
        String path = rings.path("one.ring");
        try (Channel old = Channel.create(path, small()); Channel replaced = Channel.replace(path, small());
            Channel opened = Channel.open(path); Publisher publisher = old.publisher()) {
            assertEquals(replaced.id(), opened.id());
            assertNotEquals(old.id(), opened.id());
            assertEquals(List.of(Layout.SUCCESSOR_REPLACED, 0), List.of(successor(old), successor(opened)));
            assertEquals(opened.id(),
                assertThrows(ChannelReplacedException.class, () -> publisher.offer(new byte[8])).channelId());
            assertTrue(publisher.offer(new byte[8]) > 0);
        }
        assertEquals(List.of("one.ring"), rings.files());
        Channel.replace(rings.path("fresh.ring"), small()).close();
        assertEquals(List.of("fresh.ring", "one.ring"), rings.files());
    }

    private static int successor(Channel channel) {
        return channel.control().getInt(Layout.CONTROL_SUCCESSOR);
    }

    @Test
    void anUnlinkedChannelWorksOnForItsUsers() throws Exception {
        String path = rings.path("one.ring");
        try (Channel channel = Channel.create(path, small()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            Channel.unlink(path);
            assertEquals(List.of(), rings.files());
            assertTrue(publisher.offer(new byte[8]) > 0);
            assertEquals(8, subscriber.take().length());
            try (Subscriber none = channel.subscriber("", false, 0)) {
                throw new AssertionError("the only slot is taken, yet there is " + none);
            } catch (NoFreeSlotException e) {
                assertEquals("subscriber", e.kind());
            }
        }
        assertThrows(NoSuchChannelException.class, () -> Channel.unlink(path));
        Files.writeString(Path.of(path), "precious");
        assertThrows(NotAChannelException.class, () -> Channel.unlink(path));
        assertEquals("precious", Files.readString(Path.of(path)));
    }

    @Test
    void twentyCreatesAndUnlinksLeaveNoFileBehind() {
        for (int i = 0; i < 20; i++) {
            try (Channel channel = Channel.create(rings.path("again.ring"), small())) {
                channel.publisher().offer(new byte[10]);
            }
            Channel.unlink(rings.path("again.ring"));
            assertEquals(List.of(), rings.files());
        }
    }

    @Test
    void optionsOutsideTheirRangeAreNamed() {
        invalid("capacity", options -> options.capacity(4095));
        invalid("capacity", options -> options.capacity(2048));
        invalid("capacity", options -> options.capacity(-4096));
        invalid("capacity", options -> options.capacity(Integer.MIN_VALUE));
        invalid("publishers", options -> options.publishers(0));
        invalid("publishers", options -> options.publishers(1025));
        invalid("subscribers", options -> options.subscribers(-1));
        invalid("subscribers", options -> options.subscribers(1025));
        invalid("alignment", options -> options.alignment(16));
        invalid("counters", options -> options.counters(-1));
        invalid("counters", options -> options.counters(65537));
        invalid("schema_id", options -> options.schema("", 65536, 0));
        invalid("schema_version", options -> options.schema("", 0, -1));
        invalid("schema", options -> options.schema("x".repeat((1 << 24) + 1), 0, 0));
        invalid("mode", options -> options.mode(01777));
        assertEquals("options", assertThrows(InvalidArgumentException.class,
            () -> Channel.create(rings.path("x.ring"), null)).argument());
        assertEquals("subscribers", assertThrows(InvalidArgumentException.class,
            () -> Channel.create(rings.path("x.ring"), ChannelOptions.inbox().subscribers(2))).argument());
        InvalidArgumentException error = assertThrows(InvalidArgumentException.class,
            () -> Channel.create(rings.path("x.ring"), ChannelOptions.inbox().subscribers(0)));
        assertEquals("subscribers", error.argument());
        for (String name : List.of("", "with space", "a".repeat(65), "ü")) {
            assertEquals("name",
                assertThrows(InvalidArgumentException.class, () -> Channel.open(name)).argument());
        }
        assertEquals(List.of(), rings.files());
    }

    private void invalid(String argument, Consumer<ChannelOptions> change) {
        ChannelOptions options = small();
        change.accept(options);
        InvalidArgumentException error = assertThrows(InvalidArgumentException.class,
            () -> Channel.create(rings.path("x.ring"), options));
        assertEquals(argument, error.argument());
        assertEquals("invalid-argument", error.code());
    }

    @Test
    void aNameStandsForAFileInTheFolder() throws Exception {
        String folder = System.getenv("FLYRING_DIR");
        assertEquals(folder + "/some.Name_1-2.ring", Channel.pathOf("some.Name_1-2"));
        try (Channel channel = Channel.create("some-name", small())) {
            assertTrue(Files.exists(Path.of(folder, "some-name.ring")), channel.path());
        }
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(Path.of(folder))));
        Channel.unlink("some-name");
        assertFalse(Files.exists(Path.of(folder, "some-name.ring")));
    }

    @Test
    void aRelativeFolderIsMadeAbsolute() throws Exception {
        ProcessBuilder builder = Rings.java(SaysItsPath.class).directory(rings.folder().toFile());
        builder.environment().put("FLYRING_DIR", "relative");
        Process child = builder.start();
        String path = new String(child.getInputStream().readAllBytes(), UTF_8);
        assertEquals(0, child.waitFor());
        assertEquals(rings.folder() + "/relative/c.ring", path);
        assertTrue(Files.exists(Path.of(path)));
    }

    /** A program that creates a channel and says where. */
    static final class SaysItsPath {
        private SaysItsPath() {
        }

        public static void main(String[] arguments) {
            try (Channel channel = Channel.create("c", small())) {
                System.out.print(channel.path());
            }
        }
    }

    @Test
    void aFolderThatIsNotOursAloneIsRefused() throws Exception {
        Path folder = rings.folder().resolve("folder");
        Files.createDirectory(folder,
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        Place.checkOurs(folder.toString(), Sys.effectiveUser());
        AccessDeniedException owner = assertThrows(AccessDeniedException.class,
            () -> Place.checkOurs(folder.toString(), Sys.effectiveUser() + 1));
        assertTrue(owner.reason().contains("belongs to user"), owner.reason());
        Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwx-w----"));
        assertTrue(assertThrows(AccessDeniedException.class,
            () -> Place.checkOurs(folder.toString(), Sys.effectiveUser())).reason().contains("others may write"));
        Path link = Files.createSymbolicLink(rings.folder().resolve("link"), rings.folder());
        assertTrue(assertThrows(AccessDeniedException.class,
            () -> Place.checkOurs(link.toString(), Sys.effectiveUser())).reason().contains("no folder"));
    }
}
