// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.util.Arrays;
import org.agrona.DirectBuffer;

/** The role {@code stream}, side b, with several producers: the messages of each come in order. */
final class MergingConsumer extends Role {
    private final long[] next;
    private long received;
    private int ends;

    MergingConsumer(Setup setup, Contender contender) {
        super(setup, contender);
        next = new long[setup.producers()];
    }

    @Override
    String slice(boolean timed) {
        Arrays.fill(next, 0);
        received = 0;
        ends = 0;
        while (received == 0 && ends < next.length) {
            contender.receive();
        }
        long start = System.nanoTime();
        long first = received;
        while (ends < next.length) {
            receive();
        }
        long ns = System.nanoTime() - start;
        return mean(received, ns, 0, received - first);
    }

    private void receive() {
        for (int i = 0; i < CHUNK && ends < next.length; i++) {
            contender.receive();
        }
    }

    @Override
    void onMessage(DirectBuffer buffer, int at) {
        long tag = Messages.word0(buffer, at);
        if (tag < 0 || tag >= (long) Messages.TAGS * next.length) {
            messages.mustBeEnd(buffer, at, received, tag);
            ends++;
            return;
        }
        int producer = (int) tag / Messages.TAGS;
        if (tag != Messages.tag(producer, next[producer]) || !messages.is(buffer, at, tag)) {
            throw Messages.wrong(buffer, at, next[producer], Messages.tag(producer, next[producer]));
        }
        next[producer]++;
        received++;
    }
}
