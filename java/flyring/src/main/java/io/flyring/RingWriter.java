// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import org.agrona.DirectBuffer;

/**
 * The writer of one ring: spec 6.1 to 6.3, in its steps. {@link Publisher} puts checks, offers and claims on top. It
 * extends this class because a field of a second object would cost each step one more load.
 *
 * <p>HotSpot inlines no method of more than 325 bytecodes, however often it is called. Methods that are seldom needed
 * are kept longer than that on purpose, so that their callers stay small.
 */
abstract class RingWriter {
    /** How often gates are looked at again because a job changed hands meanwhile. */
    static final int HANDOVER_TRIES = 3;
    private static final long UNSIGNED = 0xffff_ffffL;
    /** What is published stays below the last position. */
    private static final long LAST_LIMIT = Layout.MAX_POSITION - 1 + Layout.RECORD_HEADER_LENGTH;

    /** The ring's data, with its trailer behind. */
    final Memory ring;
    /** Where the data and the trailer lie, if they can be written by address; else both are 0. */
    final long ringAt;
    final long trailerAt;
    final int capacity;
    final int mask;
    private final int alignment;
    private final long headerAndRounding;
    private final long roundDown;
    private final int eighthShift;
    /** W: how far to clear ahead; 0 after records longer than {@code longestAhead}. */
    private final int window;
    private final int halfWindow;
    private final int longestAhead;
    /** The longest payload. */
    final int maxLength;
    /** The slots whose gates hold this writer back, and where the first of these gates lies. */
    private final int firstSlot;
    private final int endOfSlots;
    private final int gatesAt;
    /** How far ahead of a gate this publisher may be: the capacity, or the lag limit (6.2, 2). */
    final int lag;
    private final boolean foreignSubscriber;
    /** Of a queue, where jobs change hands; else null. */
    private final Memory control;
    /** What makes room where a recompute finds none (6.2, 3 and 4). */
    final Room room;
    /** The payload of the open claim; busy while a record is written otherwise. */
    final PayloadBuffer payload;
    /** Where the payload of a record at offset 0 lies. */
    final long payloadsAt;
    /** Step 10: who wakes readers; this ring's bit; and where those who sleep say so, if it can be read by address. */
    final Waker waker;
    final int wakerBit;
    private final long watchedAt;
    /** Where sleeping workers of a queue say so, and the bits that matter in both places; elsewhere the same again. */
    private final long jobsWatchedAt;
    private final int watchedBits;
    /** What the owner record says (5.2, 5). */
    final long epoch;
    private final byte[] name;

    /** t: end of what this publisher published. */
    long end;
    /** Places of lengths up to here hold 0, or a committed record. */
    private long cleared;
    /** What is written, and 8 bytes behind it, stays below. */
    long limit;
    /** Messages published. */
    long count;
    /** What ended this object in the middle of a publication; null: nothing has. */
    Throwable failure;
    /** Whether the owner record comes before the next one. */
    private boolean ownerPending;
    /** Up to here a record needs steps 5 to 7 only, and perhaps 8 and 9; 0: no record does. */
    long fastEnd;
    /** From here on step 8 or 9 is due. */
    long nextDue;
    private long nextBoundary;

    RingWriter(Channel channel, Memory ring, Room room, Waker waker, long epoch, byte[] name, long count, int maxLag) {
        Header header = channel.header();
        this.ring = ring;
        this.room = room;
        this.waker = waker;
        this.wakerBit = WaitingWords.bit(room.ring());
        this.watchedAt = waker.watchedAt();
        this.jobsWatchedAt = waker.jobsWatchedAt();
        this.watchedBits = waker.watchedBits(wakerBit);
        this.payload = new PayloadBuffer(ring);
        this.payloadsAt = ring.address() + Layout.RECORD_PAYLOAD;
        this.epoch = epoch;
        this.name = name;
        this.capacity = header.capacity;
        this.mask = capacity - 1;
        this.alignment = header.alignment;
        this.roundDown = -alignment;
        this.headerAndRounding = Layout.RECORD_HEADER_LENGTH + alignment - 1;
        this.eighthShift = Integer.numberOfTrailingZeros(capacity / Layout.BOUNDARIES);
        final boolean returns = header.isReturns(room.ring());
        this.window = returns ? 0 : header.window(); // else each release had to mend the one before
        this.halfWindow = window / 2;
        this.longestAhead = window / Layout.CLEAR_AHEAD_RECORDS;
        this.maxLength = header.longestMessage(room.ring());
        this.firstSlot = header.firstGate(room.ring());
        this.endOfSlots = header.endOfGates(room.ring());
        this.gatesAt = header.isService() ? capacity + Layout.TRAILER_GATE : -1;
        this.lag = maxLag > 0 ? maxLag : capacity;
        this.foreignSubscriber = header.foreign == Foreign.SUBSCRIBER;
        boolean byAddress = ring.writableAt() != 0 && channel.control().readableAt() != 0;
        this.ringAt = byAddress ? ring.writableAt() : 0;
        this.trailerAt = byAddress ? ringAt + capacity : 0;
        this.control = header.isQueue() ? channel.control() : null;
        restart(count);
        this.ownerPending = !foreignSubscriber && !returns; // which knows no owner records: 6.15; queue.md 8
    }

