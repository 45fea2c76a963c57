// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.Subscriber;
import io.flyring.WaitSet;
import org.agrona.concurrent.IdleStrategy;

/**
 * Waiting as the options say, and giving up after the time-out. The clock is read once in 1024 idle rounds only, or in
 * each if they sleep.
 */
final class Patience {
    private static final int ROUNDS_PER_LOOK = 1024;

    private final WaitSet set = new WaitSet();
    private final IdleStrategy idle;
    private final int roundsPerLook;
    private final long timeoutNanos;
    private final String waitsFor;
    private int rounds;
    private long since;

    Patience(Options options, String waitsFor) {
        this.idle = options.waiting(set);
        this.roundsPerLook = options.blocks() ? 1 : ROUNDS_PER_LOOK;
        this.timeoutNanos = options.timeoutNanos();
        this.waitsFor = waitsFor;
    }

    /** What is waited for, by a wait that sleeps. */
    void sleepsFor(Subscriber subscriber) {
        set.add(subscriber);
    }

    /** Something came. */
    void reset() {
        idle.reset();
        rounds = 0;
        since = 0;
    }

    /** Nothing came: waits a little. */
    void idle() {
        idle.idle();
        if ((++rounds & roundsPerLook - 1) == 0 || rounds < 0) {
            look();
        }
    }

    private void look() {
        long now = System.nanoTime();
        if (since == 0) {
            since = now;
        } else if (now - since > timeoutNanos) {
            throw new Demo.Failed("Nothing came from " + waitsFor + " for "
                + timeoutNanos / 1e9 + " s: is it running, on the same channel?");
        }
    }
}
