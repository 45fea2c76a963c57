// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.agrona.concurrent.Agent;
import org.agrona.concurrent.AgentRunner;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** One wait for many subscribers and publishers, and the idle strategy based on it. */
class WaitSetTest {
    private static final int CAPACITY = 4096;
    private static final long PATIENCE = 10;
    private static final Duration LONG = Duration.ofSeconds(PATIENCE);

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create(String name) {
        return Channel.create(rings.path(name), ChannelOptions.broadcast().capacity(CAPACITY).publishers(1)
            .subscribers(2).counters(0));
    }

    private static <T> FutureTask<T> other(Callable<T> action) {
        FutureTask<T> task = new FutureTask<>(action);
        Thread thread = new Thread(task, "waits");
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    private static <T> T result(FutureTask<T> task) throws Exception {
        return task.get(PATIENCE, TimeUnit.SECONDS);
    }

    private static void untilAsleep(WaitingWords words) {
        long end = System.nanoTime() + PATIENCE * 1_000_000_000;
        while (words.control().getIntOpaque(words.asleep()) == 0) {
            assertTrue(System.nanoTime() < end, "no thread sleeps");
            Thread.onSpinWait();
        }
    }

    private static void fill(Publisher publisher) {
        for (int i = 0; publisher.offer(new byte[500]) > 0; i++) {
            assertTrue(i < 2 * CAPACITY / 500);
        }
    }

    @Test
    void itReturnsThoseThatAreReady() throws Exception {
        try (Channel one = create("one.ring"); Channel two = create("two.ring");
            Publisher publisherOne = one.publisher(); Publisher publisherTwo = two.publisher();
            Subscriber reliable = one.subscriber(); Subscriber second = two.subscriber();
            LossySubscriber lossy = two.lossySubscriber()) {
            WaitSet set = new WaitSet().add(reliable).add(second).add(lossy);
            set.setSpin(Duration.ZERO);
            assertEquals(3, set.size());
            assertFalse(set.naps());
            assertEquals(List.of(), set.await(0));
            assertEquals(List.of(), set.await(Duration.ofMillis(5)));
            publisherOne.offer(new byte[1]);
            assertEquals(List.of(reliable), set.await());
            assertEquals(List.of(reliable), set.await(), "still there");
            publisherTwo.offer(new byte[1]);
            assertEquals(List.of(reliable, second, lossy), set.await(LONG));
            reliable.take();
            second.take();
            lossy.take();

            FutureTask<List<AutoCloseable>> waiting = other(() -> List.copyOf(set.await(LONG)));
            untilAsleep(one.slots().data());
            publisherOne.offer(new byte[1]);
            assertEquals(List.of(reliable), result(waiting));
            reliable.take();
            set.remove(second);
            assertThrows(InvalidArgumentException.class, () -> set.remove(second));
            FutureTask<List<AutoCloseable>> again = other(() -> List.copyOf(set.await(LONG)));
            untilAsleep(two.slots().data());
            publisherTwo.offer(new byte[1]);
            assertEquals(List.of(lossy), result(again));
        }
    }

    @Test
    void aPublisherIsReadyWhenThereIsRoom() throws Exception {
        try (Channel channel = create("w.ring"); Publisher publisher = channel.publisher();
            Subscriber subscriber = channel.subscriber()) {
            WaitSet set = new WaitSet().add(publisher);
            assertEquals(List.of(publisher), set.await(LONG));
            fill(publisher);
            assertEquals(List.of(), set.await(Duration.ofMillis(5)));
            FutureTask<List<AutoCloseable>> waiting = other(() -> List.copyOf(set.await(LONG)));
            untilAsleep(channel.slots().room());
            subscriber.poll(message -> { });
            assertEquals(List.of(publisher), result(waiting));
            assertTrue(publisher.offer(new byte[500]) > 0);
        }
    }

    @Test
    void theDeadDoNotHoldAWaitSetBack() throws Exception {
        try (Channel channel = create("w.ring"); Publisher publisher = channel.publisher()) {
            Process dead = Rings.java(Child.class, "subscribe", channel.path()).start();
            try {
                assertEquals("ready", dead.inputReader().readLine());
                fill(publisher);
            } finally {
                dead.destroyForcibly().waitFor();
            }
            assertEquals(List.of(publisher), new WaitSet().add(publisher).await(LONG));
        }
    }

    @Test
    void wakeEndsTheWaitThatIsUnderWayOrTheNextOne() throws Exception {
        WaitSet set = new WaitSet();
        set.wake();
        assertEquals(List.of(), set.await());
        assertEquals(List.of(), set.await(Duration.ofMillis(1)));
        FutureTask<List<AutoCloseable>> waiting = other(set::await);
        Thread.sleep(5);
        assertFalse(waiting.isDone());
        set.wake();
        assertEquals(List.of(), result(waiting));
    }

    @Test
    void anInterruptEndsAWait() throws Exception {
        try (Channel channel = create("w.ring"); Subscriber subscriber = channel.subscriber()) {
            WaitSet set = new WaitSet().add(subscriber);
            Thread.currentThread().interrupt();
            assertThrows(CancelledException.class, set::await);
            new BlockIdleStrategy(set).idle(0);
            assertTrue(Thread.interrupted());
        }
    }

    @Test
    void whatIsClosedOrEvictedIsReady() throws Exception {
        try (Channel channel = create("w.ring"); Subscriber first = channel.subscriber();
            Subscriber second = channel.subscriber(); LossySubscriber lossy = channel.lossySubscriber()) {
            WaitSet set = new WaitSet().add(first).add(second).add(lossy);
            FutureTask<List<AutoCloseable>> waiting = other(() -> List.copyOf(set.await(LONG)));
            untilAsleep(channel.slots().data());
            channel.evict(1);
            assertEquals(List.of(second), result(waiting));
            set.remove(second);
            first.close();
            lossy.close();
            assertEquals(List.of(first, lossy), set.await(LONG));
        }
    }

    @Test
    void aCloseByAnotherThreadEndsTheWait() throws Exception {
        try (Channel channel = create("w.ring"); Subscriber blocker = channel.subscriber();
            Channel own = Channel.open(channel.path())) {
            Publisher publisher = own.publisher();
            fill(publisher);
            WaitSet room = new WaitSet().add(publisher);
            FutureTask<List<AutoCloseable>> waiting = other(() -> List.copyOf(room.await(LONG)));
            untilAsleep(own.slots().room());
            publisher.close();
            assertEquals(List.of(publisher), result(waiting));
            assertThrows(ClosedException.class, () -> publisher.send(new byte[1]));
            assertEquals(0, blocker.slot());

            Subscriber subscriber = own.subscriber();
            LossySubscriber lossy = own.lossySubscriber();
            WaitSet set = new WaitSet().add(subscriber).add(lossy);
            FutureTask<List<AutoCloseable>> second = other(() -> List.copyOf(set.await(LONG)));
            untilAsleep(own.slots().data());
            subscriber.close();
            assertEquals(List.of(subscriber), result(second));
            assertThrows(ClosedException.class, subscriber::take);
            set.remove(subscriber);
            own.slots().data().control().clearBits(Layout.CONTROL_DATA_ASLEEP, -1);
            FutureTask<List<AutoCloseable>> third = other(() -> List.copyOf(set.await(LONG)));
            untilAsleep(own.slots().data());
            own.close();
            assertEquals(List.of(lossy), result(third));
            assertThrows(ClosedException.class, lossy::take);
        }
    }

    @Test
    void whatWasReplacedIsReadyAndItsMethodSaysSo() throws Exception {
        try (Channel one = create("one.ring"); Channel two = create("two.ring");
            Subscriber subscriber = one.subscriber(); Subscriber slow = one.subscriber();
            Publisher publisher = one.publisher(); Subscriber other = two.subscriber()) {
            fill(publisher);
            subscriber.poll(message -> { });
            LossySubscriber lossy = one.lossySubscriber();
            WaitSet set = new WaitSet().add(subscriber).add(other).add(lossy).add(publisher);
            FutureTask<List<AutoCloseable>> waiting = other(() -> List.copyOf(set.await(LONG)));
            untilAsleep(one.slots().data());
            Channel.replace(one.path(), ChannelOptions.broadcast().capacity(CAPACITY)).close();
            assertEquals(List.of(subscriber, lossy, publisher), result(waiting));
            assertThrows(ChannelReplacedException.class, () -> subscriber.poll(message -> { }));
            assertThrows(ChannelReplacedException.class, () -> lossy.controlledPoll(message -> Action.CONTINUE));
            assertThrows(ChannelReplacedException.class, () -> publisher.offer(new byte[500]));
            assertEquals(0, subscriber.poll(message -> { }), "it works as before");
            assertEquals(1, slow.slot());
        }
    }

    @Test
    void withMoreMembersThanTheKernelTakesItNaps() throws Exception {
        List<Channel> channels = new ArrayList<>();
        try (Channel channel = create("w.ring"); Publisher publisher = channel.publisher()) {
            WaitSet set = new WaitSet();
            for (int i = 0; i < Linux.FUTEX_WAITV_MOST - 1; i++) {
                channels.add(Channel.open(channel.path()));
                set.add(channels.get(i).lossySubscriber());
            }
            assertFalse(set.naps());
            FutureTask<Integer> awake = other(() -> set.await(LONG).size());
            untilAsleep(channel.slots().data());
            publisher.offer(new byte[1]);
            assertTrue(result(awake) > 0);
            channels.add(Channel.open(channel.path()));
            set.add(channels.get(channels.size() - 1).lossySubscriber());
            assertTrue(set.naps());
            for (int i = 0; i < set.await(0).size();) {
                ((LossySubscriber) set.await(0).get(i)).take();
            }
            assertEquals(List.of(), set.await(Duration.ofMillis(5)));
            FutureTask<Integer> napping = other(() -> set.await(LONG).size());
            Thread.sleep(3);
            publisher.offer(new byte[1]);
            assertTrue(result(napping) > 0);
        } finally {
            channels.forEach(Channel::close);
        }
    }

    @Test
    void itBelongsToOneThread() throws Exception {
        try (Channel channel = create("w.ring"); Subscriber subscriber = channel.subscriber()) {
            WaitSet set = new WaitSet().add(subscriber);
            assertThrows(InvalidArgumentException.class, () -> set.add(subscriber));
            assertThrows(InvalidArgumentException.class, () -> set.await(-1));
            assertThrows(InvalidArgumentException.class, () -> new BlockIdleStrategy(null));
            FutureTask<List<AutoCloseable>> waiting = other(() -> set.await(LONG));
            untilAsleep(channel.slots().data());
            assertThrows(TwoThreadsException.class, set::await);
            assertThrows(TwoThreadsException.class, () -> set.remove(subscriber));
            set.wake();
            result(waiting);
        }
    }

    @Test
    void anAgentSleepsInAWaitSet() throws Exception {
        try (Channel channel = create("w.ring"); Publisher publisher = channel.publisher()) {
            Subscriber subscriber = channel.subscriber();
            WaitSet set = new WaitSet().add(subscriber);
            set.setSpin(Duration.ZERO);
            AtomicInteger seen = new AtomicInteger();
            AtomicInteger turns = new AtomicInteger();
            Agent agent = new Agent() {
                @Override
                public int doWork() {
                    turns.incrementAndGet();
                    return subscriber.poll(message -> seen.incrementAndGet());
                }

                @Override
                public void onClose() {
                    subscriber.close();
                }

                @Override
                public String roleName() {
                    return "reader";
                }
            };
            BlockIdleStrategy strategy = new BlockIdleStrategy(set);
            assertEquals("block", strategy.alias());
            List<Throwable> errors = new ArrayList<>();
            try (AgentRunner runner = new AgentRunner(strategy, errors::add, null, agent)) {
                AgentRunner.startOnThread(runner);
                untilAsleep(channel.slots().data());
                publisher.offer(new byte[1]);
                Other.until(() -> seen.get() == 1);
                int before = turns.get();
                Thread.sleep(20);
                assertTrue(turns.get() < before + 20, "it sleeps");
                for (int i = 0; i < 5; i++) {
                    int turn = turns.get();
                    set.wake();
                    Other.until(() -> turns.get() > turn);
                }
            }
            assertEquals(List.of(), errors);
            assertThrows(ClosedException.class, subscriber::take);
            channel.subscriber().close();
        }
    }
}