    /** Begins where the ring ends now; its slot's lock is ours. */
    final void restart(long newCount) {
        end = ring.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED); // ours: written under our lock
        cleared = end;
        nextBoundary = (end >> eighthShift) + 1 << eighthShift;
        nextDue = 0;
        fastEnd = 0;
        limit = 0;
        count = newCount;
    }

    /** n: what a payload of so many bytes takes in the ring; of a negative length: more than any ring holds. */
    final long size(int length) {
        return (length & UNSIGNED) + headerAndRounding & roundDown;
    }

    /** Where a record that begins at the end will end; of a negative length: further than any ring goes. */
    final long endAfter(int length) {
        return end + (length & UNSIGNED) + headerAndRounding & roundDown;
    }

    /**
     * Steps 1 to 4 where they take more than a comparison: the owner record, padding to the ring's end, a new limit.
     *
     * @param batch true: steps 1 and 2 only; a batch announces all of its records at once.
     * @return false: back-pressured.
     */
    final boolean reserve(int length, boolean batch) {
        payload.busy();
        try {
            while (true) {
                final byte[] owner = ownerPending ? name : null;
                final int size = (int) size(owner == null ? length : Layout.OWNER_RECORD_NAME + owner.length);
                final int rest = capacity - ((int) end & mask);
                if (size > rest) { // 1: pad
                    if (end + rest + Layout.RECORD_HEADER_LENGTH > limit
                        && !room.make(this, end + rest + Layout.RECORD_HEADER_LENGTH)) {
                        return false;
                    }
                    announce(rest);
                    setType(Layout.TYPE_PADDING);
                    commitAndAdvance(rest, end + rest, count);
                    doDue(rest);
                }
                if (end + size + Layout.RECORD_HEADER_LENGTH > limit
                    && !room.make(this, end + size + Layout.RECORD_HEADER_LENGTH)) { // 2
                    return false;
                }
                if (owner == null) {
                    if (!batch) {
                        announce(size); // 3 and 4
                    }
                    return true;
                }
                announce(size);
                final int index = ((int) end & mask) + Layout.RECORD_PAYLOAD;
                ring.putLong(index + Layout.OWNER_RECORD_EPOCH, epoch);
                ring.putInt(index + Layout.OWNER_RECORD_NAME_LENGTH, owner.length);
                ring.putBytes(index + Layout.OWNER_RECORD_NAME, owner, 0, owner.length);
                setType(Layout.TYPE_OWNER);
                commitAndAdvance(Layout.OWNER_RECORD_NAME + owner.length + Layout.RECORD_HEADER_LENGTH, end + size,
                    count);
                ownerPending = false;
                doDue(size);
            }
        } finally {
            payload.invalidate();
        }
    }

    /** Whether a record that ends there is a long one which needs neither padding nor a new limit. */
    final boolean fitsLong(long next) {
        final long size = next - end;
        return next <= limit - Layout.RECORD_HEADER_LENGTH && ((end ^ next - 1) & -capacity) == 0
            && size > longestAhead && next > cleared && size - Layout.RECORD_HEADER_LENGTH <= maxLength
            && !ownerPending && ringAt != 0;
    }

    /** Steps 3 and 4 of such a record, for which nothing is cleared ahead; always true. */
    final boolean announceLong(long next) {
        // 3; release: behind step 7 of the record in front; pairs with: lossy 2 to 4
        Raw.putLongRelease(Raw.base(ringAt + capacity) + Layout.TRAILER_CLAIMED, next);
        VarHandle.releaseFence(); // 3: before any byte changes; pairs with: lossy's acquire fence
        Raw.putIntOpaque(Raw.base(ringAt + (next & mask)), 0); // 4: before step 6 of this record
        Reference.reachabilityFence(ring);
        cleared = next;
        fastEnd = next;
        nextDue = nextBoundary;
        return true;
    }

    /** Steps 3 and 4, if they are due, for a record of so many bytes at the end. */
    final void announce(int size) {
        if (end + size > cleared) {
            clear(end + size, end + size + (size <= longestAhead ? window : 0));
            setShortcuts();
        }
    }

    /**
     * The stores of steps 3 and 4, or of 9: from {@code first} up to {@code to}, or as far as is allowed. By address
     * unrolled: the stores miss the cache, and misses of one burst overlap. Long on purpose, as said above: inlined, it
     * makes a publishing loop so large that HotSpot 17 no longer inlines that into its caller.
     */
    private void clear(long first, long to) {
        final long lapEnd = (end | mask) + 1;
        final long q = Math.min(Math.min(to, lapEnd), limit - Layout.RECORD_HEADER_LENGTH & roundDown);
        if (q <= cleared) {
            return;
        }
        // 3; release: behind step 7 of the record in front; pairs with: lossy 2 to 4
        ring.putLongRelease(capacity + Layout.TRAILER_CLAIMED, q);
        VarHandle.releaseFence(); // 3: before any byte changes; pairs with: lossy's acquire fence
        final int unit = alignment;
        final long from = Math.max(first, cleared + unit);
        if (ringAt == 0) {
            for (long place = from; place <= q; place += unit) {
                ring.putIntOpaque((int) place & mask, 0); // 4: before step 6 of the record in front
            }
        } else if (from <= q) {
            final boolean lapEnds = (q & mask) == 0;
            long at = Raw.base(ringAt + (from & mask));
            long left = q - from - (lapEnds ? unit : 0);
            for (; left >= 15L * unit; left -= 16L * unit) {
                Raw.putIntOpaque(at, 0); // 4: before step 6 of the record in front; and so are all of these
                Raw.putIntOpaque(at + unit, 0);
                Raw.putIntOpaque(at + 2L * unit, 0);
                Raw.putIntOpaque(at + 3L * unit, 0);
                Raw.putIntOpaque(at + 4L * unit, 0);
                Raw.putIntOpaque(at + 5L * unit, 0);
                Raw.putIntOpaque(at + 6L * unit, 0);
                Raw.putIntOpaque(at + 7L * unit, 0);
                Raw.putIntOpaque(at + 8L * unit, 0);
                Raw.putIntOpaque(at + 9L * unit, 0);
                Raw.putIntOpaque(at + 10L * unit, 0);
                Raw.putIntOpaque(at + 11L * unit, 0);
                Raw.putIntOpaque(at + 12L * unit, 0);
                Raw.putIntOpaque(at + 13L * unit, 0);
                Raw.putIntOpaque(at + 14L * unit, 0);
                Raw.putIntOpaque(at + 15L * unit, 0);
                at += 16L * unit;
            }
            for (; left >= 0; left -= unit) {
                Raw.putIntOpaque(at, 0);
                at += unit;
            }
            if (lapEnds) { // the next lap's first length
                Raw.putIntOpaque(ringAt, 0);
            }
            Reference.reachabilityFence(ring);
        }
        cleared = q; // last: an Error in front of this changes nothing that a reader sees
    }

    /** Step 5: the type of the record at the end. */
    final void setType(int type) {
        if (ringAt != 0) {
            Raw.putInt(Raw.base(ringAt + ((int) end & mask)) + Layout.RECORD_TYPE, type);
            Reference.reachabilityFence(ring);
        } else {
            ring.putInt(((int) end & mask) + Layout.RECORD_TYPE, type);
        }
    }

    /** Steps 6 and 7 of the record at the end: its length with the 8 bytes of its header, the new end and count. */
    final void commitAndAdvance(int length, long newEnd, long newCount) {
        if (trailerAt != 0) {
            commitAndAdvance(ringAt + ((int) end & mask), trailerAt, length, newEnd, newCount);
        } else {
            ring.putIntRelease((int) end & mask, length); // 6 and 7, as below
            ring.putLongRelease(capacity + Layout.TRAILER_MESSAGES_BEGUN, newCount);
            ring.putLongRelease(capacity + Layout.TRAILER_PUBLISHED, newEnd);
            ring.putLongRelease(capacity + Layout.TRAILER_MESSAGES_DONE, newCount);
            end = newEnd;
            count = newCount;
        }
    }

    /** The same by address. */
    final void commitAndAdvance(long record, long trailer, int length, long newEnd, long newCount) {
        commit(Raw.base(record), length);
        advance(Raw.base(trailer), newEnd, newCount);
        Reference.reachabilityFence(ring);
        end = newEnd;
        count = newCount;
    }

    private static void commit(long record, int length) {
        Raw.putIntRelease(record, length); // 6; pairs with: poll 1, lossy 1
    }

    private static void advance(long trailer, long newEnd, long newCount) {
        // 7; release: behind step 6; pairs with: consistent count
        Raw.putLongRelease(trailer + Layout.TRAILER_MESSAGES_BEGUN, newCount);
        Raw.putLongRelease(trailer + Layout.TRAILER_PUBLISHED, newEnd); // 7; pairs with: join 2, 4; consistent count
        Raw.putLongRelease(trailer + Layout.TRAILER_MESSAGES_DONE, newCount); // 7; pairs with: consistent count
    }

    /** Step 10: whether somebody waits for this ring's messages, or may. Behind the stores of steps 6 and 7. */
    final boolean isAwaited() {
        final boolean awaited = Raw.AVAILABLE
            ? ((Raw.getIntOpaque(Raw.base(watchedAt)) | Raw.getIntOpaque(Raw.base(jobsWatchedAt))) & watchedBits) != 0
            : waker.isAwaited(watchedBits);
        Reference.reachabilityFence(waker);
        return awaited;
    }

    /** Steps 8 and 9, those that are due after a record of so many bytes. */
    final void doDue(long size) {
        final boolean idle = payload.state() == Window.CLOSED;
        payload.busy();
        if (end >= nextBoundary) {
            noteBoundary();
        }
        clearAhead(size);
        setShortcuts();
        if (idle) {
            payload.invalidate();
        }
    }

    /**
     * Step 8: the first record boundary of an eighth; with a foreign subscriber none of the first eighth. Agrona's
     * reader looks for a record's length where that one stands (6.15).
     */
    private void noteBoundary() {
        final int eighth = (int) (end >> eighthShift) & Layout.BOUNDARIES - 1;
        if (eighth != 0 || !foreignSubscriber) {
            final int at = capacity + Layout.TRAILER_BOUNDARY + eighth * Layout.TRAILER_BOUNDARY_STRIDE;
            ring.putLongOpaque(at, Layout.NOT_GATING);
            VarHandle.releaseFence(); // 8; pairs with: start at what is still there
            ring.putLongOpaque(at + Layout.TRAILER_BOUNDARY_COUNT, count);
            ring.putLongRelease(at, end); // 8; pairs with: start at what is still there
        }
        nextBoundary = (end >> eighthShift) + 1 << eighthShift;
    }

    /** Step 9. */
    private void clearAhead(long size) {
        if (cleared - end < halfWindow && size <= longestAhead) {
            clear(end, end + window);
        }
    }

    private void setShortcuts() {
        fastEnd = ownerPending || ringAt == 0 ? 0 : cleared;
        nextDue = Math.min(nextBoundary, cleared - halfWindow + 1);
    }

    /**
     * 6.3: publishes messages, as many as fit before the ring's end, a quarter of it, and the limit. The first one has
     * been reserved; returns how many were published, 1 at least.
     *
     * @param first bytes that the first one takes in the ring.
     */
    final int publishBatch(DirectBuffer[] messages, int from, int number, int type, int first) {
        int index = (int) end & mask;
        int most = Math.min(capacity - index, capacity / Layout.MAX_MESSAGE_DIVISOR);
        int total = first;
        int taken = 1;
        for (boolean looked = false;;) {
            while (taken < number) {
                long more = total + size(messages[from + taken].capacity());
                if (more > most) {
                    break;
                }
                total = (int) more;
                taken++;
            }
            if (looked || end + total + Layout.RECORD_HEADER_LENGTH <= limit) {
                break;
            }
            room.make(this, end + total + Layout.RECORD_HEADER_LENGTH, end + first + Layout.RECORD_HEADER_LENGTH);
            looked = true;
            most = (int) Math.min(most, limit - Layout.RECORD_HEADER_LENGTH - end); // at least the first one
            total = first;
            taken = 1;
        }
        announce(total);
        int at = index + first;
        int length;
        try {
            for (int i = 1; i < taken; i++) {
                DirectBuffer message = messages[from + i];
                length = message.capacity(); // once
                final long size = size(length); // of a negative one: more than any ring holds
                if (size > index + total - at) {
                    throw changed();
                }
                ring.putInt(at, length + Layout.RECORD_HEADER_LENGTH);
                ring.putInt(at + Layout.RECORD_TYPE, type);
                Copy.from(message, 0, ring, at + Layout.RECORD_PAYLOAD, length);
                at += (int) size;
            }
            length = messages[from].capacity();
            if (at != index + total || size(length) != first) {
                throw changed();
            }
            Copy.from(messages[from], 0, ring, index + Layout.RECORD_PAYLOAD, length);
        } catch (RuntimeException e) {
            setType(Layout.TYPE_PADDING);
            commitAndAdvance(total, end + total, count);
            doDue(total);
            throw e;
        }
        setType(type);
        commitAndAdvance(length + Layout.RECORD_HEADER_LENGTH, end + total, count + taken);
        payload.invalidate();
        doDue(total);
        return taken;
    }

    private static InvalidArgumentException changed() {
        return new InvalidArgumentException("messages", "A message of the batch has another length than before. Do not"
            + " change messages while they are published.");
    }

    /** 6.2, 1 and 2: the limit that the gates allow now. What was granted stays good. */
    final void recompute() {
        VarHandle.fullFence(); // 6.2, 1; pairs with: join 3
        if (control != null) {
            recomputeQueue();
            return;
        }
        long allowed = end + capacity;
        for (int slot = firstSlot; slot < endOfSlots; slot++) {
            final long gate = gate(slot);
            if (gate >= 0 && gate < allowed - lag) { // so written, the sum cannot overflow
                allowed = gate + lag;
            }
            if (foreignSubscriber) { // 6.15: for an Agrona writer that may have the ring later
                ring.putLongOpaque(capacity + Layout.TRAILER_HEAD_CACHE, gate);
            }
        }
        limit = Math.min(Math.max(limit, allowed), LAST_LIMIT);
    }

    /** The same for a queue (queue.md 4). Jobs that change hands all the time leave the limit where it is. */
    private void recomputeQueue() {
        for (int i = 0; i < HANDOVER_TRIES; i++) {
            final long handovers = handovers(); // 2a
            long allowed = end + capacity;
            for (int slot = firstSlot; slot < endOfSlots; slot++) { // 2b: gate[0] first
                final long gate = gate(slot); // pairs with: take 3, done 5, adopt 5
                if (gate >= 0 && gate < allowed - capacity) {
                    allowed = gate + capacity;
                }
            }
            if (handovers() == handovers) { // 2c
                limit = Math.min(Math.max(limit, allowed), LAST_LIMIT);
                return;
            }
        }
    }

    /** How many jobs of a queue have changed hands. */
    final long handovers() {
        return control.getLongAcquire(Layout.CONTROL_HANDOVERS); // pairs with: adopt 5
    }

    /** Nothing can be published any more, whatever the file says. */
    final void stop() {
        fastEnd = 0;
        limit = 0;
    }

    final long gate(int slot) {
        final int at = gatesAt >= 0 ? gatesAt : capacity + Header.gate(slot);
        return ring.getLongAcquire(at); // pairs with: poll 4, join 2 and 4, leave
    }

    /** Whether a slot that gates has not read all that was published. */
    final boolean isBehind(int slot) {
        final long gate = gate(slot);
        return gate >= 0 && gate < end;
    }

    /** Whether no gate stands in the way of what ends at {@code needed}, its 8 bytes behind it included. */
    final boolean gatesAllow(long needed) {
        for (int slot = firstSlot; slot < endOfSlots; slot++) {
            if (holdsBack(slot, needed)) {
                return false;
            }
        }
        return true;
    }

    /** Whether a slot's gate leaves no room below {@code needed}. */
    final boolean holdsBack(int slot, long needed) {
        final long gate = gate(slot);
        return gate >= 0 && gate < needed - lag;
    }
}
