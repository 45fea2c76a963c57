// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Channels that are attached read-only. */
class ReadOnlyTest {
    private static final int CAPACITY = 4096;

    @RegisterExtension
    final Rings rings = new Rings();

    private Channel create(int alignment) {
        return Channel.create(rings.path("read-only.ring"), ChannelOptions.broadcast().capacity(CAPACITY).publishers(2)
            .subscribers(1).alignment(alignment).counters(2));
    }

    private static void publish(Publisher publisher, int from, int to) {
        for (int i = from; i < to; i++) {
            assertTrue(publisher.offer(Rings.pattern(i, 10 + i % 40), 0, 10 + i % 40, 1 + i) > 0);
        }
    }

    private static void assertMessage(int i, Message message) {
        assertNotNull(message, "message " + i);
        assertEquals(1 + i, message.type());
        assertArrayEquals(Rings.pattern(i, 10 + i % 40), message.toByteArray());
    }

    @ParameterizedTest
    @ValueSource(ints = {8, 64})
    void itReadsWhatIsPublishedFromAReadOnlyFile(int alignment) {
        try (Channel channel = create(alignment); Channel reading = Rings.openReadOnly(channel.path());
            Publisher publisher = channel.publisher(); LossySubscriber lossy = reading.lossySubscriber();
            LossySubscriber same = channel.lossySubscriber(0)) {
            assertArrayEquals(new int[] {0, 1}, lossy.rings());
            assertArrayEquals(new int[] {0}, same.rings());
            int[] next = new int[2];
            for (int round = 0; round < 100; round++) {
                publish(publisher, 5 * round, 5 * round + 5);
                assertEquals(4, lossy.poll(message -> assertMessage(next[0]++, message), 4));
                assertMessage(next[0]++, lossy.take());
                assertNull(lossy.take());
                assertEquals(5, same.poll(message -> assertMessage(next[1]++, message)));
            }
            assertTrue(publisher.position() > 3 * CAPACITY, "laps");
            assertEquals(publisher.position(), lossy.position(0));
            assertEquals(0, lossy.lostMessages(0) + lossy.lostBytes(0) + same.lostMessages(0));
            assertNull(publisher.heldBy());
        }
    }

    @Test
    void whatWritesIsDeniedOnAReadOnlyChannel() {
        try (Channel channel = create(64);
            Channel reading = Channel.open(channel.path(), new OpenOptions().readOnly(true).anyFileSystem(true))) {
            assertTrue(reading.readOnly());
            assertFalse(channel.readOnly());
            Counter counter = channel.counters().allocate("ours");
            counter.set(7);
            Counter read = reading.counters().find("ours");
            assertEquals(List.of(7L, 7L), List.of(read.get(), read.getVolatile()));
            for (Executable write : List.<Executable>of(reading::publisher, () -> reading.publisher("p", 4096),
                reading::subscriber, () -> reading.subscriber("s", true), () -> reading.evict(0),
                () -> reading.counters().allocate("mine"), read::free, () -> read.set(1), () -> read.setVolatile(1),
                () -> read.setRelease(1), () -> read.getAndAdd(1), () -> read.compareAndSet(7, 8))) {
                AccessDeniedException error = assertThrows(AccessDeniedException.class, write);
                assertEquals(List.of("access-denied", "read-only", channel.path()),
                    List.of(error.code(), error.reason(), error.path()));
            }
            assertEquals(7, counter.getVolatile());
            assertThrows(NoSuchChannelException.class, () -> Rings.openReadOnly(rings.path("none")));
        }
    }
}
