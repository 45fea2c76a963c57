// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** A message is longer than the ring allows. Code {@code too-large}. */
public final class MessageTooLargeException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The length of the payload, in bytes. */
    private final long length;

    /** The length of the largest payload, in bytes. */
    private final long limit;

    MessageTooLargeException(long length, long limit, String message) {
        super("too-large", message);
        this.length = length;
        this.limit = limit;
    }

    /**
     * The length of the payload.
     *
     * @return the length, in bytes.
     */
    public long length() {
        return length;
    }

    /**
     * The length of the largest payload that the ring allows.
     *
     * @return the length, in bytes.
     */
    public long limit() {
        return limit;
    }
}
