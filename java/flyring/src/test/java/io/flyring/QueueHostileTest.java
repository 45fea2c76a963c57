// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Queues.code;
import static io.flyring.Queues.forge;
import static io.flyring.Queues.gate;
import static io.flyring.Queues.ofSlot2;
import static io.flyring.Queues.offer;
import static io.flyring.Queues.pauseForALook;
import static io.flyring.Queues.queue;
import static io.flyring.Queues.text;
import static io.flyring.Queues.workOff;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** Invalid gates, ends, attempts and records of a queue: they crash and block no process. */
class QueueHostileTest {
    private static final long[] WORDS = {Long.MIN_VALUE, -2, -1, 0, 1, 7, 64, 128, 192, 4096, 1 << 20,
        Layout.MAX_POSITION, Long.MAX_VALUE};

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel;
    private Publisher publisher;

    private void create(ChannelOptions options) {
        close();
        channel = Channel.replace(rings.path("q.ring"), options);
        publisher = channel.publisher();
    }

    @AfterEach
    void close() {
        if (channel != null) {
            channel.close();
        }
    }

    @Test
    void hostileGatesOfOthersCrashNoWorker() throws Exception {
        for (long gate : WORDS) {
            for (long end : WORDS) {
                String what = gate + " to " + end;
                create(queue(1, 2));
                offer(publisher, "a", "b");
                Worker other = ofSlot2(channel);
                assertEquals("a b", workOff(other));
                channel.control().putLongRelease(Layout.CONTROL_HANDOVERS, Long.MAX_VALUE);
                forge(channel, 0, 1, gate, end, (int) gate);
                pauseForALook();
                int[] seen = {0};
                String code = code(() -> {
                    while (other.poll(job -> {
                        assertTrue(job.attempts() >= 1, what);
                        seen[0]++;
                    }, 3) > 0) {
                        assertTrue(seen[0] <= 2, what);
                    }
                });
                assertTrue(code.equals("none") || code.equals("corrupt-ring"), what + ": " + code);
                assertTrue(gate(channel, 0, 1) < 0, what);
                assertEquals(-1, gate(channel, 0, 2), what);
                offer(publisher, "c");
                if (code.equals("none")) {
                    assertEquals("c", workOff(other), what);
                }
                // The next owner of a slot with such words.
                forge(channel, 0, 1, gate, end, 0);
                Worker next = channel.worker();
                code(() -> workOff(next));
                assertEquals(gate < -1 ? gate : -1, gate(channel, 0, 1), what);
            }
        }
    }

    private String spoil(Consumer<Memory> change) {
        create(queue(2, 1));
        offer(publisher, "a");
        offer(channel.publisher(), "b");
        Worker worker = channel.worker();
        change.accept(channel.file().map(channel.header().ringOffset(0), channel.header().ringStride, false));
        StringBuilder seen = new StringBuilder();
        for (int i = 0; i < 10; i++) {
            try {
                worker.poll(job -> seen.append(text(job)));
            } catch (CorruptRingException e) {
                seen.append(e.ring());
            }
        }
        assertEquals("none", code(worker::close));
        return seen.toString();
    }

    @Test
    void aHostilePositionOrRecordIsACorruptRingAndTheOthersGoOn() {
        final int gate = Queues.CAPACITY + Layout.TRAILER_GATE;
        assertEquals("ab", spoil(ring -> { }));
        for (long position : new long[] {1, -5 * 64, Layout.MAX_POSITION, Long.MIN_VALUE, Long.MAX_VALUE}) {
            assertEquals("0b", spoil(ring -> ring.putLong(gate, position)), "at " + position);
        }
        for (int length : new int[] {1, 7, 5000, Integer.MAX_VALUE}) {
            assertEquals("0b", spoil(ring -> ring.putInt(64, length)), "of " + length);
        }
        for (int type : new int[] {0, -3, Integer.MIN_VALUE}) {
            assertEquals("0b", spoil(ring -> ring.putInt(64 + Layout.RECORD_TYPE, type)), "type " + type);
        }
        // A ring of only padding: the other rings are still served.
        assertEquals("b", spoil(ring -> {
            for (int at = 0; at < Queues.CAPACITY; at += 64) {
                ring.putInt(at, 64);
                ring.putInt(at + Layout.RECORD_TYPE, Layout.TYPE_PADDING);
            }
        }));
    }

