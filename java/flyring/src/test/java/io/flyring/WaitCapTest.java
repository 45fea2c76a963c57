// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Other.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/**
 * Waits that are not woken (channel.md 6.16, cap): the other side died, opted out, is foreign, or wrote invalid words.
 */
class WaitCapTest extends WaitFixture {
    @Test
    void aWakeThatNeverCameCostsNoMoreThanTheCap() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            subscriber.setSpin(Duration.ZERO);
            publisher.setSpin(Duration.ZERO);
            Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
            until(() -> asleep(data()) == 3);
            Thread.sleep(2);
            data().control().clearBits(data().asleep(), -1); // a waker that is killed after its first step
            long start = System.nanoTime();
            publisher.offer(new byte[1]);
            assertNotNull(reader.result());
            assertTrue(System.nanoTime() - start < 1_000_000_000);

            fill(publisher);
            Other<Long> sender = new Other<>(() -> publisher.send(new byte[500]));
            until(() -> asleep(room()) == 1);
            while (!sender.done()) {
                room().control().clearBits(room().asleep(), -1);
                subscriber.poll(message -> { });
            }
            assertTrue(sender.result() > 0);
        }
    }

    @Test
    void sleepersLookEachMillisecondForAnEndWithWakeOff() throws Exception {
        try (Channel quiet = Channel.open(channel.path(), new OpenOptions().wake(false));
            Publisher publisher = quiet.publisher(); Subscriber subscriber = channel.subscriber();
            LossySubscriber lossy = Rings.openReadOnly(channel.path()).lossySubscriber()) {
            int at = channel.header().publisherSlot(0) + Layout.PUBLISHER_SLOT_WAKES;
            assertEquals(0, channel.control().getLong(at));
            assertFalse(channel.slots().publisherWakes(0));
            assertTrue(channel.slots().publisherWakes(1), "the ring has no owner");
            assertTrue(channel.slots().subscriberWakes(subscriber.slot()));
            long best = Long.MAX_VALUE;
            for (int i = 0; i < 5; i++) {
                Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
                Other<Message> careless = new Other<>(() -> lossy.take(LONG));
                until(() -> asleep(data()) == 3);
                Thread.sleep(2);
                int before = sequence(data());
                long start = System.nanoTime();
                assertTrue(publisher.offer(new byte[3]) > 0);
                assertEquals(3, reader.result().length());
                assertEquals(3, careless.result().length());
                best = Math.min(best, System.nanoTime() - start);
                assertEquals(before, sequence(data()));
                assertEquals(3, asleep(data()));
            }
            assertTrue(best < 50_000_000, best + " ns");

            try (Subscriber silent = quiet.subscriber()) {
                assertFalse(channel.slots().subscriberWakes(silent.slot()));
                try (Publisher held = channel.publisher()) {
                    fill(held);
                    Other<Long> sender = new Other<>(() -> held.send(new byte[500], LONG));
                    until(() -> asleep(room()) == 2);
                    subscriber.poll(message -> { });
                    until(() -> asleep(room()) == 2);
                    silent.poll(message -> { });
                    assertTrue(sender.result() > 0);
                }
            }
        }
    }

    @Test
    void sleepersLookEachMillisecondForAForeignEnd() throws Exception {
        ChannelOptions options = ChannelOptions.inbox().capacity(CAPACITY).publishers(1).counters(0).alignment(8);
        try (Channel foreign = Channel.create(rings.path("f.ring"), options.foreign(Foreign.SUBSCRIBER));
            Publisher publisher = foreign.publisher()) {
            fill(publisher);
            long end = publisher.position();
            Other<Long> sender = new Other<>(() -> publisher.send(new byte[500], LONG));
            until(() -> asleep(foreign.slots().room()) == 1);
            foreign.trailers().get(0).putLongRelease(Header.gate(0), end);
            assertTrue(sender.result() > end);
        }
        try (Channel foreign = Channel.create(rings.path("g.ring"), options.foreign(Foreign.PUBLISHER));
            Subscriber subscriber = foreign.subscriber()) {
            Memory ring = foreign.file().map(foreign.header().ringOffset(0), foreign.header().ringStride, false);
            long best = Long.MAX_VALUE;
            for (int i = 0; i < 5; i++) {
                Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
                until(() -> asleep(foreign.slots().data()) == 1);
                Thread.sleep(2);
                long start = System.nanoTime();
                ring.putInt(16 * i + Layout.RECORD_TYPE, 7);
                ring.putIntRelease(16 * i, 12);
                assertEquals(7, reader.result().type());
                best = Math.min(best, System.nanoTime() - start);
            }
            assertTrue(best < 50_000_000, best + " ns");
        }
    }

    @Test
    void aWakerThatIsNotRegisteredLooksBehindAFence() {
        Waker waker = new Waker(data(), true, false);
        int before = sequence(data());
        assertTrue(waker.isAwaited(1), "it has to look");
        waker.wakeNow(1);
        assertEquals(before, sequence(data()), "no thread sleeps");
        data().control().setBits(data().asleep(), 5);
        waker.wakeNow(1);
        assertEquals(4, asleep(data()));
        assertEquals(before + 1, sequence(data()));
        assertFalse(new Waker(data(), false, false).isAwaited(-1));
        Waker registered = new Waker(data(), true, true);
        assertFalse(registered.isAwaited(1));
        assertTrue(registered.isAwaited(4));
    }

    @Test
    void aLossyReaderDoesNotSpinOnAPublisherThatDiedInACount() {
        for (WhenLapped whenLapped : WhenLapped.values()) {
            try (Publisher publisher = channel.publisher();
                LossySubscriber lossy = channel.lossySubscriber(Start.NOW, whenLapped, 0)) {
                for (int i = 0; i < 20; i++) {
                    publisher.offer(new byte[500]);
                }
                Memory trailer = channel.trailers().get(0);
                long begun = trailer.getLong(Layout.TRAILER_MESSAGES_BEGUN);
                trailer.putLong(Layout.TRAILER_MESSAGES_BEGUN, begun + 1);
                assertTrue(lossy.waiting().isReady(), "a poll has not tried yet");
                if (whenLapped == WhenLapped.OLDEST) {
                    assertEquals(500, lossy.take(LONG).length(), "a boundary needs no count");
                    continue;
                }
                assertNull(lossy.take());
                assertFalse(lossy.waiting().isReady());
                assertNull(lossy.take(2_000_000));
                assertFalse(lossy.waiting().isReady());
                trailer.putLong(Layout.TRAILER_MESSAGES_BEGUN, begun);
                assertTrue(lossy.waiting().isReady(), "it can be told now how many were lost");
                assertNull(lossy.take());
                assertEquals(20, lossy.lostMessages(0));
                publisher.offer(new byte[7]);
                assertEquals(7, lossy.take(LONG).length());
            }
        }
    }

    @Test
    void anEndWithWakeOffSleepsAsLongAsOthers() {
        try (Channel quiet = Channel.open(channel.path(), new OpenOptions().wake(false));
            Publisher publisher = channel.publisher(); Subscriber subscriber = quiet.subscriber("", false, 0);
            Subscriber other = channel.subscriber("", false, 1)) {
            assertTrue(subscriber.waiting().othersWake(), "the other side does");
            assertFalse(publisher.waiting().othersWake());
            try (Publisher second = channel.publisher()) {
                assertTrue(second.waiting().othersWake(), "the silent one does not read this ring");
                assertEquals(1, other.rings().length);
            }
        }
    }

    @Test
    void whateverStandsInTheWordsCostsALookOrASleepUpToItsCap() {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            Memory control = channel.control();
            int slot = channel.header().publisherSlot(0);
            for (int value : new int[] {0, 1, Integer.MAX_VALUE, Integer.MIN_VALUE, -1}) {
                for (WaitingWords words : List.of(data(), room())) {
                    control.putIntOpaque(words.sequence(), value);
                    control.putIntOpaque(words.asleep(), value);
                    for (long wakes : new long[] {-1, 0, Long.MAX_VALUE, publisher.epoch()}) {
                        control.putLongOpaque(slot + Layout.PUBLISHER_SLOT_WAKES, wakes);
                        assertNull(subscriber.take(1_000_000));
                        publisher.offer(new byte[3]);
                        assertEquals(3, subscriber.take(LONG).length());
                    }
                }
            }
        }
    }

    @Test
    void aPublisherThatWaitsRetiresTheDead() throws Exception {
        Process dead = Rings.java(Child.class, "subscribe", channel.path()).start();
        try (Publisher publisher = channel.publisher()) {
            assertEquals("ready", dead.inputReader().readLine());
            fill(publisher);
            Other<Long> sender = new Other<>(() -> publisher.send(new byte[500]));
            until(() -> asleep(room()) == 1);
            assertFalse(sender.done());
            dead.destroyForcibly().waitFor();
            assertTrue(sender.result() > 0);
        } finally {
            dead.destroyForcibly();
        }
    }
}
