// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** A wait was ended by an interrupt of its thread, which stays interrupted. Code {@code cancelled}. */
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
     * @return in a few words.
     */
    public String whatFor() {
        return whatFor;
    }
}
