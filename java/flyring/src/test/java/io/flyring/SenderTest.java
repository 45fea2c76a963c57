// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The sender of a message, and whether more messages can come. */
class SenderTest {
    private static final int CAPACITY = 4096;

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create() {
        return Channel.create(rings.path("sender.ring"),
            ChannelOptions.broadcast().capacity(CAPACITY).publishers(1).subscribers(2).counters(0));
    }

    private static Sender sender(String name, long epoch) {
        return new Sender(0, name, epoch);
    }

    @Test
    void eachMessageNamesItsSenderAcrossOwners() {
        try (Channel channel = create(); Subscriber reliable = channel.subscriber();
            LossySubscriber lossy = channel.lossySubscriber()) {
            for (String name : List.of("one", "two", "")) {
                try (Publisher publisher = channel.publisher(name)) {
                    publisher.offer(new byte[1]);
                    publisher.offer(new byte[1]);
                }
            }
            List<Sender> expected = List.of(sender("one", 1), sender("one", 1), sender("two", 2), sender("two", 2),
                sender("", 3), sender("", 3));
            List<Sender> seen = new ArrayList<>();
            reliable.poll(message -> seen.add(message.sender()), 3);
            for (int i = 3; i < 6; i++) {
                seen.add(reliable.take().sender());
            }
            assertEquals(expected, seen);
            seen.clear();
            lossy.poll(message -> seen.add(message.sender()));
            assertEquals(expected, seen);
            try (Publisher publisher = channel.publisher("four"); Subscriber late = channel.subscriber()) {
                publisher.offer(new byte[1]);
                publisher.offer(new byte[1]);
                Message first = late.take();
                assertEquals(sender("four", 4), first.sender());
                assertSame(first.sender(), late.take().sender(), "one object for an owner");
            }
        }
    }

    @Test
    void aLateReaderLearnsItFromTheSlotUnlessItBeginsBeforeTheOwner() {
        try (Channel channel = create(); Publisher one = channel.publisher("one")) {
            one.offer(new byte[1]);
            try (Subscriber reliable = channel.subscriber(); LossySubscriber lossy = channel.lossySubscriber();
                LossySubscriber oldest = channel.lossySubscriber(Start.OLDEST)) {
                one.offer(new byte[2]);
                assertEquals(sender("one", 1), reliable.take().sender());
                assertEquals(sender("one", 1), lossy.take().sender());
                assertEquals(sender("one", 1), oldest.take().sender());
            }
            for (int i = 0; i < 100; i++) {
                one.offer(new byte[3]);
            }
            one.close();
            try (Publisher two = channel.publisher("two")) {
                two.offer(new byte[4]);
                LossySubscriber lossy = channel.lossySubscriber(Start.OLDEST);
                List<Sender> senders = new ArrayList<>();
                lossy.poll(message -> senders.add(message.sender()), 1000);
                assertTrue(senders.size() > 20, "still there: " + senders.size());
                assertEquals(sender("two", 2), senders.remove(senders.size() - 1));
                // The messages are older than the slot's owner.
                assertEquals(List.of(sender("", 0)), senders.stream().distinct().toList());
            }
        }
    }

    @Test
    void aJumpAsksTheSlotAgain() {
        try (Channel channel = create();
            LossySubscriber lossy = channel.lossySubscriber(Start.NOW, WhenLapped.NEWEST, 0)) {
            try (Publisher one = channel.publisher("one")) {
                one.offer(new byte[1]);
                assertEquals(sender("one", 1), lossy.take().sender());
            }
            try (Publisher two = channel.publisher("two")) {
                for (int i = 0; i < 100; i++) {
                    two.offer(new byte[2]);
                }
                assertNull(lossy.take());
                assertEquals(100, lossy.lostMessages(0));
                two.offer(new byte[3]);
                assertEquals(sender("two", 2), lossy.take().sender());
            }
        }
    }

