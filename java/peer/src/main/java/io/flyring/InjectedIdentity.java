// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.UUID;

/**
 * Lets the peer inject a channel's identity and time (channel.md 10), which is not part of the public API. Lies in
 * Flyring's package to reach package-private methods.
 */
public final class InjectedIdentity {
    private final Identity identity = new Identity();

    /** Creates an identity with real values, until they are set. */
    public InjectedIdentity() {
    }

    /**
     * Sets the id of a channel to be created.
     *
     * @param id the id.
     */
    public void channelId(UUID id) {
        identity.channelId(id);
    }

    /**
     * Sets the id of the running boot.
     *
     * @param id the id.
     */
    public void bootId(UUID id) {
        identity.bootId(id);
    }

    /**
     * Sets the creation time of a channel.
     *
     * @param nanos nanoseconds since 1970-01-01 UTC.
     */
    public void createdAt(long nanos) {
        identity.createdAt(nanos);
    }

    /**
     * Sets the process id that is written into slots.
     *
     * @param id the process id.
     */
    public void pid(int id) {
        identity.pid(id);
    }

    /**
     * Stops the wall clock at a time.
     *
     * @param nanos nanoseconds since 1970-01-01 UTC.
     */
    public void now(long nanos) {
        identity.clock(() -> nanos);
    }

    /**
     * Sets the time that is stored when a publisher is held back.
     *
     * @param nanos nanoseconds of CLOCK_MONOTONIC.
     */
    public void monotonic(long nanos) {
        identity.monotonic(nanos);
    }

    /**
     * Puts this identity into options.
     *
     * @param options the options of a channel to be created.
     * @return the same options.
     */
    public ChannelOptions in(ChannelOptions options) {
        return options.identity(identity);
    }

    /**
     * Puts this identity into options.
     *
     * @param options the options of a table to be created.
     * @return the same options.
     */
    public TableOptions in(TableOptions options) {
        return options.identity(identity);
    }

    /**
     * Puts this identity into options.
     *
     * @param options how a table is opened.
     * @return the same options.
     */
    public OpenOptions in(OpenOptions options) {
        return options.identity(identity);
    }

    /**
     * Puts this identity into options.
     *
     * @param options the options of a journal to be created.
     * @return the same options.
     */
    public JournalOptions in(JournalOptions options) {
        return options.identity(identity);
    }

    /**
     * Sets a schema by its parts, as other bindings can.
     *
     * @param options the options of a journal to be created.
     * @param text the schema.
     * @param id its id.
     * @param version its version.
     */
    public static void schema(JournalOptions options, byte[] text, int id, int version) {
        options.schema(text, id, version);
    }

    /**
     * Sets what the messages of a journal are, as other bindings can.
     *
     * @param options the options of a journal to be created.
     * @param value 0 the user's, 1 a recording.
     */
    public static void content(JournalOptions options, int value) {
        options.content(value);
    }
}
