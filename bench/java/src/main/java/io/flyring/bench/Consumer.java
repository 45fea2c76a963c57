// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.DirectBuffer;

/** The role {@code stream}, sides b and b2, with one producer; counts what a lossy contender has lost. */
class Consumer extends Role {
    private final boolean lossy;
    private long number;
    private long lost;
    private boolean ended;

    Consumer(Setup setup, Contender contender) {
        super(setup, contender);
        lossy = setup.option("lossy", 0) != 0;
    }

    @Override
    String slice(boolean timed) {
        number = 0;
        lost = 0;
        ended = false;
        while (number == 0 && !ended) {
            contender.receive();
        }
        long start = System.nanoTime();
        long first = number - lost;
        while (!ended) {
            receive();
        }
        long ns = System.nanoTime() - start;
        return mean(number - lost, ns, lost, number - lost - first);
    }

    private void receive() {
        for (int i = 0; i < CHUNK && !ended; i++) {
            contender.receive();
        }
    }

    @Override
    void onMessage(DirectBuffer buffer, int at) {
        if (messages.is(buffer, at, Messages.tag(0, number))) {
            number++;
        } else {
            other(buffer, at);
        }
    }

    private void other(DirectBuffer buffer, int at) {
        long tag = Messages.tag(0, number);
        long found = Messages.word0(buffer, at);
        if (lossy && found >= 0 && found < Messages.TAGS) {
            long gap = Math.floorMod(found - tag, (long) Messages.TAGS);
            if (!messages.is(buffer, at, found)) {
                throw Messages.wrong(buffer, at, number + gap, found);
            }
            lost += gap;
            number += gap + 1;
        } else {
            messages.mustBeEnd(buffer, at, number, tag);
            ended = true;
        }
    }
}
