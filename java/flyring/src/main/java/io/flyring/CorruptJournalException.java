// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The content of a journal violates the specification. Code {@code corrupt-journal}. */
public final class CorruptJournalException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The position. */
    private final long position;

    /** The rule that is broken. */
    private final String reason;

    CorruptJournalException(long position, String reason, String path) {
        super("corrupt-journal", path + " is damaged at position " + position + ": " + reason
            + ". Copy what can be read with a reader that skips what is damaged, and create the journal again.");
        this.position = position;
        this.reason = reason;
    }

    /**
     * Where the journal is damaged.
     *
     * @return the position, in bytes since the journal's creation.
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
