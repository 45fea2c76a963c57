// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.Channel;
import io.flyring.ChannelOptions;

/** One Flyring channel, in the same file as that of C++. Option {@code kind}: inbox, broadcast, queue or service. */
abstract class FlyringChannel extends Contender {
    final Channel channel;
    final int capacity;

    FlyringChannel(Setup setup, Messages messages) {
        super(setup, messages);
        // For messages that are written whole: no more than a cache holds. Else: enough for a reader that stands back.
        int atLeast = setup.streaming() ? (messages.whole ? 128 : 512) * messages.size : 0;
        capacity = setup.option("capacity", Math.max(1 << 20, atLeast));
        int senders = setup.streaming() ? setup.producers() : 2;
        ChannelOptions options = switch (setup.option("kind", "broadcast")) {
            case "inbox" -> ChannelOptions.inbox().publishers(senders);
            case "queue" -> ChannelOptions.queue().producers(senders).workers(setup.option("workers", 1));
            case "service" -> ChannelOptions.service().clients(1);
            default -> ChannelOptions.broadcast().publishers(senders)
                .subscribers(Math.max(2, setup.option("consumers", 2)));
        };
        channel = Channel.openOrCreate(setup.path("channel.ring").toString(), options
            .capacity(capacity)
            .alignment(setup.option("alignment", 64))
            .counters(0));
    }

    @Override
    final String library() {
        return "flyring";
    }

    @Override
    public final void close() {
        channel.close();
    }
}
