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
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import prices.PriceUpdateEncoder;

/** What ends a wait (channel.md 6.16): a close, an evict, another channel, an interrupt, a time-out. */
class WaitEndTest extends WaitFixture {
    @Test
    void anErrorEndsABatchThatIsPartlyPublished() throws Exception {
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
        OpenOptions silent = new OpenOptions().wake(false); // makes sleeps short, and so tries frequent
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
    void theDeadlineIsCheckedAlsoWhileThereIsOnlyPadding() {
        try (Subscriber subscriber = channel.subscriber(); LossySubscriber lossy = channel.lossySubscriber()) {
            Memory ring = channel.file().map(channel.header().ringOffset(0), CAPACITY, false);
            for (int at = 0; at < CAPACITY; at += Layout.DEFAULT_ALIGNMENT) { // padding without an end
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
            assertFalse(waiting.takeOver(), "no thread waits");
        }
    }

    @Test
    void aCloseDoesNotTakeAWaitOverThatMarksItsObjectAsIdle() throws Exception {
        AtomicReference<Other<Boolean>> closer = new AtomicReference<>();
        Waiting waiting = new Never() {
            @Override
            void setBusy(boolean busy) {
                if (!busy) {
                    closer.set(new Other<>(this::takeOver));
                    LockSupport.parkNanos(20_000_000);
                    assertFalse(closer.get().done(), "a close would find the object half marked");
                }
            }
        };
        waiting.begin(0);
        assertFalse(waiting.turn());
        waiting.end();
        assertFalse(closer.get().result(), "the wait has ended");
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
    void anyOtherUseByAnotherThreadDuringAWaitIsTwoThreads() throws Exception {
        try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
            subscriber.setSpin(LONG); // makes the wait a single round
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
}
