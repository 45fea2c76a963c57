// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.DirectBuffer;

/** The role {@code burst}, side b: reads each burst after all of it was sent. */
final class BurstReader extends Role {
    private final Words words;
    private long readBefore;
    private long number;
    private boolean ended;

    BurstReader(Setup setup, Contender contender) {
        super(setup, contender);
        words = new Words(setup);
    }

    @Override
    String slice(boolean timed) {
        number = 0;
        ended = false;
        while (!ended) {
            long sent = words.get(Words.SENT);
            if (sent == readBefore) {
                Thread.onSpinWait();
            } else {
                read(number + sent - readBefore);
                readBefore = sent;
                words.set(Words.FIRST, readBefore);
            }
        }
        return "{\"kind\": \"mean\", \"count\": " + number + "}";
    }

    private void read(long behind) {
        while (number < behind && !ended) {
            contender.receive();
        }
    }

    @Override
    void onMessage(DirectBuffer buffer, int at) {
        long tag = Messages.tag(0, number);
        if (messages.is(buffer, at, tag)) {
            number++;
        } else {
            messages.mustBeEnd(buffer, at, number, tag);
            ended = true;
        }
    }
}
