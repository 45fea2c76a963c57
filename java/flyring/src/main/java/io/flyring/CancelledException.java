// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** A call was cancelled, or an interrupt ended a wait; the thread stays interrupted. Code {@code cancelled}. */
public final class CancelledException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** What was waited for. */
    private final String whatFor;

    CancelledException(String whatFor, String message) {
        super("cancelled", message);
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
