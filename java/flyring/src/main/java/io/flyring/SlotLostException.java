// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The slot has another owner now, or was taken away by an operator. Code {@code slot-lost}. */
public final class SlotLostException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Index of the slot. */
    private final int slot;

    SlotLostException(int slot, String message) {
        super("slot-lost", message);
        this.slot = slot;
    }

    /**
     * Index of the slot.
     *
     * @return index of the slot.
     */
    public int slot() {
        return slot;
    }
}
