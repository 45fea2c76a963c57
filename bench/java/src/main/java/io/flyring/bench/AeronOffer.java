// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.concurrent.UnsafeBuffer;

/** Makes a message outside and copies it into the log, in fragments if it is longer than the MTU. */
final class AeronOffer extends AeronIpc {
    private final UnsafeBuffer message = AgronaRing.message(messages.size);

    AeronOffer(Setup setup, Messages messages) {
        super(setup, messages);
    }

    @Override
    void send(long tag) {
        messages.write(message, 0, tag);
        while (again(publication.offer(message, 0, messages.size))) {
            // the log is full: try again
        }
    }
}
