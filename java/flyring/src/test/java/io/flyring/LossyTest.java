// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ReadOnlyBufferException;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Subscribers without a slot. */
class LossyTest {
    private static final int CAPACITY = 4096;

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create(int alignment) {
        return Channel.create(rings.path("lossy.ring"), ChannelOptions.broadcast().capacity(CAPACITY).publishers(2)
            .subscribers(1).alignment(alignment).counters(2));
    }

    private Memory ring(Channel channel, int ring) {
        return channel.file().map(channel.header().ringOffset(ring), channel.header().ringStride, false);
    }

    private static void publish(Publisher publisher, int from, int to) {
        for (int i = from; i < to; i++) {
            assertTrue(publisher.offer(Rings.pattern(i, 10 + i % 40), 0, 10 + i % 40, 1 + i) > 0);
        }
    }

    private static void assertMessage(int i, Message message) {
        assertNotNull(message, "message " + i);
        assertEquals(1 + i, message.type());
        assertArrayEquals(Rings.pattern(i, 10 + i % 40), message.toByteArray());
    }

    @Test
    void lappedWhileTheRingLooksEmptyItGoesOnWithWhatIsPublishedNext() {
        try (Channel channel = create(64); Publisher publisher = channel.publisher();
            LossySubscriber lossy = channel.lossySubscriber(Start.NOW, WhenLapped.NEWEST, 0, 1)) {
            publish(publisher, 0, 3);
            assertMessage(0, lossy.take());
            long at = lossy.position(0);
            for (int i = 3; publisher.position() < at + CAPACITY; i++) {
                publish(publisher, i, i + 1);
            }
            assertEquals(at + CAPACITY, publisher.position());
            assertEquals(0, ring(channel, 0).getInt((int) at & CAPACITY - 1), "it looks empty there");
            assertNull(lossy.take());
            assertEquals(List.of(64L, (long) CAPACITY), List.of(lossy.lostMessages(0), lossy.lostBytes(0)));
            assertEquals(publisher.position(), lossy.position(0));
            publish(publisher, 100, 101);
            assertMessage(100, lossy.take());
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 64})
    void lostCountsAreExactWhereverItIsLapped(int alignment) {
        try (Channel channel = create(alignment); Publisher publisher = channel.publisher();
            LossySubscriber lossy = channel.lossySubscriber(Start.NOW, WhenLapped.NEWEST, 0)) {
            int published = 0;
            int delivered = 0;
            int jumps = 0;
            for (int round = 0; round < 300; round++) {
                publish(publisher, published, published + round);
                published += round;
                for (int i = 0; i < 7; i++) {
                    Message message = lossy.take();
                    if (message != null) {
                        assertMessage((int) (delivered + lossy.lostMessages(0)), message);
                        assertTrue(message.position() >= lossy.lostBytes(0));
                        delivered++;
                    }
                }
                long before = lossy.position(0);
                long lost = lossy.lostBytes(0);
                if (round % 3 == 0) {
                    publisher.claim(100).abort();
                    publish(publisher, published, published + 200);
                    published += 200;
                    assertEquals(0, lossy.poll(message -> { }));
                    assertEquals(publisher.position() - before, lossy.lostBytes(0) - lost);
                    assertEquals(published, delivered + lossy.lostMessages(0));
                    jumps++;
                }
            }
            assertTrue(delivered > 300 && jumps == 100 && lossy.lostMessages(0) > 20_000);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 64})
    void itBeginsWithTheOldestMessageThatIsStillThere(int alignment) {
        try (Channel channel = create(alignment)) {
            try (LossySubscriber none = channel.lossySubscriber(Start.OLDEST)) {
                assertNull(none.take());
                assertEquals(64, none.position(1));
            }
            Publisher publisher = channel.publisher("first");
            int published = 0;
            for (int step = 1; step < 100; step++) {
                publish(publisher, published, published + step % 9);
                published += step % 9;
                try (LossySubscriber lossy = channel.lossySubscriber(Start.OLDEST, 0)) {
                    List<Integer> found = new ArrayList<>();
                    lossy.poll(message -> {
                        assertMessage(message.type() - 1, message);
                        found.add(message.type() - 1);
                    }, 1000);
                    assertEquals(0, lossy.lostMessages(0));
                    int first = found.isEmpty() ? published : found.get(0);
                    assertEquals(published - first, found.size());
                    assertTrue(publisher.position() < CAPACITY ? first == 0
                        : publisher.position() - lossy.position(0) == 0 && found.size() > 20,
                        "at " + publisher.position() + " from " + first + ": " + found.size());
                }
            }
            assertTrue(publisher.position() > 3 * CAPACITY);
            publisher.close();
        }
    }

    @Test
    void aPeekIsValidUntilThePublisherComesRound() {
        try (Channel channel = create(64); Publisher publisher = channel.publisher("p");
            LossySubscriber lossy = channel.lossySubscriber(Start.OLDEST, WhenLapped.NEWEST, 0)) {
            assertNull(lossy.peek());
            assertThrows(InvalidArgumentException.class, lossy::valid);
            publish(publisher, 0, 60);
            Message message = lossy.peek();
            assertMessage(0, message);
            assertEquals(new Sender(0, "p", 1), message.sender());
            assertThrows(ReadOnlyBufferException.class, () -> message.buffer().putByte(0, (byte) 1));
            assertMessage(0, lossy.peek());
            assertTrue(lossy.valid());
            assertThrows(IndexOutOfBoundsException.class, () -> message.buffer().getByte(0));
            assertThrows(InvalidArgumentException.class, lossy::valid);
            assertMessage(1, lossy.peek());
            assertMessage(1, lossy.take());
            assertThrows(InvalidArgumentException.class, lossy::valid);
            assertMessage(2, lossy.peek());
            publish(publisher, 60, 65);
            assertFalse(lossy.valid());
            assertEquals(List.of(63L, publisher.position()), List.of(lossy.lostMessages(0), lossy.position(0)));
            assertNull(lossy.peek());
            publish(publisher, 65, 66);
            assertMessage(65, lossy.peek());
            lossy.close();
            assertThrows(ClosedException.class, lossy::valid);
            assertThrows(ClosedException.class, lossy::take);
        }
    }

