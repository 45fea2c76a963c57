// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The content of a ring violates the specification. The other rings go on. Code {@code corrupt-ring}. */
public final class CorruptRingException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The ring's index. */
    private final int ring;

    /** The position in the ring where the error was found, in bytes. */
    private final long position;

    /** The rule that is broken. */
    private final String reason;

    CorruptRingException(int ring, long position, String reason, String message) {
        super("corrupt-ring", message);
        this.ring = ring;
        this.position = position;
        this.reason = reason;
    }

    /**
     * The ring's index.
     *
     * @return the index, from 0.
     */
    public int ring() {
        return ring;
    }

    /**
     * The position in the ring where the error was found.
     *
     * @return the position, in bytes.
     */
    public long position() {
        return position;
    }

    /**
     * The rule that is broken.
     *
     * @return the rule, in a few words.
     */
    public String reason() {
        return reason;
    }
}
