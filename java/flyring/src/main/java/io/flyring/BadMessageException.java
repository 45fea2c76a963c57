// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * A typed message is not what its schema says (spec/messages.md 1). It is consumed; the ring and the other rings go on.
 * Code {@code bad-message}.
 */
public final class BadMessageException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Index of the ring. */
    private final int ring;

    /** Position of the record in its ring, in bytes. */
    private final long position;

    /** Type of the record. */
    private final int type;

    /** What is wrong. */
    private final String reason;

    /**
     * For who decodes messages: {@link io.flyring.sbe.Dispatcher}, or a handler of your own.
     *
     * @param message the message.
     * @param reason what is wrong with it, the end of a sentence.
     */
    public BadMessageException(Message message, String reason) {
        super("bad-message", "The message of type " + message.type() + " at position " + message.position()
            + " of ring " + message.ring() + " is not what its schema says: " + reason + ".");
        this.ring = message.ring();
        this.position = message.position();
        this.type = message.type();
        this.reason = reason;
    }

    /**
     * Index of the ring.
     *
     * @return index of the ring.
     */
    public int ring() {
        return ring;
    }

    /**
     * Where the message is.
     *
     * @return position of its record in the ring, in bytes.
     */
    public long position() {
        return position;
    }

    /**
     * Type of the message.
     *
     * @return the record's type, which is the template id of a typed message.
     */
    public int type() {
        return type;
    }

    /**
     * What is wrong.
     *
     * @return what is wrong.
     */
    public String reason() {
        return reason;
    }
}
