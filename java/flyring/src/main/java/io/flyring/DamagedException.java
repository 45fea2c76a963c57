// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Messages of a journal are lost: their bytes are not those that were written, or a segment is missing. A reader that
 * skips what is damaged goes on behind it. Code {@code damaged}.
 */
public final class DamagedException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Where the damage begins. */
    private final long from;

    /** Where reading can go on. */
    private final long to;

    /** The messages between them. */
    private final long messages;

    DamagedException(long from, long to, long messages, String reason, String path) {
        super("damaged", path + " is damaged from position " + from + " to " + to + " (" + reason + "): "
            + (messages < 0 ? "it is not known how many" : Long.toString(messages))
            + " messages are lost. Read it with skipDamaged to go on behind them.");
        this.from = from;
        this.to = to;
        this.messages = messages;
    }

    /**
     * Where the damage begins.
     *
     * @return the position of the first message that cannot be read.
     */
    public long from() {
        return from;
    }

    /**
     * Where reading can go on.
     *
     * @return the position of the first check behind the damage.
     */
    public long to() {
        return to;
    }

    /**
     * How many messages cannot be read.
     *
     * @return their number; -1: not known.
     */
    public long messages() {
        return messages;
    }
}
