// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Other.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** Readers that wait for messages, and publishers that wait for room (channel.md 6.16). */
class WaitingTest extends WaitFixture {
    @Test
    void aMessageWakesItsReader() throws Exception {
        try (Publisher publisher = channel.publisher(); Publisher second = channel.publisher();
            Subscriber subscriber = channel.subscriber()) {
            subscriber.setSpin(Duration.ZERO);
            for (Publisher each : List.of(publisher, second, publisher)) {
                Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
                until(() -> asleep(data()) == 3);
                int before = sequence(data());
                assertTrue(each.offer(new byte[7]) > 0);
                assertEquals(7, reader.result().length());
                assertEquals(3 & ~(1 << each.ring()), asleep(data()), "the waker clears its ring's bit");
                assertEquals(before + 1, sequence(data()));
            }
        }
    }

    @Test
    void roomWakesItsPublisher() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            publisher.setSpin(Duration.ZERO);
            fill(publisher);
            Other<Long> sender = new Other<>(() -> publisher.send(new byte[500]));
            until(() -> asleep(room()) == 1);
            int before = sequence(room());
            while (asleep(room()) != 0) {
                assertNotNull(subscriber.take());
            }
            assertTrue(sequence(room()) != before);
            while (!sender.done()) {
                subscriber.take();
            }
            assertTrue(sender.result() > CAPACITY);

