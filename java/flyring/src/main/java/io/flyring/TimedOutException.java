// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** What was waited for did not come in time. Code {@code timed-out}. */
public final class TimedOutException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** What was waited for. */
    private final String whatFor;

    TimedOutException(String whatFor, String message) {
        super("timed-out", message);
        this.whatFor = whatFor;
    }

    /**
     * What was waited for.
     *
     * @return what was waited for, in a few words.
     */
    public String whatFor() {
        return whatFor;
    }
}
