// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

/**
 * One mechanism, in the way that its documentation calls fastest. The constructor opens what this side can open alone.
 */
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

    /** What {@link #connect} found out, as further members of the JSON answer to the driver (PEER.md). */
    String found() {
        return "";
    }

    /** Sends the message with this tag, waiting for room. */
    abstract void send(long tag);

    /** Sends the rest, for a contender that gathers messages. */
    void flush() {
    }

    /** The end of a slice, outside of all clocks, for a contender that keeps messages. */
    void sliceEnds() {
    }

    /** Looks once; passes each available message to the receiver. */
    abstract void receive();

    /** Does the same, but waits for a message for at most {@code ns}: for {@code jobs}. */
    void receiveWithin(long ns) {
        throw new IllegalArgumentException("cannot: " + setup.contender + ": it has no jobs");
    }

    /** The library's name in versions.properties. */
    abstract String library();

    @Override
    public void close() {
    }
}
