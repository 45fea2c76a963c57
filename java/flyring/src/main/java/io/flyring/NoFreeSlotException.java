// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Every slot is owned by a live process. Code {@code no-free-slot}. */
public final class NoFreeSlotException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** {@code publisher} or {@code subscriber}. */
    private final String kind;

    /** How many slots of the kind the channel has. */
    private final int slots;

    NoFreeSlotException(String kind, int slots, String message) {
        super("no-free-slot", message);
        this.kind = kind;
        this.slots = slots;
    }

    /**
     * {@code publisher} or {@code subscriber}.
     *
     * @return {@code publisher} or {@code subscriber}.
     */
    public String kind() {
        return kind;
    }

    /**
     * How many slots of the kind the channel has.
     *
     * @return how many slots of the kind the channel has.
     */
    public int slots() {
        return slots;
    }
}
