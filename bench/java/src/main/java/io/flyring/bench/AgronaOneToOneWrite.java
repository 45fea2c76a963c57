// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.ringbuffer.OneToOneRingBuffer;
import org.agrona.concurrent.ringbuffer.RingBuffer;

/** Makes a message outside and copies it into the ring. */
final class AgronaOneToOneWrite extends AgronaRing {
    private final UnsafeBuffer message = message(messages.size);

    AgronaOneToOneWrite(Setup setup, Messages messages) {
        super(setup, messages);
    }

    @Override
    RingBuffer ring(UnsafeBuffer buffer) {
        return new OneToOneRingBuffer(buffer);
    }

    @Override
    void send(long tag) {
        messages.write(message, 0, tag);
        while (!ring.write(TYPE, message, 0, messages.size)) {
            // the ring is full: try again
        }
    }
}
