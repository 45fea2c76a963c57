// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

/** {@code jobs}, side a: message number s of a slice has the tag s. */
final class JobSender extends Role {
    private final Words words;
    private long slice;

    JobSender(Setup setup, Contender contender) {
        super(setup, contender);
        words = new Words(setup);
    }

    @Override
    String slice(boolean timed) {
        long count = count(Long.MAX_VALUE);
        long start = System.nanoTime();
        for (long sent = 0; sent < count; sent += CHUNK) {
            send(sent, Math.min(sent + CHUNK, count));
        }
        ran(count, System.nanoTime() - start);
        words.set(Words.SENT, words.get(Words.SENT) + count);
        words.set(Words.SLICES, ++slice);
        return "{\"kind\": \"mean\", \"count\": " + count + "}";
    }

    private void send(long from, long behind) {
        for (long number = from; number < behind; number++) {
            contender.send(number);
        }
    }
}
