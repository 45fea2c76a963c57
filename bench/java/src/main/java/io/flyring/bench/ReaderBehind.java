// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.util.concurrent.locks.LockSupport;

/** The role {@code append}, side b: reads when all of the slice is sent, or with the option {@code beside} at once. */
final class ReaderBehind extends Consumer {
    private static final long NAP_NS = 200_000;

    private final Words words;
    private final boolean beside;
    private long slices;

    ReaderBehind(Setup setup, Contender contender) {
        super(setup, contender);
        words = new Words(setup);
        beside = setup.option("beside", 0) != 0;
    }

    @Override
    String slice(boolean timed) {
        slices++;
        while (!beside && words.get(Words.SLICES) != slices) {
            LockSupport.parkNanos(NAP_NS);
        }
        return super.slice(timed);
    }
}