            fill(publisher);
            Other<Integer> claimer = new Other<>(() -> publisher.claim(500).length());
            until(() -> asleep(room()) == 1);
            subscriber.poll(message -> { });
            assertEquals(500, claimer.result());
        }
    }

    @Test
    void aBatchWaitsAsOftenAsItMust() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            PayloadBuffer message = new PayloadBuffer();
            message.wrap(new byte[200]);
            PayloadBuffer[] messages = new PayloadBuffer[100];
            Arrays.fill(messages, message);
            Other<Integer> sender = new Other<>(() -> publisher.sendBatch(messages));
            int got = 0;
            while (got < messages.length) {
                got += subscriber.poll(each -> assertEquals(200, each.length()), 7, LONG);
            }
            assertEquals(messages.length, sender.result());
            assertEquals(0, subscriber.poll(each -> { }));
            int taken = publisher.sendBatch(messages, 10, 80, 3, Duration.ofMillis(5));
            assertTrue(taken > 10 && taken < 20, taken + " taken");
        }
    }

    @Test
    void aBatchThatMustWaitWakesItsReadersFirst() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber();
            LossySubscriber lossy = channel.lossySubscriber()) {
            PayloadBuffer message = new PayloadBuffer();
            message.wrap(new byte[500]);
            PayloadBuffer[] messages = new PayloadBuffer[10];
            Arrays.fill(messages, message);
            data().control().setBits(data().asleep(), 1); // a reader seems to be asleep
            int before = sequence(data());
            Other<Integer> sender = new Other<>(() -> publisher.sendBatch(messages));
            until(() -> asleep(room()) == 1);
            assertEquals(0, asleep(data()));
            assertEquals(before + 1, sequence(data()));
            assertNotNull(lossy.take());
            while (!sender.done()) {
                subscriber.poll(each -> { });
            }
            assertEquals(messages.length, sender.result());
        }
    }

    @Test
    void aPingAndAPongThatSleepNeverMissEachOther() throws Exception {
        final int rounds = 5000;
        try (Publisher ping = channel.publisher(); Subscriber pinged = channel.subscriber("", false, 1);
            Publisher pong = channel.publisher(); Subscriber ponged = channel.subscriber("", false, 0)) {
            ponged.setSpin(Duration.ZERO);
            pinged.setSpin(Duration.ZERO);
            Other<Integer> other = new Other<>(() -> {
                for (int i = 0; i < rounds; i++) {
                    assertEquals(1, ponged.poll(message -> { }, 1, LONG));
                    pong.offer(new byte[8]);
                }
                return rounds;
            });
            int late = 0;
            for (int i = 0; i < rounds; i++) {
                long start = System.nanoTime();
                ping.offer(new byte[8]);
                assertEquals(1, pinged.poll(message -> { }, 1, LONG));
                late += System.nanoTime() - start >= 99_000_000 ? 1 : 0;
            }
            assertEquals(rounds, other.result());
            assertEquals(0, late, "waits that ended by the cap");
        }
    }

    @Test
    void whatIsNoMessageDoesNotEndAWait() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
            until(() -> asleep(data()) == 3);
            publisher.claim(5).abort(); // an owner record precedes the padding
            publisher.claim(5).abort();
            Thread.sleep(5);
            assertFalse(reader.done());
            publisher.offer(new byte[3]);
            assertEquals(3, reader.result().length());
        }
    }

    @Test
    void aRingThatBreaksWakesSendersThatWaitForRoom() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            publisher.setSpin(Duration.ZERO);
            fill(publisher);
            Memory ring = channel.file().map(channel.header().ringOffset(0), CAPACITY, false);
            Other<Long> sender = new Other<>(() -> publisher.send(new byte[500], LONG));
            until(() -> asleep(room()) == 1);
            ring.putIntRelease(0, 3);
            int before = sequence(room());
            assertThrows(CorruptRingException.class, subscriber::take);
            assertTrue(sequence(room()) != before, "the gate that became -1 wakes");
            assertTrue(sender.result() > 0);
        }
    }

    @Test
    void aTimeToSpinIsZeroOrMore() {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber();
            LossySubscriber lossy = channel.lossySubscriber()) {
            for (Consumer<Duration> set : List.<Consumer<Duration>>of(publisher::setSpin, subscriber::setSpin,
                lossy::setSpin, new WaitSet()::setSpin)) {
                assertEquals("spin", assertThrows(InvalidArgumentException.class, () -> set.accept(null)).argument());
                assertEquals("spin", assertThrows(InvalidArgumentException.class,
                    () -> set.accept(Duration.ofNanos(-1))).argument());
                assertEquals("spin", assertThrows(InvalidArgumentException.class,
                    () -> set.accept(Duration.ofSeconds(Long.MIN_VALUE))).argument());
                set.accept(Duration.ofSeconds(Long.MAX_VALUE, 999_999_999));
            }
            assertNull(subscriber.take(2_000_000));
            assertNull(lossy.take(2_000_000));
            fill(publisher);
            assertThrows(BackPressuredException.class, () -> publisher.claim(500, 1, 2_000_000));
        }
    }

    @Test
    void aPollForNoMessagesAndAnAbortedMessageDoNotWait() {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber();
            LossySubscriber lossy = channel.lossySubscriber()) {
            assertEquals(0, subscriber.poll(message -> { }, 0, LONG));
            assertEquals(0, lossy.controlledPoll(message -> Action.CONTINUE, 0, LONG));
            publisher.offer(new byte[3]);
            assertEquals(0, lossy.controlledPoll(message -> Action.ABORT, 1, LONG));
            assertThrows(IllegalStateException.class, () -> subscriber.poll(message -> {
                throw new IllegalStateException();
            }, 1, LONG));
            assertNull(subscriber.take(), "a handler that throws has consumed its message");
        }
    }

    @Test
    void flushWaitsForReadersWithAnOwnerOnly() throws Exception {
        try (Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[5]);
            publisher.flush();
            channel.subscriber("away", true).close();
            publisher.offer(new byte[5]);
            publisher.flush(LONG); // the kept slot has no owner
            try (Subscriber subscriber = channel.subscriber()) {
                publisher.offer(new byte[5]);
                TimedOutException error = assertThrows(TimedOutException.class,
                    () -> publisher.flush(Duration.ofMillis(10)));
                assertEquals(List.of("timed-out", "subscriber slot 1"), List.of(error.code(), error.whatFor()));
                Other<Boolean> flusher = new Other<>(() -> {
                    publisher.flush();
                    return true;
                });
                until(() -> asleep(room()) == 1);
                assertNotNull(subscriber.take());
                assertTrue(flusher.result());
                publisher.offer(new byte[5]);
                Other<Boolean> second = new Other<>(() -> {
                    publisher.flush();
                    return true;
                });
                until(() -> asleep(room()) == 1);
                subscriber.close();
                assertTrue(second.result(), "one that leaves is waited for no longer");
            }
        }
    }

    @Test
    void aFlushBesideAnOpenClaimLeavesItOpen() throws Exception {
        Channel own = Channel.open(channel.path());
        try (Publisher publisher = own.publisher(); Subscriber subscriber = channel.subscriber()) {
            publisher.offer(new byte[5]);
            Claim claim = publisher.claim(8);
            claim.buffer().putLong(0, 4711);
            assertEquals("timeout", assertThrows(InvalidArgumentException.class, () -> publisher.flush(-1)).argument());
            assertThrows(TimedOutException.class, () -> publisher.flush(Duration.ofMillis(5)));
            publisher.setSpin(LONG); // makes the wait a single round
            Other<Boolean> flusher = new Other<>(() -> {
                publisher.flush();
                return true;
            });
            until(publisher.waiting()::isWaiting);
            assertThrows(TwoThreadsException.class, claim::commit);
            assertNotNull(subscriber.take());
            assertTrue(flusher.result());
            assertEquals(8, claim.length());
            claim.commit();
            assertEquals(4711, subscriber.take().buffer().getLong(0));

            Claim second = publisher.claim(8);
            publisher.flush();
            second.commit();
            long end = publisher.claim(8).commit();
            Claim third = publisher.claim(8);
            Other<Boolean> closed = new Other<>(() -> {
                publisher.flush();
                return true;
            });
            until(publisher.waiting()::isWaiting);
            own.close();
            assertThrows(ClosedException.class, closed::result);
            assertThrows(ClosedException.class, third::commit);
            assertTrue(channel.trailers().get(0).getLong(Layout.TRAILER_PUBLISHED) > end, "close aborts the claim");
        }
    }

    @Test
    void waitForOpensAChannelAsSoonAsItIsThere() throws Exception {
        String path = rings.path("later.ring");
        TimedOutException error = assertThrows(TimedOutException.class,
            () -> Channel.waitFor(path, Duration.ofMillis(10)));
        assertTrue(error.whatFor().contains("later.ring"));
        Other<Channel> waiting = new Other<>(() -> Channel.waitFor(path, Publisher.FOREVER));
        Thread.sleep(5);
        assertFalse(waiting.done());
        try (Channel created = Channel.create(path, options()); Channel opened = waiting.result()) {
            assertEquals(created.id(), opened.id());
        }
        Thread.currentThread().interrupt();
        assertThrows(CancelledException.class, () -> Channel.waitFor(rings.path("never.ring"), LONG));
        assertTrue(Thread.interrupted());
    }

    @Test
    void aSubscriberWaitsUntilASlotIsFree() throws Exception {
        try (Subscriber first = channel.subscriber(); Subscriber second = channel.subscriber()) {
            assertThrows(NoFreeSlotException.class, () -> channel.subscriber("", false, Duration.ofMillis(20)));
            Other<Subscriber> third = new Other<>(() -> channel.subscriber("third", false, LONG));
            Thread.sleep(30);
            assertFalse(third.done());
            second.close();
            try (Subscriber joined = third.result()) {
                assertEquals(second.slot(), joined.slot());
            }
            assertEquals(0, first.slot());
        }
    }

    @Test
    void publishersAndReadersThatComeAndGoWakeTheOtherSide() {
        int data = sequence(data());
        int room = sequence(room());
        Publisher publisher = channel.publisher();
        assertEquals(++data, sequence(data()), "take");
        publisher.close();
        assertEquals(++data, sequence(data()), "close");
        Subscriber subscriber = channel.subscriber();
        assertEquals(++room, sequence(room()), "take");
        subscriber.close();
        assertEquals(++room, sequence(room()), "leave");
        Subscriber kept = channel.subscriber("kept", true);
        assertEquals(++room, sequence(room()), "take");
        kept.close();
        assertEquals(room, sequence(room()), "a kept one stays where it is");
        channel.evict(0);
        assertEquals(++room, sequence(room()), "evict");
        assertEquals(++data, sequence(data()), "evict");
        Channel.replace(channel.path(), options()).close();
        assertEquals(++room, sequence(room()), "replace");
        assertEquals(++data, sequence(data()), "replace");
    }
}
