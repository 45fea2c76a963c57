// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.ringbuffer.ManyToOneRingBuffer;
import org.agrona.concurrent.ringbuffer.RingBuffer;

/** Any number of producers, one consumer; the consumer clears what it has read. */
final class AgronaManyToOne extends AgronaClaim {
    AgronaManyToOne(Setup setup, Messages messages) {
        super(setup, messages);
    }

    @Override
    RingBuffer ring(UnsafeBuffer buffer) {
        return new ManyToOneRingBuffer(buffer);
    }
}
