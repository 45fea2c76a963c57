// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

/** The role {@code burst}, side a: the clock runs only while it sends, and the reader does not read meanwhile. */
final class BurstSender extends Role {
    /** The number of messages in a burst, for which there is room. */
    private static final int BURST = 4096;

    private final Words words;
    private long sentBefore;

    BurstSender(Setup setup, Contender contender) {
        super(setup, contender);
        words = new Words(setup);
    }

    @Override
    String slice(boolean timed) {
        long count = count(Long.MAX_VALUE);
        long ns = 0;
        for (long sent = 0; sent < count; sent += BURST) {
            int burst = (int) Math.min(BURST, count - sent);
            long start = System.nanoTime();
            send(burst);
            ns += System.nanoTime() - start;
            waitUntilRead(burst);
        }
        ran(count, ns);
        contender.send(Messages.END);
        waitUntilRead(1);
        return mean(count, ns, 0, count);
    }

    private void send(int burst) {
        for (int i = 0; i < burst; i++) {
            contender.send(i % Messages.TAGS);
        }
    }

    private void waitUntilRead(int messages) {
        sentBefore += messages;
        words.set(Words.SENT, sentBefore);
        while (words.get(Words.FIRST) != sentBefore) {
            Thread.onSpinWait();
        }
    }
}
