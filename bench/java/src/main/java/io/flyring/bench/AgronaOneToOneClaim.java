// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.ringbuffer.OneToOneRingBuffer;
import org.agrona.concurrent.ringbuffer.RingBuffer;

/** One producer, one consumer. */
final class AgronaOneToOneClaim extends AgronaClaim {
    AgronaOneToOneClaim(Setup setup, Messages messages) {
        super(setup, messages);
    }

    @Override
    RingBuffer ring(UnsafeBuffer buffer) {
        return new OneToOneRingBuffer(buffer);
    }
}
