// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.Pointer;

/** Pins the demo's thread to a core, which suits a spinning publisher or subscriber. */
final class Core {
    private static final int SET_SIZE = 128;

    static {
        Native.register(Core.class, "c");
    }

    private Core() {
    }

    private static native int sched_setaffinity(int thread, long size, Pointer set);

    /** Pins only the calling thread. */
    static void pin(int core) {
        if (core < 0 || core >= SET_SIZE * 8) {
            throw new Demo.Failed("The core number " + core + " is not in 0 to 1023.");
        }
        try (Memory set = new Memory(SET_SIZE)) {
            set.clear();
            set.setByte(core >> 3, (byte) (1 << (core & 7)));
            if (sched_setaffinity(0, SET_SIZE, set) != 0) {
                throw new Demo.Failed("The thread cannot be pinned to core " + core + ": error "
                    + Native.getLastError() + " of sched_setaffinity. Name a core that this process may use (taskset -p"
                    + " shows them).");
            }
        }
    }
}
