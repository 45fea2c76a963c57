// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** What a publisher says when it publishes nothing. */
final class Refusal {
    private Refusal() {
    }

    static FlyringException twoThreads() {
        return new TwoThreadsException("This publisher is in use by another thread. Give each thread its own.");
    }

    static FlyringException claimOpen() {
        return new ViewAliveException("A claim of this publisher is still open. Commit or abort it first.");
    }

    static FlyringException claimNotOpen() {
        return new InvalidArgumentException("claim",
            "This claim is not open: it was committed or aborted already. Claim again.");
    }

    static FlyringException closed(int slot) {
        return new ClosedException("The publisher of ring " + slot + " is closed. Make a new one.");
    }

    static FlyringException lost(int slot) {
        return new SlotLostException(slot, "Publisher slot " + slot
            + " has another owner now. Close this publisher and make a new one.");
    }

    static FlyringException type(int type) {
        return new InvalidArgumentException("type", "The type " + type + " is not in 1 to 2147483647.");
    }

    /** Of a length below 0 or above {@code most}. */
    static FlyringException length(int length, int most, int capacity) {
        if (length < 0) {
            return new InvalidArgumentException("length", "The length " + length + " is negative.");
        }
        return new MessageTooLargeException(length, most, "A message of " + length + " bytes is longer than the "
            + most + " that a ring of " + capacity
            + " bytes allows. Split it, or create the channel with a larger capacity.");
    }
}
