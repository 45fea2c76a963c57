// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The page {@code words} in the sides' folder (bench/PEER.md, jobs, burst and append): 64-bit words, each in a cache
 * line. Does not use Agrona, because its buffers need a JVM flag.
 */
final class Words {
    /** The number of messages sent, of all slices. */
    static final int SENT = 0;

    /** The number of slices all of whose messages or jobs were sent. */
    static final int SLICES = 1;

    /** Word FIRST + k: the number of messages that consumer k is done with. */
    static final int FIRST = 2;

    private static final VarHandle WORD =
        MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final int LENGTH = 4096;
    private static final int LINE = 64;

    private final ByteBuffer page;

    Words(Setup setup) {
        page = Mapped.file(setup, "words", LENGTH);
    }

    long get(int word) {
        return (long) WORD.getAcquire(page, word * LINE);
    }

    /** The messages that all consumers together are done with. */
    long allDone(int consumers) {
        long done = 0;
        for (int k = 0; k < consumers; k++) {
            done += get(FIRST + k);
        }
        return done;
    }

    void set(int word, long value) {
        WORD.setRelease(page, word * LINE, value);
    }
}
