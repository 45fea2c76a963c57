// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.DirectBuffer;

/** The role {@code jobs}, sides b and b2: one of them does each job. */
final class JobWorker extends Role {
    private static final long WAIT_NS = 2_000_000;

    private final Words words;
    private final int workers;
    private final long jobNs;
    private long slice;
    private long doneBefore;
    private long count;
    private long next;
    private long sum;
    private long squares;
    private long start;

    JobWorker(Setup setup, Contender contender) {
        super(setup, contender);
        words = new Words(setup);
        workers = setup.option("workers", 1);
        jobNs = setup.option("job", 0);
    }

    @Override
    String slice(boolean timed) {
        slice++;
        count = 0;
        next = 0;
        sum = 0;
        squares = 0;
        start = 0;
        long end = 0;
        long noted = 0;
        while (true) {
            work();
            if (count != noted) {
                end = System.nanoTime();
                noted = count;
                words.set(Words.FIRST + setup.number(), doneBefore + count);
            }
            if (words.get(Words.SLICES) == slice && words.allDone(workers) == words.get(Words.SENT)) {
                break;
            }
            contender.receiveWithin(WAIT_NS);
        }
        doneBefore += count;
        return "{\"kind\": \"mean\", \"count\": " + count + ", \"start\": " + start + ", \"end\": " + end
            + ", \"sum\": " + Long.toUnsignedString(sum) + ", \"squares\": " + Long.toUnsignedString(squares) + "}";
    }

    /** Works until there is nothing to do. */
    private void work() {
        long before;
        do {
            before = count;
            for (int i = 0; i < CHUNK; i++) {
                long had = count;
                contender.receive();
                if (count == had) {
                    return;
                }
            }
        } while (count != before);
    }

    @Override
    void onMessage(DirectBuffer buffer, int at) {
        if (count == 0) {
            start = System.nanoTime();
        }
        long number = Messages.word0(buffer, at);
        if (number < next || !messages.is(buffer, at, number)) {
            throw Messages.wrong(buffer, at, next, number);
        }
        next = number + 1;
        count++;
        sum += number;
        squares += number * number;
        if (jobNs != 0) {
            long begun = System.nanoTime();
            long now;
            do {
                now = System.nanoTime();
            } while (now - begun < jobNs);
        }
    }
}
