// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Reference;

/**
 * The words of one direction: readers that wait for data, publishers that wait for room (spec 6.16), or workers. Where
 * the words cannot be written, nobody calls what writes them.
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

    /** Workers of a queue that wait for jobs (queue.md 10). */
    static WaitingWords jobs(Memory control) {
        return new WaitingWords(control, Layout.CONTROL_JOBS_SEQUENCE, Layout.CONTROL_JOBS_ASLEEP);
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

    /** Wake one (queue.md 10), if one sleeps. Behind the fence that a process needs which is not registered. */
    void wakeOne() {
        if ((control.getIntOpaque(asleep) & Layout.JOBS_BIT) != 0) {
            control.clearBits(asleep, Layout.JOBS_BIT); // wake 1
            control.addRelease(sequence, 1); // wake 2; pairs with: sleep 1
            Sys.futexWakeOne(control.address() + sequence, Layout.JOBS_BIT); // wake 3
            Reference.reachabilityFence(control);
        }
    }

    /** The futex call alone: who sleeps looks again, which is all that somebody can do who may not write. */
    void wakeSleepers(int bits) {
        Sys.futexWake(control.address() + sequence, bits);
        Reference.reachabilityFence(control);
    }
}
