// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.Claim;
import java.time.Duration;

/** Uses verbs that wait, without spinning first. */
final class FlyringBlock extends Flyring {
    FlyringBlock(Setup setup, Messages messages) {
        super(setup, messages);
        Duration spin = Duration.ofNanos(1000L * setup.option("spin", 0));
        if (publisher != null) {
            publisher.setSpin(spin);
        }
        if (subscriber != null) {
            subscriber.setSpin(spin);
        }
    }

    @Override
    void send(long tag) {
        Claim claim = publisher.claim(messages.size);
        messages.write(claim.buffer(), 0, tag);
        claim.commit();
    }

    @Override
    void receive() {
        subscriber.poll(handler, limit, Long.MAX_VALUE);
    }
}
