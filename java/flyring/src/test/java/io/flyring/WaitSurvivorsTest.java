// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Other.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What objects survive in the middle of a wait: an interrupt, an Error, a close from another thread, an evict. */
class WaitSurvivorsTest {
    private static final int CAPACITY = 4096;
    private static final Duration LONG = Duration.ofSeconds(Other.PATIENCE);

    @RegisterExtension
    final Rings rings = new Rings();

    /** The channel that stays open; its subscriber holds the publisher back. */
    private Channel channel;
    private Subscriber blocker;
    /** The channel of the objects with waiting verbs. */
    private Channel own;
    private Publisher publisher;
    private Subscriber subscriber;
    private LossySubscriber lossy;

    @BeforeEach
    void create() {
        channel = Channel.create(rings.path("w.ring"),
            ChannelOptions.broadcast().capacity(CAPACITY).publishers(2).subscribers(2).counters(0));
        blocker = channel.subscriber("", false, 0);
        make();
    }

    private void make() {
        own = Channel.open(channel.path());
        publisher = own.publisher();
        subscriber = own.subscriber("", false, 1);
        lossy = own.lossySubscriber(1);
        publisher.setSpin(Duration.ZERO);
        subscriber.setSpin(Duration.ZERO);
        lossy.setSpin(Duration.ZERO);
        for (int i = 0; publisher.offer(new byte[500]) > 0; i++) {
            assertTrue(i < 2 * CAPACITY / 500);
        }
    }

    @AfterEach
    void close() {
        own.close();
        channel.close();
    }

    /** Every waiting verb, each of which waits without end here. */
    private Map<String, Callable<?>> verbs() {
        PayloadBuffer message = new PayloadBuffer();
        message.wrap(new byte[500]);
        Map<String, Callable<?>> verbs = new LinkedHashMap<>();
        verbs.put("poll", () -> subscriber.poll(each -> { }, 5, LONG));
        verbs.put("controlledPoll", () -> subscriber.controlledPoll(each -> Action.CONTINUE, 5, LONG));
        verbs.put("take", () -> subscriber.take(Publisher.FOREVER));
        verbs.put("lossy poll", () -> lossy.poll(each -> { }, 5, LONG));
        verbs.put("lossy take", () -> lossy.take(LONG));
        verbs.put("send", () -> publisher.send(new byte[500]));
        verbs.put("sendBatch", () -> publisher.sendBatch(message, message));
        verbs.put("claim", () -> publisher.claim(500));
        verbs.put("flush", () -> {
            publisher.flush();
            return null;
        });
        verbs.put("subscriber", () -> own.subscriber("third", false, LONG));
        return verbs;
    }

    private boolean waits(String verb) {
        return verb.contains("oll") || verb.contains("take") ? subscriber.waiting().isWaiting()
            || lossy.waiting().isWaiting() : publisher.waiting().isWaiting();
    }

    private void untilWaiting(String verb) throws InterruptedException {
        if (!verb.equals("subscriber")) {
            until(() -> waits(verb));
        }
        Thread.sleep(2);
    }

    /** Checks that everything works. */
    private void works() {
        blocker.poll(message -> { });
        long end = publisher.send(new byte[7], LONG);
        Message last = null;
        for (Message next = blocker.take(); next != null; next = blocker.take()) {
            last = next;
        }
        assertEquals(7, last.length());
        assertEquals(end, blocker.position(0));
        try (Publisher second = channel.publisher()) {
            second.offer(new byte[3]);
            assertEquals(List.of(3, 3), List.of(subscriber.take(LONG).length(), lossy.take(LONG).length()));
        }
    }

    /** Checks that the slots, their locks and gates are free. */
    private void leavesNothing() {
        try (Publisher next = channel.publisher(); Subscriber heir = channel.subscriber("", false, 0)) {
            assertEquals(List.of(0, 1), List.of(next.ring(), heir.slot()));
            blocker.poll(message -> { });
            assertTrue(next.send(new byte[9], LONG) > 0);
            assertEquals(9, heir.take(LONG).length());
        }
        blocker.poll(message -> { });
    }

    @Test
    void anInterruptEndsEveryWaitAndNothingElse() throws Exception {
        for (Map.Entry<String, Callable<?>> verb : verbs().entrySet()) {
            Other<Boolean> other = new Other<>(() -> {
                assertThrows(CancelledException.class, verb.getValue()::call, verb.getKey());
                return Thread.interrupted();
            });
            untilWaiting(verb.getKey());
            other.interrupt();
            assertTrue(other.result(), verb.getKey() + ": it still is interrupted");
        }
        WaitSet set = new WaitSet().add(subscriber).add(lossy).add(publisher);
        Other<Boolean> other = new Other<>(() -> {
            assertThrows(CancelledException.class, set::await);
            return Thread.interrupted();
        });
        Thread.sleep(2);
        other.interrupt();
        assertTrue(other.result());
        Thread.currentThread().interrupt();
        assertThrows(CancelledException.class, () -> Channel.waitFor(rings.path("none"), LONG));
        assertTrue(Thread.interrupted());
        works();
        own.close();
        leavesNothing();
    }

