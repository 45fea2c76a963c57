// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Reference;

/**
 * The waiting words of one direction: of readers that wait for data, of publishers that wait for room (channel.md
 * 6.16), or of workers. On a read-only mapping, the methods that write must not be called.
 *
 * @param control the control section.
 * @param sequence offset of the number that sleepers sleep on.
 * @param asleep offset of the mask: the {@link #bit} of each ring for which there are sleepers.
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

    /** The bit of a ring; each 32nd ring has the same. */
    static int bit(int ring) {
        return 1 << ring; // Java uses the last five bits of the shift distance
    }

    /** Wakes all sleepers (6.16, wake all). */
    void wakeAll() {
        control.addRelease(sequence, 1); // pairs with: sleep 1
        wakeSleepers(ALL_RINGS);
    }

    /** Wakes the sleepers with a mask that shares a bit with {@code bits} (6.16, wake). */
    void wake(int bits) {
        control.clearBits(asleep, bits); // wake 1
        control.addRelease(sequence, 1); // wake 2; pairs with: sleep 1
        wakeSleepers(bits); // wake 3
    }

    /** Wakes one worker, if one sleeps (queue.md 10). A process that is not registered needs a full fence before. */
    void wakeOne() {
        if ((control.getIntOpaque(asleep) & Layout.JOBS_BIT) != 0) {
            control.clearBits(asleep, Layout.JOBS_BIT); // wake 1
            control.addRelease(sequence, 1); // wake 2; pairs with: sleep 1
            Sys.futexWakeOne(control.address() + sequence, Layout.JOBS_BIT); // wake 3
            Reference.reachabilityFence(control);
        }
    }

    /** Makes the futex call alone, which needs no write access: sleepers look again. */
    void wakeSleepers(int bits) {
        Sys.futexWake(control.address() + sequence, bits);
        Reference.reachabilityFence(control);
    }
}
