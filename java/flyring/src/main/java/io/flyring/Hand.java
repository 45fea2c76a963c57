// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;

/**
 * The jobs that a worker has in hand: those of one take. The worker's gate is the start of the present one (queue.md
 * 3).
 */
final class Hand {
    private final Identity identity;
    private final Memory control;
    /** The offset of the slot's busy_since. */
    private final int busyAt;
    private final int longest;
    private final int alignment;
    private boolean holds;
    /** The ring of the jobs in hand; if there are none, the ring of the last ones. */
    private JobRing ring;
    /** The start of the present job, its end (known once the job is prepared), and the end of the batch. */
    private long position;
    private long jobEnd;
    private long end;
    /** The size of the last job that the hot path prepared. */
    private long stride;
    /** The attempts stored beside the gate, and their value at the start of the batch. */
    private int attempts;
    private int firstAttempts;
    /** Whether the jobs were adopted: their bytes may be overwritten, so each is copied. */
    private boolean copied;
    /** Whether the present job was handed out and is neither done nor released; if so, it is handed out again. */
    private boolean out;
    /** Whether the take has read length and type of the next job already. */
    private boolean known;
    /** Whether the hot path can prepare the next job: in place, not the first of its batch, not released before. */
    private boolean plain;
    /** The copy of an adopted job; allocated when needed. */
    private Memory copy = Memory.EMPTY;
    private PayloadBuffer copyPayload;

    Hand(Channel channel, int slot) {
        this.identity = channel.identity();
        this.control = channel.control();
        this.busyAt = channel.header().subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_BUSY_SINCE;
        this.longest = channel.header().capacity / Layout.MAX_MESSAGE_DIVISOR;
        this.alignment = channel.header().alignment;
    }

    boolean holds() {
        return holds;
    }

    /** Whether the job that was handed out could not be released, and so is handed out again. */
    boolean stayed() {
        return holds && out;
    }

    /** Takes jobs into the hand, after take 3. */
    void took(JobRing of, long to, long now) {
        set(of, of.from(), to, 0);
        copied = false;
        known = true;
        control.putLongOpaque(busyAt, identity.monotonicAt(now));
    }

    /** Takes adopted jobs into the hand, after adopt 5. */
    void adopted(JobRing of, long from, long to, int times) {
        set(of, from, to, times);
        copied = true;
        known = false;
        control.putLongOpaque(busyAt, identity.monotonicNow());
    }

    /** Takes the jobs that a close finds at the own gate into the hand (queue.md 7). */
    void found(JobRing of, long from, long to, int times) {
        set(of, from, to, times);
        copied = false;
        known = false;
    }

    private void set(JobRing of, long from, long to, int times) {
        position = from;
        end = to;
        attempts = times;
        firstAttempts = times;
        out = false;
        plain = false;
        if (ring != of) { // comparing costs less than storing a reference
            ring = of;
        }
        holds = true;
    }

    /** Drops what is in hand, without a store: the jobs belong to another worker. */
    void drop() {
        holds = false;
        plain = false;
        out = false;
    }

    /** The hot path of {@link #prepare}, for a job inside a batch. False: call {@link #prepare} instead. */
    boolean prepareNext(Job job) {
        if (!plain || out) {
            return false;
        }
        final JobRing of = ring;
        final long p = position;
        final int length = of.lengthAt(p);
        final int type = of.typeAt(p);
        final long size = of.sizeOf(length);
        long next = p + stride;
        if (size != stride) { // if equal, the next job can be fetched before this length is loaded
            stride = size;
            next = p + size;
        }
        if (!of.isJob(p, length, type) || next > end) {
            return false;
        }
        jobEnd = next;
        out = true;
        job.next(of.payload, of.payloadAt(p), length - Layout.RECORD_HEADER_LENGTH, type, p);
        return true;
    }

