// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** {@link Channel#stats()}: the readers of a ring, and what a call costs. */
class StatsTest {
    @RegisterExtension
    final Rings rings = new Rings();

    private static List<Integer> readers(Channel channel) {
        return channel.stats().publishers().stream().map(PublisherStats::readers).toList();
    }

    @Test
    void readersAreTheOwnedSlotsThatReadARing() {
        try (Channel channel = Channel.create(rings.path("readers.ring"),
            ChannelOptions.broadcast().capacity(4096).publishers(2).subscribers(3))) {
            assertEquals(List.of(0, 0), readers(channel));
            Subscriber one = channel.subscriber("one", false, 1);
            Subscriber kept = channel.subscriber("kept", true);
            assertEquals(List.of(1, 2), readers(channel));
            kept.close(); // its gates stay
            assertEquals(List.of(0, 1), readers(channel));
            one.close();
            assertEquals(List.of(0, 0), readers(channel));
        }
    }

    @Test
    void statsAreCheap() {
        try (Channel channel = Channel.create(rings.path("wide.ring"),
            ChannelOptions.broadcast().capacity(4096).publishers(16).subscribers(16))) {
            List<Object> users = new ArrayList<>();
            for (int i = 0; i < 16; i++) {
                users.add(channel.publisher());
                users.add(channel.subscriber());
            }
            long best = Long.MAX_VALUE;
            for (int i = 0; i < 5_000; i++) {
                long start = System.nanoTime();
                Stats stats = channel.stats();
                best = Math.min(best, System.nanoTime() - start);
                assertEquals(16, stats.subscribers().get(15).gates().size());
            }
            long found = best;
            System.out.println("stats() of 16 rings and 16 slots: " + found + " ns");
            assertEquals(32, users.size()); // which are still reachable
            assertTrue(found < 500_000, () -> "a call takes " + found + " ns");
        }
    }
}
