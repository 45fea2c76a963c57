// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * The verb cannot go on, and waiting would not help. Either there is no room for the message, and the job that holds
 * the publisher back is in the hand of the calling thread. Or a client has its largest number of calls under way. Or a
 * table's value changed during each try to read it. Code {@code busy}.
 */
public final class BusyException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The worker that holds the publisher back; null for a call. */
    private final transient Holder holder;
    /** For a call: the number of calls under way. */
    private final int outstanding;

    BusyException(Holder holder, String message) {
        super("busy", message);
        this.holder = holder;
        this.outstanding = 0;
    }

    BusyException(String message) {
        this(0, message);
    }

    BusyException(int outstanding, String message) {
        super("busy", message);
        this.holder = null;
        this.outstanding = outstanding;
    }

    /**
     * For a call: the number of calls under way.
     *
     * @return the number; 0 if the verb was not a call.
     */
    public int outstanding() {
        return outstanding;
    }

    /**
     * The worker that holds the publisher back.
     *
     * @return the worker that has the job in hand; null for a call.
     */
    public Holder holder() {
        return holder;
    }
}
