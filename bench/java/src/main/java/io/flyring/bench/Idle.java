// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.DirectBuffer;

/** The role {@code idle}: side a sends the end at once; the others wait for it. */
final class Idle extends Role {
    private boolean here;

    Idle(Setup setup, Contender contender) {
        super(setup, contender);
    }

    @Override
    String slice(boolean timed) {
        if (setup.producer()) {
            contender.send(Messages.END);
            contender.flush();
            return null;
        }
        here = false;
        while (!here) {
            contender.receive();
        }
        return null;
    }

    @Override
    void onMessage(DirectBuffer buffer, int at) {
        messages.mustBeEnd(buffer, at, 0, 0);
        here = true;
    }
}
