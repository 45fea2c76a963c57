// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.concurrent.IdleStrategy;

/**
 * Sleeps until a member of a {@link WaitSet} is ready, so that an idle reader uses no CPU. Works in a loop of your own
 * and in Agrona's {@code AgentRunner}. An interrupt ends the sleep within 100 ms, without an exception;
 * {@link WaitSet#wake()} ends it at once. Not thread-safe: use it in the thread that uses the members of the set.
 */
public final class BlockIdleStrategy implements IdleStrategy {
    private static final long AT_MOST_NANOS = 100_000_000;

    private final WaitSet waitSet;

    /**
     * Creates a strategy for one loop.
     *
     * @param waitSet the set of what the loop polls or publishes through.
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
            return; // the thread is still interrupted, so the loop sees it
        }
    }

    @Override
    public void reset() {
        // This strategy has no state.
    }

    @Override
    public String alias() {
        return "block";
    }
}
