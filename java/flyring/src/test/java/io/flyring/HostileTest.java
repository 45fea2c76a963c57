// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Rings with bytes that violate the specification. */
class HostileTest {
    private static final int CAPACITY = 4096;

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create(int alignment) {
        return Channel.create(rings.path("hostile.ring"), ChannelOptions.broadcast().capacity(CAPACITY).publishers(2)
            .subscribers(1).alignment(alignment).counters(2));
    }

    private Memory ring(Channel channel, int ring) {
        return channel.file().map(channel.header().ringOffset(ring), channel.header().ringStride, false);
    }

    private static void publish(Publisher publisher, int from, int to) {
        for (int i = from; i < to; i++) {
            assertTrue(publisher.offer(Rings.pattern(i, 10 + i % 40), 0, 10 + i % 40, 1 + i) > 0);
        }
    }

    @Test
    void aCorruptRingIsNamedAndTheOthersGoOn() {
        try (Channel channel = create(64); Subscriber subscriber = channel.subscriber();
            Publisher bad = channel.publisher(); Publisher good = channel.publisher()) {
            Memory data = channel.file().map(channel.header().ringOffset(0), 4096, false);
            assertTrue(bad.offer(new byte[8]) > 0);
            data.putInt(64, 4093);
            good.offer(new byte[8]);
            CorruptRingException error = assertThrows(CorruptRingException.class,
                () -> subscriber.poll(message -> { }));
            assertEquals(0, error.ring());
            assertEquals(64, error.position());
            assertTrue(error.reason().contains("4093"), error.reason());
            assertEquals(1, subscriber.poll(message -> assertEquals(1, message.ring())));
            assertEquals(0, subscriber.poll(message -> { }));
            assertEquals(Layout.NOT_GATING, channel.trailers().get(0).getLong(Header.gate(subscriber.slot())));
        }
    }

    @Test
    void lengthsAndTypesThatAreNeverWrittenAreCorrupt() {
        for (int[] record : new int[][] {{7, 1}, {1, 1}, {4097, 1}, {Integer.MAX_VALUE, 1}, {16, 0}, {16, -3}}) {
            String path = rings.path("bad-" + record[0] + record[1]);
            try (Channel channel = Channel.create(path, ChannelOptions.broadcast().capacity(4096));
                Subscriber subscriber = channel.subscriber()) {
                Memory data = channel.file().map(channel.header().ringOffset(0), 4096, false);
                data.putInt(4, record[1]);
                data.putInt(0, record[0]);
                assertThrows(CorruptRingException.class, subscriber::take, record[0] + " " + record[1]);
            }
        }
    }

    @Test
    void impossiblePositionsAreCorrupt() {
        for (long published : new long[] {-64, 1, 65, Layout.MAX_POSITION, Long.MIN_VALUE, Long.MAX_VALUE}) {
            String path = rings.path("bad" + published);
            try (Channel channel = Channel.create(path, ChannelOptions.broadcast().capacity(4096))) {
                channel.trailers().get(2).putLong(Layout.TRAILER_PUBLISHED, published);
                assertEquals(2, assertThrows(CorruptRingException.class, channel::subscriber).ring());
                try (Subscriber other = channel.subscriber(0, 1, 3)) {
                    assertEquals(0, other.slot());
                }
                rings.keep(channel.publisher(), channel.publisher());
                assertEquals(2, assertThrows(CorruptRingException.class, channel::publisher).ring());
            }
        }
    }

    @Test
    void aRingOfNothingButPaddingDoesNotHangAPoll() throws IOException {
        try (Channel channel = create(64); Subscriber subscriber = channel.subscriber()) {
            ByteBuffer padding = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putInt(4096).putInt(-1).flip();
            try (FileChannel file = FileChannel.open(Path.of(channel.path()), StandardOpenOption.WRITE)) {
                file.write(padding, channel.header().ringOffset(0));
            }
            assertEquals(0, subscriber.poll(message -> {
                throw new AssertionError(message);
            }));
            assertTrue(subscriber.position(0) >= 4096);
        }
    }

