// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.BatchSpinIdleStrategy;
import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.MessageHandler;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import io.flyring.SpinIdleStrategy;
import io.flyring.Subscriber;
import java.nio.ByteBuffer;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.NoOpIdleStrategy;

/** Flyring as its README shows it: one channel, a publisher and a subscriber per side. The same file as in C++. */
abstract class Flyring extends Contender {
    final Publisher publisher;
    final Subscriber subscriber;
    final MessageHandler handler = handler();
    final int limit;
    private final Channel channel;
    private final IdleStrategy idle;

    Flyring(Setup setup, Messages messages) {
        super(setup, messages);
        limit = setup.limit();
        // Messages that are written whole: no more than a cache holds. In place: enough for a reader that stands back.
        int atLeast = setup.streaming() ? (messages.whole ? 128 : 512) * messages.size : 0;
        int capacity = setup.option("capacity", Math.max(1 << 20, atLeast));
        boolean many = capacity / messages.size >= 256; // a ring of few would be empty before a reader stands back
        // 5 us, which is the default, or what a fast publisher takes to fill the ring, if that is less.
        int standBack = setup.option("stand-back", Math.min(5 * (capacity / messages.size), 5000));
        idle = switch (setup.option("idle", setup.streaming() && many ? "batch" : "spin")) {
            case "batch" -> new BatchSpinIdleStrategy(standBack);
            case "none" -> NoOpIdleStrategy.INSTANCE;
            default -> new SpinIdleStrategy();
        };
        channel = Channel.openOrCreate(setup.path("channel.ring").toString(), ChannelOptions.broadcast()
            .capacity(capacity)
            .alignment(setup.option("alignment", 64))
            .publishers(setup.streaming() ? setup.producers() : 2)
            .subscribers(Math.max(2, setup.option("consumers", 2)))
            .counters(0));
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

    /** What the poll calls. */
    MessageHandler handler() {
        if (!setup.streaming() && setup.option("prefetch", 1) != 0) {
            return message -> {
                publisher.prefetch(); // whoever receives a message sends one next
                receiver.onMessage(message.buffer(), 0);
            };
        }
        return message -> receiver.onMessage(message.buffer(), 0);
    }

    @Override
    void receive() {
        idle.idle(subscriber.poll(handler, limit));
    }

    @Override
    String library() {
        return "flyring";
    }

    @Override
    public void close() {
        channel.close();
    }
}
