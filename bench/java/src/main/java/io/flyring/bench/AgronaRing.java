// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.nio.ByteBuffer;
import org.agrona.BufferUtil;
import org.agrona.concurrent.BusySpinIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.MessageHandler;
import org.agrona.concurrent.NoOpIdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.ringbuffer.RingBuffer;
import org.agrona.concurrent.ringbuffer.RingBufferDescriptor;

/** One of Agrona's ring buffers over a mapped file per direction. The option {@code capacity} excludes the trailer. */
abstract class AgronaRing extends Contender {
    static final int TYPE = 1;

    /** The ring through which this side sends. */
    final RingBuffer ring;
    private final RingBuffer incoming;
    private final int limit;
    private final IdleStrategy idle;
    private final MessageHandler handler = (type, buffer, index, length) -> receiver.onMessage(buffer, index);

    AgronaRing(Setup setup, Messages messages) {
        super(setup, messages);
        limit = setup.limit();
        idle = setup.streaming() ? NoOpIdleStrategy.INSTANCE : new BusySpinIdleStrategy(); // the faster one for each
        ring = setup.sends() ? ring(file(setup.producer() ? "a" : "b")) : null;
        incoming = setup.receives() ? ring(file(setup.producer() ? "b" : "a")) : null;
    }

    abstract RingBuffer ring(UnsafeBuffer buffer);

    private UnsafeBuffer file(String name) {
        int length = setup.option("capacity", 1 << 20) + RingBufferDescriptor.TRAILER_LENGTH;
        return new UnsafeBuffer(Mapped.file(setup, name, length));
    }

    /** Memory for one message outside the ring. */
    static UnsafeBuffer message(int size) {
        ByteBuffer memory = BufferUtil.allocateDirectAligned(size, 64);
        return new UnsafeBuffer(memory);
    }

    @Override
    void receive() {
        idle.idle(incoming.read(handler, limit));
    }

    @Override
    String library() {
        return "agrona";
    }
}
