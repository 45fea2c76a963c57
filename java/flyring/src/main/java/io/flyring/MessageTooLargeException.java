// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** A message is longer than the ring allows. Code {@code too-large}. */
public final class MessageTooLargeException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Bytes of the payload. */
    private final long length;

    /** Bytes of the largest payload. */
    private final long limit;

    MessageTooLargeException(long length, long limit, String message) {
        super("too-large", message);
        this.length = length;
        this.limit = limit;
    }

    /**
     * Bytes of the payload.
     *
     * @return bytes of the payload.
     */
    public long length() {
        return length;
    }

    /**
     * Bytes of the largest payload.
     *
     * @return bytes of the largest payload.
     */
    public long limit() {
        return limit;
    }
}
