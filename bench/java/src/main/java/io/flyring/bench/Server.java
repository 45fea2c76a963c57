// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.DirectBuffer;

/** The roles {@code rtt} and {@code schedule}, side b: answers. */
final class Server extends Role {
    private long number;
    private boolean here;
    private boolean ended;

    Server(Setup setup, Contender contender) {
        super(setup, contender);
    }

    @Override
    String slice(boolean timed) {
        number = 0;
        ended = false;
        while (!ended) {
            serve();
        }
        contender.send(Messages.END);
        contender.flush();
        return null;
    }

    private void serve() {
        for (int i = 0; i < CHUNK && !ended; i++) {
            here = false;
            contender.receive();
            if (here) {
                contender.send(Messages.tag(0, number));
                contender.flush();
                number++;
            }
        }
    }

    @Override
    void onMessage(DirectBuffer buffer, int at) {
        long tag = Messages.tag(0, number);
        if (messages.is(buffer, at, tag)) {
            here = true;
        } else {
            messages.mustBeEnd(buffer, at, number, tag);
            ended = true;
        }
    }
}