    @Test
    void aDeathBetweenPositionAndCountKeepsItFromBeginningAndFromJumpingButNotFromGoingOnLater() {
        try (Channel channel = create(64); Publisher publisher = channel.publisher()) {
            Memory trailer = channel.trailers().get(0);
            LossySubscriber early = channel.lossySubscriber(Start.NOW, WhenLapped.NEWEST, 0);
            publish(publisher, 0, 100);
            trailer.putLong(Layout.TRAILER_MESSAGES_DONE, 99);
            assertNull(early.take());
            assertEquals(0, early.lostMessages(0));
            LossySubscriber late = channel.lossySubscriber(0);
            assertNull(late.take());
            assertFalse(late.ended(0));
            trailer.putLong(Layout.TRAILER_MESSAGES_DONE, 100);
            publish(publisher, 100, 101);
            assertNull(early.take());
            assertEquals(101, early.lostMessages(0));
            assertNull(late.take());
            publish(publisher, 101, 102);
            assertMessage(101, early.take());
            assertMessage(101, late.take());
            assertEquals(0, late.lostMessages(0));
        }
    }

    @Test
    void itsHandlerMayThrowButNotComeBack() {
        try (Channel channel = create(64); Publisher publisher = channel.publisher();
            LossySubscriber lossy = channel.lossySubscriber()) {
            publish(publisher, 0, 3);
            assertThrows(IllegalStateException.class, () -> lossy.poll(message -> {
                throw new IllegalStateException("no");
            }));
            int[] seen = new int[1];
            lossy.poll(message -> {
                assertThrows(TwoThreadsException.class, lossy::take);
                assertThrows(TwoThreadsException.class, lossy::peek);
                assertThrows(TwoThreadsException.class, lossy::valid);
                assertThrows(ViewAliveException.class, lossy::close);
                assertThrows(ViewAliveException.class, channel::close);
                assertThrows(ReadOnlyBufferException.class, () -> message.buffer().putByte(0, (byte) 1));
                seen[0]++;
            }, 1);
            assertEquals(1, seen[0]);
            assertMessage(2, lossy.take());
            assertEquals(0, lossy.poll(message -> { }, 0));
            assertThrows(InvalidArgumentException.class, () -> lossy.lostBytes(5));
            assertThrows(InvalidArgumentException.class, () -> channel.lossySubscriber(2));
            channel.close();
            lossy.close();
            assertThrows(ClosedException.class, lossy::peek);
            assertThrows(ClosedException.class, channel::lossySubscriber);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 64})
    void aReaderLappedBeforeEachPollStillReceivesAndCountsExactly(int alignment) {
        try (Channel channel = create(alignment); Publisher publisher = channel.publisher();
            LossySubscriber lossy = channel.lossySubscriber(0)) {
            int published = 0;
            int delivered = 0;
            for (int round = 0; round < 100; round++) {
                publish(publisher, published, published + 150 + round);
                published += 150 + round;
                int here = delivered;
                int[] more = new int[1];
                lossy.poll(message -> {
                    assertMessage((int) (here + more[0]++ + lossy.lostMessages(0)), message);
                }, 1000);
                delivered += more[0];
                assertTrue(more[0] >= 20, "round " + round + ": " + more[0]);
                assertEquals(published, delivered + lossy.lostMessages(0));
                assertEquals(publisher.position(), lossy.position(0));
            }
        }
    }

    @Test
    void aJumpLeavesAQuarterOfTheRing() {
        try (Channel channel = create(64); Publisher publisher = channel.publisher();
            LossySubscriber lossy = channel.lossySubscriber(0)) {
            publish(publisher, 0, 200);
            Message message = lossy.take();
            long claimed = ring(channel, 0).getLong(CAPACITY + Layout.TRAILER_CLAIMED);
            long behind = claimed - message.position();
            assertTrue(behind <= CAPACITY / 4 * 3 && behind > CAPACITY / 8 * 5, "behind by " + behind);
        }
    }

    @Test
    void everyBoundaryIsCheckedWhereverItLies() {
        for (long bad : new long[] {-2, 1, Layout.MAX_POSITION, CAPACITY * 1000L, Long.MIN_VALUE}) {
            for (int eighth = 0; eighth < Layout.BOUNDARIES; eighth++) {
                try (Channel channel = Channel.replace(rings.path("hostile.ring"), ChannelOptions.broadcast()
                    .capacity(CAPACITY).publishers(2).subscribers(1)); Publisher publisher = channel.publisher()) {
                    publish(publisher, 0, 30);
                    LossySubscriber jumps = channel.lossySubscriber(0);
                    publish(publisher, 30, 200);
                    channel.trailers().get(0).putLong(Layout.TRAILER_BOUNDARY
                        + eighth * Layout.TRAILER_BOUNDARY_STRIDE, bad);
                    assertThrows(CorruptRingException.class, jumps::take);
                    LossySubscriber starts = channel.lossySubscriber(Start.OLDEST);
                    assertThrows(CorruptRingException.class, starts::take);
                    assertNull(starts.take(), "the other ring goes on");
                }
            }
        }
    }
}
