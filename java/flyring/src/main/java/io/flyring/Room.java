// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Makes room for a publisher that is held back (spec 6.2, 3 and 4): evicts laggards (6.11), retires the dead (6.7), and
 * looks whether the channel was replaced (6.13).
 */
final class Room {
    private static final long PATIENCE_NANOS = 1_000_000;

    private final Channel channel;
    private final int ring;
    private final Lock lock;
    private final int slots;
    /** Whether a subscriber that is further behind than the writer's lag is evicted, or else waited for. */
    private final boolean evicts;
    /** When room was short for the first time, or the slots were last tested; 0: it is not short. */
    private long shortSince;

    Room(Channel channel, int ring, Lock lock, boolean evicts) {
        this.channel = channel;
        this.ring = ring;
        this.lock = lock;
        this.slots = channel.header().subscribers;
        this.evicts = evicts;
    }

    /** Recomputes the writer's limit until {@code needed} is at or below it; false: back-pressured. */
    boolean make(RingWriter writer, long needed) {
        if (needed >= Layout.MAX_POSITION) {
            throw Recovery.corrupt(ring, writer.end, "the ring has reached its last position");
        }
        writer.recompute();
        if (needed > writer.limit && evicts && evict(writer, needed)) {
            writer.recompute();
        }
        if (needed > writer.limit && isTimeToTest()) {
            retire(writer, needed);
            channel.checkReplaced();
            writer.recompute();
        }
        if (needed > writer.limit) {
            return false;
        }
        shortSince = 0;
        return true;
    }

    /** Whether room has been short for a while, and the slots were not tested meanwhile. */
    private boolean isTimeToTest() {
        long now = System.nanoTime();
        if (shortSince != 0 && now - shortSince < PATIENCE_NANOS) {
            return false;
        }
        boolean first = shortSince == 0;
        shortSince = now;
        return !first;
    }

    /** Recompute 3; true if a slot was evicted. */
    private boolean evict(RingWriter writer, long needed) {
        boolean any = false;
        boolean locked = false;
        try {
            for (int slot = 0; slot < slots; slot++) {
                if (writer.holdsBack(slot, needed)) {
                    locked = locked || lock.tryLockControl(channel.header());
                    if (!locked) {
                        return false;
                    }
                    if (writer.holdsBack(slot, needed)) {
                        channel.slots().evict(slot, channel.trailers());
                        any = true;
                    }
                }
            }
        } finally {
            if (locked) {
                lock.unlockControl(channel.header());
            }
        }
        return any;
    }

    /** The first half of recompute 4. */
    private void retire(RingWriter writer, long needed) {
        for (int slot = 0; slot < slots; slot++) {
            if (writer.holdsBack(slot, needed) && !channel.slots().spared(slot)) {
                channel.slots().retire(slot, channel.trailers(), writer, needed);
            }
        }
    }

    /** The slot with the smallest gate; null if none gates. */
    Holder holder(RingWriter writer) {
        int holder = -1;
        long least = Long.MAX_VALUE;
        for (int slot = 0; slot < slots; slot++) {
            long gate = writer.gate(slot);
            if (gate >= 0 && gate < least) {
                least = gate;
                holder = slot;
            }
        }
        return holder < 0 ? null : channel.slots().holder(holder, least);
    }
}
