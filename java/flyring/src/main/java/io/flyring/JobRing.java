// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.util.List;

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
    private final Memory data;
    /** Where the ring's data lies, if it can be read by address; else 0. */
    private final long dataAt;
    /** Shows the payload of one job at a time. */
    final PayloadBuffer payload;
    private final Memory trailer;
    private final int gateAt;
    private final int capacity;
    private final int alignment;
    private final int mask;
    /** Bits that no position has. */
    private final long noPosition;
    private final int least;
    private final Waker waker;
    private final int wakerBit;
    /** Where the job or the batch begins that the last take has got. */
    private long from;
    /** Whether a take has found it damaged: it is not looked at again. */
    private boolean broken;

    JobRing(Channel channel, int ring, int slot, Memory data, Memory trailer, Waker waker) {
        Header header = channel.header();
        this.ring = ring;
        this.returns = header.isReturns(ring);
        this.data = data;
        this.dataAt = data.readableAt();
        this.payload = new PayloadBuffer(data);
        this.trailer = trailer;
        this.gateAt = Header.gate(slot);
        this.capacity = header.capacity;
        this.alignment = header.alignment;
        this.mask = capacity - 1 & -alignment;
        this.noPosition = ~(Layout.MAX_POSITION - 1) | alignment - 1;
        this.least = Layout.RECORD_HEADER_LENGTH + (returns ? Layout.RELEASED_LENGTH : 0);
        this.waker = waker;
        this.wakerBit = WaitingWords.bit(ring);
    }

    /** What this worker alone looks and stores through. */
    List<Memory> mappings() {
        return List.of(data, trailer);
    }

    void prefault() {
        data.prefault();
    }

    boolean broken() {
        return broken;
    }

    long from() {
        return from;
    }

    /** Whether a take would find something. */
    boolean isReady() {
        return !broken && lengthAt(shared()) > 0;
    }

    private long shared() {
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
        return length >= (type > 0 ? least : Layout.RECORD_HEADER_LENGTH)
            && (position & capacity - 1) + sizeOf(length) <= capacity && type >= Layout.TYPE_OWNER && type != 0;
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

    /**
     * Take 1 to 3: up to {@code limit} jobs, from {@link #from()} on.
     *
     * @return their end, or {@link #NOTHING}.
     */
    long take(int limit) {
        long passed = 0;
        for (int i = 0; i < TRIES && !broken; i++) {
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
                continue; // another worker took the job, and the place was written again
            }
            final long end = p + sizeOf(length);
            if (type < 0) { // a store would take gate[0] back over jobs that others took meanwhile
                if (trailer.compareAndSetLong(SHARED, p, end)) { // take 1; pairs with: take 1, room 2b
                    wakeRoom();
                    passed += end - p;
                    if (passed >= capacity) {
                        return NOTHING; // a hostile ring may hold nothing but padding
                    }
                }
                continue;
            }
            final long e = limit == 1 ? end : batchEnd(p, end, limit);
            trailer.putIntOpaque(gateAt + Layout.GATE_ATTEMPTS, 0); // take 2: an earlier job's number is not this one's
            trailer.putLongRelease(gateAt + Layout.GATE_TAKEN_END, e); // take 2; pairs with: adopt 2
            trailer.putLongRelease(gateAt, p); // take 2; pairs with: room 2b, adopt 2
            if (trailer.compareAndSetLong(SHARED, p, e)) { // take 3; pairs with: take 1, room 2b, adopt 2
                from = p;
                return e;
            }
            trailer.putLongRelease(gateAt, Layout.NOT_GATING); // take 3: -1 between two announcements
            wakeRoom();
        }
        return NOTHING;
    }

    /** The end of up to {@code limit} jobs directly behind one another, of which the first one ends at {@code end}. */
    private long batchEnd(long position, long end, int limit) {
        final long last = position + capacity / Layout.BATCH_DIVISOR;
        long e = end;
        for (int jobs = 1; jobs < limit && e < last; jobs++) {
            final int length = lengthAt(e);
            if (length < least || typeAt(e) <= 0 || !isGood(e, length, 1) || e + sizeOf(length) > last) {
                break; // nothing there, or no job, or not good: that is found when it comes first
            }
            e += sizeOf(length);
        }
        return e;
    }

    /** The worker's own gate: done 5, or adopt 5. */
    void storeGate(long position) {
        trailer.putLongRelease(gateAt, position); // pairs with: room 2b, adopt 2, ended 3
    }

    void storeAttempts(int attempts) {
        trailer.putIntOpaque(gateAt + Layout.GATE_ATTEMPTS, attempts);
    }

    void storeTakenEnd(long end) {
        trailer.putLongRelease(gateAt + Layout.GATE_TAKEN_END, end); // pairs with: adopt 2
    }

    /** Behind a store that may have made room (channel.md 6.9, 6). */
    void wakeRoom() {
        if (waker.isAwaited(wakerBit)) {
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
