// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Joining, leaving, evicting, retiring and lossy reading while publishers run at full speed. Each race must happen. */
class RaceTest {
    private static final int CAPACITY = 16 * 1024;
    private static final long NANOS = 1_000_000_000L;
    private static final int LONGEST = 120;

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel;
    private final AtomicReference<Throwable> failed = new AtomicReference<>();
    private volatile boolean stop;

    @BeforeEach
    void create() {
        channel = Channel.create(rings.path("race.ring"),
            ChannelOptions.broadcast().capacity(CAPACITY).publishers(2).subscribers(1).counters(0));
    }

    @AfterEach
    void close() {
        channel.close();
    }

    private Thread thread(Runnable body) {
        Thread thread = new Thread(body);
        thread.setUncaughtExceptionHandler((which, error) -> failed.compareAndSet(null, error));
        thread.start();
        return thread;
    }

    private void end(Thread... threads) throws Exception {
        stop = true;
        for (Thread thread : threads) {
            thread.join();
        }
        assertNull(failed.get(), () -> String.valueOf(failed.get()));
    }

    /** Whether a race continues: for a second, and on a busy machine until it has had both outcomes. */
    private static boolean goesOn(long since, boolean enough) {
        long time = System.nanoTime() - since;
        return time < NANOS || !enough && time < 20 * NANOS;
    }

    private static int length(long sequence) {
        return 8 + (int) (sequence * 37 % (LONGEST - 8));
    }

    private static void write(PayloadBuffer buffer, long sequence) {
        buffer.putLong(0, sequence);
        for (int i = 8; i < length(sequence); i++) {
            buffer.putByte(i, (byte) (sequence * 31 + i));
        }
    }

    /** The sequence of a whole message; -1 if it is torn. */
    private static long read(Message message) {
        PayloadBuffer buffer = message.buffer();
        if (message.length() < Long.BYTES) { // a torn length may have any value
            return -1;
        }
        long sequence = buffer.getLong(0);
        boolean whole = sequence >= 0 && message.length() == length(sequence);
        for (int i = 8; whole && i < message.length(); i++) {
            whole = buffer.getByte(i) == (byte) (sequence * 31 + i);
        }
        return whole ? sequence : -1;
    }

    /**
     * Publishes 0, 1, 2, ... at full speed, or in bursts of up to three rings, between which a lossy reader can run
     * even on one processor. counts[0] is the number of messages, counts[1] the position.
     */
    private Thread publish(boolean bursts, long[] counts) {
        Publisher publisher = channel.publisher("p");
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(new byte[LONGEST]);
        return thread(() -> {
            long pause = 100;
            for (long i = 0; !stop;) {
                write(buffer, i);
                if (publisher.offer(buffer, 0, length(i)) > 0) {
                    i++;
                    counts[0] = i;
                    counts[1] = publisher.position();
                }
                if (bursts && i > pause) {
                    LockSupport.parkNanos(1000);
                    pause = i + i * 7919 % (3 * CAPACITY / 100);
                }
            }
            publisher.close();
        });
    }

    /** Collects messages, and checks after the poll that they are whole and without a gap. */
    private static final class Suffix implements MessageHandler {
        private long next = -1;
        private int seen;
        private String wrong;

        @Override
        public void onMessage(Message message) {
            long sequence = read(message);
            if (sequence < 0 || next >= 0 && sequence != next) {
                wrong = sequence + " instead of " + next;
            }
            next = sequence + 1;
            seen++;
        }

        void poll(Subscriber subscriber, int limit) {
            subscriber.poll(this, limit);
            assertNull(wrong);
        }
    }

    @Test
    void aSubscriberThatJoinsAndLeavesAtFullSpeedSeesAGaplessSuffix() throws Exception {
        long[] counts = new long[2];
        Thread publisher = publish(false, counts);
        int joins = 0;
        long seen = 0;
        for (long start = System.nanoTime(); goesOn(start, joins > 50 && seen > 1000
            && counts[1] > 20 * CAPACITY); joins++) {
            try (Subscriber subscriber = channel.subscriber(0)) {
                Suffix suffix = new Suffix();
                for (long since = System.nanoTime(); suffix.seen < joins % 500;) {
                    suffix.poll(subscriber, 256);
                    assertTrue(System.nanoTime() - since < 20 * NANOS && failed.get() == null, "nothing comes");
                }
                seen += suffix.seen;
            }
        }
        end(publisher);
        assertTrue(joins > 50 && seen > 1000 && counts[1] > 20 * CAPACITY,
            joins + " joins, " + seen + " messages, " + counts[1] + " bytes");
    }

    @Test
    void noSubscriberForManyLapsThenOne() {
        try (Publisher publisher = channel.publisher()) {
            PayloadBuffer buffer = new PayloadBuffer();
            buffer.wrap(new byte[LONGEST]);
            long sent = 0;
            for (int round = 0; round < 50; round++) {
                for (int i = 0; i < 1000 + round; i++) {
                    write(buffer, sent);
                    assertTrue(publisher.offer(buffer, 0, length(sent++)) > 0);
                }
                try (Subscriber subscriber = channel.subscriber()) {
                    assertNull(subscriber.take());
                    Suffix suffix = new Suffix();
                    suffix.next = sent;
                    for (int i = 0; i < 20; i++) {
                        write(buffer, sent);
                        assertTrue(publisher.offer(buffer, 0, length(sent++)) > 0);
                    }
                    suffix.poll(subscriber, 256);
                    assertEquals(20, suffix.seen);
                }
            }
            assertTrue(publisher.position() > 200 * CAPACITY);
        }
    }

