// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import org.agrona.DirectBuffer;

/**
 * Writes one ring, in the steps of channel.md 6.1 to 6.3. {@link Publisher} adds checks, offers and claims. It extends
 * this class instead of holding an object of it, which would cost each step one more load.
 *
 * <p>HotSpot inlines no method of more than 325 bytecodes, however often it is called. Methods that are seldom called
 * are longer than that on purpose, so that their callers stay small.
 */
abstract class RingWriter {
    /** How often the gates are read again because a job changed hands meanwhile (queue.md 4). */
    static final int HANDOVER_TRIES = 3;
    private static final long UNSIGNED = 0xffff_ffffL;
    /** The largest limit: published records stay below the last position. */
    private static final long LAST_LIMIT = Layout.MAX_POSITION - 1 + Layout.RECORD_HEADER_LENGTH;

    /** The ring's data, followed by its trailer. */
    final Memory ring;
    /** The addresses of data and trailer, if these can be written by address; else both are 0. */
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
    /**
     * The range of slots with gates that hold this writer back; and of a service the offset of the one gate, else -1.
     */
    private final int firstSlot;
    private final int endOfSlots;
    private final int gatesAt;
    /** How far this publisher may be ahead of a gate, in bytes: the capacity, or the lag limit (6.2, 2). */
    final int lag;
    private final boolean foreignSubscriber;
    /** Of a queue the control section, which counts handovers; else null. */
    private final Memory control;
    /** Makes room when the limit is reached (6.2). */
    final Room room;
    /** The payload of the open claim; its state is busy while a record is written in another way. */
    final PayloadBuffer payload;
    /** The address of the payload of a record at offset 0. */
    final long payloadsAt;
    /** For step 10: what wakes readers, this ring's bit, and the address of {@code asleep}, for reads by address. */
    final Waker waker;
    final int wakerBit;
    private final long watchedAt;
    /**
     * The address of the workers' {@code asleep}, for kinds other than queue the same one; and the bits to test in
     * both.
     */
    private final long jobsWatchedAt;
    private final int watchedBits;
    /** The content of the owner record (5.2, 5). */
    final long epoch;
    private final byte[] name;

