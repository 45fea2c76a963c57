// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The time-out of a call came before its answer. Code {@code expired}. */
public final class ExpiredException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Whether a handler may have received the request. */
    private final boolean mayHaveRun;

    ExpiredException(boolean mayHaveRun, String message) {
        super("expired", message);
        this.mayHaveRun = mayHaveRun;
    }

    /**
     * Whether a handler may have received the request.
     *
     * @return false if no handler received the request, and none will.
     */
    public boolean mayHaveRun() {
        return mayHaveRun;
    }
}
