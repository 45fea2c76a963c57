// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** There is no room for the message, because a subscriber has not read far enough. Code {@code back-pressured}. */
public final class BackPressuredException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The subscriber that holds the publisher back. */
    private final transient Holder holder;

    BackPressuredException(Holder holder, String message) {
        super("back-pressured", message);
        this.holder = holder;
    }

    /**
     * The subscriber that holds the publisher back.
     *
     * @return the subscriber with the smallest position; null if the last such subscriber has gone meanwhile.
     */
    public Holder holder() {
        return holder;
    }
}
