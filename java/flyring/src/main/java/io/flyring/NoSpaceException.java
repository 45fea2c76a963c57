// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The file system has too little free space for the channel, or no counter is free. Code {@code no-space}. */
public final class NoSpaceException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Bytes needed; for counters, the number of counters. */
    private final long needed;

    /** Bytes free; for counters, the number of counters. */
    private final long free;

    NoSpaceException(long needed, long free, String message) {
        super("no-space", message);
        this.needed = needed;
        this.free = free;
    }

    /**
     * The space that is needed.
     *
     * @return bytes; for counters, the number of counters.
     */
    public long needed() {
        return needed;
    }

    /**
     * The space that is free.
     *
     * @return bytes; for counters, the number of counters.
     */
    public long free() {
        return free;
    }
}
