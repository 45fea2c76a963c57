// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.List;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;

/** Who gets which slot, and what closing does. */
class SlotTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create(ChannelOptions options) {
        return Channel.create(rings.path("slots.ring"), options.capacity(4096).publishers(2).subscribers(2));
    }

    @Test
    void aSlotThatIsGivenBackIsFreeAgain() {
        try (Channel channel = create(ChannelOptions.broadcast()); Publisher one = channel.publisher();
            Subscriber first = channel.subscriber()) {
            Publisher two = channel.publisher();
            assertNotEquals(one.ring(), two.ring());
            NoFreeSlotException error = assertThrows(NoFreeSlotException.class, channel::publisher);
            assertEquals("publisher", error.kind());
            assertEquals(2, error.slots());
            two.close();
            two.close();
            try (Publisher again = channel.publisher()) {
                assertEquals(two.ring(), again.ring());
                assertEquals(two.epoch() + 1, again.epoch());
            }
            Subscriber second = channel.subscriber();
            assertNotEquals(first.slot(), second.slot());
            assertThrows(NoFreeSlotException.class, channel::subscriber);
            second.close();
            try (Subscriber again = channel.subscriber()) {
                assertEquals(second.slot(), again.slot());
            }
        }
    }

    @Test
    void aNameGetsTheSameRingBack() {
        try (Channel channel = create(ChannelOptions.broadcast())) {
            Publisher left = channel.publisher("left");
            Publisher right = channel.publisher("right");
            assertEquals("right", right.name());
            assertTrue(right.offer(new byte[10]) > 0);
            assertThrows(NoFreeSlotException.class, () -> channel.publisher("right"));
            left.close();
            right.close();
            try (Publisher again = channel.publisher("right"); Publisher other = channel.publisher("new")) {
                assertEquals(right.ring(), again.ring());
                // the ring's start, the owner record, W: what "right" had cleared ahead (6.1 step 3, 6.8)
                assertEquals(64 + 64 + 512, again.position());
                assertEquals(2, again.epoch());
                assertEquals(left.ring(), other.ring());
            }
            assertEquals("name",
                assertThrows(InvalidArgumentException.class, () -> channel.publisher("n".repeat(65))).argument());
        }
    }

    @Test
    void aKeptSubscriberResumesWhereItWas() {
        try (Channel channel = create(ChannelOptions.broadcast()); Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            assertThrows(InvalidArgumentException.class, () -> channel.subscriber("", true));
            Subscriber first = channel.subscriber("engine", true, 0);
            assertTrue(first.kept());
            publisher.offer(new byte[2]);
            publisher.offer(new byte[3]);
            assertEquals(2, first.take().length());
            first.close();
            publisher.offer(new byte[4]);
            ChannelDiffersException differs = assertThrows(ChannelDiffersException.class,
                () -> channel.subscriber("engine", true, 1));
            assertEquals("rings", differs.field());
            try (Subscriber again = channel.subscriber("engine", false)) {
                assertEquals(first.slot(), again.slot());
                assertArrayEquals(new int[] {0}, again.rings());
                assertEquals(3, again.take().length());
                assertThrows(NoFreeSlotException.class, () -> channel.subscriber("engine", true));
            }
            Holder holder = publisher.heldBy();
            assertEquals("engine", holder.name());
            assertEquals(List.of(false, true), List.of(holder.live(), holder.kept()));
            Subscriber last = channel.subscriber("engine", true);
            assertEquals(4, last.take().length());
            last.forget();
            assertNull(publisher.heldBy());
            try (Subscriber fresh = channel.subscriber("engine", true)) {
                publisher.offer(new byte[5]);
                assertEquals(5, fresh.take().length());
            }
        }
    }

    @Test
    void aKeptSlotHoldsThePublisherBackForGood() throws Exception {
        try (Channel channel = create(ChannelOptions.inbox()); Publisher publisher = channel.publisher()) {
            while (publisher.offer(new byte[500]) > 0) {
                assertTrue(publisher.position() < 5000);
            }
            Thread.sleep(5);
            assertEquals(Publisher.BACK_PRESSURED, publisher.offer(new byte[500]));
            assertEquals(new Holder(0, "", 0, false, true, 0), publisher.heldBy());
            try (Subscriber subscriber = channel.subscriber("inbox", false)) {
                assertEquals(0, subscriber.slot());
                subscriber.take();
            }
            assertTrue(publisher.offer(new byte[400]) > 0);
            assertEquals("inbox", publisher.heldBy().name());
        }
    }

    @Test
    void aKeptSubscriberResumesBehindARecordWhosePublisherDiedBeforeItSaidSo() {
        try (Channel channel = create(ChannelOptions.broadcast()); Publisher publisher = channel.publisher()) {
            try (Subscriber first = channel.subscriber("engine", true, 0)) {
                publisher.offer(new byte[1]);
                assertEquals(1, first.take().length());
            }
            Memory trailer = channel.trailers().get(0);
            trailer.putLong(Layout.TRAILER_PUBLISHED, 64); // publish 7 of the message is missing
            try (Subscriber again = channel.subscriber("engine", true)) {
                assertEquals(128, again.position(0));
            }
            long claimed = trailer.getLong(Layout.TRAILER_CLAIMED);
            trailer.putLong(Header.gate(0), claimed + 64);
            assertThrows(CorruptRingException.class, () -> channel.subscriber("engine", true));
        }
    }

    @Test
    void afterCloseEverythingIsClosed() {
        Channel channel = create(ChannelOptions.broadcast().counters(2));
        Publisher publisher = channel.publisher();
        Subscriber subscriber = channel.subscriber();
        Counters counters = channel.counters();
        Counter counter = counters.allocate("count");
        Claim claim = publisher.claim(8);
        PayloadBuffer buffer = claim.buffer();
        channel.close();
        channel.close();
        publisher.close();
        subscriber.close();
        subscriber.forget();
        claim.close();
        for (Executable use : List.<Executable>of(
            () -> publisher.offer(new byte[1]), () -> publisher.claim(1), publisher::heldBy, claim::commit,
            () -> subscriber.poll(message -> { }), subscriber::take, channel::publisher, channel::subscriber,
            channel::counters, counter::get, () -> counters.allocate("x"), () -> counters.find("x"),
            () -> counters.forEach(each -> { }), counter::free, () -> counter.getAndAdd(1))) {
            assertEquals("closed", assertThrows(ClosedException.class, use).code());
        }
        assertThrows(IndexOutOfBoundsException.class, () -> buffer.putByte(0, (byte) 1));
        assertEquals(1 << 12, channel.capacity());
    }

    @Test
    void closingFromInsideAHandlerIsRefused() {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            int[] refused = new int[1];
            subscriber.poll(message -> {
                assertThrows(ViewAliveException.class, subscriber::close);
                assertThrows(ViewAliveException.class, subscriber::forget);
                assertThrows(ViewAliveException.class, channel::close);
                assertThrows(TwoThreadsException.class, () -> subscriber.poll(inner -> { }));
                assertThrows(TwoThreadsException.class, subscriber::take);
                refused[0]++;
                publisher.offer(new byte[2]);
            }, 1);
            assertEquals(1, refused[0]);
            assertEquals(2, subscriber.take().length());
        }
    }

    @Test
    void aSecondThreadIsNoticed() throws Exception {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            Throwable[] seen = new Throwable[1];
            subscriber.poll(message -> {
                Thread other = new Thread(subscriber::take);
                other.setUncaughtExceptionHandler((thread, error) -> seen[0] = error);
                other.start();
                try {
                    other.join();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            });
            assertEquals(TwoThreadsException.class, seen[0].getClass());
        }
    }

    @Test
    void nothingElseIsPublishedWhileASourceIsRead() {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            PayloadBuffer bytes = new PayloadBuffer();
            bytes.wrap(new byte[1]);
            int[] refused = new int[1];
            DirectBuffer source = (DirectBuffer) Proxy.newProxyInstance(
                getClass().getClassLoader(), new Class<?>[] {DirectBuffer.class}, (proxy, method, arguments) -> {
                    if (method.getName().equals("getByte")) {
                        for (Executable use : List.<Executable>of(() -> publisher.claim(1), publisher::close,
                            () -> publisher.offer(new byte[1]), () -> publisher.offerBatch(bytes))) {
                            assertThrows(TwoThreadsException.class, use);
                            refused[0]++;
                        }
                    }
                    return method.invoke(bytes, arguments);
                });
            assertTrue(publisher.offer(source, 0, 1) > 0);
            assertEquals(1, publisher.offerBatch(source));
            assertEquals(8, refused[0]);
            assertEquals(2, subscriber.poll(message -> assertEquals(1, message.length())));
        }
    }

    @Test
    void aClosedClaimIsEmptyAndAClaimOfNothingIsOpen() {
        try (Channel channel = create(ChannelOptions.broadcast()); Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            for (int length : new int[] {8, 0}) {
                Claim claim = publisher.claim(length);
                assertEquals(length, claim.length());
                assertThrows(ViewAliveException.class, () -> publisher.claim(1));
                assertThrows(ViewAliveException.class, () -> publisher.offer(new byte[1]));
                claim.commit();
                assertEquals(0, claim.length());
                assertEquals(0, claim.buffer().capacity());
                assertThrows(IndexOutOfBoundsException.class, () -> claim.buffer().getByte(0));
                assertThrows(InvalidArgumentException.class, claim::commit);
                publisher.claim(length).close();
                assertTrue(publisher.offer(new byte[1]) > 0);
            }
        }
    }

    @Test
    void aPublisherWhoseEpochChangedHasLostItsSlot() {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            Claim claim = publisher.claim(8);
            int at = channel.header().publisherSlot(publisher.ring()) + Layout.PUBLISHER_SLOT_EPOCH;
            channel.control().putLong(at, 77);
            assertEquals(publisher.ring(), assertThrows(SlotLostException.class, claim::commit).slot());
            assertThrows(SlotLostException.class, () -> publisher.offer(new byte[1]));
            assertThrows(SlotLostException.class, () -> publisher.claim(1));
            publisher.close();
            assertThrows(ClosedException.class, () -> publisher.offer(new byte[1]));
            assertNull(subscriber.take());
            assertEquals(0, channel.control().getInt(at + Layout.PUBLISHER_SLOT_CLOSED));
            try (Publisher next = channel.publisher()) {
                assertEquals(78, next.epoch());
                assertTrue(next.offer(new byte[9]) > 0);
                assertEquals(9, subscriber.take().length());
            }
        }
    }

    @Test
    void aSubscriberWhoseEpochChangedHasLostItsSlotAndStopsGating() {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[1]);
            int at = channel.header().subscriberSlot(subscriber.slot()) + Layout.SUBSCRIBER_SLOT_EPOCH;
            channel.control().putLong(at, 5);
            assertEquals(subscriber.slot(), assertThrows(SlotLostException.class, subscriber::take).slot());
            assertThrows(SlotLostException.class, () -> subscriber.poll(message -> { }));
            assertNull(publisher.heldBy());
            subscriber.close();
            assertThrows(ClosedException.class, subscriber::take);
            try (Subscriber next = channel.subscriber()) {
                assertEquals(6, next.epoch());
            }
        }
    }

    @Test
    void aRingThatBreaksTheRulesIsNamedAndTheOthersGoOn() {
        try (Channel channel = create(ChannelOptions.broadcast()); Subscriber subscriber = channel.subscriber();
            Publisher bad = channel.publisher(); Publisher good = channel.publisher()) {
            Memory data = channel.file().map(channel.header().ringOffset(0), 4096, false);
            assertTrue(bad.offer(new byte[8]) > 0);
            data.putInt(64, 4093);
            good.offer(new byte[8]);
            CorruptRingException error = assertThrows(CorruptRingException.class,
                () -> subscriber.poll(message -> { }));
            assertEquals(0, error.ring());
            assertEquals(64, error.position());
            assertTrue(error.reason().contains("4093"), error.reason());
            assertEquals(1, subscriber.poll(message -> assertEquals(1, message.ring())));
            assertEquals(0, subscriber.poll(message -> { }));
            assertEquals(Layout.NOT_GATING, channel.trailers().get(0).getLong(Header.gate(subscriber.slot())));
        }
    }

    @Test
    void lengthsAndTypesThatNobodyMayWriteAreCorrupt() {
        for (int[] record : new int[][] {{7, 1}, {1, 1}, {4097, 1}, {Integer.MAX_VALUE, 1}, {16, 0}, {16, -3}}) {
            String path = rings.path("bad-" + record[0] + record[1]);
            try (Channel channel = Channel.create(path, ChannelOptions.broadcast().capacity(4096));
                Subscriber subscriber = channel.subscriber()) {
                Memory data = channel.file().map(channel.header().ringOffset(0), 4096, false);
                data.putInt(4, record[1]);
                data.putInt(0, record[0]);
                assertThrows(CorruptRingException.class, subscriber::take, record[0] + " " + record[1]);
            }
        }
    }

    @Test
    void positionsThatCannotBeAreCorrupt() {
        for (long published : new long[] {-64, 1, 65, Layout.MAX_POSITION, Long.MIN_VALUE, Long.MAX_VALUE}) {
            String path = rings.path("bad" + published);
            try (Channel channel = Channel.create(path, ChannelOptions.broadcast().capacity(4096))) {
                channel.trailers().get(2).putLong(Layout.TRAILER_PUBLISHED, published);
                assertEquals(2, assertThrows(CorruptRingException.class, channel::subscriber).ring());
                try (Subscriber other = channel.subscriber(0, 1, 3)) {
                    assertEquals(0, other.slot());
                }
                channel.publisher();
                channel.publisher();
                assertEquals(2, assertThrows(CorruptRingException.class, channel::publisher).ring());
            }
        }
    }
}
