// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;

/** One worker's view of one ring of a queue: its jobs, the shared gate, and the worker's own gate (queue.md 2, 3). */
final class JobRing {
    /** What {@link #take} returns if there is nothing. */
    static final long NOTHING = -1;
    /** How often a take tries again after other workers were faster, before it goes on with the next ring. */
    private static final int TRIES = Layout.LOSSY_TRIES;
    private static final int SHARED = Layout.TRAILER_GATE;

    final int ring;
    /** Whether its jobs carry where they were published first. */
    final boolean returns;
    /** Shows the payload of one job at a time. */
    final PayloadBuffer payload;
    private final Header header;
    private final int slot;
    private final Memory data;
    /** Where the ring's data lies, if it can be read by address; else 0. */
    private final long dataAt;
    private final Memory trailer;
    private final int gateAt;
    /** Where the shared gate and the own one lie, if they can be written by address; else both are 0. */
    private final long sharedAddress;
    private final long gateAddress;
    private final int capacity;
    private final int alignment;
    private final int mask;
    /** Bits that no position has. */
    private final long noPosition;
    private final int least;
    private final Waker waker;
    private final int wakerBit;
    private final long watchedAt;
    /** Where the job or the batch begins that the last take has got, and how its first job ends. */
    private long from;
    private int firstLength;
    private int firstType;
    /** Whether a take has found it damaged: it is not looked at again. */
    private boolean broken;

    JobRing(Header header, int ring, int slot, Memory data, Memory trailer, Waker waker) {
        this.header = header;
        this.ring = ring;
        this.slot = slot;
        this.returns = header.isReturns(ring);
        this.data = data;
        this.dataAt = data.readableAt();
        this.payload = new PayloadBuffer(data);
        this.trailer = trailer;
        this.gateAt = Header.gate(slot);
        this.sharedAddress = trailer.writableAt() == 0 ? 0 : trailer.writableAt() + SHARED;
        this.gateAddress = trailer.writableAt() == 0 ? 0 : trailer.writableAt() + gateAt;
        this.capacity = header.capacity;
        this.alignment = header.alignment;
        this.mask = capacity - 1 & -alignment;
        this.noPosition = ~(Layout.MAX_POSITION - 1) | alignment - 1;
        this.least = Layout.RECORD_HEADER_LENGTH + (returns ? Layout.RELEASED_LENGTH : 0);
        this.waker = waker;
        this.wakerBit = WaitingWords.bit(ring);
        this.watchedAt = waker.watchedAt();
    }

    /** The same ring, whose gates are stored through another mapping. */
    JobRing through(Memory otherTrailer) {
        return new JobRing(header, ring, slot, data, otherTrailer, waker);
    }

    /** The mapping through which the gates are stored. */
    Memory trailer() {
        return trailer;
    }

    /** Whether a take would find something. */
    boolean isReady() {
        return !broken && lengthAt(shared()) > 0;
    }

    /** Whether a take would find nothing. Small, so that a look at an empty ring is inlined. */
    boolean isEmpty() {
        final long p = shared();
        return lengthAt(p) <= 0 && (p & noPosition) == 0;
    }

    private long shared() {
        if (sharedAddress != 0) {
            final long position = Raw.getLongAcquire(Raw.base(sharedAddress)); // take 1; pairs with: take 3, padding
            Reference.reachabilityFence(trailer);
            return position;
        }
        return trailer.getLongAcquire(SHARED); // take 1; pairs with: take 3, padding
    }

    int lengthAt(long position) {
        final int index = (int) position & mask;
        if (dataAt != 0) {
            final int length = Raw.getIntAcquire(Raw.base(dataAt + index)); // pairs with: publish 6
            Reference.reachabilityFence(data);
            return length;
        }
        return data.getIntAcquire(index); // pairs with: publish 6
    }

    int typeAt(long position) {
        final int index = (int) position & mask;
        if (dataAt != 0) {
            final int type = Raw.getInt(Raw.base(dataAt + index) + Layout.RECORD_TYPE);
            Reference.reachabilityFence(data);
            return type;
        }
        return data.getInt(index + Layout.RECORD_TYPE);
    }

    long sizeOf(int length) {
        return (long) length + alignment - 1 & -alignment;
    }

    /** Whether a record of that length and type can lie there. */
    boolean isGood(long position, int length, int type) {
        return type > 0 ? isJob(position, length, type)
            : length >= Layout.RECORD_HEADER_LENGTH && type >= Layout.TYPE_OWNER && type != 0
                && (position & capacity - 1) + sizeOf(length) <= capacity;
    }

    /** Whether it can be a job. */
    boolean isJob(long position, int length, int type) {
        return length >= least && type > 0 && (position & capacity - 1) + sizeOf(length) <= capacity;
    }

    long payloadAt(long position) {
        return data.address() + ((int) position & mask) + Layout.RECORD_PAYLOAD;
    }

    /** Where a record's payload lies in {@link #data()}. */
    int payloadIndex(long position) {
        return ((int) position & mask) + Layout.RECORD_PAYLOAD;
    }

    Memory data() {
        return data;
    }

    int word(long position, int at) {
        return data.getInt(payloadIndex(position) + at);
    }

    long longWord(long position, int at) {
        return data.getLong(payloadIndex(position) + at);
    }

    /** Where the job or the batch begins that the last take has got; and what its first record says. */
    long from() {
        return from;
    }

    int firstLength() {
        return firstLength;
    }

    int firstType() {
        return firstType;
    }

