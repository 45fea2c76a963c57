// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.Claim;
import io.flyring.Message;
import io.flyring.MessageHandler;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;

/** Exchanges {@link Quote}s of any size. */
final class RawExchange implements Exchange {
    private final int size;
    private Message message;
    private PayloadBuffer claimed;

    RawExchange(int size) {
        this.size = size;
    }

    @Override
    public MessageHandler handler(Runnable action) {
        return here -> {
            message = here;
            action.run();
        };
    }

    @Override
    public Claim claim(Publisher publisher) {
        return claim(publisher, size);
    }

    @Override
    public Claim claimAnswer(Publisher publisher) {
        return claim(publisher, message.length());
    }

    private Claim claim(Publisher publisher, int length) {
        Claim claim = publisher.tryClaim(length);
        if (claim != null) {
            claimed = claim.buffer();
        }
        return claim;
    }

    @Override
    public void ask(long sequence, long sendTime) {
        Quote.write(claimed, size, sequence, sendTime, Quote.price(sequence));
    }

    @Override
    public void answer() {
        Quote.answer(message.buffer(), claimed, message.length());
    }

    @Override
    public long sequence() {
        return message.buffer().getLong(Quote.SEQUENCE);
    }

    @Override
    public void checkQuestion() {
        // nothing to check: pong sends back what came
    }

    @Override
    public void checkAnswer(long sequence, long sendTime) {
        Quote.checkAnswer(message.buffer(), message.length(), size, sequence, sendTime, Quote.price(sequence));
    }
}
