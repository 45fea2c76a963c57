// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Finds a worker's next jobs: first those that other workers left behind, then those on the rings in turn (queue.md 3
 * and 5). Keeps the clock that says when to look for jobs to adopt, and since when jobs are in hand.
 */
final class Intake {
    /** How many takes may use one reading of the clock, which costs half as much as a take. */
    private static final int TAKES_A_LOOK = 8;
    /** Takes share a reading of the clock only if the last two readings were less than this apart, in ns. */
    private static final long QUICK_NANOS = 100_000;

    private final JobRing[] rings;
    private final Hand hand;
    private final Adoption adoption;
    private int next;
    /** The last reading of the clock, and how many takes may still use it. */
    private long now = System.nanoTime();
    private int takesLeft;
    /** When this worker last looked for jobs to adopt. */
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

    /**
     * Takes up to {@code limit} jobs into the hand; returns whether there were any. The caller has compared the epoch.
     */
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
        takesLeft = 0; // the next take may come much later
        return false;
    }

    /** Looks for jobs to adopt, if the last look, in a wait or a take, was at least a millisecond ago. */
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
