// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.concurrent.IdleStrategy;

/**
 * Sleeps until something of a {@link WaitSet} is ready, so that a reader that has nothing to do costs nothing: in a
 * loop of its own, or in Agrona's {@code AgentRunner}. An interrupt ends the sleep within 100 ms, without an exception,
 * and {@link WaitSet#wake()} at once. For the thread that uses what is in the set.
 */
public final class BlockIdleStrategy implements IdleStrategy {
    private static final long AT_MOST_NANOS = 100_000_000;

    private final WaitSet waitSet;

    /**
     * A strategy for one loop.
     *
     * @param waitSet what the loop polls, or publishes through.
     */
    public BlockIdleStrategy(WaitSet waitSet) {
        if (waitSet == null) {
            throw new InvalidArgumentException("wait_set", "There is no wait set. Give the one with what the loop"
                + " uses.");
        }
        this.waitSet = waitSet;
    }

    @Override
    public void idle(int workCount) {
        if (workCount <= 0) {
            idle();
        }
    }

    @Override
    public void idle() {
        try {
            waitSet.await(AT_MOST_NANOS);
        } catch (CancelledException interrupted) {
            return; // the loop sees it: the thread still is
        }
    }

    @Override
    public void reset() {
        // It keeps nothing.
    }

    @Override
    public String alias() {
        return "block";
    }
}
