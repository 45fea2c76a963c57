// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.concurrent.IdleStrategy;

/**
 * Never yields the core: the lowest latency, for a dedicated core. Polls 32 times without a pause, then with a pause
 * instruction between polls. Without the pauses, a reader on a core that shares no cache with the publisher would
 * repeatedly fetch the line that the publisher is writing. Call {@link #idle(int)} with the result of the poll.
 */
public final class SpinIdleStrategy implements IdleStrategy {
    private static final int EAGER = 32;

    private int turns;

    /** Creates a strategy for one subscriber's loop. */
    public SpinIdleStrategy() {
    }

    @Override
    public void idle(int workCount) {
        if (workCount > 0) {
            turns = 0;
        } else {
            idle();
        }
    }

    @Override
    public void idle() {
        if (turns < EAGER) {
            turns++;
        } else {
            Thread.onSpinWait();
        }
    }

    @Override
    public void reset() {
        turns = 0;
    }

    @Override
    public String alias() {
        return "spin";
    }
}
