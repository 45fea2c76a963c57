// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Reference;

/**
 * The words of one direction: readers that wait for data, or publishers that wait for room (spec 6.16). Where the words
 * cannot be written, nobody calls what writes them.
 *
 * @param control the control section.
 * @param sequence offset of the number that sleepers sleep on.
 * @param asleep offset of the mask: the {@link #bit} of each ring that somebody waits for.
 */
record WaitingWords(Memory control, int sequence, int asleep) {
    static final int ALL_RINGS = -1;

    static WaitingWords data(Memory control) {
        return new WaitingWords(control, Layout.CONTROL_DATA_SEQUENCE, Layout.CONTROL_DATA_ASLEEP);
    }

    static WaitingWords room(Memory control) {
        return new WaitingWords(control, Layout.CONTROL_ROOM_SEQUENCE, Layout.CONTROL_ROOM_ASLEEP);
    }

    /** The same for each 32nd ring. */
    static int bit(int ring) {
        return 1 << ring; // of a shift Java takes the last five bits
    }

    /** Wake all. */
    void wakeAll() {
        control.addRelease(sequence, 1); // pairs with: sleep 1
        wakeSleepers(ALL_RINGS);
    }

    /** Wake. */
    void wake(int bits) {
        control.clearBits(asleep, bits); // wake 1
        control.addRelease(sequence, 1); // wake 2; pairs with: sleep 1
        wakeSleepers(bits); // wake 3
    }

    /** The futex call alone: who sleeps looks again, which is all that somebody can do who may not write. */
    void wakeSleepers(int bits) {
        Sys.futexWake(control.address() + sequence, bits);
        Reference.reachabilityFence(control);
    }
}
