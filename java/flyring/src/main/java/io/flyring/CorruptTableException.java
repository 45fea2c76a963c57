// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The content of a table violates the specification. Code {@code corrupt-table}. */
public final class CorruptTableException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The cell. */
    private final long cell;

    /** The rule that is broken. */
    private final String reason;

    CorruptTableException(long cell, String reason, String path) {
        super("corrupt-table", (cell < 0 ? "Table " : "Cell " + cell + " of table ") + path + " is corrupt: " + reason
            + ". Run flyring table check, which lists all that is broken, then replace the table.");
        this.cell = cell;
        this.reason = reason;
    }

    /**
     * The cell that is damaged.
     *
     * @return the cell, from 0; -1 for the control section.
     */
    public long cell() {
        return cell;
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
