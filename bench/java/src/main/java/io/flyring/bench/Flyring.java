// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.BatchSpinIdleStrategy;
import io.flyring.MessageHandler;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import io.flyring.SpinIdleStrategy;
import io.flyring.Subscriber;
import java.nio.ByteBuffer;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.NoOpIdleStrategy;

/** Flyring as its README shows it: one channel, a publisher and a subscriber per side. */
abstract class Flyring extends FlyringChannel {
    final Publisher publisher;
    final Subscriber subscriber;
    final MessageHandler handler = handler();
    final int limit;
    private final IdleStrategy idle;

    Flyring(Setup setup, Messages messages) {
        super(setup, messages);
        limit = setup.limit();
        boolean many = capacity / messages.size >= 256; // a ring of few would run empty first
        // The default of 5 us, or the time that a fast publisher takes to fill the ring, if that is less.
        int standBack = setup.option("stand-back", Math.min(5 * (capacity / messages.size), 5000));
        idle = switch (setup.option("idle", setup.streaming() && many ? "batch" : "spin")) {
            case "batch" -> new BatchSpinIdleStrategy(standBack);
            case "none" -> NoOpIdleStrategy.INSTANCE;
            default -> new SpinIdleStrategy();
        };
        publisher = setup.sends() ? channel.publisher(setup.producer() ? "a" + setup.number() : "b") : null;
        subscriber = !setup.receives() ? null
            : publisher == null ? channel.subscriber() : channel.subscriber(1 - publisher.ring());
    }

    /** Memory for one message outside the ring. */
    PayloadBuffer message() {
        PayloadBuffer message = new PayloadBuffer();
        message.wrap(ByteBuffer.allocateDirect(messages.size));
        return message;
    }

    /** The handler that the poll calls. */
    MessageHandler handler() {
        if (!setup.streaming() && setup.option("prefetch", 1) != 0) {
            return message -> {
                publisher.prefetch(); // after each message received, one is sent
                receiver.onMessage(message.buffer(), 0);
            };
        }
        return message -> receiver.onMessage(message.buffer(), 0);
    }

    @Override
    void receive() {
        idle.idle(subscriber.poll(handler, limit));
    }
}
