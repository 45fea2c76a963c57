// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.aeron.logbuffer.BufferClaim;

/** A message is made in the log: tryClaim and commit. Up to the MTU, which is at most 65504 bytes. */
final class AeronClaim extends AeronIpc {
    private final BufferClaim claim = new BufferClaim();

    AeronClaim(Setup setup, Messages messages) {
        super(setup, messages);
    }

    @Override
    void connect() {
        super.connect();
        if (publication != null && messages.size > publication.maxPayloadLength()) {
            throw new IllegalArgumentException("aeron-claim takes " + publication.maxPayloadLength()
                + " bytes at most");
        }
    }

    @Override
    void send(long tag) {
        while (again(publication.tryClaim(messages.size, claim))) {
            // full
        }
        messages.write(claim.buffer(), claim.offset(), tag);
        claim.commit();
    }
}
