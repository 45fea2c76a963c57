// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.aeron.logbuffer.BufferClaim;

/** Makes a message in the log, by tryClaim and commit. A message is at most as long as the MTU, 65504 bytes at most. */
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
            // the log is full: try again
        }
        messages.write(claim.buffer(), claim.offset(), tag);
        claim.commit();
    }
}
