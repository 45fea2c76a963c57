// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** A ring holds something that no publisher may write. The other rings go on. Code {@code corrupt-ring}. */
public final class CorruptRingException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Index of the ring. */
    private final int ring;

    /** Position in the ring, in bytes, where it was found. */
    private final long position;

    /** What rule is broken. */
    private final String reason;

    CorruptRingException(int ring, long position, String reason, String message) {
        super("corrupt-ring", message);
        this.ring = ring;
        this.position = position;
        this.reason = reason;
    }

    /**
     * Index of the ring.
     *
     * @return index of the ring.
     */
    public int ring() {
        return ring;
    }

    /**
     * Position in the ring, in bytes, where it was found.
     *
     * @return position in the ring, in bytes, where it was found.
     */
    public long position() {
        return position;
    }

    /**
     * What rule is broken.
     *
     * @return what rule is broken.
     */
    public String reason() {
        return reason;
    }
}
