// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;

/** Helpers for tests of queues. */
final class Queues {
    static final int CAPACITY = 4096;
    private static final int LOOK_MILLIS = 3;

    private Queues() {
    }

    static ChannelOptions queue(int producers, int workers) {
        return ChannelOptions.queue().capacity(CAPACITY).producers(producers).workers(workers).counters(0);
    }

    static void offer(Publisher publisher, String... jobs) {
        for (String job : jobs) {
            byte[] bytes = job.getBytes(StandardCharsets.UTF_8);
            assertTrue(publisher.offer(bytes, 0, bytes.length, 1) > 0, job);
        }
    }

    static void fill(Publisher publisher) {
        for (int i = 0; publisher.offer(new byte[200]) > 0; i++) {
            assertTrue(i < 2 * CAPACITY / 200);
        }
    }

    static String text(Job job) {
        assertNotNull(job, "there was no job");
        return new String(job.toByteArray(), StandardCharsets.UTF_8);
    }

    /** Finishes all available jobs; returns the text of each, with its attempts if there are any. */
    static String workOff(Worker worker, int limit) {
        StringBuilder seen = new StringBuilder();
        int more;
        do {
            more = worker.poll(job -> seen.append(text(job)).append(job.repeat() ? job.attempts() : "").append(' '),
                limit);
        } while (more > 0);
        return seen.toString().trim();
    }

    static String workOff(Worker worker) {
        return workOff(worker, 1);
    }

    /** Ends a worker as a kill does: drops its lock and changes nothing else. */
    static void die(Worker worker) {
        worker.seat().abandon();
    }

    /** Takes some jobs at once, finishes some of them, and dies in the next one. */
    static void dieInAJob(Worker worker, int take, int finish) {
        int[] done = {0};
        IllegalStateException killed = new IllegalStateException("killed");
        assertEquals(killed, assertThrows(IllegalStateException.class, () -> worker.poll(job -> {
            if (done[0]++ == finish) {
                die(worker);
                throw killed;
            }
        }, take)));
    }

    /** Waits until a worker looks for jobs to adopt again. */
    static void pauseForALook() throws InterruptedException {
        Thread.sleep(LOOK_MILLIS);
    }

    /** A worker in slot 2, while slot 1 has no owner. */
    static Worker ofSlot2(Channel channel) {
        try (Worker first = channel.worker("left")) {
            assertEquals(1, first.slot());
            Worker second = channel.worker();
            assertEquals(2, second.slot());
            return second;
        }
    }

    static long gate(Channel channel, int ring, int slot) {
        return channel.trailers().get(ring).getLongAcquire(Header.gate(slot));
    }

    static void gate(Channel channel, int ring, int slot, long position) {
        channel.trailers().get(ring).putLongRelease(Header.gate(slot), position);
    }

    static int attempts(Channel channel, int ring, int slot) {
        return channel.trailers().get(ring).getIntOpaque(Header.gate(slot) + Layout.GATE_ATTEMPTS);
    }

    /** Writes the words that a dead owner of a slot would have left. */
    static void forge(Channel channel, int ring, int slot, long position, long end, int attempts) {
        Memory trailer = channel.trailers().get(ring);
        trailer.putLongRelease(Header.gate(slot) + Layout.GATE_TAKEN_END, end);
        trailer.putIntOpaque(Header.gate(slot) + Layout.GATE_ATTEMPTS, attempts);
        gate(channel, ring, slot, position);
    }

    static long handovers(Channel channel) {
        return channel.control().getLongAcquire(Layout.CONTROL_HANDOVERS);
    }

    static long published(Channel channel, int ring) {
        return channel.trailers().get(ring).getLongAcquire(Layout.TRAILER_PUBLISHED);
    }

    static void raise(Throwable error) {
        if (error instanceof Error known) {
            throw known;
        }
        throw (RuntimeException) error;
    }

    /** The code of the exception that an action throws, or "none". */
    static String code(Runnable action) {
        try {
            action.run();
            return "none";
        } catch (FlyringException e) {
            return e.code();
        }
    }
}
