// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;

/** One worker's view of one ring of a queue: its jobs, the shared gate, and the worker's own gate (queue.md 2, 3). */
final class JobRing {
    /** The result of {@link #take} if there is no job. */
    static final long NOTHING = -1;
    /** How often a take tries again when other workers were faster, before it goes to the next ring. */
    private static final int TRIES = Layout.LOSSY_TRIES;
    private static final int SHARED = Layout.TRAILER_GATE;

    final int ring;
    /** Whether this is the returns ring: its jobs carry a prefix with their origin. */
    final boolean returns;
    /** Shows the payload of one job at a time. */
    final PayloadBuffer payload;
    private final Header header;
    private final int slot;
    private final Memory data;
    /** The address of the ring's data, if it can be read by address; else 0. */
    private final long dataAt;
    private final Memory trailer;
    private final int gateAt;
    /** The addresses of the shared gate and the own gate, if they can be written by address; else both are 0. */
    private final long sharedAddress;
    private final long gateAddress;
    private final int capacity;
    private final int alignment;
    private final int mask;
    /** The bits that are 0 in every valid position. */
    private final long noPosition;
    private final int least;
    private final Waker waker;
    private final int wakerBit;
    private final long watchedAt;
    /** The start of the last take's batch, and length and type of its first record. */
    private long from;
    private int firstLength;
    private int firstType;
    /** Whether a take has found the ring damaged; it is not read again. */
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

    /** The same ring with another mapping for its gates. */
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

    /** Whether a take would find nothing. Small, so that the test of an empty ring is inlined. */
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

    /** Whether a record at that position may have that length and type. */
    boolean isGood(long position, int length, int type) {
        return type > 0 ? isJob(position, length, type)
            : length >= Layout.RECORD_HEADER_LENGTH && type >= Layout.TYPE_OWNER && type != 0
                && (position & capacity - 1) + sizeOf(length) <= capacity;
    }

    /** Whether a record of that length and type can be a job. */
    boolean isJob(long position, int length, int type) {
        return length >= least && type > 0 && (position & capacity - 1) + sizeOf(length) <= capacity;
    }

    long payloadAt(long position) {
        return data.address() + ((int) position & mask) + Layout.RECORD_PAYLOAD;
    }

    /** The index of a record's payload in {@link #data()}. */
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

    /** The start of the last take's batch. */
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
     * Takes up to {@code limit} neighbouring jobs, from {@link #from()} on: take 1 to 3 (queue.md 3).
     *
     * @return the end of the jobs, or {@link #NOTHING}.
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

    /** Does the same if the first try failed: passes padding, and tries again when other workers are faster. */
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
                VarHandle.acquireFence(); // take 1: reads the record before gate[0]; pairs with: publish 3
                if (shared() == p) {
                    throw corrupt(p, (p & noPosition) != 0 ? "the gate of slot 0 is no position"
                        : "a record of " + length + " bytes and type " + type);
                }
                i++; // another worker took the job, and the place was overwritten
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
                    i++; // another worker was faster; a plain store would move gate[0] back
                }
            }
        }
        return NOTHING;
    }

    /** Announces and takes the jobs from {@code p} on: take 2 and 3. {@link #NOTHING} if another worker was faster. */
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
            Raw.putIntOpaque(gate + Layout.GATE_ATTEMPTS, 0); // take 2: the last number was an earlier job's
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
     * The end of up to {@code limit} neighbouring jobs, of which the first ends at {@code end}. While jobs keep their
     * size, uses the size of the last one, as {@link RingReader} does: then the processor can fetch the next jobs
     * before it has this one's length.
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
                break; // no record, no job, or not valid: the next take finds out
            }
            e = next;
        }
        return e;
    }

    /** Stores the worker's own gate: done 5, or adopt 5. */
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

    /** Wakes producers that wait for room, after a store that may have made room (channel.md 6.9, 6). */
    void wakeRoom() {
        final boolean awaited = Raw.AVAILABLE
            ? (Raw.getIntOpaque(Raw.base(watchedAt)) & wakerBit) != 0 : waker.isAwaited(wakerBit);
        Reference.reachabilityFence(waker);
        if (awaited) {
            waker.wakeNow(wakerBit);
        }
    }

    /** Whether the bytes read at a position may be of a later lap (channel.md 6.10). */
    boolean lapped(long position) {
        VarHandle.acquireFence(); // adopt 7; pairs with: publish 3
        return trailer.getLongAcquire(Layout.TRAILER_CLAIMED) > position + capacity - Layout.RECORD_HEADER_LENGTH;
    }

    CorruptRingException corrupt(long position, String reason) {
        broken = true;
        return Recovery.corrupt(ring, position, reason);
    }
}
