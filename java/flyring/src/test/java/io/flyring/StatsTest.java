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

    /** The slots whose state is live: publishers, then subscribers. */
    private static List<Boolean> live(Channel channel) {
        Stats stats = channel.stats();
        List<Boolean> found = new ArrayList<>();
        stats.publishers().forEach(slot -> found.add(slot.state() == SlotState.LIVE));
        stats.subscribers().forEach(slot -> found.add(slot.state() == SlotState.LIVE));
        return found;
    }

    @Test
    void eachOwnerIsFoundHoweverManyThereAre() {
        try (Channel channel = Channel.create(rings.path("wide.ring"),
            ChannelOptions.broadcast().capacity(4096).publishers(8).subscribers(8))) {
            List<Publisher> publishers = new ArrayList<>();
            List<Subscriber> subscribers = new ArrayList<>();
            List<Boolean> expected = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                publishers.add(channel.publisher());
                subscribers.add(channel.subscriber());
                expected.addAll(List.of(true, true));
            }
            assertEquals(expected, live(channel));
            for (int slot : new int[] {3, 11, 4, 0, 15, 9, 10, 8, 7, 1, 14, 6, 2, 13, 5, 12}) {
                if (slot < 8) {
                    publishers.get(slot).close();
                } else {
                    subscribers.get(slot - 8).close();
                }
                expected.set(slot, false);
                assertEquals(expected, live(channel));
            }
        }
    }

    /** The lock ends with the lock byte of publisher slot 2; it contains no other byte that stands for an owner. */
    @Test
    void aLockOfAnotherProgramIsNoOwner() {
        try (Channel channel = Channel.create(rings.path("c.ring"),
            ChannelOptions.broadcast().capacity(4096).publishers(4).subscribers(4))) {
            Subscriber one = channel.subscriber();
            int at = Layout.HEADER_LENGTH + Layout.CONTROL_SLOTS + Layout.CONTROL_SLOT_LOCK
                + Layout.CONTROL_SLOT_LENGTH + 1;
            int fd = Sys.openFile(channel.path().toString(), 2, 0);
            assertEquals(0, Sys.lock(fd, Linux.F_OFD_SETLK, Linux.F_WRLCK, at, Layout.CONTROL_SLOT_LENGTH));
            assertEquals(List.of(false, false, true, false, true, false, false, false), live(channel));
            Sys.closeFile(fd);
            assertEquals(List.of(false, false, false, false, true, false, false, false), live(channel));
            one.close();
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
