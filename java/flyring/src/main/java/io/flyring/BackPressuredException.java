// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** A subscriber has not read far enough yet, so there is no room for the message. Code {@code back-pressured}. */
public final class BackPressuredException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Who holds the publisher back. */
    private final transient Holder holder;

    BackPressuredException(Holder holder, String message) {
        super("back-pressured", message);
        this.holder = holder;
    }

    /**
     * Who holds the publisher back.
     *
     * @return the subscriber with the smallest position; null if the last one has gone meanwhile.
     */
    public Holder holder() {
        return holder;
    }
}
