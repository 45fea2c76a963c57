// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Messages from publishers to subscribers of one process. */
class RingTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private ChannelOptions small(int alignment) {
        return ChannelOptions.broadcast().capacity(4096).alignment(alignment).publishers(2).subscribers(2).counters(0);
    }

    private Channel create(ChannelOptions options) {
        return Channel.create(rings.path("ring.ring"), options);
    }

    private static PayloadBuffer wrap(byte[] bytes) {
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(bytes);
        return buffer;
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 64})
    void messagesOfEachLengthComeThroughWholeByEachWay(int alignment) {
        try (Channel channel = create(small(alignment)); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            assertEquals(1016, publisher.maxMessageLength());
            for (int length = 0; length <= publisher.maxMessageLength(); length++) {
                byte[] bytes = Rings.pattern(length, length);
                byte[] shifted = new byte[length + 5];
                System.arraycopy(bytes, 0, shifted, 3, length);
                assertTrue(publisher.offer(bytes) > 0);
                check(subscriber, bytes, 1);
                assertTrue(publisher.offer(shifted, 3, length, 5) > 0);
                check(subscriber, bytes, 5);
                assertTrue(publisher.offer(wrap(shifted), 3, length, 6) > 0);
                check(subscriber, bytes, 6);
                assertTrue(publisher.offer(ByteBuffer.wrap(shifted, 3, length), 7) > 0);
                check(subscriber, bytes, 7);
                assertTrue(publisher.offer(ByteBuffer.allocateDirect(length).put(0, bytes), 8) > 0);
                check(subscriber, bytes, 8);
                Claim claim = publisher.claim(length, Integer.MAX_VALUE);
                assertEquals(length, claim.length());
                claim.buffer().putBytes(0, bytes);
                assertEquals(claim.commit(), publisher.position());
                check(subscriber, bytes, Integer.MAX_VALUE);
                assertEquals(1, publisher.offerBatch(wrap(bytes)));
                check(subscriber, bytes, 1);
            }
            MessageTooLargeException error = assertThrows(MessageTooLargeException.class,
                () -> publisher.offer(new byte[1017]));
            assertEquals(1017, error.length());
            assertEquals(1016, error.limit());
            assertThrows(MessageTooLargeException.class, () -> publisher.claim(1017));
            assertThrows(MessageTooLargeException.class, () -> publisher.claim(Integer.MAX_VALUE));
            for (int length : new int[] {-1, -8, -64, -72, Integer.MIN_VALUE}) {
                for (Executable use : List.<Executable>of(() -> publisher.claim(length),
                    () -> publisher.tryClaim(length), () -> publisher.offer(new byte[100], 0, length, 1),
                    () -> publisher.offer(wrap(new byte[100]), 0, length))) {
                    assertEquals("length", assertThrows(InvalidArgumentException.class, use).argument());
                }
            }
            assertThrows(IndexOutOfBoundsException.class, () -> publisher.offer(new byte[100], 1, 100, 1));
            assertThrows(IndexOutOfBoundsException.class, () -> publisher.offer(wrap(new byte[100]), -1, 9));
            assertThrows(MessageTooLargeException.class,
                () -> publisher.offerBatch(wrap(new byte[1]), wrap(new byte[1017])));
            assertNull(subscriber.take());
        }
    }

    @Test
    void buffersOfClaimsAndMessagesCannotBeWrapped() {
        try (Channel channel = create(small(64)); Publisher publisher = channel.publisher();
            Subscriber subscriber = channel.subscriber()) {
            Claim claim = publisher.claim(8);
            assertThrows(UnsupportedOperationException.class, () -> claim.buffer().wrap(new byte[8]));
            claim.buffer().putLong(0, 5);
            claim.commit();
            assertEquals(1, subscriber.poll(message -> {
                assertThrows(UnsupportedOperationException.class, () -> message.buffer().wrap(new byte[8]));
                assertEquals(5, message.buffer().getLong(0));
            }));
        }
    }

    private static void check(Subscriber subscriber, byte[] expected, int type) {
        int[] seen = new int[1];
        assertEquals(1, subscriber.poll(message -> {
            seen[0]++;
            assertEquals(type, message.type());
            assertEquals(expected.length, message.length());
            assertArrayEquals(expected, message.toByteArray());
        }));
        assertEquals(1, seen[0]);
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 64})
    void theRingWrapsAtEveryPossibleOffset(int alignment) {
        int wraps = 0;
        for (int first = alignment; first <= 4096; first += alignment) {
            try (Channel channel = create(small(alignment)); Publisher publisher = channel.publisher();
                Subscriber subscriber = channel.subscriber()) {
                // Records of one unit up to `first` bytes before the end, then long records across the end.
                int sent = 0;
                while (4096 - publisher.position() % 4096 > first && publisher.position() < 4096) {
                    assertTrue(publisher.offer(Rings.pattern(sent, alignment - 8)) > 0);
                    check(subscriber, Rings.pattern(sent, alignment - 8), 1);
                    sent++;
                }
                for (int i = 0; i < 12; i++) {
                    int length = i % 3 == 0 ? 1016 : 300 + i;
                    long before = publisher.position();
                    assertTrue(publisher.offer(Rings.pattern(i, length)) > 0, "at " + first + " message " + i);
                    wraps += before / 4096 < publisher.position() / 4096 ? 1 : 0;
                    check(subscriber, Rings.pattern(i, length), 1);
                    assertEquals(publisher.position(), subscriber.position(publisher.ring()));
                }
            }
            Channel.unlink(rings.path("ring.ring"));
        }
        assertTrue(wraps >= 4096 / alignment, "wraps: " + wraps);
    }

    @Test
    void aSlowSubscriberHoldsThePublisherBackAndIsNamed() {
        try (Channel channel = create(small(64)); Subscriber slow = channel.subscriber("slow", false);
            Subscriber fast = channel.subscriber("fast", false); Publisher publisher = channel.publisher()) {
            int sent = 0;
            while (publisher.offer(Rings.pattern(sent, 100)) != Publisher.BACK_PRESSURED) {
                sent++;
                assertEquals(1, fast.poll(message -> { }));
            }
            assertTrue(sent > 20 && sent < 32, "sent " + sent);
            assertNull(publisher.tryClaim(100));
            BackPressuredException error = assertThrows(BackPressuredException.class,
                () -> publisher.claim(100, 1, Duration.ZERO));
            assertEquals(publisher.heldBy(), error.holder());
            assertEquals(0, publisher.offerBatch(wrap(new byte[100])));
            Holder holder = publisher.heldBy();
            assertEquals(new Holder(slow.slot(), "slow", (int) ProcessHandle.current().pid(), true, false, 0), holder);
            int[] got = new int[1];
            assertEquals(5, slow.poll(message -> assertArrayEquals(Rings.pattern(got[0]++, 100),
                message.toByteArray()), 5));
            assertTrue(publisher.offer(Rings.pattern(sent, 100)) > 0);
            sent++;
            assertEquals(sent - 5, slow.poll(message -> assertArrayEquals(Rings.pattern(got[0]++, 100),
                message.toByteArray())));
            fast.poll(message -> { });
            assertEquals(publisher.position(), publisher.heldBy().position());
        }
    }

    @Test
    void anInboxKeepsWhatComesBeforeItsFirstSubscriber() {
        try (Channel channel = create(ChannelOptions.inbox().capacity(4096).publishers(2))) {
            try (Publisher one = channel.publisher("one"); Publisher two = channel.publisher("two")) {
                for (int i = 0; i < 10; i++) {
                    assertTrue(one.offer(Rings.pattern(i, 20)) > 0);
                    assertTrue(two.offer(Rings.pattern(100 + i, 20)) > 0);
                }
                Holder holder = one.heldBy();
                assertEquals(new Holder(0, "", 0, false, true, 0), holder);
            }
            try (Subscriber subscriber = channel.subscriber()) {
                assertEquals(0, subscriber.slot());
                assertTrue(subscriber.kept());
                int[] next = {0, 100};
                assertEquals(20, subscriber.poll(message -> assertArrayEquals(
                    Rings.pattern(next[message.ring()]++, 20), message.toByteArray())));
                assertNull(subscriber.take());
            }
        }
    }

    @Test
    void aPollServesTheRingsInTurnAndKeepsToItsLimit() {
        try (Channel channel = create(small(64)); Subscriber subscriber = channel.subscriber();
            Publisher one = channel.publisher(); Publisher two = channel.publisher()) {
            for (int i = 0; i < 4; i++) {
                one.offer(new byte[8]);
                two.offer(new byte[8]);
            }
            List<Integer> order = new ArrayList<>();
            while (subscriber.poll(message -> order.add(message.ring()), 1) == 1) {
                assertTrue(order.size() <= 8);
            }
            assertEquals(List.of(0, 1, 0, 1, 0, 1, 0, 1), order);
            assertEquals(0, subscriber.poll(message -> order.add(9), 0));
            assertArrayEquals(new int[] {0, 1}, subscriber.rings());
        }
    }

    @Test
    void aSubscriberSeesTheRingsItChoseAndWhatCameAfterItJoined() {
        try (Channel channel = create(small(64)); Publisher one = channel.publisher();
            Publisher two = channel.publisher()) {
            one.offer(new byte[1]);
            try (Subscriber subscriber = channel.subscriber(1, 1)) {
                assertArrayEquals(new int[] {1}, subscriber.rings());
                one.offer(new byte[2]);
                two.offer(new byte[3]);
                Message message = subscriber.take();
                assertEquals(3, message.length());
                assertEquals(1, message.ring());
                assertNull(subscriber.take());
                assertEquals(two.position(), subscriber.position(1));
                assertThrows(InvalidArgumentException.class, () -> subscriber.position(0));
            }
            assertEquals("rings",
                assertThrows(InvalidArgumentException.class, () -> channel.subscriber(2)).argument());
            assertThrows(InvalidArgumentException.class, () -> channel.subscriber(-1));
        }
    }

    @Test
    void anAbortedClaimIsSkippedAndAClosedOneTakesNoWrites() {
        try (Channel channel = create(small(64)); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            Claim claim = publisher.claim(20, 3);
            PayloadBuffer buffer = claim.buffer();
            buffer.putLong(0, 77);
            assertThrows(IndexOutOfBoundsException.class, () -> buffer.putLong(16, 1));
            assertThrows(ViewAliveException.class, () -> publisher.claim(1));
            assertThrows(ViewAliveException.class, () -> publisher.offer(new byte[1]));
            assertThrows(ViewAliveException.class, () -> publisher.offerBatch(wrap(new byte[1])));
            assertNull(subscriber.take());
            long end = claim.abort();
            assertEquals(end, publisher.position());
            assertThrows(IndexOutOfBoundsException.class, () -> buffer.putByte(0, (byte) 1));
            assertThrows(ClosedException.class, claim::commit);
            assertNull(subscriber.take());
            assertEquals(end, subscriber.position(publisher.ring()));
            try (Claim left = publisher.claim(5)) {
                assertNotNull(left);
            }
            assertTrue(publisher.offer(new byte[7]) > 0);
            assertEquals(7, subscriber.take().length());
        }
    }

    @Test
    void aTypeBelowOneIsRefused() {
        try (Channel channel = create(small(64)); Publisher publisher = channel.publisher()) {
            for (int type : new int[] {0, -1, -2, Integer.MIN_VALUE}) {
                assertEquals("type", assertThrows(InvalidArgumentException.class,
                    () -> publisher.offer(new byte[1], 0, 1, type)).argument());
                assertThrows(InvalidArgumentException.class, () -> publisher.claim(1, type));
            }
            assertThrows(InvalidArgumentException.class, () -> publisher.claim(-1));
            assertThrows(IndexOutOfBoundsException.class, () -> publisher.offer(new byte[4], 2, 3, 1));
            assertThrows(IndexOutOfBoundsException.class, () -> publisher.offer(wrap(new byte[4]), 2, 3, 1));
            assertTrue(publisher.offer(new byte[1]) > 0);
        }
    }

    @Test
    void aBatchComesInOrderAndSaysHowManyWereTaken() {
        try (Channel channel = create(small(8)); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            int sent = 0;
            int got = 0;
            for (int round = 0; round < 200; round++) {
                DirectBuffer[] batch = new DirectBuffer[round % 40];
                for (int i = 0; i < batch.length; i++) {
                    batch[i] = wrap(Rings.pattern(sent + i, (sent + i) % 150));
                }
                int taken = publisher.offerBatch(batch, 0, batch.length, 4);
                assertTrue(taken == batch.length || publisher.heldBy() != null);
                sent += taken;
                int[] next = {got};
                got += subscriber.poll(message -> {
                    assertEquals(4, message.type());
                    assertArrayEquals(Rings.pattern(next[0], next[0] % 150), message.toByteArray());
                    next[0]++;
                }, 17);
            }
            assertTrue(sent > 1000 && got > 1000, sent + " " + got);
        }
    }

    @Test
    void aHandlerThatThrowsHasConsumedItsMessage() {
        try (Channel channel = create(small(64)); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            for (int i = 1; i <= 3; i++) {
                publisher.offer(new byte[i]);
            }
            IllegalStateException error = assertThrows(IllegalStateException.class, () -> subscriber.poll(message -> {
                if (message.length() == 2) {
                    throw new IllegalStateException("no");
                }
            }));
            assertEquals("no", error.getMessage());
            assertEquals(3, subscriber.take().length());
            assertNull(subscriber.take());

            publisher.offer(new byte[4]);
            publisher.offer(new byte[5]);
            Message[] seen = new Message[1];
            assertThrows(IllegalStateException.class, () -> subscriber.poll(message -> {
                seen[0] = message;
                throw new IllegalStateException("no");
            }, 1));
            assertThrows(IndexOutOfBoundsException.class, () -> seen[0].buffer().getByte(0));
            assertEquals(5, subscriber.take().length());
            assertEquals(publisher.position(), channel.trailers().get(0).getLong(Header.gate(subscriber.slot())));
        }
    }

    @Test
    void aSourceThatThrowsInTheMiddleLeavesNoMessage() {
        try (Channel channel = create(small(64)); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            DirectBuffer broken = (DirectBuffer) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {DirectBuffer.class}, (proxy, method, arguments) -> {
                    if (method.getName().startsWith("get")) {
                        throw new IllegalStateException("gone");
                    }
                    return method.getReturnType() == int.class ? 24 : null;
                });
            assertThrows(IllegalStateException.class, () -> publisher.offer(broken, 0, 24));
            assertThrows(IllegalStateException.class, () -> publisher.offerBatch(wrap(new byte[3]), broken));
            assertNull(subscriber.take());
            assertTrue(publisher.offer(new byte[9]) > 0);
            assertEquals(9, subscriber.take().length());
        }
    }

    @Test
    void nothingIsPublishedAtTheLastPositionOrBeyond() {
        for (int alignment : new int[] {8, 64}) {
            try (Channel channel = Channel.replace(rings.path("ring.ring"), small(alignment))) {
                Memory trailer = channel.trailers().get(0);
                long start = Layout.MAX_POSITION - 4096;
                trailer.putLong(Layout.TRAILER_CLAIMED, start);
                trailer.putLong(Layout.TRAILER_PUBLISHED, start);
                try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber(0)) {
                    int published = 0;
                    CorruptRingException error = null;
                    while (error == null) {
                        try {
                            assertTrue(publisher.offer(new byte[40]) > 0);
                            published++;
                        } catch (CorruptRingException e) {
                            error = e;
                        }
                        assertTrue(published < 100);
                    }
                    assertTrue(published > 40, "published " + published);
                    assertEquals(publisher.position(), error.position());
                    assertTrue(publisher.position() < Layout.MAX_POSITION);
                    assertTrue(trailer.getLong(Layout.TRAILER_CLAIMED) < Layout.MAX_POSITION);
                    assertThrows(CorruptRingException.class, () -> publisher.offer(new byte[1000]));
                    assertEquals(published, subscriber.poll(message -> assertEquals(40, message.length())));
                }
            }
        }
    }

    @Test
    void rawBytesOfAChannelWithASchemaHaveATypeThatNoMessageOfASchemaHas() {
        try (Channel channel = create(ChannelOptions.broadcast().capacity(4096).schema("<x/>", 1, 1));
            Subscriber subscriber = channel.subscriber(); Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            publisher.offerBatch(wrap(new byte[1]));
            publisher.claim(1).commit();
            assertEquals(3, subscriber.poll(message -> assertEquals(65536, message.type())));
        }
    }

    /** A joiner's first gate may lie before the place where it begins. */
    @Test
    void readersWaitsForAJoinThatIsUnderWay() throws Exception {
        try (Channel channel = create(ChannelOptions.broadcast().capacity(4096));
            Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber();
            Lock joiner = channel.file().newLock()) {
            joiner.lockControl(channel.header());
            CompletableFuture<Integer> readers = CompletableFuture.supplyAsync(publisher::readers);
            assertThrows(TimeoutException.class, () -> readers.get(100, TimeUnit.MILLISECONDS));
            joiner.unlockControl(channel.header());
            assertEquals(1, readers.get(), subscriber.name());
            assertTrue(joiner.tryLockControl(channel.header()), "the publisher gave it back");
            CompletableFuture<Integer> more = CompletableFuture.supplyAsync(publisher::readers);
            assertThrows(TimeoutException.class, () -> more.get(100, TimeUnit.MILLISECONDS));
            publisher.close();
            ExecutionException ended = assertThrows(ExecutionException.class, () -> more.get(2, TimeUnit.SECONDS));
            assertInstanceOf(ClosedException.class, ended.getCause());
        }
    }

    @Test
    void readersCountsSlotsWithAnOwnerOnly() {
        try (Channel channel = create(ChannelOptions.inbox().capacity(4096));
            Publisher publisher = channel.publisher()) {
            assertEquals(0, publisher.readers());
            try (Subscriber subscriber = channel.subscriber()) {
                assertEquals(List.of(0, 1), List.of(subscriber.slot(), publisher.readers()));
            }
            assertEquals(0, publisher.readers());
        }
    }

    @Test
    void othersSeeSinceWhenAPublisherIsHeldBack() {
        try (Channel channel = create(small(64)); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            int at = channel.header().publisherSlot(0);
            long before = System.nanoTime();
            while (publisher.offer(new byte[500]) > 0) {
                assertEquals(0, channel.control().getLong(at + Layout.PUBLISHER_SLOT_BLOCKED_SINCE));
            }
            long since = channel.control().getLong(at + Layout.PUBLISHER_SLOT_BLOCKED_SINCE);
            assertTrue(since >= before && since <= System.nanoTime());
            assertTrue(publisher.offer(new byte[900]) < 0);
            assertEquals(since, channel.control().getLong(at + Layout.PUBLISHER_SLOT_BLOCKED_SINCE), "the first time");
            // The length of the padding to the ring's end, which finds no room.
            assertEquals(448, channel.control().getLong(at + Layout.PUBLISHER_SLOT_BLOCKED_LENGTH));
            subscriber.poll(message -> { });
            assertTrue(publisher.offer(new byte[500]) > 0);
            assertEquals(0, channel.control().getLong(at + Layout.PUBLISHER_SLOT_BLOCKED_SINCE));
        }
    }

    @Test
    void aHandlerSaysWhatBecomesOfItsMessage() {
        try (Channel channel = create(small(64)); Publisher publisher = channel.publisher();
            Subscriber subscriber = channel.subscriber(); LossySubscriber lossy = channel.lossySubscriber()) {
            List<ControlledPoll> all = List.of(subscriber::controlledPoll, lossy::controlledPoll);
            for (int i = 1; i <= 6; i++) {
                publisher.offer(new byte[i]);
            }
            for (ControlledPoll poll : all) {
                List<Integer> seen = new ArrayList<>();
                assertEquals(2, poll.poll(message -> {
                    seen.add(message.length());
                    return message.length() == 3 ? Action.ABORT : Action.CONTINUE;
                }, 10));
                assertEquals(1, poll.poll(message -> {
                    seen.add(message.length());
                    return Action.BREAK;
                }, 10));
                assertEquals("action", assertThrows(InvalidArgumentException.class, () -> poll.poll(message -> {
                    seen.add(message.length());
                    return null;
                }, 10)).argument());
                assertEquals(2, poll.poll(message -> {
                    seen.add(message.length());
                    return Action.COMMIT;
                }, 10));
                assertEquals(List.of(1, 2, 3, 3, 4, 5, 6), seen);
                assertEquals(0, poll.poll(message -> Action.ABORT, 10));
            }
            assertEquals(6, channel.trailers().get(0).getLong(Header.gate(0) + Layout.GATE_COUNT));
            assertEquals(0, lossy.lostMessages(0));
        }
    }

    private interface ControlledPoll {
        int poll(ControlledMessageHandler handler, int limit);
    }

    @Test
    void anAbortEndsThePollWithTheGateInFrontAndACommitTellsAtOnce() {
        try (Channel channel = create(small(64)); Publisher one = channel.publisher();
            Publisher two = channel.publisher();
            Subscriber subscriber = channel.subscriber()) {
            one.offer(new byte[1]);
            one.offer(new byte[2]);
            two.offer(new byte[3]);
            Memory trailer = channel.trailers().get(0);
            assertEquals(1, subscriber.controlledPoll(
                message -> message.length() == 2 ? Action.ABORT : Action.CONTINUE));
            assertEquals(subscriber.position(0), trailer.getLong(Header.gate(0)));
            assertEquals(2, subscriber.controlledPoll(message -> {
                if (message.length() == 3) { // the message with 2 bytes came first, and was committed
                    assertEquals(one.position(), trailer.getLong(Header.gate(0)));
                }
                return Action.COMMIT;
            }));
            assertEquals(two.position(), subscriber.position(1));
        }
    }
}
