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

/** Flyring as its README shows it: one channel, a publisher and a subscriber per side. Uses the same file as C++. */
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
        int capacity = capacity(setup, messages);
        boolean many = capacity / messages.size >= 256; // a ring of few would run empty first
        // The default of 5 us, or the time that a fast publisher takes to fill the ring, if that is less.
        int standBack = setup.option("stand-back", Math.min(5 * (capacity / messages.size), 5000));
        idle = switch (setup.option("idle", setup.streaming() && many ? "batch" : "spin")) {
            case "batch" -> new BatchSpinIdleStrategy(standBack);
            case "none" -> NoOpIdleStrategy.INSTANCE;
            default -> new SpinIdleStrategy();
        };
        channel = open(setup, capacity);
        publisher = setup.sends() ? channel.publisher(setup.producer() ? "a" + setup.number() : "b") : null;
        subscriber = !setup.receives() ? null
            : publisher == null ? channel.subscriber() : channel.subscriber(1 - publisher.ring());
    }

    static int capacity(Setup setup, Messages messages) {
        // For messages that are written whole: no more than a cache holds. Else: enough for a reader that stands back.
        int atLeast = setup.streaming() ? (messages.whole ? 128 : 512) * messages.size : 0;
        return setup.option("capacity", Math.max(1 << 20, atLeast));
    }

    /** Opens the channel; option {@code kind} is inbox, queue or service, else it is a broadcast. */
    static Channel open(Setup setup, int capacity) {
        int senders = setup.streaming() ? setup.producers() : 2;
        ChannelOptions options = switch (setup.option("kind", "broadcast")) {
            case "inbox" -> ChannelOptions.inbox().publishers(senders);
            case "queue" -> ChannelOptions.queue().producers(senders).workers(setup.option("workers", 1));
            case "service" -> ChannelOptions.service().clients(1);
            default -> ChannelOptions.broadcast().publishers(senders)
                .subscribers(Math.max(2, setup.option("consumers", 2)));
        };
        return Channel.openOrCreate(setup.path("channel.ring").toString(), options
            .capacity(capacity)
            .alignment(setup.option("alignment", 64))
            .counters(0));
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

    @Override
    String library() {
        return "flyring";
    }

    @Override
    public void close() {
        channel.close();
    }
}
