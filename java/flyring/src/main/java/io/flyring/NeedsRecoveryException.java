// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * The table was last written in another boot and not closed synced. The first writer recovers it if its values are
 * checked. The same of a journal, whose first writer always recovers it. Code {@code needs-recovery}.
 */
public final class NeedsRecoveryException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The table's file. */
    private final String path;

    NeedsRecoveryException(String path, boolean checked) {
        super("needs-recovery", path + " was written in another boot and not closed synced, so values may be torn. "
            + (checked ? "Open it for writing and take its writer: that recovers it."
            : "Its values have no checksums, so it cannot be recovered: replace it, or unlink it."));
        this.path = path;
    }

    /** Of a journal. */
    NeedsRecoveryException(String path) {
        super("needs-recovery", path + " was written in another boot, and no writer has recovered it yet. Take its"
            + " writer: that recovers it.");
        this.path = path;
    }

    /**
     * The table's file, or the journal's folder.
     *
     * @return the path.
     */
    public String path() {
        return path;
    }
}