    /** Prepares the next job to be handed out; false if the adopted jobs were done already, and nothing is in hand. */
    boolean prepare(Job job) {
        plain = false;
        if (out) {
            attempts = Adoption.moreAttempts(attempts, 1);
            ring.storeAttempts(attempts); // queue.md 8: before the job is handed out again
        }
        out = true;
        if (copied) {
            return prepareCopy(job);
        }
        final JobRing of = ring;
        final long p = position;
        final boolean first = known;
        known = false;
        final int length = first ? of.firstLength() : of.lengthAt(p);
        final int type = first ? of.firstType() : of.typeAt(p);
        if (!first && (!of.isJob(p, length, type) || p + of.sizeOf(length) > end)) {
            throw damaged("the record of a job in hand was overwritten with something that is no job");
        }
        jobEnd = p + of.sizeOf(length);
        if (of.returns) {
            setReleased(job, of.word(p, Layout.RELEASED_ORIGIN_RING), of.word(p, Layout.RELEASED_ATTEMPTS),
                of.longWord(p, Layout.RELEASED_ORIGIN_POSITION));
            job.set(of.payload, of.payloadAt(p) + Layout.RELEASED_LENGTH,
                length - Layout.RECORD_HEADER_LENGTH - Layout.RELEASED_LENGTH, type);
        } else {
            job.origin(of.ring, p, attempts, false);
            job.set(of.payload, of.payloadAt(p), length - Layout.RECORD_HEADER_LENGTH, type);
        }
        return true;
    }

    /** Prepares an adopted job: adopt 7. */
    private boolean prepareCopy(Job job) {
        final long p = position;
        final int length = ring.lengthAt(p);
        final int type = ring.typeAt(p);
        final boolean good = ring.isJob(p, length, type) && p + ring.sizeOf(length) <= end && length <= longest;
        if (good) {
            copyBytes(ring.payloadIndex(p), length - Layout.RECORD_HEADER_LENGTH);
        }
        if (ring.lapped(p)) { // the job was done, and another worker has, or had, those behind it
            giveUp();
            return false;
        }
        if (!good) {
            throw damaged("the record of a job that was taken over was overwritten with something that is no job");
        }
        jobEnd = p + ring.sizeOf(length);
        setCopied(job, length - Layout.RECORD_HEADER_LENGTH, type);
        return true;
    }

    /** Whether the bytes of the job in hand, if it lies in place, may be of a later lap. */
    boolean lapped() {
        return !copied && ring.lapped(position);
    }

    private void setCopied(Job job, int length, int type) {
        int skipped = 0;
        if (ring.returns) {
            setReleased(job, copy.getInt(Layout.RELEASED_ORIGIN_RING), copy.getInt(Layout.RELEASED_ATTEMPTS),
                copy.getLong(Layout.RELEASED_ORIGIN_POSITION));
            skipped = Layout.RELEASED_LENGTH;
        } else {
            job.origin(ring.ring, position, attempts, false);
        }
        job.set(copyPayload, copy.address() + skipped, length - skipped, type);
    }

    private void copyBytes(int from, int length) {
        if (copy.capacity() < length || copyPayload == null) {
            ByteBuffer bytes = ByteBuffer.allocateDirect(Math.max(length, Long.BYTES));
            copyPayload = new PayloadBuffer(Memory.of(bytes.asReadOnlyBuffer()));
            copy = Memory.of(bytes);
        }
        copy.putBytes(0, ring.data(), from, length);
    }

    private void setReleased(Job job, int firstRing, int before, long firstPosition) {
        if (firstRing < 0 || firstRing >= ring.ring || !Recovery.isPosition(firstPosition, alignment)) {
            throw damaged("a released job's origin is none");
        }
        job.origin(firstRing, firstPosition, Adoption.moreAttempts(Math.max(before, 1), attempts), true);
    }

    /** Gives up a batch with a record that is not valid: the jobs behind it cannot be found. */
    private CorruptRingException damaged(String reason) {
        giveUp();
        return ring.corrupt(position, reason);
    }

    private void giveUp() {
        drop();
        ring.storeGate(Layout.NOT_GATING);
        control.putLongOpaque(busyAt, 0);
        ring.wakeRoom();
    }

    /** Moves the gate to the batch's next job, or clears it: done 5, after the epoch was compared. */
    void finish() {
        final JobRing of = ring;
        final long next = jobEnd;
        out = false;
        if (plain && next < end) {
            position = next;
            of.storeGate(next);
            of.wakeRoom();
            return;
        }
        if (next >= end) {
            drop();
            of.storeGate(Layout.NOT_GATING);
            control.putLongOpaque(busyAt, 0);
        } else {
            position = next;
            plain = !copied && !of.returns && attempts == firstAttempts;
            if (attempts != firstAttempts) {
                attempts = firstAttempts;
                of.storeAttempts(attempts); // queue.md 8: the number was the last job's
            }
            of.storeGate(position);
        }
        of.wakeRoom();
    }
}