    @Test
    void aCorruptRingIsOneErrorAndTheOthersGoOn() {
        long[][] damages = {{0, 7, 1}, {0, 4097, 1}, {0, Integer.MAX_VALUE, 1}, {0, 16, 0}, {0, 16, -3},
            {1, Layout.TRAILER_CLAIMED, CAPACITY + 64}, {2, Layout.TRAILER_PUBLISHED, 65},
            {2, Layout.TRAILER_PUBLISHED, -64}, {2, Layout.TRAILER_PUBLISHED, Layout.MAX_POSITION}};
        for (long[] damage : damages) {
            String path = rings.path("bad-" + damage[1] + "-" + damage[2]);
            try (Channel channel = Channel.create(path, ChannelOptions.broadcast().capacity(CAPACITY).publishers(2));
                LossySubscriber before = channel.lossySubscriber()) {
                Publisher bad = channel.publisher();
                try (Publisher good = channel.publisher()) {
                    Memory ring = ring(channel, 0);
                    if (damage[0] == 0) {
                        ring.putInt(4, (int) damage[2]);
                        ring.putInt(0, (int) damage[1]);
                    } else {
                        ring.putLong(CAPACITY + (int) damage[1], damage[2]);
                    }
                    LossySubscriber lossy = damage[0] == 2 ? channel.lossySubscriber() : before;
                    publish(good, 0, 1);
                    CorruptRingException error = assertThrows(CorruptRingException.class,
                        () -> lossy.poll(message -> { }), damage[1] + " " + damage[2]);
                    assertEquals(0, error.ring());
                    publish(good, 1, 2);
                    assertEquals(2, lossy.poll(message -> assertEquals(1, message.ring())));
                    assertNull(lossy.peek());
                }
                bad.close();
            }
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aMessageLongerThanAQuarterOfTheRingIsCorruptUnlessItIsLapped(boolean peeks) {
        int capacity = 1 << 20;
        int longest = capacity / 4;
        for (int type : new int[] {1, Integer.MAX_VALUE, Layout.TYPE_PADDING, Layout.TYPE_OWNER}) {
            for (int length : new int[] {longest, longest + 1, longest + 8, capacity - 8, capacity}) {
                String path = rings.path("long-" + type + "-" + length);
                try (Channel channel = Channel.create(path, ChannelOptions.broadcast().capacity(capacity)
                    .publishers(1).alignment(8)); LossySubscriber lossy = channel.lossySubscriber()) {
                    Memory ring = channel.file().map(channel.header().ringOffset(0), channel.header().ringStride,
                        false);
                    ring.putInt(Layout.RECORD_TYPE, type);
                    ring.putInt(0, length);
                    String found = look(lossy, peeks);
                    if (type <= 0) {
                        assertEquals("nothing", found);
                        assertEquals(length + 7 & -8, lossy.position(0), "skipped");
                        continue;
                    }
                    assertEquals(length <= longest ? "message of " + (length - 8) : "corrupt at 0", found);
                    // The same after a lap: the record is of another lap.
                    try (LossySubscriber lapped = channel.lossySubscriber()) {
                        ring.putLong(capacity + Layout.TRAILER_CLAIMED, capacity + 8);
                        ring.putLong(capacity + Layout.TRAILER_PUBLISHED, capacity + 8);
                        assertEquals("nothing", look(lapped, peeks));
                        assertEquals(List.of(capacity + 8L, capacity + 8L),
                            List.of(lapped.position(0), lapped.lostBytes(0)));
                    }
                }
            }
        }
    }

    /** Recover refuses to walk more than a quarter of the ring and the window (channel.md 6.8). Measures CPU time. */
    @Test
    void aHostileClaimedDoesNotKeepTheNextPublisherForLong() {
        int capacity = 32 << 20; // a container's /dev/shm has 64 MiB
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        try (Channel channel = Channel.create(rings.path("long.ring"), ChannelOptions.broadcast().capacity(capacity)
            .publishers(1).subscribers(1).alignment(8).counters(0))) {
            Memory ring = ring(channel, 0);
            for (int at = 0; at < capacity / 4; at += 8) {
                ring.putLong(at, 8 | 1L << 32); // the shortest record, repeated
            }
            ring.putLong(capacity + Layout.TRAILER_CLAIMED, capacity);
            long since = threads.getCurrentThreadCpuTime();
            assertEquals(0, assertThrows(CorruptRingException.class, channel::publisher).position());
            ring.putLong(capacity + Layout.TRAILER_CLAIMED, capacity / 4);
            try (Publisher publisher = channel.publisher()) {
                assertEquals(capacity / 4, publisher.position());
                assertEquals(capacity / 4 / 8, ring.getLong(capacity + Layout.TRAILER_MESSAGES_DONE));
            }
            long nanos = threads.getCurrentThreadCpuTime() - since;
            assertTrue(nanos < 1_000_000_000L, nanos + " ns");
        }
    }

    private static String look(LossySubscriber lossy, boolean peeks) {
        try {
            Message message = peeks ? lossy.peek() : lossy.take();
            int length = message == null ? -1 : message.length();
            return message == null || peeks && !lossy.valid() ? "nothing" : "message of " + length;
        } catch (CorruptRingException e) {
            return "corrupt at " + e.position();
        }
    }

    @Test
    void aHostileRingCannotHoldAPollInALoop() throws Exception {
        try (Channel channel = create(64);
            LossySubscriber lossy = channel.lossySubscriber(Start.NOW, WhenLapped.NEWEST, 0)) {
            Memory ring = ring(channel, 0);
            for (int at = 0; at < CAPACITY; at += 64) {
                ring.putInt(at + Layout.RECORD_TYPE, Layout.TYPE_PADDING);
                ring.putInt(at, 64);
            }
            assertTimeoutPreemptively(Duration.ofSeconds(10), () -> {
                assertNull(lossy.take());
                assertEquals(CAPACITY, lossy.position(0));
                assertNull(lossy.peek());
                assertEquals(2 * CAPACITY, lossy.position(0));
            });
            // Always a lap ahead: after the jump the reader is lapped again, and published has not moved.
            ring.putLong(CAPACITY + Layout.TRAILER_CLAIMED, Layout.MAX_POSITION);
            ring.putLong(CAPACITY + Layout.TRAILER_PUBLISHED, 8 * CAPACITY);
            assertTimeoutPreemptively(Duration.ofSeconds(10), () -> {
                assertThrows(CorruptRingException.class, lossy::take);
                assertEquals(8 * CAPACITY, lossy.position(0));
            });
            // Always a lap ahead while published moves: each call jumps at most eight times.
            LossySubscriber second = channel.lossySubscriber(Start.NOW, WhenLapped.NEWEST, 0);
            AtomicBoolean done = new AtomicBoolean();
            Thread hostile = new Thread(() -> {
                for (long at = 9L * CAPACITY; !done.get(); at += CAPACITY) {
                    ring.putLongRelease(CAPACITY + Layout.TRAILER_PUBLISHED, at);
                }
            });
            hostile.start();
            try {
                assertTimeoutPreemptively(Duration.ofSeconds(10), () -> {
                    for (int i = 0; i < 100; i++) {
                        try {
                            assertNull(i % 2 == 0 ? second.take() : second.peek());
                        } catch (CorruptRingException itWasNotFastEnough) {
                            assertEquals("corrupt-ring", itWasNotFastEnough.code());
                        }
                    }
                });
            } finally {
                done.set(true);
                hostile.join(); // it writes to the mapping, so it ends before the channel is closed
            }
        }
    }
}
