// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench.jmh;

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import java.util.UUID;

/** Creates channels that no other process can open. */
final class Rings {
    private Rings() {
    }

    /** A channel with its name already removed. */
    static Channel channel(ChannelOptions options) {
        String name = "jmh-" + UUID.randomUUID();
        Channel channel = Channel.create(name, options);
        Channel.unlink(name);
        return channel;
    }
}
