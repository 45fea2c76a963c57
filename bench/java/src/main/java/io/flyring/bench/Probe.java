// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;

/** The C library bench/probe. */
final class Probe {
    static {
        String path = System.getProperty("flyring.probe", System.getenv("FLYRING_BENCH_PROBE"));
        if (path == null) {
            throw new IllegalStateException("where is libflyring_probe.so? Say so in FLYRING_BENCH_PROBE or"
                + " -Dflyring.probe");
        }
        Native.register(Probe.class, NativeLibrary.getInstance(path));
    }

    private Probe() {
    }

    static native Pointer bench_map(String folder);

    static native int bench_pin(int core);

    static native double bench_probe(Pointer shared, int side, int roundTrips);

    static native void bench_barrier(Pointer shared, int parties);
}
