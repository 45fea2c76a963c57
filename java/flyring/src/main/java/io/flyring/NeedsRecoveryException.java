// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * The table was last written before a reboot and not closed with a sync, so values may be torn. The first writer after
 * the reboot recovers it if its values have checksums. A journal is recovered by its first writer after a reboot in any
 * case. Code {@code needs-recovery}.
 */
public final class NeedsRecoveryException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The table's file. */
    private final String path;

    NeedsRecoveryException(String path, boolean checked) {
        super("needs-recovery", "Table " + path + " was last changed before a reboot, and not closed with sync:"
            + " its values may be torn" + (checked ? ". Open it for writing and take a writer, which recovers it."
            : ", and it has no checksums to find them. Replace or unlink it."));
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
