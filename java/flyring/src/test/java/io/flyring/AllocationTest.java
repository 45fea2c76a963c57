// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The hot path does not allocate, and the counter that shows it sees what does. */
class AllocationTest {
    private static final int MESSAGES = 1_000_000;
    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    @RegisterExtension
    final Rings rings = new Rings();

    private Publisher publisher;
    private Subscriber subscriber;
    private long sum;
    private Object seeded;
    private final MessageHandler handler = message -> sum += message.buffer().getLong(0) + message.type();

    private interface Step {
        void go(int i);
    }

    /** Bytes that a thread allocates in so many rounds, after a warm-up of as many. */
    private static long allocated(Step step) {
        long bytes = Long.MAX_VALUE;
        for (int round = 0; round < 4; round++) {
            long before = THREADS.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < MESSAGES; i++) {
                step.go(i);
            }
            bytes = Math.min(bytes, THREADS.getCurrentThreadAllocatedBytes() - before);
        }
        return bytes;
    }

    @Test
    void offeringClaimingAndPollingDoNotAllocate() {
        PayloadBuffer source = new PayloadBuffer();
        source.wrap(ByteBuffer.allocateDirect(512));
        PayloadBuffer[] batch = {source, source};
        byte[] array = new byte[32];
        ByteBuffer buffer = ByteBuffer.allocateDirect(40);
        try (Channel channel = Channel.create(rings.path("a.ring"), ChannelOptions.broadcast().capacity(1 << 16));
            Publisher made = channel.publisher(); Subscriber joined = channel.subscriber()) {
            publisher = made;
            subscriber = joined;
            assertNothing("offer", i -> publisher.offer(source, 0, 32));
            assertNothing("offer of many bytes", i -> publisher.offer(source, 0, 500));
            assertNothing("offer of an array", i -> publisher.offer(array));
            assertNothing("offer of a ByteBuffer", i -> publisher.offer(buffer, 1));
            assertNothing("offerBatch", i -> publisher.offerBatch(batch, 0, 2, 1));
            assertNothing("claim", i -> {
                Claim claim = publisher.claim(32, 5);
                claim.buffer().putLong(0, i);
                if ((i & 7) == 0) {
                    claim.abort();
                } else {
                    claim.commit();
                }
            });
            assertNothing("poll of nothing", i -> { });
            long seen = allocated(i -> {
                publisher.offer(array);
                seeded = (i & 1023) == 0 ? new byte[16] : seeded;
                subscriber.poll(handler, 10);
            });
            assertTrue(seen >= MESSAGES / 1024 * 32L && seen < MESSAGES, "one array in 1024 messages: " + seen);
            long taken = allocated(i -> {
                publisher.offer(array);
                sum += subscriber.take().length();
            });
            assertTrue(taken >= MESSAGES * 48L, "a take makes a message: " + taken);
        }
    }

    private void assertNothing(String what, Step step) {
        long bytes = allocated(i -> {
            step.go(i);
            subscriber.poll(handler, 10);
        });
        assertEquals(0, bytes / MESSAGES, what + " allocates per message");
        assertTrue(bytes < 10_000, what + " allocated " + bytes + " bytes in " + MESSAGES + " messages");
    }
}
