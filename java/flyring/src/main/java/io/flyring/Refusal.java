// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Arrays;

/** Checks and errors that several classes share. */
final class Refusal {
    private Refusal() {
    }

    static Action ofNull(Action action) {
        if (action == null) {
            throw new InvalidArgumentException("action", "The handler returned null. Return what becomes of the"
                + " message: CONTINUE, COMMIT, BREAK or ABORT.");
        }
        return action;
    }

    static TwoThreadsException subscriberInUse() {
        return new TwoThreadsException("This subscriber is in use by another thread, or by its own handler."
            + " Give each thread its own.");
    }

    static InvalidArgumentException notChosen(int ring, int[] rings) {
        return new InvalidArgumentException("ring", "This subscriber does not read ring " + ring + ", but "
            + Arrays.toString(rings) + ".");
    }
}
