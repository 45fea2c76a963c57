// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Which owner gets which slot, and what it finds there. */
class SlotsTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create(ChannelOptions options) {
        return Channel.create(rings.path("slots.ring"),
            options.capacity(4096).publishers(2).subscribers(options.kind == Kind.INBOX ? 1 : 2));
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
}
