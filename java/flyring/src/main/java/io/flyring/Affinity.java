// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Pins threads to CPUs: what a spinning publisher or subscriber wants. */
public final class Affinity {
    private Affinity() {
    }

    /**
     * Pins the calling thread, and no other, to one CPU.
     *
     * @param cpu number of the CPU, 0 to 1023.
     * @throws InvalidArgumentException if there is no such number.
     * @throws IoException if the kernel refuses: no such CPU, or not one that this process may use.
     */
    public static void pin(int cpu) {
        if (cpu < 0 || cpu >= Linux.CPU_SET_SIZE * 8) {
            throw new InvalidArgumentException("cpu", "The CPU number " + cpu + " is not in 0 to 1023.");
        }
        int result = Sys.pin(cpu);
        if (result < 0) {
            throw new IoException("sched_setaffinity", -result, "", "The thread cannot be pinned to CPU " + cpu + ": "
                + Linux.text(-result) + ". Name a CPU that this process may use (taskset -p shows them).");
        }
    }
}