    @Test
    void anOverwrittenRecordOfAJobInHandIsACorruptRing() {
        create(queue(1, 2));
        offer(publisher, "a", "b");
        Worker worker = channel.worker();
        Memory ring = channel.file().map(channel.header().ringOffset(0), channel.header().ringStride, false);
        CorruptRingException error = assertThrows(CorruptRingException.class,
            () -> worker.poll(job -> ring.putInt(128 + Layout.RECORD_TYPE, 0), 2));
        assertEquals("the record of a job in hand was overwritten with something that is no job", error.reason());
        assertEquals(128, error.position());
    }

    private String spoilPrefix(BiConsumer<Memory, Integer> change) {
        create(queue(1, 2));
        offer(publisher, "a");
        Worker worker = channel.worker();
        assertTrue(worker.take().release());
        Memory ring = channel.file().map(channel.header().ringOffset(1), channel.header().ringStride, false);
        change.accept(ring, (int) gate(channel, 1, 0));
        String seen;
        try {
            seen = workOff(worker);
        } catch (CorruptRingException e) {
            seen = "ring " + e.ring();
        }
        assertEquals(-1, gate(channel, 1, 1));
        offer(publisher, "b");
        return seen + "|" + workOff(worker);
    }

    @Test
    void aHostilePrefixIsACorruptRing() {
        assertEquals("a1|b", spoilPrefix((ring, at) -> { }));
        assertEquals("ring 1|b", spoilPrefix((ring, at) -> ring.putInt(at, 23)));
        final int payload = Layout.RECORD_PAYLOAD;
        for (int origin : new int[] {-1, 1, 2, Integer.MAX_VALUE}) {
            assertEquals("ring 1|b",
                spoilPrefix((ring, at) -> ring.putInt(at + payload + Layout.RELEASED_ORIGIN_RING, origin)));
        }
        for (long position : new long[] {-1, 1, Layout.MAX_POSITION}) {
            assertEquals("ring 1|b",
                spoilPrefix((ring, at) -> ring.putLong(at + payload + Layout.RELEASED_ORIGIN_POSITION, position)));
        }
        for (int attempts : new int[] {Integer.MIN_VALUE, -1, 0}) {
            assertEquals("a1|b",
                spoilPrefix((ring, at) -> ring.putInt(at + payload + Layout.RELEASED_ATTEMPTS, attempts)));
        }
        assertEquals("a2147483647|b",
            spoilPrefix((ring, at) -> ring.putInt(at + payload + Layout.RELEASED_ATTEMPTS, Integer.MAX_VALUE)));
    }

    @Test
    void anAdoptedJobThatWasOverwrittenIsDropped() throws Exception {
        create(queue(1, 2));
        Worker other = ofSlot2(channel);
        for (int i = 0; publisher.position() < 3 * Queues.CAPACITY; i++) { // laps, all done
            offer(publisher, "" + i);
            workOff(other, 100);
        }
        forge(channel, 0, 1, Queues.CAPACITY, Queues.CAPACITY + 128, 0); // a worker announced it late, and died
        pauseForALook();
        assertNull(other.take());
        assertEquals(-1, gate(channel, 0, 1));
        assertEquals(-1, gate(channel, 0, 2));
    }

    @Test
    void manyAbortedClaimsInFrontOfAJobArePassedAtOnce() {
        create(queue(1, 1));
        Worker worker = channel.worker();
        for (int i = 0; i < 40; i++) {
            publisher.claim(8).abort();
        }
        offer(publisher, "a");
        assertEquals("a", text(worker.take()));
    }

    @Test
    void jobsThatChangeHandsAllTheTimeHoldNoCallInALoop() throws Exception {
        create(queue(1, 1));
        offer(publisher, "a");
        channel.worker().take().done();
        AtomicBoolean ends = new AtomicBoolean();
        Other<Long> hostile = new Other<>(() -> {
            long handovers = 1_000_000;
            while (!ends.get()) {
                channel.control().putLongVolatile(Layout.CONTROL_HANDOVERS, handovers++);
            }
            return handovers;
        });
        while (channel.control().getLongVolatile(Layout.CONTROL_HANDOVERS) < 1_000_000) {
            Thread.onSpinWait(); // until the other thread is running
        }
        String code = new Other<>(() -> code(() -> publisher.flush(Duration.ofMillis(50)))).result();
        assertTrue(code.equals("none") || code.equals("timed-out"), code);
        assertEquals(1000, new Other<>(() -> {
            for (int i = 0; i < 1000; i++) {
                publisher.offer(new byte[100]);
            }
            return 1000;
        }).result());
        ends.set(true);
        assertTrue(hostile.result() > 1_000_000);
    }
}
