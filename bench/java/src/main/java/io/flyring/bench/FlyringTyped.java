// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.Claim;
import io.flyring.MessageHandler;
import io.flyring.sbe.Dispatcher;

/** Encodes and decodes every field of a typed message in the ring; a payload is as long as --size says. */
final class FlyringTyped extends Flyring {
    private final PriceUpdates updates;
    private final int more;

    FlyringTyped(Setup setup) {
        this(setup, new PriceUpdates(setup.size));
    }

    private FlyringTyped(Setup setup, PriceUpdates updates) {
        super(setup, updates);
        this.updates = updates;
        this.more = setup.size - PriceUpdates.LENGTH;
    }

    @Override
    MessageHandler handler() {
        return new Dispatcher().on(((PriceUpdates) messages).decoder,
            (update, message) -> receiver.onMessage(message.buffer(), PriceUpdates.HEADER_LENGTH));
    }

    @Override
    void send(long tag) {
        Claim claim;
        do { // a single call to claim, inlined once: compilers limit the number of nodes
            claim = publisher.tryClaim(updates.encoder, more);
        } while (claim == null);
        updates.write(claim.buffer(), PriceUpdates.HEADER_LENGTH, tag);
        claim.commit();
    }
}
