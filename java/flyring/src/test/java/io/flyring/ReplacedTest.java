// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.function.IntSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Another channel has taken the channel's name. */
class ReplacedTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private ChannelOptions options() {
        return ChannelOptions.broadcast().capacity(4096).publishers(1).subscribers(1).counters(0);
    }

    /** Offers with a publisher, which may throw that the channel was replaced when it looks for room. */
    private static void offerTold(Publisher publisher) {
        try {
            assertTrue(publisher.offer(new byte[5]) > 0);
        } catch (ChannelReplacedException e) {
            assertTrue(publisher.offer(new byte[5]) > 0);
        }
    }

    /** How many empty polls it takes until the replacement is detected; -1 if many do not detect it. */
    private static int polls(IntSupplier poll, Channel now) {
        for (int i = 1; i <= 3 * Layout.POLLS_TO_LOOK; i++) {
            try {
                assertEquals(0, poll.getAsInt());
            } catch (ChannelReplacedException e) {
                assertEquals(List.of("replaced", now.path(), now.id()), List.of(e.code(), e.path(), e.channelId()));
                return i;
            }
        }
        return -1;
    }

    @Test
    void emptyPollsLookForAReplacementNowAndThen() {
        try (Channel channel = Channel.create(rings.path("r.ring"), options());
            Channel reading = Rings.openReadOnly(channel.path()); Subscriber reliable = channel.subscriber();
            LossySubscriber lossy = reading.lossySubscriber(); Publisher publisher = channel.publisher()) {
            List<IntSupplier> all = List.of(() -> reliable.poll(message -> { }), () -> lossy.poll(message -> { }),
                () -> reliable.take() == null ? 0 : 1, () -> lossy.peek() == null ? 0 : 1);
            for (IntSupplier poll : all) {
                assertEquals(-1, polls(poll, channel));
            }
            try (Channel now = Channel.replace(channel.path(), options())) {
                for (IntSupplier poll : all) {
                    assertEquals(Layout.POLLS_TO_LOOK, polls(poll, now));
                    assertEquals(Layout.POLLS_TO_LOOK, polls(poll, now), "again");
                    for (int i = 0; i < Layout.POLLS_TO_LOOK - 1; i++) {
                        assertEquals(0, poll.getAsInt());
                    }
                    offerTold(publisher);
                    assertEquals(5, reliable.take().length(), "works as before");
                    assertEquals(5, lossy.take().length());
                    assertEquals(Layout.POLLS_TO_LOOK, polls(poll, now), "in a row");
                }
            }
        }
    }

    @Test
    void aNameThatIsGoneOrIsNoWholeChannelIsNoReplacement() throws Exception {
        try (Channel channel = Channel.create(rings.path("r.ring"), options());
            LossySubscriber lossy = channel.lossySubscriber()) {
            Path path = Path.of(channel.path());
            byte[] whole = Files.readAllBytes(path);
            Channel.unlink(channel.path());
            assertEquals(-1, polls(() -> lossy.poll(message -> { }), channel));
            Files.write(path, new byte[5000]);
            assertEquals(-1, polls(() -> lossy.poll(message -> { }), channel));
            Files.write(path, whole);
            assertEquals(-1, polls(() -> lossy.poll(message -> { }), channel), "the same id");
            Files.delete(path);
            try (Channel now = Channel.create(channel.path(), options())) {
                assertEquals(Layout.POLLS_TO_LOOK, polls(() -> lossy.poll(message -> { }), now));
            }
        }
    }

    @Test
    void aPublisherThatIsNotHeldBackLooksOnceALap() {
        try (Channel channel = Channel.create(rings.path("r.ring"), options());
            Publisher publisher = channel.publisher()) {
            assertTrue(publisher.offer(new byte[500]) > 0);
            Channel.unlink(channel.path());
            assertEquals(Layout.SUCCESSOR_UNLINKED, channel.control().getInt(Layout.CONTROL_SUCCESSOR));
            try (Channel now = Channel.create(channel.path(), options())) {
                ChannelReplacedException told = assertThrows(ChannelReplacedException.class, () -> {
                    while (publisher.position() < 3 * 4096) {
                        assertTrue(publisher.offer(new byte[500]) > 0);
                    }
                });
                assertEquals(now.id(), told.channelId());
                assertTrue(publisher.offer(new byte[500]) > 0, "it works as before");
            }
        }
    }

    @Test
    void aPublisherThatIsHeldBackLooksToo() throws Exception {
        try (Channel channel = Channel.create(rings.path("r.ring"), options());
            Subscriber sleeper = channel.subscriber(); Publisher publisher = channel.publisher()) {
            while (publisher.offer(new byte[500]) > 0) {
                assertTrue(publisher.position() < 4096);
            }
            Thread.sleep(2);
            assertEquals(Publisher.BACK_PRESSURED, publisher.offer(new byte[500]));
            try (Channel now = Channel.replace(channel.path(), options())) {
                int replaced = 0;
                int backPressured = 0;
                for (long since = System.nanoTime(); replaced < 3 || backPressured < 3;) {
                    assertTrue(System.nanoTime() - since < 10_000_000_000L, replaced + " " + backPressured);
                    try {
                        assertEquals(Publisher.BACK_PRESSURED, publisher.offer(new byte[500]), "not sticky");
                        backPressured++;
                    } catch (ChannelReplacedException e) {
                        assertEquals(now.id(), e.channelId());
                        replaced++;
                    }
                }
                while (sleeper.take() != null) {
                    assertEquals(0, sleeper.slot());
                }
                offerTold(publisher);
            }
        }
    }
}
