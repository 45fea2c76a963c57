// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.Channel;
import io.flyring.Claim;
import io.flyring.MessageHandler;
import io.flyring.Publisher;
import io.flyring.Subscriber;

/** Answers every message until the END message. */
final class Pong {
    private final Options options;
    private final Exchange exchange;
    private final MessageHandler handler;
    private final Patience patience;
    private Publisher publisher;
    private boolean ended;

    Pong(Options options) {
        this.options = options;
        this.exchange = Exchange.of(options);
        this.handler = exchange.handler(this::onMessage);
        this.patience = new Patience(options, "ping");
    }

    void run() {
        try (Channel channel = Ping.channel(options, exchange);
            Publisher answers = channel.publisher("pong");
            Subscriber subscriber = channel.subscriber(1 - answers.ring())) {
            publisher = answers;
            patience.sleepsFor(subscriber);
            while (!ended) {
                serve(subscriber);
            }
        }
    }

    /** Serves one turn; a separate method, so that it is compiled as a whole. */
    private void serve(Subscriber subscriber) {
        if (subscriber.poll(handler, 1) == 0) {
            patience.idle();
        } else {
            patience.reset();
        }
    }

    private void onMessage() {
        publisher.prefetch(); // for the answer
        exchange.checkQuestion();
        if (exchange.sequence() == Exchange.END) {
            ended = true;
            return;
        }
        Claim claim = exchange.claimAnswer(publisher);
        while (claim == null) {
            patience.idle();
            claim = exchange.claimAnswer(publisher);
        }
        exchange.answer();
        claim.commit();
    }
}
