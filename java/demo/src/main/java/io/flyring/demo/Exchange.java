// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.ChannelOptions;
import io.flyring.Claim;
import io.flyring.MessageHandler;
import io.flyring.Publisher;

/** How ping and pong write and read their messages: raw or typed. One message is at hand at a time. */
interface Exchange {
    long PROBE = 0;
    long END = -1;

    static Exchange of(Options options) {
        return options.typed ? new TypedExchange() : new RawExchange(options.size);
    }

    /** Makes the channel fit. */
    default ChannelOptions channel(ChannelOptions options) {
        return options;
    }

    /** A handler that takes each message in hand and runs something. */
    MessageHandler handler(Runnable action);

    /** Space for a message; null if back-pressured. */
    Claim claim(Publisher publisher);

    /** Space for the answer to the message at hand; null if back-pressured. */
    default Claim claimAnswer(Publisher publisher) {
        return claim(publisher);
    }

    /** Writes ping's message into the claim. */
    void ask(long sequence, long sendTime);

    /** Writes the answer to the message at hand into the claim. */
    void answer();

    /** Of the message at hand, or PROBE, or END. */
    long sequence();

    /** Throws if the question at hand is wrong. */
    void checkQuestion();

    /** Throws if the answer at hand is not that to this. */
    void checkAnswer(long sequence, long sendTime);
}
