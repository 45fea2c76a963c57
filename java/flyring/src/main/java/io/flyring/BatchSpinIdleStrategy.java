// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.concurrent.IdleStrategy;

/**
 * Spins, and after a run of messages (four or more in the last poll) stands back for a while: then the publisher gets
 * ahead undisturbed, and messages come in batches. The highest throughput; a message that comes right behind a run
 * waits so much longer. Longer is faster, up to 10 microseconds, or 40 where cores share no cache, in a ring that is
 * not full before. Needs {@link #idle(int)} with what the poll returned.
 */
public final class BatchSpinIdleStrategy implements IdleStrategy {
    private static final long STAND_BACK_NS = 5_000;
    private static final int LONG_RUN = 4;
    /** Between two looks at the clock. */
    private static final int PAUSES = 8;

    private final long standBackNs;
    private int run;

    /** A strategy for one subscriber's loop, which stands back for 5 microseconds. */
    public BatchSpinIdleStrategy() {
        this(STAND_BACK_NS);
    }

    /**
     * A strategy for one subscriber's loop.
     *
     * @param standBackNs how long to stand back, nanoseconds.
     * @throws InvalidArgumentException if it is not above 0.
     */
    public BatchSpinIdleStrategy(long standBackNs) {
        if (standBackNs <= 0) {
            throw new InvalidArgumentException("stand_back", "The time to stand back is above 0, not " + standBackNs
                + " ns.");
        }
        this.standBackNs = standBackNs;
    }

    @Override
    public void idle(int workCount) {
        if (workCount > 0) {
            run = workCount;
        } else {
            idle();
        }
    }

    @Override
    public void idle() {
        if (run < LONG_RUN) {
            Thread.onSpinWait();
        } else {
            long start = System.nanoTime();
            do {
                for (int i = 0; i < PAUSES; i++) {
                    Thread.onSpinWait();
                }
            } while (System.nanoTime() - start < standBackNs);
            run = 0;
        }
    }

    @Override
    public void reset() {
        run = 0;
    }

    @Override
    public String alias() {
        return "batch-spin";
    }
}
