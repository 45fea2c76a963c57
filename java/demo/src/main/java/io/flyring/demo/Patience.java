// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.Subscriber;
import io.flyring.WaitSet;
import org.agrona.concurrent.IdleStrategy;

/**
 * Waits as the options say, and gives up after the time-out. Reads the clock only once in 1024 idle rounds, or in each
 * round if rounds sleep.
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

    /** Sets the subscriber that a sleeping wait waits for. */
    void sleepsFor(Subscriber subscriber) {
        set.add(subscriber);
    }

    /** Starts a new wait, after something came. */
    void reset() {
        idle.reset();
        rounds = 0;
        since = 0;
    }

    /** Waits a little, after nothing came. */
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
