// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The slot has another owner, or was evicted. Code {@code slot-lost}. */
public final class SlotLostException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The slot's index. */
    private final int slot;

    SlotLostException(int slot, String message) {
        super("slot-lost", message);
        this.slot = slot;
    }

    /**
     * The slot's index.
     *
     * @return the index, from 0.
     */
    public int slot() {
        return slot;
    }
}
