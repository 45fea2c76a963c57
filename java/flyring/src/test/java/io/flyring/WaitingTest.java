// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Other.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.flyring.sbe.MessageHeader;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import prices.PriceUpdateEncoder;

/** Readers that wait for messages, publishers that wait for room (spec 6.16), and what ends a wait. */
class WaitingTest {
    private static final int CAPACITY = 4096;
    private static final Duration LONG = Duration.ofSeconds(Other.PATIENCE);

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel;

    private static ChannelOptions options() {
        return ChannelOptions.broadcast().capacity(CAPACITY).publishers(2).subscribers(2).counters(0);
    }

    @BeforeEach
    void create() {
        channel = Channel.create(rings.path("w.ring"), options());
    }

    @AfterEach
    void close() {
        channel.close();
    }

    private int asleep(WaitingWords words) {
        return words.control().getIntOpaque(words.asleep());
    }

    private int sequence(WaitingWords words) {
        return words.control().getIntAcquire(words.sequence());
    }

    private WaitingWords data() {
        return channel.slots().data();
    }

    private WaitingWords room() {
        return channel.slots().room();
    }

    private static void fill(Publisher publisher) {
        for (int i = 0; publisher.offer(new byte[500]) > 0; i++) {
            assertTrue(i < 2 * CAPACITY / 500);
        }
    }

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
            data().control().setBits(data().asleep(), 1); // somebody sleeps
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
    void anErrorEndsABatchOfWhichSomeWasTaken() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            PayloadBuffer message = new PayloadBuffer();
            message.wrap(new byte[500]);
            PayloadBuffer[] messages = new PayloadBuffer[20];
            Arrays.fill(messages, message);
            Other<Integer> sender = new Other<>(() -> publisher.sendBatch(messages));
            until(() -> asleep(room()) == 1);
            try (Channel now = Channel.replace(channel.path(), options()); Publisher next = now.publisher();
                Subscriber blocker = now.subscriber()) {
                assertThrows(ChannelReplacedException.class, sender::result);
                long before = next.offer(new byte[1]);
                Channel.replace(channel.path(), options()).close();
                assertThrows(ChannelReplacedException.class,
                    () -> next.sendBatch(messages, 0, messages.length, 1, Duration.ZERO), "in the middle, not asleep");
                assertTrue(next.position() > before + 500);
                assertEquals(0, blocker.slot());
            }
            int taken = 0;
            while (subscriber.take() != null) {
                taken++;
            }
            assertTrue(taken > 2 && taken < messages.length, "what was taken stays published: " + taken);
            assertEquals(publisher.position(), subscriber.position(0));
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
    void aWakeThatNeverCameCostsNoMoreThanTheCap() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            subscriber.setSpin(Duration.ZERO);
            publisher.setSpin(Duration.ZERO);
            Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
            until(() -> asleep(data()) == 3);
            Thread.sleep(2);
            data().control().clearBits(data().asleep(), -1); // a waker that is killed behind its first step
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
    void whoOptedOutWakesNobodyAndIsLookedAfter() throws Exception {
        try (Channel quiet = Channel.open(channel.path(), new OpenOptions().wake(false));
            Publisher publisher = quiet.publisher(); Subscriber subscriber = channel.subscriber();
            LossySubscriber lossy = Rings.openReadOnly(channel.path()).lossySubscriber()) {
            int at = channel.header().publisherSlot(0) + Layout.PUBLISHER_SLOT_WAKES;
            assertEquals(0, channel.control().getLong(at));
            assertFalse(channel.slots().publisherWakes(0));
            assertTrue(channel.slots().publisherWakes(1), "nobody owns it");
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
    void aForeignEndIsLookedForEveryMillisecond() throws Exception {
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
        assertEquals(before, sequence(data()), "nobody sleeps");
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
    void closeByAnotherThreadEndsAWait() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber blocker = channel.subscriber("", false, 0)) {
            Subscriber subscriber = channel.subscriber();
            Other<Message> reader = new Other<>(() -> subscriber.take(Publisher.FOREVER));
            until(() -> asleep(data()) == 3);
            subscriber.close();
            assertThrows(ClosedException.class, reader::result);
            assertThrows(ClosedException.class, subscriber::take);

            data().control().clearBits(data().asleep(), -1);
            LossySubscriber lossy = channel.lossySubscriber();
            Other<Message> careless = new Other<>(() -> lossy.take(Publisher.FOREVER));
            until(() -> asleep(data()) == 3);
            lossy.close();
            assertThrows(ClosedException.class, careless::result);

            fill(publisher);
            Other<Long> sender = new Other<>(() -> publisher.send(new byte[500]));
            until(() -> asleep(room()) == 1);
            publisher.close();
            assertThrows(ClosedException.class, sender::result);
            assertTrue(channel.slots().closed(0));
            assertEquals(0, blocker.slot());
        }
    }

    @Test
    void closeOfTheChannelEndsItsWaits() throws Exception {
        Channel all = Channel.open(channel.path());
        Publisher publisher = all.publisher();
        Subscriber subscriber = all.subscriber("", false, 1);
        Subscriber blocker = channel.subscriber("", false, 0);
        LossySubscriber lossy = all.lossySubscriber(1);
        fill(publisher);
        Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
        Other<Message> careless = new Other<>(() -> lossy.take(LONG));
        Other<Long> sender = new Other<>(() -> publisher.send(new byte[500]));
        until(() -> asleep(data()) == 2 && asleep(room()) == 1 && lossy.waiting().isWaiting());
        all.close();
        for (Other<?> each : List.of(reader, careless, sender)) {
            assertThrows(ClosedException.class, each::result);
        }
        try (Publisher next = channel.publisher()) {
            assertEquals(0, next.ring(), "the slots are free");
        }
        blocker.close();
    }

    @Test
    void closeOfAReadOnlyChannelEndsItsWaits() throws Exception {
        Channel reading = Rings.openReadOnly(channel.path());
        LossySubscriber lossy = reading.lossySubscriber();
        Other<Message> reader = new Other<>(() -> lossy.take(LONG));
        until(lossy.waiting()::isWaiting);
        reading.close();
        assertThrows(ClosedException.class, reader::result);
    }

    @Test
    void aCloseAtAnyTimeOfAWaitEndsItAndIsNeverRefused() throws Exception {
        OpenOptions silent = new OpenOptions().wake(false); // short sleeps, and so many tries
        try (Channel quiet = Channel.open(channel.path(), silent);
            Subscriber blocker = quiet.subscriber("", false, 0)) {
            for (int i = 0; i < 60; i++) {
                Channel own = Channel.open(channel.path(), silent);
                Publisher publisher = own.publisher();
                Subscriber subscriber = own.subscriber("", false, 1);
                publisher.setSpin(Duration.ZERO);
                subscriber.setSpin(Duration.ZERO);
                fill(publisher);
                Other<Long> sender = new Other<>(() -> publisher.send(new byte[500]));
                Other<Message> reader = new Other<>(() -> subscriber.take(Publisher.FOREVER));
                until(() -> publisher.waiting().isWaiting() && subscriber.waiting().isWaiting());
                long end = System.nanoTime() + i * 37_000;
                until(() -> System.nanoTime() > end);
                if (i % 2 == 0) {
                    publisher.close();
                    subscriber.close();
                }
                own.close();
                assertThrows(ClosedException.class, sender::result);
                assertThrows(ClosedException.class, reader::result);
            }
            assertEquals(0, blocker.slot());
        }
    }

    @Test
    void whatIsNoMessageDoesNotEndAWait() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
            until(() -> asleep(data()) == 3);
            publisher.claim(5).abort(); // with an owner record in front
            publisher.claim(5).abort();
            Thread.sleep(5);
            assertFalse(reader.done());
            publisher.offer(new byte[3]);
            assertEquals(3, reader.result().length());
        }
    }

    /** Publishes padding until it is told to stop. */
    private Other<Boolean> padding(Publisher publisher, AtomicBoolean stop) {
        return new Other<>(() -> {
            while (!stop.get()) {
                Claim claim = publisher.tryClaim(5);
                if (claim != null) {
                    claim.abort();
                }
            }
            return true;
        });
    }

    @Test
    void theDeadlineIsLookedAtAlsoWhileThereIsNothingButPadding() {
        try (Subscriber subscriber = channel.subscriber(); LossySubscriber lossy = channel.lossySubscriber()) {
            Memory ring = channel.file().map(channel.header().ringOffset(0), CAPACITY, false);
            for (int at = 0; at < CAPACITY; at += Layout.DEFAULT_ALIGNMENT) { // it never ends
                ring.putInt(at + Layout.RECORD_TYPE, Layout.TYPE_PADDING);
                ring.putIntRelease(at, Layout.DEFAULT_ALIGNMENT);
            }
            for (int i = 0; i < 3; i++) {
                assertTrue(subscriber.waiting().isReady() && lossy.waiting().isReady());
                assertNull(subscriber.take(3_000_000));
                assertNull(lossy.take(3_000_000));
                assertEquals(0, subscriber.controlledPoll(message -> Action.CONTINUE, 1, 3_000_000));
            }
        }
    }

    @Test
    void aCloseBesideAWaitThatFindsPaddingIsNotRefused() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        try (Publisher publisher = channel.publisher()) {
            Other<Boolean> padder = padding(publisher, stop);
            for (int i = 0; i < 15; i++) {
                Subscriber subscriber = channel.subscriber();
                Other<Message> reader = new Other<>(() -> subscriber.take(Publisher.FOREVER));
                until(subscriber.waiting()::isWaiting);
                subscriber.close();
                assertThrows(ClosedException.class, reader::result);
            }
            stop.set(true);
            assertTrue(padder.result());
        }
    }

    @Test
    void aCloseBetweenTwoTurnsOfAWaitTakesTheNextOneOver() throws Exception {
        try (Subscriber subscriber = channel.subscriber()) {
            Waiting waiting = subscriber.waiting();
            waiting.begin(0);
            assertFalse(waiting.turn());
            Other<Boolean> closer = new Other<>(() -> {
                boolean taken = waiting.takeOver();
                waiting.goOn();
                return taken;
            });
            Thread.sleep(5);
            assertFalse(closer.done(), "it waits for the next turn");
            waiting.begin(LONG.toNanos());
            assertTrue(waiting.turn());
            assertTrue(closer.result());
            waiting.end();
            assertFalse(waiting.takeOver(), "nobody waits");
        }
    }

    @Test
    void aRingThatBreaksWakesWhoWaitsForRoomInIt() throws Exception {
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
    void whoOptedOutSleepsAsLongAsOthers() {
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
    void evictEndsAWait() throws Exception {
        try (Subscriber subscriber = channel.subscriber()) {
            Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
            until(() -> asleep(data()) == 3);
            channel.evict(0);
            assertThrows(SlotLostException.class, reader::result);
        }
    }

    @Test
    void replaceEndsAWaitAndNothingElse() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber();
            LossySubscriber lossy = channel.lossySubscriber()) {
            Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
            Other<Message> careless = new Other<>(() -> lossy.take(LONG));
            until(() -> asleep(data()) == 3);
            try (Channel now = Channel.replace(channel.path(), options())) {
                ChannelReplacedException error = assertThrows(ChannelReplacedException.class, reader::result);
                assertEquals(now.id(), error.channelId());
                assertThrows(ChannelReplacedException.class, careless::result);
                assertThrows(ChannelReplacedException.class, () -> publisher.offer(new byte[9]));
                assertTrue(publisher.offer(new byte[9]) > 0, "it works as before");
                assertEquals(9, subscriber.take(LONG).length());
                boolean full = false;
                while (!full) {
                    try {
                        full = publisher.offer(new byte[500]) < 0;
                    } catch (ChannelReplacedException e) {
                        assertEquals(now.id(), e.channelId());
                    }
                }
                assertThrows(ChannelReplacedException.class, () -> publisher.send(new byte[500]));
            }
        }
    }

    @Test
    void anInterruptEndsAWaitAndTheThreadStaysInterrupted() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            Other<CancelledException> reader = new Other<>(() -> {
                CancelledException error = assertThrows(CancelledException.class, () -> subscriber.take(LONG));
                assertTrue(Thread.currentThread().isInterrupted());
                return error;
            });
            until(() -> asleep(data()) == 3);
            reader.interrupt();
            assertEquals(List.of("cancelled", "a message"), List.of(reader.result().code(), reader.result().whatFor()));
            fill(publisher);
            Thread.currentThread().interrupt();
            assertThrows(CancelledException.class, () -> publisher.send(new byte[500]));
            assertThrows(CancelledException.class, () -> publisher.claim(500));
            assertThrows(CancelledException.class, () -> publisher.flush());
            assertNotNull(subscriber.take(LONG), "nothing to wait for");
            assertTrue(Thread.interrupted());
        }
    }

    @Test
    void whateverElseAnotherThreadDoesDuringAWaitIsTwoThreads() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            subscriber.setSpin(LONG); // so that there is one round only
            publisher.setSpin(LONG);
            Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
            until(subscriber.waiting()::isWaiting);
            assertThrows(TwoThreadsException.class, () -> subscriber.poll(message -> { }));
            assertThrows(TwoThreadsException.class, () -> subscriber.take(Duration.ofMillis(-1)));
            assertThrows(TwoThreadsException.class, () -> subscriber.controlledPoll(message -> Action.CONTINUE));
            publisher.offer(new byte[1]);
            assertNotNull(reader.result());
            fill(publisher);
            Other<Long> sender = new Other<>(() -> publisher.send(new byte[500]));
            until(publisher.waiting()::isWaiting);
            for (Callable<?> use : List.<Callable<?>>of(() -> publisher.offer(new byte[1]),
                () -> publisher.tryClaim(1), () -> publisher.send(new byte[1]), publisher::heldBy)) {
                assertThrows(TwoThreadsException.class, use::call);
            }
            while (!sender.done()) {
                subscriber.poll(message -> { });
            }
            assertTrue(sender.result() > 0);
        }
    }

    @Test
    void aTimeOutEndsAWait() {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber();
            LossySubscriber lossy = channel.lossySubscriber()) {
            long start = System.nanoTime();
            assertNull(subscriber.take(Duration.ofMillis(20)));
            assertNull(lossy.take(20_000_000));
            assertEquals(0, subscriber.poll(message -> { }, 5, 20_000_000));
            assertEquals(0, subscriber.controlledPoll(message -> Action.CONTINUE, 5, Duration.ofMillis(20)));
            assertEquals(0, lossy.controlledPoll(message -> Action.CONTINUE, 5, 20_000_000));
            assertTrue(System.nanoTime() - start >= 100_000_000);
            assertNull(subscriber.take(Duration.ZERO));
            fill(publisher);
            start = System.nanoTime();
            BackPressuredException error = assertThrows(BackPressuredException.class,
                () -> publisher.send(new byte[500], Duration.ofMillis(20)));
            assertEquals(subscriber.slot(), error.holder().slot());
            assertThrows(BackPressuredException.class, () -> publisher.claim(500, 1, 20_000_000));
            assertTrue(System.nanoTime() - start >= 40_000_000);
            assertThrows(BackPressuredException.class, () -> publisher.claim(500, 1, 0));
            PriceUpdateEncoder update = new PriceUpdateEncoder();
            assertThrows(BackPressuredException.class, () -> publisher.claim(update, 400, 1_000_000));
            assertThrows(BackPressuredException.class,
                () -> publisher.claim(update, 400, MessageHeader.BIG_ENDIAN, Duration.ofMillis(1)));
            assertEquals(1, subscriber.controlledPoll(message -> Action.BREAK, 5, LONG));
            assertEquals(0, subscriber.controlledPoll(message -> Action.ABORT, 5, LONG), "ends the poll, so the wait");
        }
    }

    @Test
    void aTimeOutBelowZeroIsRefused() {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber();
            LossySubscriber lossy = channel.lossySubscriber()) {
            Duration negative = Duration.ofNanos(-1);
            publisher.offer(new byte[5]);
            for (Callable<?> use : List.<Callable<?>>of(() -> subscriber.take(negative), () -> lossy.take(-5),
                () -> subscriber.poll(message -> { }, 1, -1), () -> subscriber.take((Duration) null),
                () -> subscriber.controlledPoll(message -> Action.CONTINUE, 1, Long.MIN_VALUE),
                () -> publisher.send(new byte[1], Duration.ofSeconds(Long.MIN_VALUE)),
                () -> publisher.claim(1, 1, negative), () -> publisher.sendBatch(new PayloadBuffer[0], 0, 0, 1, -1),
                () -> Channel.waitFor(channel.path(), negative), () -> channel.subscriber("", false, negative))) {
                assertEquals("timeout", assertThrows(InvalidArgumentException.class, use::call).argument());
            }
            assertThrows(InvalidArgumentException.class, () -> publisher.flush(-1));
            assertThrows(InvalidArgumentException.class, () -> subscriber.setSpin(negative));
            assertEquals(5, subscriber.take().length(), "nothing was consumed");
            subscriber.close();
            assertThrows(ClosedException.class, () -> subscriber.take(negative));
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

    @Test
    void flushWaitsForReadersThatSomebodyOwns() throws Exception {
        try (Publisher publisher = channel.publisher()) {
            publisher.offer(new byte[5]);
            publisher.flush();
            channel.subscriber("away", true).close();
            publisher.offer(new byte[5]);
            publisher.flush(LONG); // nobody owns it
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
            publisher.setSpin(LONG); // so that there is one round only
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
