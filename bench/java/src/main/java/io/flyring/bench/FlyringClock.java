// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.Claim;

/** Makes a message in the ring, and reads a clock for each of them, as a journal does. */
final class FlyringClock extends Flyring {
    private long latest = System.nanoTime();

    FlyringClock(Setup setup, Messages messages) {
        super(setup, messages);
    }

    @Override
    void send(long tag) {
        latest = System.nanoTime();
        Claim claim = publisher.tryClaim(messages.size);
        while (claim == null) {
            claim = publisher.tryClaim(messages.size);
        }
        messages.write(claim.buffer(), 0, tag);
        claim.commit();
    }

    /** So that the clock's time is used. */
    @Override
    void sliceEnds() {
        if (latest > System.nanoTime()) {
            throw new IllegalStateException("the clock has gone back");
        }
    }
}
