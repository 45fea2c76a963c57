// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.concurrent.IdleStrategy;

/**
 * Spins, and after a run of messages stands back for a hundred pauses, two to four microseconds on recent x86: then
 * the publisher gets ahead, and messages come in batches. The highest throughput; a message that comes right behind a
 * run waits so much longer. For rings of 64 KiB or more: a publisher fills a smaller one meanwhile.
 * Needs {@link #idle(int)} with what the poll returned.
 */
public final class BatchSpinIdleStrategy implements IdleStrategy {
    private static final int LONG_RUN = 4;
    private static final int PAUSES = 100;

    private int run;

    /** A strategy for one subscriber's loop. */
    public BatchSpinIdleStrategy() {
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
        for (int turns = run < LONG_RUN ? 1 : PAUSES; turns > 0; turns--) {
            Thread.onSpinWait();
        }
        run = 0;
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
