// SPDX-License-Identifier: Apache-2.0
package io.flyring.demo;

import io.flyring.ChannelOptions;
import io.flyring.Claim;
import io.flyring.MessageHandler;
import io.flyring.Publisher;

/** Writes and reads the messages of ping and pong, raw or typed. Works on one present message at a time. */
interface Exchange {
    long PROBE = 0;
    long END = -1;

    static Exchange of(Options options) {
        return options.typed ? new TypedExchange() : new RawExchange(options.size);
    }

    /** Adds what this exchange needs to the channel's options. */
    default ChannelOptions channel(ChannelOptions options) {
        return options;
    }

    /** A handler that makes each message the present one and runs an action. */
    MessageHandler handler(Runnable action);

    /** Claims space for a message; null if back-pressured. */
    Claim claim(Publisher publisher);

    /** Claims space for the answer to the present message; null if back-pressured. */
    default Claim claimAnswer(Publisher publisher) {
        return claim(publisher);
    }

    /** Writes ping's message into the claim. */
    void ask(long sequence, long sendTime);

    /** Writes the answer to the present message into the claim. */
    void answer();

    /** The sequence of the present message, or PROBE, or END. */
    long sequence();

    /** Throws if the present message is not a correct question. */
    void checkQuestion();

    /** Throws if the present message is not the answer to this question. */
    void checkAnswer(long sequence, long sendTime);
}