    @Test
    void aKeptSubscriberThatResumesLearnsItFromOwnerRecordsAndTheSlot() {
        try (Channel channel = create()) {
            channel.subscriber("kept", true).close();
            try (Publisher one = channel.publisher("one")) {
                one.offer(new byte[1]);
            }
            try (Publisher two = channel.publisher("two")) {
                two.offer(new byte[2]);
                try (Subscriber again = channel.subscriber("kept", true)) {
                    assertEquals(sender("one", 1), again.take().sender());
                    assertEquals(sender("two", 2), again.take().sender());
                }
                two.offer(new byte[3]);
                try (Subscriber again = channel.subscriber("kept", true)) {
                    assertEquals(sender("two", 2), again.take().sender(), "from the slot");
                }
            }
        }
    }

    @Test
    void anOwnerRecordThatDoesNotFitSaysNothing() {
        for (int[] bad : new int[][] {{19, 0}, {8, 0}, {28, 9}, {28, -1}, {100, 65}, {28, Integer.MAX_VALUE}}) {
            String path = rings.path("owner-" + bad[0] + "-" + bad[1]);
            try (Channel channel = Channel.create(path, ChannelOptions.broadcast().capacity(CAPACITY).publishers(1));
                Subscriber reliable = channel.subscriber(); LossySubscriber lossy = channel.lossySubscriber();
                Publisher publisher = channel.publisher("good")) {
                publisher.offer(new byte[1]);
                assertEquals(sender("good", 1), reliable.take().sender());
                assertEquals(sender("good", 1), lossy.take().sender());
                Claim claim = publisher.claim(120);
                claim.buffer().putLong(0, 77);
                claim.buffer().putInt(8, bad[1]);
                int at = (int) publisher.position() & CAPACITY - 1;
                claim.commit();
                Memory data = channel.file().map(channel.header().ringOffset(0), CAPACITY, false);
                data.putInt(at + Layout.RECORD_TYPE, Layout.TYPE_OWNER);
                data.putInt(at, bad[0]);
                data.putInt(at + 64, bad[0] > 64 ? 0 : 64);
                data.putInt(at + 64 + Layout.RECORD_TYPE, Layout.TYPE_PADDING);
                publisher.offer(new byte[2]);
                assertEquals(sender("", 0), reliable.take().sender(), path);
                assertEquals(sender("", 0), lossy.take().sender(), path);
            }
        }
    }

    @Test
    void aSlotWhoseOwnerDiedWhileItTookItIsNotBelieved() {
        try (Channel channel = create(); Publisher publisher = channel.publisher("one")) {
            publisher.offer(new byte[1]);
            int at = channel.header().publisherSlot(0) + Layout.PUBLISHER_SLOT_NAME_LENGTH;
            channel.control().putInt(at, -1);
            try (LossySubscriber lossy = channel.lossySubscriber()) {
                publisher.offer(new byte[1]);
                assertEquals(sender("", 0), lossy.take().sender());
            }
            channel.control().putInt(at, 3);
            try (LossySubscriber lossy = channel.lossySubscriber()) {
                publisher.offer(new byte[1]);
                assertEquals(sender("one", 1), lossy.take().sender());
            }
        }
    }

    @Test
    void aRingHasEndedWhenItsPublisherClosedAndAllWasConsumed() {
        try (Channel channel = create(); Subscriber reliable = channel.subscriber();
            LossySubscriber lossy = channel.lossySubscriber()) {
            assertFalse(reliable.ended(0) || lossy.ended(0));
            Publisher publisher = channel.publisher("p");
            publisher.offer(new byte[1]);
            reliable.take();
            lossy.take();
            assertFalse(reliable.ended(0) || lossy.ended(0));
            publisher.offer(new byte[1]);
            publisher.close();
            assertFalse(reliable.ended(0) || lossy.ended(0));
            reliable.take();
            lossy.take();
            assertTrue(reliable.ended(0) && lossy.ended(0));
            try (Publisher next = channel.publisher("p")) {
                assertFalse(reliable.ended(0) || lossy.ended(0));
                assertEquals(2, next.epoch());
                next.offer(new byte[1]);
            }
            assertFalse(reliable.ended(0) || lossy.ended(0));
            assertEquals(1, reliable.poll(message -> { }) * lossy.poll(message -> { }));
            assertTrue(reliable.ended(0) && lossy.ended(0));
            assertThrows(InvalidArgumentException.class, () -> reliable.ended(1));
            assertThrows(InvalidArgumentException.class, () -> lossy.ended(1));
        }
    }
}