    /**
     * Take 1 to 3: up to {@code limit} jobs, from {@link #from()} on.
     *
     * @return their end, or {@link #NOTHING}.
     */
    long take(int limit) {
        final long p = shared();
        final int length = lengthAt(p);
        if (length <= 0 && (p & noPosition) == 0 || broken) {
            return NOTHING;
        }
        final int type = typeAt(p);
        if ((p & noPosition) == 0 && isJob(p, length, type)) {
            final long end = takeAt(p, length, type, limit);
            if (end != NOTHING) {
                return end;
            }
        }
        return takeFurther(limit);
    }

    /** The same where it takes more than one try: behind padding, and beside other workers. */
    private long takeFurther(int limit) {
        long passed = 0;
        for (int i = 0; i < TRIES;) {
            final long p = shared();
            final int length = lengthAt(p);
            if (length <= 0 && (p & noPosition) == 0) {
                return NOTHING;
            }
            final int type = typeAt(p);
            if ((p & noPosition) != 0 || !isGood(p, length, type)) {
                VarHandle.acquireFence(); // take 1: the record's words before gate[0]; pairs with: publish 3
                if (shared() == p) {
                    throw corrupt(p, (p & noPosition) != 0 ? "the gate of slot 0 is no position"
                        : "a record of " + length + " bytes and type " + type);
                }
                i++; // another worker took the job, and the place was written again
            } else if (type > 0) {
                final long end = takeAt(p, length, type, limit);
                if (end != NOTHING) {
                    return end;
                }
                i++;
            } else {
                final long end = p + sizeOf(length);
                if (trailer.compareAndSetLong(SHARED, p, end)) { // take 1; pairs with: take 1, room 2b
                    wakeRoom();
                    passed += end - p;
                    if (passed >= capacity) {
                        return NOTHING; // a hostile ring may hold nothing but padding
                    }
                } else {
                    i++; // a store would have taken gate[0] back over jobs that others took meanwhile
                }
            }
        }
        return NOTHING;
    }

    /** Take 2 and 3 of the job at {@code p}, and of those behind it; {@link #NOTHING}: another worker was faster. */
    private long takeAt(long p, int length, int type, int limit) {
        final long end = p + sizeOf(length);
        final long e = limit == 1 ? end : batchEnd(p, end, limit);
        if (announceAndTake(p, e)) {
            from = p;
            firstLength = length;
            firstType = type;
            return e;
        }
        storeGate(Layout.NOT_GATING); // take 3: -1 between two announcements
        wakeRoom();
        return NOTHING;
    }

    private boolean announceAndTake(long p, long e) {
        if (gateAddress != 0) {
            final long gate = Raw.base(gateAddress);
            Raw.putIntOpaque(gate + Layout.GATE_ATTEMPTS, 0); // take 2: an earlier job's number is not this one's
            Raw.putLongRelease(gate + Layout.GATE_TAKEN_END, e); // take 2; pairs with: adopt 2
            Raw.putLongRelease(gate, p); // take 2; pairs with: room 2b, adopt 2
            final boolean taken = Raw.compareAndSetLong(Raw.base(sharedAddress), p, e); // take 3; pairs with: take 1,
            Reference.reachabilityFence(trailer);                                       // room 2b, adopt 2
            return taken;
        }
        storeAttempts(0); // take 2
        storeTakenEnd(e);
        storeGate(p);
        return trailer.compareAndSetLong(SHARED, p, e); // take 3; pairs with: take 1, room 2b, adopt 2
    }

    /**
     * The end of up to {@code limit} jobs directly behind one another, of which the first one ends at {@code end}. As
     * long as they keep their size, that of the one before is taken, as {@link RingReader} does: then the processor can
     * fetch the next ones before it has this one's length.
     */
    private long batchEnd(long position, long end, int limit) {
        final long last = position + capacity / Layout.BATCH_DIVISOR;
        long stride = end - position;
        long e = end;
        for (int jobs = 1; jobs < limit && e < last; jobs++) {
            final int length = lengthAt(e);
            final long size = sizeOf(length);
            long next = e + stride;
            if (size != stride) {
                stride = size;
                next = e + size;
            }
            if (length <= 0 || !isJob(e, length, typeAt(e)) || next > last) {
                break; // nothing there, or no job, or not good: that is found when it comes first
            }
            e = next;
        }
        return e;
    }

    /** The worker's own gate: done 5, or adopt 5. */
    void storeGate(long position) {
        if (gateAddress != 0) {
            Raw.putLongRelease(Raw.base(gateAddress), position); // pairs with: room 2b, adopt 2, ended 3
            Reference.reachabilityFence(trailer);
        } else {
            trailer.putLongRelease(gateAt, position); // pairs with: room 2b, adopt 2, ended 3
        }
    }

    void storeAttempts(int attempts) {
        trailer.putIntOpaque(gateAt + Layout.GATE_ATTEMPTS, attempts);
    }

    void storeTakenEnd(long end) {
        trailer.putLongRelease(gateAt + Layout.GATE_TAKEN_END, end); // pairs with: adopt 2
    }

    /** Behind a store that may have made room (channel.md 6.9, 6). */
    void wakeRoom() {
        final boolean awaited = Raw.AVAILABLE
            ? (Raw.getIntOpaque(Raw.base(watchedAt)) & wakerBit) != 0 : waker.isAwaited(wakerBit);
        Reference.reachabilityFence(waker);
        if (awaited) {
            waker.wakeNow(wakerBit);
        }
    }

    /** Whether what was read there may be of a later lap (channel.md 6.10). */
    boolean lapped(long position) {
        VarHandle.acquireFence(); // adopt 7; pairs with: publish 3
        return trailer.getLongAcquire(Layout.TRAILER_CLAIMED) > position + capacity - Layout.RECORD_HEADER_LENGTH;
    }

    CorruptRingException corrupt(long position, String reason) {
        broken = true;
        return Recovery.corrupt(ring, position, reason);
    }
}
