// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;

/** How far a publisher may write: spec 6.2, with the eviction of laggards, 6.11, and the retiring of the dead, 6.7. */
final class Room {
    private static final long PATIENCE_NANOS = 1_000_000;

    private final Channel channel;
    private final int ring;
    private final Memory memory;
    private final Lock lock;
    private final int capacity;
    private final int slots;
    /** How far a subscriber may be behind; farther ones are evicted if {@code evicts}, waited for otherwise. */
    private final int reach;
    private final boolean evicts;
    private final boolean foreignReader;
    /** When room was short for the first time, or the slots were last tested; 0: it is not short. */
    private long shortSince;

    Room(Channel channel, int ring, Memory memory, Lock lock, int maxLag) {
        this.channel = channel;
        this.ring = ring;
        this.memory = memory;
        this.lock = lock;
        this.capacity = channel.header().capacity;
        this.slots = channel.header().subscribers;
        this.evicts = maxLag > 0;
        this.foreignReader = channel.header().foreign == Foreign.SUBSCRIBER;
        this.reach = evicts ? maxLag : capacity;
    }

    long recompute(long tail, long needed) {
        if (needed >= Layout.MAX_POSITION) {
            throw Recovery.corrupt(ring, tail, "the ring has reached its last position");
        }
        long limit = limit(tail);
        if (needed > limit && evicts && evict(needed)) {
            limit = limit(tail);
        }
        if (needed > limit && isTime()) {
            retire(needed);
            channel.checkReplaced();
            limit = limit(tail);
        }
        if (needed <= limit) {
            shortSince = 0;
        }
        return limit;
    }

    /** Whether room has been short for a while, and the slots were not tested meanwhile. */
    private boolean isTime() {
        long now = System.nanoTime();
        if (shortSince != 0 && now - shortSince < PATIENCE_NANOS) {
            return false;
        }
        boolean first = shortSince == 0;
        shortSince = now;
        return !first;
    }

    /** Recompute 1 and 2. */
    private long limit(long tail) {
        VarHandle.fullFence(); // pairs with: join 3
        long least = Long.MAX_VALUE;
        for (int slot = 0; slot < slots; slot++) {
            long gate = gate(slot);
            if (gate >= 0 && gate < least) {
                least = gate;
            }
            if (foreignReader) { // 6.15: for an Agrona writer that may have the ring later
                memory.putLongOpaque(capacity + Layout.TRAILER_HEAD_CACHE, gate);
            }
        }
        long most = Math.min(tail, least) + capacity;
        return least < most ? Math.min(most, least + reach) : most;
    }

    private long gate(int slot) {
        return memory.getLongAcquire(capacity + Header.gate(slot)); // pairs with: poll 4, join 4, leave
    }

    boolean holdsBack(int slot, long needed) {
        long gate = gate(slot);
        return gate >= 0 && gate < needed - reach;
    }

    /** Recompute 3; true if somebody was evicted. */
    private boolean evict(long needed) {
        boolean any = false;
        boolean locked = false;
        try {
            for (int slot = 0; slot < slots; slot++) {
                if (holdsBack(slot, needed)) {
                    locked = locked || lock.tryLockControl(channel.header());
                    if (!locked) {
                        return false;
                    }
                    if (holdsBack(slot, needed)) {
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
    private void retire(long needed) {
        for (int slot = 0; slot < slots; slot++) {
            if (holdsBack(slot, needed) && !channel.slots().spared(slot)) {
                channel.slots().retire(slot, channel.trailers(), this, needed);
            }
        }
    }

    Holder holder() {
        int holder = -1;
        long least = Long.MAX_VALUE;
        for (int slot = 0; slot < slots; slot++) {
            long gate = gate(slot);
            if (gate >= 0 && gate < least) {
                least = gate;
                holder = slot;
            }
        }
        return holder < 0 ? null : channel.slots().holder(holder, least);
    }
}