    /** t: the end of what this publisher has published. */
    long end;
    /** Up to here, every place where a record may start holds length 0 or a committed record. */
    private long cleared;
    /** A record and the 8 bytes behind it must end at or below this position. */
    long limit;
    /** The number of messages published. */
    long count;
    /** The error that ended this object in the middle of a publication; null if there was none. */
    Throwable failure;
    /** Whether an owner record must be published before the next record. */
    private boolean ownerPending;
    /**
     * A record that ends at or below this position needs only steps 5 to 7, and 8 and 9 if due; 0 disables the fast
     * path.
     */
    long fastEnd;
    /** When the end reaches this position, step 8 or 9 is due. */
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
        this.window = returns ? 0 : header.window(); // else each release would have to recover the one before
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
        this.ownerPending = !foreignSubscriber && !returns; // these rings have no owner records (6.15; queue.md 8)
    }

    /** Starts at the ring's present end; the caller holds the slot's lock. */
    final void restart(long newCount) {
        end = ring.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED); // written under the lock that the caller holds
        cleared = end;
        nextBoundary = (end >> eighthShift) + 1 << eighthShift;
        nextDue = 0;
        fastEnd = 0;
        limit = 0;
        count = newCount;
    }

    /** n: the bytes that a payload of this length takes in the ring; for a negative length more than any ring holds. */
    final long size(int length) {
        return (length & UNSIGNED) + headerAndRounding & roundDown;
    }

    /** The end of a record with this payload length that begins at t; for a negative length beyond any ring. */
    final long endAfter(int length) {
        return end + (length & UNSIGNED) + headerAndRounding & roundDown;
    }

    /**
     * Reserves space by steps 1 to 4, where the fast path fails: publishes the owner record and padding, and makes
     * room.
     *
     * @param batch true for steps 1 and 2 only: a batch announces all of its records at once.
     * @return false if back-pressured.
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

    /** Whether the record from t to {@code next} is a long one that needs neither padding nor a new limit. */
    final boolean fitsLong(long next) {
        final long size = next - end;
        return next <= limit - Layout.RECORD_HEADER_LENGTH && ((end ^ next - 1) & -capacity) == 0
            && size > longestAhead && next > cleared && size - Layout.RECORD_HEADER_LENGTH <= maxLength
            && !ownerPending && ringAt != 0;
    }

    /** Announces such a record by steps 3 and 4, without clearing ahead; always returns true. */
    final boolean announceLong(long next) {
        // 3; release: after step 7 of the previous record; pairs with: lossy 2 to 4
        Raw.putLongRelease(Raw.base(ringAt + capacity) + Layout.TRAILER_CLAIMED, next);
        VarHandle.releaseFence(); // 3: before any byte changes; pairs with: lossy's acquire fence
        Raw.putIntOpaque(Raw.base(ringAt + (next & mask)), 0); // 4: before step 6 of this record
        Reference.reachabilityFence(ring);
        cleared = next;
        fastEnd = next;
        nextDue = nextBoundary;
        return true;
    }

    /** Announces a record of {@code size} bytes at t by steps 3 and 4, if they are due. */
    final void announce(int size) {
        if (end + size > cleared) {
            clear(end + size, end + size + (size <= longestAhead ? window : 0));
            setShortcuts();
        }
    }

    /**
     * Makes the stores of steps 3 and 4, or of 9: from {@code first} up to {@code to}, or as far as allowed. The loop
     * by address is unrolled: the stores miss the cache, and the misses of one burst overlap. The method is long on
     * purpose, as said above. If it were inlined, a publishing loop would be too large for HotSpot 17 to inline into
     * its caller.
     */
    private void clear(long first, long to) {
        final long lapEnd = (end | mask) + 1;
        final long q = Math.min(Math.min(to, lapEnd), limit - Layout.RECORD_HEADER_LENGTH & roundDown);
        if (q <= cleared) {
            return;
        }
        // 3; release: after step 7 of the previous record; pairs with: lossy 2 to 4
        ring.putLongRelease(capacity + Layout.TRAILER_CLAIMED, q);
        VarHandle.releaseFence(); // 3: before any byte changes; pairs with: lossy's acquire fence
        final int unit = alignment;
        final long from = Math.max(first, cleared + unit);
        if (ringAt == 0) {
            for (long place = from; place <= q; place += unit) {
                ring.putIntOpaque((int) place & mask, 0); // 4: before step 6 of the record before the place
            }
        } else if (from <= q) {
            final boolean lapEnds = (q & mask) == 0;
            long at = Raw.base(ringAt + (from & mask));
            long left = q - from - (lapEnds ? unit : 0);
            for (; left >= 15L * unit; left -= 16L * unit) {
                Raw.putIntOpaque(at, 0); // 4: before step 6 of the record before the place, as all of these
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
        cleared = q; // last: an Error before this changes nothing that a reader sees
    }

    /** Sets the type of the record at t: step 5. */
    final void setType(int type) {
        if (ringAt != 0) {
            Raw.putInt(Raw.base(ringAt + ((int) end & mask)) + Layout.RECORD_TYPE, type);
            Reference.reachabilityFence(ring);
        } else {
            ring.putInt(((int) end & mask) + Layout.RECORD_TYPE, type);
        }
    }

    /** Commits the record at t and advances: steps 6 and 7. {@code length} includes the 8 bytes of the header. */
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

    /** Does the same by address. */
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
        // 7; release: after step 6; pairs with: consistent count
        Raw.putLongRelease(trailer + Layout.TRAILER_MESSAGES_BEGUN, newCount);
        Raw.putLongRelease(trailer + Layout.TRAILER_PUBLISHED, newEnd); // 7; pairs with: join 2, 4; consistent count
        Raw.putLongRelease(trailer + Layout.TRAILER_MESSAGES_DONE, newCount); // 7; pairs with: consistent count
    }

    /** Whether a reader may be asleep: the test of step 10. Called after the stores of steps 6 and 7. */
    final boolean isAwaited() {
        final boolean awaited = Raw.AVAILABLE
            ? ((Raw.getIntOpaque(Raw.base(watchedAt)) | Raw.getIntOpaque(Raw.base(jobsWatchedAt))) & watchedBits) != 0
            : waker.isAwaited(watchedBits);
        Reference.reachabilityFence(waker);
        return awaited;
    }

    /** Does steps 8 and 9, as far as they are due after a record of {@code size} bytes. */
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
     * Notes a boundary: step 8, the first record boundary of an eighth of the ring. With a foreign subscriber the first
     * eighth has none: there Agrona's reader may look for a record's length (6.15).
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

    /** Clears ahead, if little is cleared: step 9. */
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
     * Publishes a part of a batch (6.3): as many messages as fit before the ring's end, into a quarter of the capacity,
     * and below the limit. The first message is reserved already. Returns how many were published, at least 1.
     *
     * @param first bytes that the first message takes in the ring.
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
            most = (int) Math.min(most, limit - Layout.RECORD_HEADER_LENGTH - end); // at least the first message
            total = first;
            taken = 1;
        }
        announce(total);
        int at = index + first;
        int length;
        try {
            for (int i = 1; i < taken; i++) {
                DirectBuffer message = messages[from + i];
                length = message.capacity(); // read once
                final long size = size(length); // more than any ring holds if the length is negative
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

    /** Recomputes the limit from the gates (6.2, 1 and 2). The limit never goes back. */
    final void recompute() {
        VarHandle.fullFence(); // 6.2, 1; pairs with: join 3
        if (control != null) {
            recomputeQueue();
            return;
        }
        long allowed = end + capacity;
        for (int slot = firstSlot; slot < endOfSlots; slot++) {
            final long gate = gate(slot);
            if (gate >= 0 && gate < allowed - lag) { // in this form the sum cannot overflow
                allowed = gate + lag;
            }
            if (foreignSubscriber) { // 6.15: for an Agrona writer that may own the ring later
                ring.putLongOpaque(capacity + Layout.TRAILER_HEAD_CACHE, gate);
            }
        }
        limit = Math.min(Math.max(limit, allowed), LAST_LIMIT);
    }

    /** Does the same for a queue (queue.md 4). If jobs change hands during each try, the limit stays. */
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

    /** The number of jobs of a queue that have changed hands. */
    final long handovers() {
        return control.getLongAcquire(Layout.CONTROL_HANDOVERS); // pairs with: adopt 5
    }

    /** Makes further publishing impossible, whatever the file holds. */
    final void stop() {
        fastEnd = 0;
        limit = 0;
    }

    final long gate(int slot) {
        final int at = gatesAt >= 0 ? gatesAt : capacity + Header.gate(slot);
        return ring.getLongAcquire(at); // pairs with: poll 4, join 2 and 4, leave
    }

    /** Whether a gating slot has not read all that was published. */
    final boolean isBehind(int slot) {
        final long gate = gate(slot);
        return gate >= 0 && gate < end;
    }

    /** Whether all gates allow a limit of {@code needed}: a record's end plus 8 bytes. */
    final boolean gatesAllow(long needed) {
        for (int slot = firstSlot; slot < endOfSlots; slot++) {
            if (holdsBack(slot, needed)) {
                return false;
            }
        }
        return true;
    }

    /** Whether a slot's gate does not allow a limit of {@code needed}. */
    final boolean holdsBack(int slot, long needed) {
        final long gate = gate(slot);
        return gate >= 0 && gate < needed - lag;
    }
}
