// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.Channel;
import io.flyring.Claim;
import io.flyring.Message;
import io.flyring.MessageHandler;
import io.flyring.Publisher;
import io.flyring.Subscriber;

/** Sends every message back with its quantity negated, until one has sequence -1. */
final class Pong implements MessageHandler {
    private final Options options;
    private final Patience patience;
    private Publisher publisher;
    private boolean ended;

    Pong(Options options) {
        this.options = options;
        this.patience = new Patience(options, "ping");
    }

    void run() {
        try (Channel channel = Ping.channel(options);
            Publisher answers = channel.publisher("pong");
            Subscriber subscriber = channel.subscriber(1 - answers.ring())) {
            publisher = answers;
            while (!ended) {
                serve(subscriber);
            }
        }
    }

    /** One turn; a method of its own, so that it is compiled as a whole. */
    private void serve(Subscriber subscriber) {
        if (subscriber.poll(this, 1) == 0) {
            patience.idle();
        } else {
            patience.reset();
        }
    }

    @Override
    public void onMessage(Message message) {
        int length = message.length();
        if (message.buffer().getLong(Quote.SEQUENCE) == Quote.END) {
            ended = true;
            return;
        }
        Claim claim = publisher.claim(length);
        while (claim == null) {
            patience.idle();
            claim = publisher.claim(length);
        }
        Quote.answer(message.buffer(), claim.buffer(), length);
        claim.commit();
    }
}
