// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Other.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Sleeps during events of the machine, the JVM or another process. */
class WaitMachineTest {
    private static final int CAPACITY = 4096;
    private static final Duration LONG = Duration.ofSeconds(Other.PATIENCE);

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create(int subscribers) {
        return Channel.create(rings.path("w.ring"),
            ChannelOptions.broadcast().capacity(CAPACITY).publishers(2).subscribers(subscribers).counters(0));
    }

    @Test
    void aFullCollectionDoesNotWaitForASleeper() throws Exception {
        Memory word = Memory.of(ByteBuffer.allocateDirect(Integer.BYTES));
        Memory time = Memory.of(ByteBuffer.allocateDirect(Linux.TIMESPEC_SIZE));
        Memory one = Memory.of(ByteBuffer.allocateDirect(Linux.FUTEX_WAITV_SIZE));
        one.putLong(Linux.FUTEX_WAITV_ADDRESS, word.address());
        one.putInt(Linux.FUTEX_WAITV_FLAGS, Linux.FUTEX_32);
        for (boolean many : new boolean[] {false, true}) {
            if (!many || Sys.canFutexWaitMany()) {
                word.putInt(0, 0);
                Waiting.putTime(time, System.nanoTime() + LONG.toNanos());
                Other<Boolean> sleeper = new Other<>(() -> {
                    if (many) {
                        Sys.futexWaitMany(one.address(), 1, time.address());
                    } else {
                        Sys.futexWait(word.address(), 0, time.address(), -1);
                    }
                    return true;
                });
                Thread.sleep(20);
                System.gc();
                assertFalse(sleeper.done(), "the collection waited for it");
                word.putInt(0, 1);
                Sys.futexWake(word.address(), -1);
                assertTrue(sleeper.result());
            }
        }
    }

    /** Two threads that exchange messages, each sleeping until the other's message comes. */
    private static void pingPong(Channel channel, int rounds) throws Exception {
        try (Publisher ping = channel.publisher(); Subscriber pinged = channel.subscriber("", false, 1);
            Publisher pong = channel.publisher(); Subscriber ponged = channel.subscriber("", false, 0)) {
            pinged.setSpin(Duration.ZERO);
            ponged.setSpin(Duration.ZERO);
            Other<Integer> other = new Other<>(() -> {
                for (int i = 0; i < rounds; i++) {
                    assertEquals(i, ponged.take(LONG).buffer().getInt(0));
                    pong.offer(bytes(i));
                }
                return rounds;
            });
            for (int i = 0; i < rounds; i++) {
                ping.offer(bytes(i));
                assertEquals(i, pinged.take(LONG).buffer().getInt(0));
            }
            assertEquals(rounds, other.result());
        }
    }

    private static byte[] bytes(int number) {
        return ByteBuffer.allocate(Integer.BYTES).order(java.nio.ByteOrder.LITTLE_ENDIAN).putInt(number).array();
    }