    @Test
    void aLossyReaderAtFullSpeedGetsWholeMessagesAndCountsExactlyWhatItLost() throws Exception {
        long[] counts = new long[2];
        LossySubscriber lossy = channel.lossySubscriber(0);
        Thread publisher = publish(true, counts);
        long[] next = new long[1];
        long[] delivered = new long[1];
        MessageHandler handler = message -> {
            long sequence = read(message);
            assertEquals(delivered[0] + lossy.lostMessages(0), sequence, "after " + next[0]);
            assertEquals(1, message.sender().epoch());
            next[0] = sequence + 1;
            delivered[0]++;
        };
        long laps = 0;
        long lost = 0;
        for (long start = System.nanoTime(); goesOn(start, laps > 0 && delivered[0] > 1000);) {
            lossy.poll(handler);
            if (lossy.lostMessages(0) > lost) {
                lost = lossy.lostMessages(0);
                laps++;
            }
        }
        end(publisher);
        for (int i = 0; i < 3; i++) {
            lossy.poll(handler, Integer.MAX_VALUE);
        }
        assertEquals(counts[0], delivered[0] + lossy.lostMessages(0), "the truth");
        assertTrue(lossy.ended(0));
        assertTrue(laps > 0 && delivered[0] > 1000, laps + " laps, " + delivered[0] + " delivered");
    }

    @Test
    void aPeekAtFullSpeedIsBelievedOnlyIfItIsWhole() throws Exception {
        long[] counts = new long[2];
        LossySubscriber lossy = channel.lossySubscriber(0);
        Thread publisher = publish(true, counts);
        long valid = 0;
        long invalid = 0;
        for (long start = System.nanoTime(); goesOn(start, valid > 100 && invalid > 0);) {
            Message message = lossy.peek();
            if (message == null) {
                continue;
            }
            if (valid % 50 == 0) {
                LockSupport.parkNanos(50_000);
            }
            long sequence = read(message);
            long expected = valid + lossy.lostMessages(0);
            if (lossy.valid()) {
                assertEquals(expected, sequence);
                valid++;
            } else {
                invalid++;
            }
        }
        end(publisher);
        assertTrue(valid > 100 && invalid > 0, valid + " valid, " + invalid + " not");
    }

    /** Checks that a subscriber whose slot has the same epoch as before still has its gate. */
    private void assertGating(Subscriber subscriber) {
        long gate = channel.trailers().get(0).getLongAcquire(Header.gate(subscriber.slot()));
        boolean standing = channel.control().getLongAcquire(channel.header().subscriberSlot(subscriber.slot()))
            == subscriber.epoch();
        assertTrue(gate >= 0 || !standing, "the gate of a live owner is gone");
    }

    @Test
    @Tag("long")
    void anEvictNeverTakesAwayTheGatesOfTheSlotsNextOwner() throws Exception {
        long[] counts = new long[2];
        Thread publisher = publish(false, counts);
        Channel operators = Channel.open(channel.path());
        Thread operator = thread(() -> {
            for (long i = 1; !stop; i = i * 5 % 1_000_003) {
                operators.evict(0);
                LockSupport.parkNanos(i % 7 == 0 ? i % 400_000 : 1);
            }
        });
        int lost = 0;
        int whole = 0;
        for (long start = System.nanoTime(); goesOn(start, lost > 10 && whole > 10);) {
            try (Subscriber subscriber = channel.subscriber(0)) {
                Suffix suffix = new Suffix();
                assertGating(subscriber);
                while (suffix.seen < 20) {
                    suffix.poll(subscriber, 10);
                    assertGating(subscriber);
                    assertNull(failed.get());
                }
                whole++;
            } catch (SlotLostException e) {
                lost++;
            }
        }
        end(publisher, operator);
        operators.close();
        assertTrue(lost > 10 && whole > 10 && counts[1] > CAPACITY, lost + " lost their slot, " + whole + " not");
    }

    @Test
    void aRetireNeverTakesAwayTheGatesOfTheSlotsNextOwner() throws Exception {
        long[] counts = new long[2];
        Thread publisher = publish(false, counts);
        int lives = 0;
        int retired = 0;
        for (long start = System.nanoTime(); goesOn(start, retired > 5 && lives - retired > 5); lives++) {
            EvictTest.die(channel, "", false);
            long dead = Rings.subscriberEpoch(channel, 0);
            LockSupport.parkNanos(lives % 3 * 700_000L);
            try (Subscriber subscriber = channel.subscriber(0)) {
                retired += subscriber.epoch() > dead + 1 ? 1 : 0;
                Suffix suffix = new Suffix();
                while (suffix.seen < 300) {
                    suffix.poll(subscriber, 256);
                    assertGating(subscriber);
                    assertNull(failed.get());
                }
            }
        }
        end(publisher);
        assertTrue(retired > 5 && lives - retired > 5, retired + " of " + lives + " were retired");
    }
}
