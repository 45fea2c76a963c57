// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.Claim;

/** Makes a message in the ring. */
final class FlyringClaim extends Flyring {
    FlyringClaim(Setup setup, Messages messages) {
        super(setup, messages);
    }

    @Override
    void send(long tag) {
        Claim claim = publisher.tryClaim(messages.size);
        while (claim == null) {
            claim = publisher.tryClaim(messages.size);
        }
        messages.write(claim.buffer(), 0, tag);
        claim.commit();
    }
}