    @Test
    void sleepersGoOnBesideFullCollections() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        try (Channel channel = create(2)) {
            Other<Integer> collector = new Other<>(() -> {
                int times = 0;
                while (!stop.get()) {
                    System.gc();
                    times++;
                }
                return times;
            });
            pingPong(channel, 100);
            stop.set(true);
            assertTrue(collector.result() > 0);
        }
    }

    @Test
    void overwrittenWordsDelaySleepersAndNothingElse() throws Exception {
        AtomicBoolean stop = new AtomicBoolean();
        try (Channel channel = create(2)) {
            Memory control = channel.control();
            Header header = channel.header();
            Other<Boolean> scribbler = new Other<>(() -> {
                ThreadLocalRandom random = ThreadLocalRandom.current();
                while (!stop.get()) {
                    for (WaitingWords words : List.of(channel.slots().data(), channel.slots().room())) {
                        control.putIntOpaque(words.sequence(), random.nextInt());
                        control.putIntOpaque(words.asleep(), random.nextInt());
                    }
                    for (int at : new int[] {header.publisherSlot(0), header.publisherSlot(1),
                        header.subscriberSlot(0), header.subscriberSlot(1)}) {
                        control.putLongOpaque(at + Layout.PUBLISHER_SLOT_WAKES, random.nextLong());
                    }
                    Thread.sleep(0, 100_000);
                }
                return true;
            });
            pingPong(channel, 100);
            try (Publisher publisher = channel.publisher(); Subscriber subscriber = channel.subscriber()) {
                Other<Integer> reader = new Other<>(() -> {
                    int got = 0;
                    while (got < 200) {
                        got += subscriber.poll(message -> { }, 3, LONG);
                    }
                    return got;
                });
                for (int i = 0; i < 200; i++) {
                    publisher.send(new byte[500], LONG);
                }
                publisher.flush(LONG);
                assertEquals(200, reader.result());
            }
            stop.set(true);
            assertTrue(scribbler.result());
        }
    }

    @Test
    void oneMessageWakesAllSleepersOfItsRing() throws Exception {
        final int readers = 32;
        try (Channel channel = create(readers); Publisher publisher = channel.publisher()) {
            List<Subscriber> reliable = new ArrayList<>();
            List<LossySubscriber> lossy = new ArrayList<>();
            for (int i = 0; i < readers; i++) {
                reliable.add(channel.subscriber("", false, 0));
                lossy.add(channel.lossySubscriber(0));
            }
            for (int length = 1; length < 4; length++) {
                List<Other<Message>> waits = new ArrayList<>();
                for (int i = 0; i < readers; i++) {
                    Subscriber one = reliable.get(i);
                    LossySubscriber other = lossy.get(i);
                    waits.add(new Other<>(() -> one.take(LONG)));
                    waits.add(new Other<>(() -> other.take(LONG)));
                }
                until(() -> reliable.stream().allMatch(each -> each.waiting().isWaiting())
                    && lossy.stream().allMatch(each -> each.waiting().isWaiting()));
                Thread.sleep(20);
                Memory control = channel.control();
                int sequence = control.getIntAcquire(Layout.CONTROL_DATA_SEQUENCE);
                publisher.offer(new byte[length]);
                for (Other<Message> each : waits) {
                    assertEquals(length, each.result().length());
                }
                assertEquals(sequence + 1, control.getIntAcquire(Layout.CONTROL_DATA_SEQUENCE), "one wake for all");
            }
        }
    }

    /** Plays ping-pong with one child, or two, that cannot make a system call. */
    private void pingPongWithout(String call, boolean both) throws Exception {
        final int rounds = 100;
        try (Channel channel = create(2)) {
            List<Process> children = new ArrayList<>();
            try {
                children.add(Rings.java(Child.class, "pong-without-" + call, channel.path()).start());
                assertEquals("ready", children.get(0).inputReader().readLine());
                if (both) {
                    children.add(Rings.java(Child.class, "ping-without-" + call, channel.path()).start());
                    assertEquals("ready", children.get(1).inputReader().readLine());
                    assertEquals("done", children.get(1).inputReader().readLine());
                } else {
                    assertEquals(rounds, Child.ping(channel, rounds));
                }
                assertEquals("done", children.get(0).inputReader().readLine());
            } finally {
                for (Process child : children) {
                    child.destroyForcibly().waitFor();
                }
            }
        }
    }

    @Test
    void withoutMembarrierItWakesAndIsWoken() throws Exception {
        pingPongWithout("membarrier", false);
    }

    @Test
    void twoWithoutMembarrierWakeEachOther() throws Exception {
        pingPongWithout("membarrier", true);
    }

    @Test
    void withoutFutexWaitvAWaitSetNaps() throws IOException, InterruptedException {
        try (Channel channel = create(2); Publisher publisher = channel.publisher()) {
            Process child = Rings.java(Child.class, "set-without-futex_waitv", channel.path()).start();
            try {
                assertEquals("naps", child.inputReader().readLine());
                for (int i = 0; i < 20; i++) {
                    publisher.offer(new byte[1]);
                    assertEquals("got", child.inputReader().readLine());
                }
            } finally {
                child.destroyForcibly().waitFor();
            }
        }
    }

    @Test
    void aVirtualThreadSleepsAndIsWoken() throws Exception {
        Assumptions.assumeTrue(Runtime.version().feature() >= 21);
        try (Channel channel = create(2); Publisher publisher = channel.publisher();
            Subscriber subscriber = channel.subscriber("", false, 0)) {
            subscriber.setSpin(Duration.ZERO);
            for (int i = 1; i < 20; i++) {
                FutureTask<Message> reader = new FutureTask<>(() -> subscriber.take(LONG));
                Thread thread = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class)
                    .invoke(null, reader);
                until(subscriber.waiting()::isWaiting);
                publisher.offer(new byte[i]);
                assertEquals(i, reader.get(Other.PATIENCE, TimeUnit.SECONDS).length());
                thread.join();
            }
            assertNull(subscriber.take());
        }
    }
}
