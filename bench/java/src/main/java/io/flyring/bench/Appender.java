// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

/** The role {@code append}, side a: the clock runs while it sends, and what it has gathered counts. */
final class Appender extends Producer {
    private final Words words;
    private long slice;

    Appender(Setup setup, Contender contender) {
        super(setup, contender);
        words = new Words(setup);
    }

    @Override
    String slice(boolean timed) {
        final long count = count(Long.MAX_VALUE);
        final long start = System.nanoTime();
        send(count);
        contender.flush();
        final long ns = System.nanoTime() - start;
        ran(count, ns);
        contender.send(Messages.END);
        contender.flush();
        words.set(Words.SLICES, ++slice);
        return mean(count, ns, 0, count);
    }
}
