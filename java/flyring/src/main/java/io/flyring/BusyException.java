// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * There is no room for the message, and a job that the calling thread works on holds it back: nobody else could make
 * room. Code {@code busy}.
 */
public final class BusyException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Who holds the publisher back. */
    private final transient Holder holder;

    BusyException(Holder holder, String message) {
        super("busy", message);
        this.holder = holder;
    }

    /**
     * Who holds the publisher back.
     *
     * @return the worker that the job is in hand of.
     */
    public Holder holder() {
        return holder;
    }
}
