// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Refusals that several classes share. */
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
}
