// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.List;

/**
 * Makes room for a publisher that is held back (channel.md 6.2). Evicts subscribers beyond the lag limit (6.11),
 * retires dead ones (6.7), and takes back the gates of evicted ones (6.11). Checks whether the channel was replaced
 * (6.13), and stores since when the publisher is held back. If a system call fails, there is no room this time; that is
 * never an exception. Maps nothing.
 */
final class Room {
    private static final long PATIENCE_NANOS = 1_000_000;
    private static final int LEAST_PAUSES = 32; // a microsecond, about
    private static final int MOST_PAUSES = 128;
    private static final int BYTES_PER_PAUSE = 8192; // of the ring
    private static final int LITTLE_ROOM = 8; // less than this part of a queue's ring

    private final Channel channel;
    private final Slots slotsOfChannel;
    private final Memory control;
    private final List<Memory> trailers;
    private final int ring;
    private final Lock lock;
    private final int first;
    private final int end;
    private final boolean queue;
    private final long littleRoom;
    /** Of a queue: pauses before the next look for room (queue.md 4). */
    private boolean standsBack;
    /** Whether a subscriber beyond the writer's lag limit is evicted; if not, the writer waits for it. */
    private final boolean evicts;
    /** When room was first short, or when the slots were last tested; 0 if room is not short. */
    private long shortSince;
    /** Whether blocked_since in the file is set. */
    private boolean blocked;
    private long needed;
    /** When the channel was last checked for a successor; 0 if never. */
    private long lookedAt;
    /** Whether the last check found that the channel was replaced. */
    private boolean told;
    /** Whether a record that finds no room throws for a replaced channel. */
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
        this.littleRoom = channel.header().capacity / LITTLE_ROOM;
        this.evicts = evicts;
    }

    /** For a service: a replaced channel ends waits, which check this themselves, but never a call. */
    Room silent() {
        tellsReplaced = false;
        return this;
    }

    /** The limit that the last record needed. */
    long needed() {
        return needed;
    }

    /** A subscriber slot with a live owner that has not read all that was published; -1 if there is none. */
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
     * Does the same for a queue. Slot 0 stands for jobs that no worker has taken; the other slots are those of workers,
     * alive or dead, with a job in hand. If jobs change hands during each try, returns 0, so that the caller tries
     * again.
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

    /** Recomputes the writer's limit until it reaches {@code needed} (6.2); false if back-pressured. */
    boolean make(RingWriter writer, long needed) {
        return make(writer, needed, needed);
    }

    /** The same for a batch: it counts as held back if its first record, up to {@code first}, finds no room. */
    boolean make(RingWriter writer, long needed, long first) {
        if (first - Layout.RECORD_HEADER_LENGTH >= Layout.MAX_POSITION) {
            throw Recovery.corrupt(ring, writer.end, "the ring has reached its last position");
        }
        if (tellsReplaced && control.getIntOpaque(Layout.CONTROL_SUCCESSOR) != 0) { // 0
            lookForSuccessor();
        }
        if (standsBack) {
            standBack(pauses(channel.header()));
        }
        writer.recompute();
        if (needed > writer.limit && evicts && evict(writer, needed)) {
            writer.recompute();
        }
        if (needed > writer.limit && isTimeToTest()) {
            test(writer, needed);
            writer.recompute();
        }
        standsBack = queue && writer.limit - writer.end < littleRoom;
        tell(writer, first);
        this.needed = first;
        return needed <= writer.limit;
    }

    /**
     * How often a producer pauses before it looks for room again: in a queue for about four microseconds, or one if the
     * ring is small, so that workers do not empty it meanwhile; else once. Each look takes from a worker the cache
     * lines that the worker is about to write.
     */
    static int pauses(Header header) {
        return header.isQueue() ? Math.min(Math.max(header.capacity / BYTES_PER_PAUSE, LEAST_PAUSES), MOST_PAUSES) : 1;
    }

    static void standBack(int pauses) {
        for (int i = 0; i < pauses; i++) {
            Thread.onSpinWait();
        }
    }

    /** The next look needs no pause, because the writer has waited. */
    void waited() {
        standsBack = false;
    }

    /** Recompute 0: throws if the channel was replaced. Checks at most once in 1 ms, and not right after it threw. */
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

    /** Lets the next offer that finds no room check whether the channel was replaced, at whatever time it comes. */
    void lookSoon() {
        lookedAt = 0;
        told = false;
    }

    /** Whether room has been short for 1 ms since it first was, or since the last test. */
    private boolean isTimeToTest() {
        long now = System.nanoTime();
        if (shortSince != 0 && now - shortSince < PATIENCE_NANOS) {
            return false;
        }
        boolean first = shortSince == 0;
        shortSince = now;
        return !first;
    }

    /** Stores since when the writer is held back, or that it is not: recompute 5. */
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

    /** Evicts the slots beyond the lag limit: recompute 3. Returns whether a slot was evicted. */
    private boolean evict(RingWriter writer, long needed) {
        synchronized (lock) { // keeps it open meanwhile
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

    /** Retires dead subscribers, takes back gates, and checks whether the channel was replaced: recompute 4. */
    private void test(RingWriter writer, long needed) {
        for (int slot = first; slot < end && !queue; slot++) { // a worker's gate stays (queue.md 4)
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

    /** The slot with the smallest gate; null if no slot gates. */
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
     * The error if a job in the calling thread's own hand leaves no room, or makes a flush wait (queue.md 10); else
     * null.
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

    /** The number of subscribers with a live owner that read this ring, counted while no join is under way (6.4). */
    int readers(RingWriter writer) {
        Header header = channel.header();
        if (header.foreign != Foreign.NONE || queue) { // a worker gets earlier jobs, too
            return countReaders(writer);
        }
        lock.lockControl(header);
        try {
            return countReaders(writer);
        } finally {
            lock.unlockControl(header);
        }
    }

    private int countReaders(RingWriter writer) {
        int readers = 0;
        for (int slot = Math.max(first, channel.header().firstSubscriber()); slot < end; slot++) {
            if ((queue || writer.gate(slot) >= 0) && slotsOfChannel.live(lock, slot)) {
                readers++;
            }
        }
        return readers;
    }
}
