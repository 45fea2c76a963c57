// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.UUID;

/**
 * Gives the peer what Flyring's users do not get: a channel's identity and time (spec 10). In Flyring's package, since
 * nothing public does.
 */
public final class InjectedIdentity {
    private final Identity identity = new Identity();

    /** An identity that is real until something is set. */
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
     * Sets when a channel is created.
     *
     * @param nanos nanoseconds since 1970.
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
     * Sets the wall clock to a time at which it stays.
     *
     * @param nanos nanoseconds since 1970.
     */
    public void now(long nanos) {
        identity.clock(() -> nanos);
    }

    /**
     * Sets the time that says since when a publisher is held back.
     *
     * @param nanos nanoseconds of CLOCK_MONOTONIC.
     */
    public void monotonic(long nanos) {
        identity.monotonic(nanos);
    }

    /**
     * Puts this identity into options.
     *
     * @param options those of a channel to be created.
     * @return the same options.
     */
    public ChannelOptions in(ChannelOptions options) {
        return options.identity(identity);
    }
}
