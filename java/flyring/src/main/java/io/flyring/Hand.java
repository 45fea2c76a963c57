// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;

/** What a worker has in hand: the jobs of one take, of which its gate announces the first (queue.md 3). */
final class Hand {
    private final Slots slots;
    private final Identity identity;
    private final int slot;
    private final int longest;
    /** Null: nothing is in hand. */
    private JobRing ring;
    /** The job whose start the gate is; where it ends, once it was looked at; and the end of the batch. */
    private long position;
    private long jobEnd;
    private long end;
    /** What stands beside the gate; the same at the beginning of the batch. */
    private int attempts;
    private int firstAttempts;
    /** Whether it was adopted: its bytes may change. */
    private boolean copied;
    /** Whether the job was handed out, was not released for want of room, and comes again. */
    private boolean stayed;
    /** For the jobs of others; made when it is needed. */
    private Memory copy;
    private PayloadBuffer copyPayload;

    Hand(Channel channel, int slot) {
        this.slots = channel.slots();
        this.identity = channel.identity();
        this.slot = slot;
        this.longest = channel.header().capacity / Layout.MAX_MESSAGE_DIVISOR;
    }

    boolean holds() {
        return ring != null;
    }

    JobRing ring() {
        return ring;
    }

    boolean stayed() {
        return stayed;
    }

    /** Behind take 3. */
    void took(JobRing of, long from, long to, long now) {
        set(of, from, to, 0, false, now);
    }

    /** Behind adopt 5: jobs of another. */
    void adopted(JobRing of, long from, long to, int times) {
        set(of, from, to, times, true, System.nanoTime());
    }

    private void set(JobRing of, long from, long to, int times, boolean others, long now) {
        position = from;
        end = to;
        attempts = times;
        firstAttempts = times;
        copied = others;
        stayed = false;
        ring = of;
        slots.busySince(slot, identity.monotonicAt(now));
    }

    /** The job was not released: it comes again. */
    void stay() {
        stayed = true;
    }

    /** For a close: it is not handed out once more. */
    void forgetStay() {
        stayed = false;
    }

    /** Nothing is in hand, whatever the file says: it is another's by now. */
    void drop() {
        ring = null;
    }

    /** The next job, to be handed out; false: there was none any more, and nothing is in hand. */
    boolean prepare(Job job) {
        if (stayed) {
            stayed = false;
            attempts = Adoption.moreAttempts(attempts, 1);
            ring.storeAttempts(attempts); // release: before it is handed out again
        }
        if (copied) {
            return prepareCopy(job);
        }
        final long p = position;
        final int length = ring.lengthAt(p);
        final int type = ring.typeAt(p);
        if (type <= 0 || !ring.isGood(p, length, type) || p + ring.sizeOf(length) > end) {
            throw damaged("a job that was taken is none any more");
        }
        jobEnd = p + ring.sizeOf(length);
        if (ring.returns) {
            setReleased(job, ring.word(p, Layout.RELEASED_ORIGIN_RING), ring.word(p, Layout.RELEASED_ATTEMPTS),
                ring.longWord(p, Layout.RELEASED_ORIGIN_POSITION));
            job.set(ring.payload, ring.payloadAt(p) + Layout.RELEASED_LENGTH,
                length - Layout.RECORD_HEADER_LENGTH - Layout.RELEASED_LENGTH, type);
        } else {
            job.origin(ring.ring, p, attempts, false);
            job.set(ring.payload, ring.payloadAt(p), length - Layout.RECORD_HEADER_LENGTH, type);
        }
        return true;
    }

    /** Adopt 7. */
    private boolean prepareCopy(Job job) {
        while (position < end) {
            final long p = position;
            final int length = ring.lengthAt(p);
            final int type = ring.typeAt(p);
            final boolean good = ring.isGood(p, length, type) && p + ring.sizeOf(length) <= end
                && (type <= 0 || length <= longest);
            if (good && type > 0) {
                copyBytes(ring.payloadIndex(p), length - Layout.RECORD_HEADER_LENGTH);
            }
            if (ring.lapped(p)) {
                break; // it was done; who passed it has, or had, the jobs behind it
            }
            if (!good) {
                throw damaged("a job that was taken over is none any more");
            }
            jobEnd = p + ring.sizeOf(length);
            if (type > 0) {
                setCopied(job, length - Layout.RECORD_HEADER_LENGTH, type);
                return true;
            }
            position = jobEnd; // padding, in a batch of an older version
        }
        giveUp();
        return false;
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
        if (copy == null) {
            ByteBuffer bytes = ByteBuffer.allocateDirect(longest);
            copy = Memory.of(bytes);
            copyPayload = new PayloadBuffer(Memory.of(bytes.asReadOnlyBuffer()));
        }
        copy.putBytes(0, ring.data(), from, length);
    }

    private void setReleased(Job job, int firstRing, int before, long firstPosition) {
        if (firstRing < 0 || firstRing >= ring.ring || firstPosition < 0) {
            throw damaged("a released job's origin is none");
        }
        job.origin(firstRing, firstPosition, Adoption.moreAttempts(Math.max(before, 1), attempts), true);
    }

    /** A batch of which one record is none: nobody can find the jobs behind it. */
    private CorruptRingException damaged(String reason) {
        JobRing of = ring;
        giveUp();
        return of.corrupt(position, reason);
    }

    private void giveUp() {
        JobRing of = ring;
        ring = null;
        of.storeGate(Layout.NOT_GATING);
        slots.busySince(slot, 0);
        of.wakeRoom();
    }

    /** Done 5, behind the comparison: on to the batch's next job. */
    void finish() {
        final JobRing of = ring;
        stayed = false;
        if (jobEnd >= end) {
            ring = null;
            of.storeGate(Layout.NOT_GATING);
            slots.busySince(slot, 0);
        } else {
            position = jobEnd;
            if (attempts != firstAttempts) {
                attempts = firstAttempts;
                of.storeAttempts(attempts); // release: the number was the last job's
            }
            of.storeGate(position);
        }
        of.wakeRoom();
    }
}
