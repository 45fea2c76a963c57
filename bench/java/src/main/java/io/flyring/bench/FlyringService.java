// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.Call;
import io.flyring.Client;
import io.flyring.Message;
import io.flyring.MessageHandler;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import io.flyring.RequestHandler;
import io.flyring.Server;
import java.nio.ByteBuffer;
import java.time.Duration;

/**
 * A service, its server and one client. Round trips: a call that waits for its answer. Streams: up to {@code --option
 * outstanding=N} calls are under way, and every answer is compared. The handler answers with what it got.
 */
final class FlyringService extends FlyringChannel {
    /** How long a wait spins that must not sleep: longer than any run takes. */
    private static final Duration SPIN = Duration.ofHours(1);
    private static final int TYPE = 1;

    private final Client client;
    private final Server server;
    private final PayloadBuffer message = new PayloadBuffer();
    private final long wait;
    private final int limit;
    private final boolean oneAtATime;
    /** Calls under way, each at its number modulo how many there may be. */
    private final Call[] calls;
    private final long[] tags;
    private int next;
    private long expected;
    private final RequestHandler answer = request -> {
        receiver.onMessage(request.buffer(), 0);
        request.reply(request.buffer(), 0, request.length(), TYPE);
    };
    private final MessageHandler toReceiver = got -> receiver.onMessage(got.buffer(), 0);
    private final MessageHandler compare = got -> compare(got.length(), got.buffer(), expected);

    FlyringService(Setup setup, Messages messages) {
        super(needSmall(setup), messages);
        message.wrap(ByteBuffer.allocateDirect(messages.size));
        wait = setup.block ? Long.MAX_VALUE : 0;
        limit = setup.limit();
        int underWay = setup.option("outstanding", 16);
        oneAtATime = underWay == 1;
        calls = new Call[underWay];
        tags = new long[underWay];
        client = setup.producer() ? channel.client() : null;
        server = setup.producer() ? null : channel.server();
        Duration spin = setup.block ? Duration.ZERO : SPIN;
        if (client != null) {
            client.setSpin(spin);
        } else {
            server.setSpin(spin);
        }
    }

    private static Setup needSmall(Setup setup) {
        if (setup.size != SmallMessages.SIZE || !setup.whole) {
            throw new IllegalArgumentException("cannot: flyring-service: 32 bytes, every one written and compared");
        }
        return setup;
    }

    @Override
    void send(long tag) {
        if (client == null) {
            return; // the handler has answered
        }
        if (!setup.streaming()) {
            call(tag, toReceiver);
        } else if (oneAtATime) {
            expected = tag;
            call(tag, compare);
        } else {
            start(tag);
        }
    }

    private void call(long tag, MessageHandler handler) {
        messages.write(message, 0, tag);
        client.call(message, 0, messages.size, TYPE, Long.MAX_VALUE, handler);
    }

    /** Behind the end of the oldest call, if as many as may be are under way. */
    private void start(long tag) {
        Call before = calls[next];
        if (before != null) {
            Message got = before.result();
            compare(got.length(), got.buffer(), tags[next]);
        }
        messages.write(message, 0, tag);
        calls[next] = client.start(message, 0, messages.size, TYPE, Publisher.FOREVER);
        tags[next] = tag;
        next = next + 1 == calls.length ? 0 : next + 1;
    }

    private void compare(int length, PayloadBuffer buffer, long tag) {
        if (length != messages.size || tag != Messages.END && !messages.is(buffer, 0, tag)) {
            throw new IllegalStateException("another call's answer");
        }
        if (tag == Messages.END) {
            messages.mustBeEnd(buffer, 0, 0, tag);
        }
    }

    @Override
    void receive() {
        if (server != null) {
            server.poll(answer, limit, wait);
        }
    }
}
