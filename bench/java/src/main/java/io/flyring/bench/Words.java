// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.concurrent.UnsafeBuffer;

/** The page {@code words} of the sides' folder (bench/PEER.md, jobs and burst): 64-bit words, a cache line each. */
final class Words {
    /** Messages that are sent, of all slices. */
    static final int SENT = 0;

    /** Slices all of whose jobs are sent. */
    static final int SLICES = 1;

    /** Of consumer k: word FIRST + k, the messages that it is done with. */
    static final int FIRST = 2;

    private static final int LENGTH = 4096;
    private static final int LINE = 64;

    private final UnsafeBuffer page;

    Words(Setup setup) {
        page = new UnsafeBuffer(Mapped.file(setup, "words", LENGTH));
    }

    long get(int word) {
        return page.getLongVolatile(word * LINE);
    }

    void set(int word, long value) {
        page.putLongOrdered(word * LINE, value);
    }
}
