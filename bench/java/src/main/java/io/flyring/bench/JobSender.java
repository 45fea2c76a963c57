// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.util.concurrent.locks.LockSupport;

/** The role {@code jobs}, side a: message number s of a slice has the tag s. */
final class JobSender extends Role {
    private static final long NAP_NS = 1_000_000;

    private final Words words;
    private final int workers;
    private long slice;

    JobSender(Setup setup, Contender contender) {
        super(setup, contender);
        words = new Words(setup);
        workers = setup.option("workers", 1);
    }

    @Override
    String slice(boolean timed) {
        long count = count(Long.MAX_VALUE);
        long start = System.nanoTime();
        for (long sent = 0; sent < count; sent += CHUNK) {
            send(sent, Math.min(sent + CHUNK, count));
        }
        words.set(Words.SENT, words.get(Words.SENT) + count);
        words.set(Words.SLICES, ++slice);
        while (words.allDone(workers) != words.get(Words.SENT)) { // jobs in the ring must not count as done
            LockSupport.parkNanos(NAP_NS);
        }
        ran(count, System.nanoTime() - start);
        return "{\"kind\": \"mean\", \"count\": " + count + "}";
    }

    private void send(long from, long behind) {
        for (long number = from; number < behind; number++) {
            contender.send(number);
        }
    }
}
