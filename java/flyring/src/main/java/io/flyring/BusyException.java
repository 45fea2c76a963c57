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
    /** Of a call: the calls that are under way. */
    private final int outstanding;

    BusyException(Holder holder, String message) {
        super("busy", message);
        this.holder = holder;
        this.outstanding = 0;
    }

    BusyException(int outstanding, String message) {
        super("busy", message);
        this.holder = null;
        this.outstanding = outstanding;
    }

    /**
     * Of a call: the calls that are under way.
     *
     * @return how many; 0 if it was no call.
     */
    public int outstanding() {
        return outstanding;
    }

    /**
     * Who holds the publisher back.
     *
     * @return the worker that the job is in hand of; null if it was a call.
     */
    public Holder holder() {
        return holder;
    }
}
