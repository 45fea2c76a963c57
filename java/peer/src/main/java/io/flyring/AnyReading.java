// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;

/**
 * A reader or a consumer of a journal: the verbs that both have. Lies in Flyring's package to reach the package-private
 * class that both extend.
 */
public final class AnyReading {
    private final JournalReads reads;

    /**
     * Wraps a reader.
     *
     * @param reader the reader.
     */
    public AnyReading(JournalReader reader) {
        reads = reader;
    }

    /**
     * Wraps a consumer.
     *
     * @param consumer the consumer.
     */
    public AnyReading(JournalConsumer consumer) {
        reads = consumer;
    }

    /**
     * Polls.
     *
     * @param handler gets the messages.
     * @param limit how many at most.
     * @param timeout ns to wait for the first.
     * @return how many were consumed.
     */
    public int poll(MessageHandler handler, int limit, long timeout) {
        return reads.poll(handler, limit, timeout);
    }

    /**
     * Polls with actions.
     *
     * @param handler gets the messages.
     * @param limit how many at most.
     * @param timeout how long to wait for the first.
     * @return how many were consumed.
     */
    public int controlledPoll(ControlledMessageHandler handler, int limit, Duration timeout) {
        return reads.controlledPoll(handler, limit, timeout);
    }

    /**
     * Takes a message.
     *
     * @param timeout ns to wait for it.
     * @return the message, or null.
     */
    public Message take(long timeout) {
        return reads.take(timeout);
    }

    /**
     * Whether all is read.
     *
     * @return whether the writer has closed and nothing is left.
     */
    public boolean ended() {
        return reads.ended();
    }

    /**
     * Where it is.
     *
     * @return bytes since the journal's creation.
     */
    public long position() {
        return reads.position();
    }

    /**
     * Which message is next.
     *
     * @return how many messages lie before.
     */
    public long number() {
        return reads.number();
    }

    /**
     * What it lost.
     *
     * @return the number of messages.
     */
    public long lost() {
        return reads.lost();
    }

    /**
     * How many cuts it met.
     *
     * @return the number.
     */
    public long cuts() {
        return reads.cuts();
    }

    /**
     * Sets how long a wait spins.
     *
     * @param time the time.
     */
    public void setSpin(Duration time) {
        reads.setSpin(time);
    }

    /** Closes it. */
    public void close() {
        reads.close();
    }
}
