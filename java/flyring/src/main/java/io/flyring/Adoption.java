// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.List;

/** Adopts jobs that dead or evicted workers left behind (queue.md 5), also for the slot's next owner (6). */
final class Adoption {
    private final Header header;
    private final Slots slots;
    private final Memory control;
    private final List<Memory> trailers;
    private final int me;
    private final Lock lock;

    /** Creates it for slot {@code me}; {@code lock} holds the slot's lock. */
    Adoption(Channel channel, int me, Lock lock) {
        this.header = channel.header();
        this.slots = channel.slots();
        this.control = channel.control();
        this.trailers = channel.trailers();
        this.me = me;
        this.lock = lock;
    }

    /** The sum of two numbers of attempts, without overflow: a hostile file may hold any number. */
    static int moreAttempts(int attempts, int more) {
        return (int) Math.min(Integer.MAX_VALUE, (long) Math.max(attempts, 0) + Math.max(more, 0));
    }

    /** Whether the jobs from a gate to its taken_end were taken, that is, gate[0] has passed them. */
    static boolean isTaken(Header header, long position, long end, long shared) {
        return Recovery.isPosition(position, header.alignment) && Recovery.isPosition(end, header.alignment)
            && position < end && end <= shared && end - position <= header.capacity / Layout.MAX_MESSAGE_DIVISOR;
    }

    private static long gate(Memory trailer, int slot) {
        return trailer.getLongAcquire(Header.gate(slot)); // adopt 2; pairs with: take 2, done 5, adopt 5
    }

    private static long takenEnd(Memory trailer, int slot) {
        return trailer.getLongAcquire(Header.gate(slot) + Layout.GATE_TAKEN_END); // adopt 2; pairs with: take 2
    }

    private static int attempts(Memory trailer, int slot) {
        return trailer.getIntOpaque(Header.gate(slot) + Layout.GATE_ATTEMPTS);
    }

    /** Adopts jobs of another worker into the hand; returns whether there were any. */
    boolean adopt(WorkerCore worker, JobRing[] rings, Hand hand) {
        synchronized (lock) { // keeps it open meanwhile
            return worker.mayAdopt() && adoptAny(worker, rings, hand);
        }
    }

