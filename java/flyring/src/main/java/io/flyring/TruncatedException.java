// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The file is shorter than its header says. Code {@code truncated}. */
public final class TruncatedException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Bytes that the header promises. */
    private final long expected;

    /** Bytes that the file has. */
    private final long actual;

    TruncatedException(long expected, long actual, String message) {
        super("truncated", message);
        this.expected = expected;
        this.actual = actual;
    }

    /**
     * Bytes that the header promises.
     *
     * @return bytes that the header promises.
     */
    public long expected() {
        return expected;
    }

    /**
     * Bytes that the file has.
     *
     * @return bytes that the file has.
     */
    public long actual() {
        return actual;
    }
}
