// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

/** One mechanism, as its documentation says it is fastest. The constructor opens what this side can open alone. */
abstract class Contender implements AutoCloseable {
    final Setup setup;
    final Messages messages;
    /** Set before the first {@link #receive()}. */
    Receiver receiver;

    Contender(Setup setup, Messages messages) {
        this.setup = setup;
        this.messages = messages;
    }

    /** Opens what needs the other sides. */
    void connect() {
    }

    /** Sends the message with this tag, waiting for room. */
    abstract void send(long tag);

    /** Sends what a contender that gathers messages still has. */
    void flush() {
    }

    /** Looks once; the receiver gets each message that is there. */
    abstract void receive();

    /** The same, waiting for a message, so long at most: for {@code jobs}. */
    void receiveWithin(long ns) {
        throw new IllegalArgumentException("cannot: " + setup.contender + ": it has no jobs");
    }

    /** The library, as versions.properties names it. */
    abstract String library();

    @Override
    public void close() {
    }
}
