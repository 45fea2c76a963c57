// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.List;

/**
 * Makes room for a publisher that is held back (spec 6.2): evicts laggards (6.11), retires the dead (6.7), takes back
 * the gates of the evicted (6.11), looks whether the channel was replaced (6.13), and tells others who is held back.
 * What fails on the way means that there is no room this time; never an exception. Nothing is mapped here.
 */
final class Room {
    private static final long PATIENCE_NANOS = 1_000_000;
    private static final int PAUSES = 32; // a microsecond, about

    private final Channel channel;
    private final Slots slotsOfChannel;
    private final Memory control;
    private final List<Memory> trailers;
    private final int ring;
    private final Lock lock;
    private final int first;
    private final int end;
    private final boolean queue;
    /** Whether a subscriber that is further behind than the writer's lag is evicted, or else waited for. */
    private final boolean evicts;
    /** When room was short for the first time, or the slots were last tested; 0: it is not short. */
    private long shortSince;
    /** Whether blocked_since says that room is short. */
    private boolean blocked;
    private long needed;
    /** When a successor was last looked for; 0: never. */
    private long lookedAt;
    /** Whether the last look found that the channel was replaced. */
    private boolean told;
    /** Whether a record that finds no room says so. */
    private boolean tellsReplaced = true;

    Room(Channel channel, int ring, Lock lock, boolean evicts) {
        this.channel = channel;
        this.slotsOfChannel = channel.slots();
        this.control = channel.control();
        this.trailers = channel.trailers();
        this.ring = ring;
        this.lock = lock;
        this.first = channel.header().firstGate(ring);
        this.end = channel.header().endOfGates(ring);
        this.queue = channel.header().isQueue();
        this.evicts = evicts;
    }

    /** Of a service, where that ends waits and no call: its waits look by themselves. */
    Room silent() {
        tellsReplaced = false;
        return this;
    }

    /** What the last record that found no room needs: the limit at or above it. */
    long needed() {
        return needed;
    }

    /** A subscriber slot that somebody owns who has not read all that was published; -1: there is none. */
    int behind(RingWriter writer) {
        if (queue) {
            return behindInQueue(writer);
        }
        for (int slot = first; slot < end; slot++) {
            if (writer.isBehind(slot) && slotsOfChannel.live(lock, slot)) {
                return slot;
            }
        }
        return -1;
    }

    /**
     * Of a queue: jobs that nobody has taken, or that are in hand, whether their worker lives or not; while jobs change
     * hands all the time, any slot: then it is looked at again.
     */
    private int behindInQueue(RingWriter writer) {
        for (int i = 0; i < RingWriter.HANDOVER_TRIES; i++) {
            final long handovers = writer.handovers(); // as room 2a
            for (int slot = first; slot < end; slot++) { // gate[0] first, as room 2b
                if (writer.isBehind(slot)) {
                    return slot;
                }
            }
            if (writer.handovers() == handovers) { // as room 2c
                return -1;
            }
        }
        return 0;
    }

    int ring() {
        return ring;
    }

    /** Recomputes the writer's limit until {@code needed} is at or below it; false: back-pressured. */
    boolean make(RingWriter writer, long needed) {
        return make(writer, needed, needed);
    }

    /** The same for a batch, which is held back if there is no room for its first record. */
    boolean make(RingWriter writer, long needed, long first) {
        if (first - Layout.RECORD_HEADER_LENGTH >= Layout.MAX_POSITION) {
            throw Recovery.corrupt(ring, writer.end, "the ring has reached its last position");
        }
        if (tellsReplaced && control.getIntOpaque(Layout.CONTROL_SUCCESSOR) != 0) { // 0
            lookForSuccessor();
        }
        if (queue && blocked) {
            standBack();
        }
        writer.recompute();
        if (needed > writer.limit && evicts && evict(writer, needed)) {
            writer.recompute();
        }
        if (needed > writer.limit && isTimeToTest()) {
            test(writer, needed);
            writer.recompute();
        }
        tell(writer, first);
        this.needed = first;
        return needed <= writer.limit;
    }

