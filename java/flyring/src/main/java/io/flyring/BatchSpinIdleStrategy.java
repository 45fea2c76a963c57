// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.concurrent.IdleStrategy;

/**
 * Spins, and stands back for a while after a run of messages (four or more in the last poll). Meanwhile the publisher
 * works without cache contention, and messages come in batches. This gives the highest throughput, but a message right
 * after a run waits for the stand-back. A longer stand-back gives more throughput, up to 10 microseconds (40 where
 * cores share no cache), as long as the ring does not fill. Call {@link #idle(int)} with the result of the poll.
 */
public final class BatchSpinIdleStrategy implements IdleStrategy {
    private static final long STAND_BACK_NS = 5_000;
    private static final int LONG_RUN = 4;
    /** The number of pauses between two reads of the clock. */
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
     * @param standBackNs how long to stand back, in nanoseconds.
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
