// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.function.LongSupplier;

/**
 * The wall clock of a writer, in ns since 1970, without an object for each reading: it follows CLOCK_MONOTONIC, which
 * the JVM reads without a system call, and compares with the wall clock each millisecond.
 */
final class JournalClock {
    private static final long AGAIN_NANOS = 1_000_000;
    private static final long NANOS_PER_SECOND = 1_000_000_000L;

    private final LongSupplier given;
    private final Memory time = Memory.of(ByteBuffer.allocateDirect(Linux.TIMESPEC_SIZE));
    private long offset;
    private long compared = System.nanoTime() - 2 * AGAIN_NANOS;

    JournalClock(Identity identity) {
        this.given = identity.clock();
    }

    long now() {
        if (given != null) {
            return given.getAsLong();
        }
        final long now = System.nanoTime();
        if (now - compared >= AGAIN_NANOS) {
            compare(now);
        }
        return now + offset;
    }

    private void compare(long now) {
        Sys.clock(Linux.CLOCK_REALTIME, time.address());
        offset = time.getLong(0) * NANOS_PER_SECOND + time.getLong(Linux.TIMESPEC_NANOS) - now;
        compared = now;
        Reference.reachabilityFence(time);
    }
}
