// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;

/** How far a publisher may write: spec 6.2, and the retiring of the dead that hold it back, 6.7. */
final class Room {
    private static final long PATIENCE_NANOS = 1_000_000;

    private final Channel channel;
    private final int ring;
    private final Memory memory;
    private final int capacity;
    private final int slots;
    /** When room was short for the first time, or the slots were last tested; 0: it is not short. */
    private long shortSince;

    Room(Channel channel, int ring, Memory memory) {
        this.channel = channel;
        this.ring = ring;
        this.memory = memory;
        this.capacity = channel.header().capacity;
        this.slots = channel.header().subscribers;
    }

    long recompute(long tail, long needed) {
        if (needed >= Layout.MAX_POSITION) {
            throw Recovery.corrupt(ring, tail, "the ring has reached its last position");
        }
        long limit = limit(tail);
        if (needed <= limit) {
            shortSince = 0;
            return limit;
        }
        long now = System.nanoTime();
        if (shortSince == 0) {
            shortSince = now;
        } else if (now - shortSince >= PATIENCE_NANOS) {
            shortSince = now;
            if (retire(needed)) {
                shortSince = 0;
                return limit(tail);
            }
        }
        return limit;
    }

    /** Recompute 1 and 2. */
    long limit(long tail) {
        VarHandle.fullFence(); // pairs with: join 3
        long least = tail;
        for (int slot = 0; slot < slots; slot++) {
            long gate = gate(slot);
            if (gate >= 0 && gate < least) {
                least = gate;
            }
        }
        return least + capacity;
    }

    private long gate(int slot) {
        return memory.getLongAcquire(capacity + Header.gate(slot)); // pairs with: poll 4, join 4, leave
    }

    private boolean holdsBack(int slot, long needed) {
        long gate = gate(slot);
        return gate >= 0 && gate + capacity < needed;
    }

    private boolean retire(long needed) {
        boolean any = false;
        for (int slot = 0; slot < slots; slot++) {
            int candidate = slot;
            if (holdsBack(slot, needed) && !channel.slots().kept(slot)) {
                any |= channel.slots().retire(slot, channel.trailers(), () -> holdsBack(candidate, needed));
            }
        }
        return any;
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
