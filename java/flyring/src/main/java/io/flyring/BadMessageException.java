// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * A typed message does not match its schema (spec/messages.md 1). The message is consumed; this ring and the other
 * rings go on. Code {@code bad-message}.
 */
public final class BadMessageException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The ring's index. */
    private final int ring;

    /** Position of the record in its ring, in bytes. */
    private final long position;

    /** Type of the record. */
    private final int type;

    /** What is wrong. */
    private final String reason;

    /**
     * Creates the exception, for code that decodes messages: {@link io.flyring.sbe.Dispatcher} or your own handler.
     *
     * @param message the message.
     * @param reason what is wrong with the message, as the end of a sentence.
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
     * Creates the exception for a value of a table.
     *
     * @param template the template id of the table's values.
     * @param reason what is wrong with the value, as the end of a sentence.
     */
    public BadMessageException(int template, String reason) {
        super("bad-message", "The value is not the message of template " + template + " of its schema: " + reason
            + ".");
        this.ring = -1;
        this.position = -1;
        this.type = template;
        this.reason = reason;
    }

    /**
     * The ring's index.
     *
     * @return the index, from 0; -1 for a value of a table.
     */
    public int ring() {
        return ring;
    }

    /**
     * The message's position.
     *
     * @return the position of its record in the ring, in bytes.
     */
    public long position() {
        return position;
    }

    /**
     * The message's type.
     *
     * @return the record's type, which is the template id of a typed message.
     */
    public int type() {
        return type;
    }

    /**
     * What is wrong.
     *
     * @return the reason.
     */
    public String reason() {
        return reason;
    }
}