    private boolean adoptAny(WorkerCore worker, JobRing[] rings, Hand hand) {
        for (int slot = header.firstSubscriber(); slot < header.subscribers; slot++) {
            if (slot == me || !slots.wasOwned(slot)) {
                continue;
            }
            for (int ring = 0; ring < rings.length; ring++) {
                if (gate(trailers.get(ring), slot) >= 0) {
                    if (!slots.evicting(slot) && slots.live(lock, slot)) {
                        break; // at most one of its gates is >= 0
                    }
                    if (adoptFrom(worker, slot, rings[ring], hand)) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    /** Adopts from one slot, under the control lock: adopt 1 to 6. */
    private boolean adoptFrom(WorkerCore worker, int it, JobRing ring, Hand hand) {
        if (!lock.tryLockControl(header)) { // adopt 1
            return false;
        }
        try {
            // Tested again, because the next owner may have come. Tested before gate[0] is loaded: an owner that took
            // the job and died in between would look as if it had never taken it.
            final boolean lives = slots.live(lock, it);
            return worker.owned() && (!lives || slots.evicting(it)) && adoptLocked(it, lives, ring, hand);
        } finally {
            lock.unlockControl(header);
        }
    }

    private boolean adoptLocked(int it, boolean lives, JobRing ring, Hand hand) {
        final Memory trailer = trailers.get(ring.ring);
        final long p = gate(trailer, it); // adopt 2
        final long e = takenEnd(trailer, it); // after the gate
        final long g = gate(trailer, 0); // pairs with: take 3
        if (p < 0 || lives && p >= g) { // adopt 3: a live owner may still take what it announced
            return false;
        }
        if (!isTaken(header, p, e, g)) { // adopt 4: never taken, so the job is still on the ring
            trailer.compareAndSetLong(Header.gate(it), p, Layout.NOT_GATING);
            ring.wakeRoom();
            return false;
        }
        final int times = moreAttempts(attempts(trailer, it), 1);
        ring.storeAttempts(times); // adopt 5, in this order: the adopter may die after each
        ring.storeTakenEnd(e);
        ring.storeGate(p);
        control.putLongRelease(Layout.CONTROL_HANDOVERS, // pairs with: room 2a, 2c, ended 1, 4
            control.getLongOpaque(Layout.CONTROL_HANDOVERS) + 1);
        if (!trailer.compareAndSetLong(Header.gate(it), p, Layout.NOT_GATING)) { // pairs with: room 2b
            ring.storeGate(Layout.NOT_GATING); // the owner has gone on to its next job, or has finished
            ring.wakeRoom();
            return false;
        }
        hand.adopted(ring, p, e, times);
        return true;
    }

    /** Adopts what the slot's new owner finds at its own gates, under the control lock (queue.md 6). */
    void inherit(JobRing[] rings, Hand hand) {
        for (JobRing ring : rings) {
            final Memory trailer = trailers.get(ring.ring);
            final long p = gate(trailer, me);
            if (p < 0) {
                continue;
            }
            final long e = takenEnd(trailer, me); // after the gate, as in adopt 2
            if (hand.holds() || !isTaken(header, p, e, gate(trailer, 0))) {
                ring.storeGate(Layout.NOT_GATING); // never taken
            } else {
                final int times = moreAttempts(attempts(trailer, me), 1);
                ring.storeAttempts(times);
                hand.adopted(ring, p, e, times);
            }
        }
    }

    /**
     * Releases the jobs that a close finds at the worker's own gates (queue.md 7). Reads the gates from the file,
     * because another thread may have finished a job just before; the worker's mappings are released by now. Jobs that
     * cannot be released stay, and another worker adopts them.
     */
    void giveBack(JobRing[] rings, Hand hand, Returns returns) {
        for (JobRing each : rings) {
            final Memory trailer = trailers.get(each.ring);
            final long p = gate(trailer, me);
            if (p < 0) {
                continue;
            }
            final long e = takenEnd(trailer, me);
            final JobRing ring = each.through(trailer);
            if (!isTaken(header, p, e, gate(trailer, 0))) {
                ring.storeGate(Layout.NOT_GATING); // never taken
                ring.wakeRoom();
                continue;
            }
            hand.found(ring, p, e, Math.max(0, attempts(trailer, me)));
            final Job job = new Job(null); // another thread may use the worker's job object
            while (hand.holds() && hand.prepare(job) && returns.release(job, hand)) {
                hand.finish();
                returns.wake();
            }
        }
    }

    /** The jobs that a worker has in hand; null if none. {@code trailers} are those of all rings. */
    static InHandStats inHand(Header header, Memory control, List<Memory> trailers, int slot) {
        for (int ring = 0; ring < header.publishers; ring++) {
            final Memory trailer = trailers.get(ring);
            final long p = gate(trailer, slot);
            final long e = takenEnd(trailer, slot);
            if (p >= 0 && isTaken(header, p, e, gate(trailer, 0))) {
                final long since = Math.max(0,
                    control.getLongOpaque(header.subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_BUSY_SINCE));
                return new InHandStats(ring, p, e, Math.max(0, attempts(trailer, slot)), since,
                    since > 0 ? Math.max(0, Identity.REAL.monotonicNow() - since) : 0);
            }
        }
        return null;
    }

    /** Whether the queue has ended: all producers have closed, all jobs were handed out, and none is in hand (9). */
    boolean ended() {
        final long handovers = control.getLongAcquire(Layout.CONTROL_HANDOVERS); // ended 1; pairs with: adopt 5
        boolean any = false;
        for (int ring = 0; ring < header.producers(); ring++) {
            if (slots.hadPublisher(ring)) {
                if (!slots.closed(ring)) { // ended 1; pairs with: close, behind its last record
                    return false;
                }
                any = true;
            }
        }
        if (!any) {
            return false;
        }
        long returned = 0;
        for (int ring = 0; ring < header.publishers; ring++) { // ended 2: the returns ring last
            final long shared = gate(trailers.get(ring), 0); // pairs with: take 3
            returned = published(ring);
            if (shared != returned) {
                return false;
            }
        }
        for (int slot = 1; slot < header.subscribers; slot++) { // ended 3: after 2
            for (Memory trailer : trailers) {
                if (gate(trailer, slot) >= 0) { // pairs with: done 5
                    return false;
                }
            }
        }
        // ended 4: a job that was released or changed hands meanwhile may have been missed
        return published(header.publishers - 1) == returned
            && control.getLongAcquire(Layout.CONTROL_HANDOVERS) == handovers;
    }

    private long published(int ring) {
        return trailers.get(ring).getLongAcquire(Layout.TRAILER_PUBLISHED); // pairs with: publish 7
    }
}
