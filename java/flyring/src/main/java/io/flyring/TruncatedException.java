// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The file is shorter than its header says. Code {@code truncated}. */
public final class TruncatedException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The length that the file should have, in bytes. */
    private final long expected;

    /** The length that the file has, in bytes. */
    private final long actual;

    TruncatedException(long expected, long actual, String message) {
        super("truncated", message);
        this.expected = expected;
        this.actual = actual;
    }

    /**
     * The length that the file should have.
     *
     * @return the length in its header, in bytes; 4096 if the file is shorter than its header.
     */
    public long expected() {
        return expected;
    }

    /**
     * The length that the file has.
     *
     * @return the length, in bytes.
     */
    public long actual() {
        return actual;
    }
}