    /**
     * Of a queue, between two looks that find no room: each one takes from a worker the lines that it is about to write.
     */
    private static void standBack() {
        for (int i = 0; i < PAUSES; i++) {
            Thread.onSpinWait();
        }
    }

    /** At most once in 1 ms, and not twice in a row if it was replaced: who was told can go on all the same. */
    private void lookForSuccessor() {
        long now = System.nanoTime();
        if (told) {
            told = false;
        } else if (lookedAt == 0 || now - lookedAt >= PATIENCE_NANOS) {
            lookedAt = now;
            told = true;
            channel.checkReplaced();
            told = false;
        }
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

    /** Recompute 5. */
    private void tell(RingWriter writer, long first) {
        boolean room = first <= writer.limit;
        if (room) {
            shortSince = 0;
        }
        if (blocked == room) {
            slotsOfChannel.blocked(ring, room ? 0 : first - Layout.RECORD_HEADER_LENGTH - writer.end);
            blocked = !room;
        }
    }

    /** Recompute 3; true if a slot was evicted. */
    private boolean evict(RingWriter writer, long needed) {
        synchronized (lock) { // so that nobody closes it meanwhile
            boolean any = false;
            boolean locked = false;
            try {
                for (int slot = first; slot < end; slot++) {
                    if (writer.holdsBack(slot, needed)) {
                        locked = locked || lock.tryLockControl(channel.header());
                        if (!locked) {
                            return false;
                        }
                        if (writer.holdsBack(slot, needed)) {
                            slotsOfChannel.evict(slot, trailers);
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
    }

    /** Recompute 4. */
    private void test(RingWriter writer, long needed) {
        for (int slot = first; slot < end && !queue; slot++) { // a worker's gate says where its job lies: queue.md 4
            if (writer.holdsBack(slot, needed)) {
                synchronized (lock) {
                    slotsOfChannel.retire(lock, slot, trailers, writer, needed);
                    slotsOfChannel.takeBack(lock, slot, trailers);
                }
            }
        }
        if (tellsReplaced) {
            channel.checkReplaced();
        }
    }

    /** The slot with the smallest gate; null if none gates. */
    Holder holder(RingWriter writer) {
        int holder = -1;
        long least = Long.MAX_VALUE;
        for (int slot = first; slot < end; slot++) {
            long gate = writer.gate(slot);
            if (gate >= 0 && gate < least) {
                least = gate;
                holder = slot;
            }
        }
        return holder < 0 ? null : slotsOfChannel.holder(lock, holder, least);
    }

    /**
     * Of a queue: the error if a job in this thread's own hand leaves no room, or keeps a flush waiting (queue.md 10);
     * else null.
     */
    BusyException busy(RingWriter writer, boolean flushes) {
        for (int slot = 1; queue && slot < end; slot++) {
            final boolean waitsForIt = flushes ? writer.isBehind(slot) : writer.holdsBack(slot, needed);
            if (waitsForIt && channel.atWorkHere(slot) != null) {
                Holder holder = slotsOfChannel.holder(lock, slot, writer.gate(slot));
                return new BusyException(holder, "Ring " + ring + (flushes ? " was not read to its end"
                    : " has no room") + ": it waits for the job that this very thread works on, with " + holder
                    + ". Finish or release the job first, or do something else meanwhile.");
            }
        }
        return null;
    }

    /** How many subscribers that somebody owns read this ring. */
    int readers(RingWriter writer) {
        int readers = 0;
        for (int slot = Math.max(first, channel.header().firstSubscriber()); slot < end; slot++) {
            if ((queue || writer.gate(slot) >= 0) && slotsOfChannel.live(lock, slot)) {
                readers++;
            }
        }
        return readers;
    }
}
