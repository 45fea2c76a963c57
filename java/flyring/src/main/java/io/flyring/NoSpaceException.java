// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The file system has not enough room for the channel, or there is no free counter. Code {@code no-space}. */
public final class NoSpaceException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Bytes needed (counters: counters). */
    private final long needed;

    /** Bytes free (counters: counters). */
    private final long free;

    NoSpaceException(long needed, long free, String message) {
        super("no-space", message);
        this.needed = needed;
        this.free = free;
    }

    /**
     * Bytes needed (counters: counters).
     *
     * @return bytes needed (counters: counters).
     */
    public long needed() {
        return needed;
    }

    /**
     * Bytes free (counters: counters).
     *
     * @return bytes free (counters: counters).
     */
    public long free() {
        return free;
    }
}
