// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.PayloadBuffer;
import io.flyring.Publisher;

/** Makes a message outside and copies it into the ring. */
final class FlyringOffer extends Flyring {
    private final PayloadBuffer message = message();

    FlyringOffer(Setup setup, Messages messages) {
        super(setup, messages);
    }

    @Override
    void send(long tag) {
        messages.write(message, 0, tag);
        while (publisher.offer(message, 0, messages.size) == Publisher.BACK_PRESSURED) {
            // the ring is full: try again
        }
    }
}
