// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Other.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * A reader that receives nothing for longer than a cap, the longest time between two looks. Its further sleeps are
 * naps, which leave out some steps of a sleep (channel.md 6.16).
 */
class NapTest extends WaitFixture {
    private static final int CAP_MILLIS = 100;
    private static final int ALL = 3;

    private Subscriber subscriber;
    private WaitingWords data;

    @BeforeEach
    void join() {
        data = data();
        subscriber = channel.subscriber();
        subscriber.setSpin(Duration.ZERO);
    }

    private int asleep() {
        return asleep(data);
    }

    private int sequence() {
        return sequence(data);
    }

    /** Starts a reader and waits until it naps. */
    private Other<Message> reader() throws Exception {
        Other<Message> reader = new Other<>(() -> subscriber.take(LONG));
        until(() -> asleep() == ALL);
        Thread.sleep(CAP_MILLIS * 3 / 2);
        assertFalse(reader.done());
        return reader;
    }

    /** The time until the reader is done, in ms. */
    private static long millisUntilDone(Other<?> reader) throws InterruptedException {
        long start = System.nanoTime();
        until(reader::done);
        return (System.nanoTime() - start) / 1_000_000;
    }

    /** Counts its checks. */
    private final class Counting extends Never {
        private int rounds;
        private int looks;

        @Override
        boolean isReady() {
            looks++;
            return false;
        }

        @Override
        boolean othersWake() {
            rounds++;
            return true;
        }

        @Override
        int naps() {
            return 9;
        }
    }

    @Test
    void mostSleepsAreNaps() {
        Counting counting = new Counting();
        counting.spinFor(Duration.ZERO);
        counting.begin(500_000_000);
        try {
            assertFalse(counting.untilReady());
        } finally {
            counting.end();
        }
        assertTrue(counting.rounds >= 2 && counting.rounds <= 11, counting.rounds + " rounds of ten sleeps each");
        assertTrue(counting.looks > 2 * counting.rounds, counting.looks + " looks");
    }

    @Test
    void aMessageWakesANap() throws Exception {
        try (Publisher publisher = channel.publisher()) {
            long best = Long.MAX_VALUE;
            for (int i = 0; i < 3; i++) {
                Other<Message> reader = reader();
                int before = sequence();
                publisher.offer(new byte[7]);
                best = Math.min(best, millisUntilDone(reader));
                assertEquals(7, reader.result().length());
                assertEquals(before + 1, sequence());
            }
            assertTrue(best < CAP_MILLIS / 2, best + " ms");
        }
    }

    @Test
    void aNapLooks() throws Exception {
        try (Publisher publisher = channel.publisher()) {
            Other<Message> reader = reader();
            data.control().clearBits(data.asleep(), -1); // no wake follows, as if the publisher was killed
            publisher.offer(new byte[7]);
            data.control().setBits(data.asleep(), ALL); // the reader continues to nap
            long took = millisUntilDone(reader);
            assertEquals(7, reader.result().length());
            assertTrue(took < 5 * CAP_MILLIS, took + " ms");
        }
    }

    @Test
    void whatAWakerThatWasKilledClearedIsSetAgain() throws Exception {
        Other<Message> reader = reader();
        long start = System.nanoTime();
        data.control().clearBits(data.asleep(), -1); // step 1 of a wake, and no more
        until(() -> asleep() == ALL);
        assertTrue(System.nanoTime() - start < 500_000_000, "not only when its naps are over");
        subscriber.close();
        assertThrows(ClosedException.class, reader::result);
    }

    @Test
    void anInterruptEndsANap() throws Exception {
        Other<Message> reader = reader();
        reader.interrupt();
        long took = millisUntilDone(reader);
        assertThrows(CancelledException.class, reader::result);
        assertTrue(took < 5 * CAP_MILLIS, took + " ms");
    }

    @Test
    void closeAndEvictEndANap() throws Exception {
        Other<Message> reader = reader();
        channel.evict(subscriber.slot());
        assertTrue(millisUntilDone(reader) < 5 * CAP_MILLIS);
        assertThrows(SlotLostException.class, reader::result);
        subscriber.close();

        subscriber = channel.subscriber();
        Other<Message> second = reader();
        channel.close();
        assertThrows(ClosedException.class, second::result);
    }

    @Test
    void aDeadlineEndsANap() {
        long start = System.nanoTime();
        assertEquals(0, subscriber.poll(message -> { }, 1, 250_000_000));
        long took = (System.nanoTime() - start) / 1_000_000;
        assertTrue(took >= 250 && took < 1000, took + " ms");
    }

    /** Replaces the channel's file as a program without Flyring does, which wakes no reader. */
    private Channel moved() throws IOException {
        Path other = Path.of(rings.path("other.ring"));
        Channel made = Channel.create(other.toString(), options());
        Files.move(other, Path.of(channel.path()), StandardCopyOption.REPLACE_EXISTING);
        return made;
    }

    @Test
    void aReplacementWhoseProcessWasKilledIsSeenByANap() throws Exception {
        Other<Message> reader = reader();
        try (Channel now = moved()) {
            channel.control().putIntOpaque(Layout.CONTROL_SUCCESSOR, Layout.SUCCESSOR_REPLACED);
            long took = millisUntilDone(reader);
            assertEquals(now.id(), assertThrows(ChannelReplacedException.class, reader::result).channelId());
            assertTrue(took < 5 * CAP_MILLIS, took + " ms");
        }
    }

    @Test
    void aFileMovedByOthersIsSeenWithinASecond() throws Exception {
        Other<Message> reader = reader();
        try (Channel now = moved()) {
            assertNotNull(now);
            long took = millisUntilDone(reader);
            assertEquals(now.id(), assertThrows(ChannelReplacedException.class, reader::result).channelId());
            assertTrue(took < 2000, took + " ms");
        }
    }
}
