// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;

/** The writer of a queue's returns ring, for as long as one release takes (queue.md 8). A worker owns it. */
final class Returns extends RingWriter {
    private final Header header;
    private final Lock lock;
    private final int slot;
    private final long lockByte;
    private final Memory control;
    /** The worker's, whose epoch must still be this one when a job was copied. */
    private final int epochAt;
    private long ownerEpoch;

    /** Through {@code lock}, that of worker {@code me}: locks of one description do not exclude each other. */
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

    /** The worker's slot has its new owner. */
    void owner(long newEpoch) {
        ownerEpoch = newEpoch;
    }

    /**
     * Release 1 to 5, but for the end: then the caller, who holds the lock's monitor, is done with the job, which
     * {@code hand} has. Never waits.
     *
     * @return false: it stays in hand, or the slot is lost.
     */
    boolean release(Job job, Hand hand) {
        if (!lock.tryLockIfPossible(lockByte)) { // release 1
            return false;
        }
        try {
            restart(Recovery.recover(ring, slot, header)); // release 2: what a dead one left
            return hasRoom(job.length()) && copy(job, hand);
        } finally {
            lock.unlock(lockByte);
        }
    }

    /** Release 2: those who would make room may be waiting for this worker. */
    private boolean hasRoom(int length) {
        final int all = Layout.RELEASED_LENGTH + length;
        if (all > maxLength) {
            return false; // a hostile record: a producer refuses it
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

    /** As a publish does. */
    void wake() {
        if (isAwaited()) {
            waker.wakeNow(wakerBit);
        }
    }
}
