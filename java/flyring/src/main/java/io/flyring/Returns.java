// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;

/** Writes a queue's returns ring, one release at a time (queue.md 8). Each worker has one. */
final class Returns extends RingWriter {
    private final Header header;
    private final Lock lock;
    private final int slot;
    private final long lockByte;
    private final Memory control;
    /** The offset of the worker's epoch, which must be {@code ownerEpoch} after a job is copied. */
    private final int epochAt;
    private long ownerEpoch;

    /**
     * Creates it for worker {@code me}, with that worker's lock: locks of one description do not exclude each other.
     */
    Returns(Channel channel, Memory ring, Waker waker, Lock lock, int me) {
        super(channel, ring, new Room(channel, channel.header().publishers - 1, lock, false), waker, 0, new byte[0], 0,
            0);
        this.header = channel.header();
        this.lock = lock;
        this.slot = header.publishers - 1;
        this.lockByte = header.controlOffset + header.publisherSlot(slot);
        this.control = channel.control();
        this.epochAt = header.subscriberSlot(me) + Layout.SUBSCRIBER_SLOT_EPOCH;
    }

    /** Sets the epoch of the worker. */
    void owner(long newEpoch) {
        ownerEpoch = newEpoch;
    }

    /**
     * Releases the job in {@code hand}: release 1 to 5, except the done at the end, which the caller adds. The caller
     * holds the monitor of the lock. Never waits.
     *
     * @return false if the job stays in hand, or the slot is lost.
     */
    boolean release(Job job, Hand hand) {
        if (!lock.tryLockIfPossible(lockByte)) { // release 1
            return false;
        }
        try {
            restart(Recovery.recover(ring, slot, header)); // release 2: what a dead owner left
            return hasRoom(job.length()) && copy(job, hand);
        } finally {
            lock.unlock(lockByte);
        }
    }

    /** Reserves room without waiting: release 2. Workers that would make room may be waiting for this one. */
    private boolean hasRoom(int length) {
        final int all = Layout.RELEASED_LENGTH + length;
        if (all > maxLength) {
            return false; // a hostile record, which no producer would publish
        }
        final long size = size(all);
        final int rest = capacity - ((int) end & mask);
        final long needed = end + size + (size > rest ? rest : 0) + Layout.RECORD_HEADER_LENGTH;
        if (needed > limit) {
            recompute();
        }
        return needed <= limit && reserve(all, false);
    }

    private boolean copy(Job job, Hand hand) {
        final int length = Layout.RELEASED_LENGTH + job.length();
        final int at = ((int) end & mask) + Layout.RECORD_PAYLOAD;
        ring.putInt(at + Layout.RELEASED_ORIGIN_RING, job.ring()); // release 3
        ring.putInt(at + Layout.RELEASED_ATTEMPTS, Adoption.moreAttempts(job.attempts(), 1));
        ring.putLong(at + Layout.RELEASED_ORIGIN_POSITION, job.position());
        ring.putBytes(at + Layout.RELEASED_LENGTH, job.payload().memory(), job.payload().base(), job.length());
        VarHandle.acquireFence(); // release 4; pairs with: evict, and publish 3 of the job's producer
        final boolean owned = control.getLongOpaque(epochAt) == ownerEpoch && !hand.lapped();
        final long next = endAfter(length);
        setType(owned ? job.type() : Layout.TYPE_PADDING);
        commitAndAdvance(length + Layout.RECORD_HEADER_LENGTH, next, owned ? count + 1 : count); // release 5
        if (next >= nextDue) {
            doDue(size(length));
        }
        return owned;
    }

    /** Wakes one worker and the readers, as a publish does. */
    void wake() {
        if (isAwaited()) {
            waker.wakeNow(wakerBit);
        }
    }
}
