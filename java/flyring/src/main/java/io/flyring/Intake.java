// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Where a worker's next job comes from: what others left behind, then the rings in turn (queue.md 3 and 5). And the
 * clock that says when to look for what others left behind, and since when jobs are in hand.
 */
final class Intake {
    /** So many takes may go by one look at the clock, which costs as much as half a take. */
    private static final int TAKES_A_LOOK = 8;
    /** As long as they follow one another in less than that, ns. */
    private static final long QUICK_NANOS = 100_000;

    private final JobRing[] rings;
    private final Hand hand;
    private final Adoption adoption;
    private int next;
    /** What the clock said, and how many takes may still go by that. */
    private long now = System.nanoTime();
    private int takesLeft;
    /** When it last looked for jobs that others left behind. */
    private long adoptedAt = now - Layout.ADOPT_INTERVAL;

    Intake(JobRing[] rings, Hand hand, Adoption adoption) {
        this.rings = rings;
        this.hand = hand;
        this.adoption = adoption;
    }

    JobRing[] rings() {
        return rings;
    }

    /** Whether a job lies on any ring. */
    boolean isJobThere() {
        for (JobRing ring : rings) {
            if (ring.isReady()) {
                return true;
            }
        }
        return false;
    }

    /** Whether jobs are in hand now, up to {@code limit} of them. The epoch was compared in front of this. */
    boolean take(WorkerCore worker, int limit) {
        if (--takesLeft < 0) {
            lookAtClock();
        }
        return now - adoptedAt >= Layout.ADOPT_INTERVAL && adopt(worker) || takeFromRings(limit);
    }

    private void lookAtClock() {
        final long before = now;
        now = System.nanoTime();
        takesLeft = now - before < QUICK_NANOS ? TAKES_A_LOOK - 1 : 0;
    }

    private boolean takeFromRings(int limit) {
        int at = next;
        for (int i = 0; i < rings.length; i++) {
            final JobRing ring = rings[at];
            at = at + 1 == rings.length ? 0 : at + 1;
            if (!ring.isEmpty()) {
                final long end = ring.take(limit);
                if (end != JobRing.NOTHING) {
                    next = at;
                    hand.took(ring, end, now);
                    return true;
                }
            }
        }
        takesLeft = 0; // the next one may come much later
        return false;
    }

    /** At a cap of a sleep; at most once in a millisecond, as before a take. */
    void adoptIfDue(WorkerCore worker) {
        lookAtClock();
        if (now - adoptedAt >= Layout.ADOPT_INTERVAL) {
            adopt(worker);
        }
    }

    private boolean adopt(WorkerCore worker) {
        adoptedAt = now;
        return adoption.adopt(worker, rings, hand);
    }
}
