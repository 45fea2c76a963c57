// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;

class CountersTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private Channel channel;
    private Counters counters;

    @BeforeEach
    void create() {
        channel = Channel.create(rings.path("counters.ring"),
            ChannelOptions.broadcast().capacity(4096).counters(3));
        counters = channel.counters();
    }

    @Test
    void aCounterIsSeenThroughEveryAttachment() {
        Counter counter = counters.allocate("requests", 7, new byte[] {1, 2});
        try (Channel other = Channel.open(channel.path())) {
            Counter same = other.counters().find("requests");
            assertEquals(counter.id(), same.id());
            assertEquals("requests", same.label());
            assertEquals(7, same.typeId());
            assertArrayEquals(Arrays.copyOf(new byte[] {1, 2}, 112), same.key());
            counter.set(5);
            assertEquals(5, same.get());
            assertEquals(5, same.getAndAdd(3));
            assertEquals(8, counter.getVolatile());
            assertTrue(counter.compareAndSet(8, Long.MAX_VALUE));
            assertFalse(counter.compareAndSet(8, 9));
            assertEquals(Long.MAX_VALUE, same.getAndAdd(1));
            assertEquals(Long.MIN_VALUE, same.get());
            counter.setVolatile(-1);
            assertEquals(-1, same.getVolatile());
            counter.setRelease(4);
            assertEquals(4, same.getVolatile());
        }
        channel.close();
    }

    @Test
    void countersAreTakenInOrderAndGivenBack() {
        List<Integer> ids = new ArrayList<>();
        for (String label : List.of("a", "b", "c")) {
            ids.add(counters.allocate(label).id());
        }
        assertEquals(List.of(0, 1, 2), ids);
        NoSpaceException error = assertThrows(NoSpaceException.class, () -> counters.allocate("d"));
        assertEquals(List.of(1L, 0L), List.of(error.needed(), error.free()));
        counters.find("b").set(9);
        counters.find("b").free();
        assertNull(counters.find("b"));
        List<String> labels = new ArrayList<>();
        counters.forEach(counter -> labels.add(counter.label()));
        assertEquals(List.of("a", "c"), labels);
        Counter again = counters.allocate("e");
        assertEquals(1, again.id());
        assertEquals(0, again.get());
        assertEquals("e", counters.counter(1).label());
        assertThrows(InvalidArgumentException.class, () -> counters.counter(3));
        assertThrows(InvalidArgumentException.class, () -> counters.counter(-1));
        channel.close();
    }

    @Test
    void labelsAndKeysHaveTheirLimits() {
        assertEquals("l".repeat(380), counters.allocate("l".repeat(380)).label());
        assertEquals("\u00fc".repeat(190), counters.allocate("\u00fc".repeat(190), 0, new byte[112]).label());
        assertEquals("label", assertThrows(InvalidArgumentException.class,
            () -> counters.allocate("\u00fc".repeat(191))).argument());
        assertEquals("key", assertThrows(InvalidArgumentException.class,
            () -> counters.allocate("x", 0, new byte[113])).argument());
        channel.close();
    }

    @Test
    void twoThreadsRaiseOneCounterAndNothingIsLost() throws Exception {
        Counter counter = counters.allocate("shared");
        Runnable raise = () -> {
            for (int i = 0; i < 50_000; i++) {
                counter.getAndAdd(1);
                long value = counter.getVolatile();
                while (!counter.compareAndSet(value, value + 1)) {
                    value = counter.getVolatile();
                }
            }
        };
        Thread other = new Thread(raise);
        other.start();
        raise.run();
        other.join();
        assertEquals(200_000, counter.getVolatile());
        channel.close();
    }

    @Test
    void aHandleIsOfOneAllocationOnly() {
        Counter first = counters.allocate("first");
        Counter same = counters.find("first");
        assertEquals("id", assertThrows(InvalidArgumentException.class,
            () -> counters.counter(first.id() + 1)).argument(), "not allocated");
        same.set(5);
        first.free();
        for (Counter each : List.of(first, same)) {
            for (Executable use : List.<Executable>of(each::free, each::get, each::getVolatile, () -> each.set(1),
                () -> each.setVolatile(1), () -> each.setRelease(1), () -> each.getAndAdd(1),
                () -> each.compareAndSet(0, 1), each::label, each::typeId, each::key)) {
                assertThrows(ClosedException.class, use);
            }
        }
        Counter next = counters.allocate("next");
        assertEquals(first.id(), next.id());
        next.set(7);
        assertThrows(ClosedException.class, first::free);
        assertThrows(ClosedException.class, () -> first.set(1));
        assertEquals(7, counters.counter(next.id()).get());
        next.free();
        channel.close();
    }

    @Test
    void aLabelOfAnImpossibleLengthIsEmpty() {
        Counter counter = counters.allocate("label");
        int at = (int) (channel.header().counterMetadataOffset - channel.header().controlOffset)
            + counter.id() * Layout.COUNTER_METADATA_STRIDE + Layout.COUNTER_METADATA_LABEL_LENGTH;
        for (int length : new int[] {-1, 381, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
            channel.control().putInt(at, length);
            assertEquals("", counter.label());
        }
        channel.close();
    }
}
