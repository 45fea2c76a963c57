// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ReadOnlyBufferException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Subscribers without a slot, and channels that are attached read-only. */
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

    @ParameterizedTest
    @ValueSource(ints = {8, 64})
    void itReadsWhatIsPublishedFromAReadOnlyFile(int alignment) {
        try (Channel channel = create(alignment); Channel reading = Channel.openReadOnly(channel.path());
            Publisher publisher = channel.publisher(); LossySubscriber lossy = reading.lossySubscriber();
            LossySubscriber same = channel.lossySubscriber(0)) {
            assertArrayEquals(new int[] {0, 1}, lossy.rings());
            assertArrayEquals(new int[] {0}, same.rings());
            int[] next = new int[2];
            for (int round = 0; round < 100; round++) {
                publish(publisher, 5 * round, 5 * round + 5);
                assertEquals(4, lossy.poll(message -> assertMessage(next[0]++, message), 4));
                assertMessage(next[0]++, lossy.take());
                assertNull(lossy.take());
                assertEquals(5, same.poll(message -> assertMessage(next[1]++, message)));
            }
            assertTrue(publisher.position() > 3 * CAPACITY, "laps");
            assertEquals(publisher.position(), lossy.position(0));
            assertEquals(0, lossy.lostMessages(0) + lossy.lostBytes(0) + same.lostMessages(0));
            assertNull(publisher.heldBy());
        }
    }

    @Test
    void whatWritesIsDeniedOnAReadOnlyChannel() {
        try (Channel channel = create(64); Channel reading = Channel.openReadOnly(channel.path(), true)) {
            assertTrue(reading.readOnly());
            assertFalse(channel.readOnly());
            Counter counter = channel.counters().allocate("ours");
            counter.set(7);
            Counter read = reading.counters().find("ours");
            assertEquals(List.of(7L, 7L), List.of(read.get(), read.getVolatile()));
            for (Executable write : List.<Executable>of(reading::publisher, () -> reading.publisher("p", 4096),
                reading::subscriber, () -> reading.subscriber("s", true), () -> reading.evict(0),
                () -> reading.counters().allocate("mine"), read::free, () -> read.set(1), () -> read.setVolatile(1),
                () -> read.setRelease(1), () -> read.getAndAdd(1), () -> read.compareAndSet(7, 8))) {
                AccessDeniedException error = assertThrows(AccessDeniedException.class, write);
                assertEquals(List.of("access-denied", "read-only", channel.path()),
                    List.of(error.code(), error.reason(), error.path()));
            }
            assertEquals(7, counter.getVolatile());
            assertThrows(NoSuchChannelException.class, () -> Channel.openReadOnly(rings.path("none")));
        }
    }

    @Test
    void lappedWhileTheRingLooksEmptyItGoesOnWithWhatIsPublishedNext() {
        try (Channel channel = create(64); Publisher publisher = channel.publisher();
            LossySubscriber lossy = channel.lossySubscriber()) {
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
            LossySubscriber lossy = channel.lossySubscriber(0)) {
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
            LossySubscriber lossy = channel.lossySubscriber(Start.OLDEST, 0)) {
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
            LossySubscriber early = channel.lossySubscriber(0);
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
    void aCorruptRingIsOneErrorAndTheOthersGoOn() {
        long[][] damages = {{0, 7, 1}, {0, 4097, 1}, {0, Integer.MAX_VALUE, 1}, {0, 16, 0}, {0, 16, -3},
            {1, Layout.TRAILER_CLAIMED, CAPACITY + 64}, {2, Layout.TRAILER_PUBLISHED, 65},
            {2, Layout.TRAILER_PUBLISHED, -64}, {2, Layout.TRAILER_PUBLISHED, Layout.MAX_POSITION}};
        for (long[] damage : damages) {
            String path = rings.path("bad-" + damage[1] + "-" + damage[2]);
            try (Channel channel = Channel.create(path, ChannelOptions.broadcast().capacity(CAPACITY).publishers(2));
                LossySubscriber before = channel.lossySubscriber()) {
                Publisher bad = channel.publisher();
                try (Publisher good = channel.publisher()) {
                    Memory ring = ring(channel, 0);
                    if (damage[0] == 0) {
                        ring.putInt(4, (int) damage[2]);
                        ring.putInt(0, (int) damage[1]);
                    } else {
                        ring.putLong(CAPACITY + (int) damage[1], damage[2]);
                    }
                    LossySubscriber lossy = damage[0] == 2 ? channel.lossySubscriber() : before;
                    publish(good, 0, 1);
                    CorruptRingException error = assertThrows(CorruptRingException.class,
                        () -> lossy.poll(message -> { }), damage[1] + " " + damage[2]);
                    assertEquals(0, error.ring());
                    publish(good, 1, 2);
                    assertEquals(2, lossy.poll(message -> assertEquals(1, message.ring())));
                    assertNull(lossy.peek());
                }
                bad.close();
            }
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aMessageLongerThanAQuarterOfTheRingIsCorruptUnlessThePublisherCameRound(boolean peeks) {
        int capacity = 1 << 20;
        int longest = capacity / 4;
        for (int type : new int[] {1, Integer.MAX_VALUE, Layout.TYPE_PADDING, Layout.TYPE_OWNER}) {
            for (int length : new int[] {longest, longest + 1, longest + 8, capacity - 8, capacity}) {
                String path = rings.path("long-" + type + "-" + length);
                try (Channel channel = Channel.create(path, ChannelOptions.broadcast().capacity(capacity)
                    .publishers(1).alignment(8)); LossySubscriber lossy = channel.lossySubscriber()) {
                    Memory ring = channel.file().map(channel.header().ringOffset(0), channel.header().ringStride,
                        false);
                    ring.putInt(Layout.RECORD_TYPE, type);
                    ring.putInt(0, length);
                    String found = look(lossy, peeks);
                    if (type <= 0) {
                        assertEquals("nothing", found);
                        assertEquals(length + 7 & -8, lossy.position(0), "skipped");
                        continue;
                    }
                    assertEquals(length <= longest ? "message of " + (length - 8) : "corrupt at 0", found);
                    // The same, but a lap later: that was no record of this lap.
                    try (LossySubscriber lapped = channel.lossySubscriber()) {
                        ring.putLong(capacity + Layout.TRAILER_CLAIMED, capacity + 8);
                        ring.putLong(capacity + Layout.TRAILER_PUBLISHED, capacity + 8);
                        assertEquals("nothing", look(lapped, peeks));
                        assertEquals(List.of(capacity + 8L, capacity + 8L),
                            List.of(lapped.position(0), lapped.lostBytes(0)));
                    }
                }
            }
        }
    }

    private static String look(LossySubscriber lossy, boolean peeks) {
        try {
            Message message = peeks ? lossy.peek() : lossy.take();
            int length = message == null ? -1 : message.length();
            return message == null || peeks && !lossy.valid() ? "nothing" : "message of " + length;
        } catch (CorruptRingException e) {
            return "corrupt at " + e.position();
        }
    }

    @Test
    void aHostileRingCannotKeepAPoll() {
        try (Channel channel = create(64); LossySubscriber lossy = channel.lossySubscriber(0)) {
            Memory ring = ring(channel, 0);
            for (int at = 0; at < CAPACITY; at += 64) {
                ring.putInt(at + Layout.RECORD_TYPE, Layout.TYPE_PADDING);
                ring.putInt(at, 64);
            }
            assertTimeoutPreemptively(Duration.ofSeconds(10), () -> {
                assertNull(lossy.take());
                assertEquals(CAPACITY, lossy.position(0));
                assertNull(lossy.peek());
                assertEquals(2 * CAPACITY, lossy.position(0));
            });
            // Always a lap ahead: each poll jumps once.
            ring.putLong(CAPACITY + Layout.TRAILER_CLAIMED, Layout.MAX_POSITION);
            ring.putLong(CAPACITY + Layout.TRAILER_PUBLISHED, 8 * CAPACITY);
            assertTimeoutPreemptively(Duration.ofSeconds(10), () -> {
                assertNull(lossy.take());
                assertEquals(8 * CAPACITY, lossy.position(0));
                ring.putLong(CAPACITY + Layout.TRAILER_PUBLISHED, 16 * CAPACITY);
                assertNull(lossy.peek());
                assertEquals(16 * CAPACITY, lossy.position(0));
            });
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
}