    /** A wait that spins checks what else ends it as often as one that sleeps. */
    @Test
    void aLongSpinIsEndedAsASleepIs() throws Exception {
        Map<String, Callable<?>> verbs = verbs();
        verbs.remove("subscriber"); // this verb does not spin
        publisher.setSpin(LONG);
        subscriber.setSpin(LONG);
        lossy.setSpin(LONG);
        WaitSet set = new WaitSet().add(subscriber).add(lossy).add(publisher);
        set.setSpin(LONG);
        verbs.put("set", set::await);
        for (Map.Entry<String, Callable<?>> verb : verbs.entrySet()) {
            Other<Boolean> other = new Other<>(() -> {
                assertThrows(CancelledException.class, verb.getValue()::call, verb.getKey());
                return Thread.interrupted();
            });
            if (!verb.getKey().equals("set")) {
                untilWaiting(verb.getKey());
            }
            other.interrupt();
            assertTrue(other.result(), verb.getKey());
        }
        works();
        for (String verb : verbs().keySet()) {
            if (!verb.equals("subscriber")) {
                publisher.setSpin(LONG);
                subscriber.setSpin(LONG);
                lossy.setSpin(LONG);
                Other<?> other = new Other<>(verbs().get(verb));
                untilWaiting(verb);
                own.close();
                assertThrows(ClosedException.class, other::result, verb);
                make();
            }
        }
        set = new WaitSet().add(subscriber).add(lossy).add(publisher);
        set.setSpin(LONG);
        Other<List<AutoCloseable>> waits = new Other<>(set::await);
        Thread.sleep(2);
        channel.evict(subscriber.slot());
        assertEquals(List.of(subscriber), waits.result());
        assertThrows(SlotLostException.class, () -> subscriber.poll(message -> { }));
    }

    @Test
    void closeOfTheChannelEndsEveryWaitAndLeavesNothing() throws Exception {
        for (String verb : verbs().keySet()) {
            Other<?> other = new Other<>(verbs().get(verb));
            untilWaiting(verb);
            own.close();
            assertThrows(ClosedException.class, other::result, verb);
            leavesNothing();
            make();
        }
    }

    @Test
    void closeOfTheObjectEndsEveryWaitAndLeavesNothing() throws Exception {
        for (String verb : verbs().keySet()) {
            if (!verb.equals("subscriber")) {
                Other<?> other = new Other<>(verbs().get(verb));
                untilWaiting(verb);
                subscriber.close();
                lossy.close();
                publisher.close();
                assertThrows(ClosedException.class, other::result, verb);
                leavesNothing();
                own.close();
                make();
            }
        }
    }

    @Test
    void anEvictEndsAWaitAndTheSlotIsFree() throws Exception {
        for (String verb : List.of("poll", "controlledPoll", "take")) {
            Other<?> other = new Other<>(verbs().get(verb));
            untilWaiting(verb);
            channel.evict(subscriber.slot());
            assertThrows(SlotLostException.class, other::result, verb);
            try (Subscriber heir = channel.subscriber()) {
                assertEquals(1, heir.slot());
                subscriber.close();
                assertNull(heir.take());
            }
            subscriber = own.subscriber("", false, 1);
        }
        works();
    }

    @Test
    void anErrorOfAHandlerEndsAWaitAndConsumesItsMessage() throws Exception {
        try (Publisher second = channel.publisher()) {
            for (Error error : List.of(new StackOverflowError("stand-in"), new OutOfMemoryError("stand-in"))) {
                for (boolean controlled : new boolean[] {false, true}) {
                    Other<?> other = new Other<>(() -> controlled ? subscriber.controlledPoll(message -> {
                        throw error;
                    }, 5, LONG) : subscriber.poll(message -> {
                        throw error;
                    }, 5, LONG));
                    until(subscriber.waiting()::isWaiting);
                    long end = second.offer(new byte[3]);
                    assertEquals(error, assertThrows(error.getClass(), other::result));
                    assertEquals(end, subscriber.position(1));
                    assertEquals(end, channel.trailers().get(1).getLong(Header.gate(1)));
                    assertNull(subscriber.take());
                    Other<?> careless = new Other<>(() -> lossy.poll(message -> {
                        throw error;
                    }, 5, LONG));
                    assertEquals(error, assertThrows(error.getClass(), careless::result));
                    assertNull(lossy.take());
                }
            }
        }
        works();
        own.close();
        leavesNothing();
    }

    @Test
    void aHandlerThatClosesOrWaitsOnItsOwnIsRefused() {
        try (Publisher second = channel.publisher()) {
            second.offer(new byte[1]);
            assertEquals(1, subscriber.poll(message -> {
                assertThrows(ViewAliveException.class, subscriber::close);
                assertThrows(ViewAliveException.class, own::close);
                assertThrows(TwoThreadsException.class, () -> subscriber.take(LONG));
            }, 5, LONG));
            assertEquals(1, lossy.take(LONG).length());
        }
        works();
    }

    @Test
    void whereverTheStackEndsAWaitCanBeClosed() throws Exception {
        int thrown = 0;
        for (int skip = 0; skip < 60; skip++) {
            Runnable wait = switch (skip % 3) {
                case 0 -> () -> assertNull(subscriber.take(1_000_000));
                case 1 -> () -> assertNull(lossy.take(1_000_000));
                default -> () -> assertThrows(BackPressuredException.class,
                    () -> publisher.send(new byte[500], Duration.ofMillis(1)));
            };
            SurvivorsTest.Deep deep = new SurvivorsTest.Deep(wait, skip / 3);
            deep.run();
            thrown += deep.threw ? 1 : 0;
            own.close();
            leavesNothing();
            make();
        }
        assertTrue(thrown > 5, "the stack ended in " + thrown + " of them");
    }

    @Test
    void aWaitForASlotLeavesNothing() throws Exception {
        assertThrows(NoFreeSlotException.class, () -> own.subscriber("", false, Duration.ofMillis(5)));
        assertThrows(TimedOutException.class,
            () -> Channel.waitFor(rings.path("none"), Duration.ofMillis(5)));
        assertNotNull(own.path());
        works();
        own.close();
        leavesNothing();
    }
}
