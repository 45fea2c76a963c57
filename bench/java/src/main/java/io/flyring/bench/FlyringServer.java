// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.Call;
import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Client;
import io.flyring.Message;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import io.flyring.RequestHandler;
import io.flyring.Server;
import java.nio.ByteBuffer;
import java.time.Duration;

/**
 * A key-value server: a Flyring service in front of a table, which the server's process alone opens. Up to {@code
 * --option outstanding=N} calls are under way. Both sides spin. An absent key has an empty answer.
 */
final class FlyringServer extends FlyringTable {
    /** How long a wait spins that must not sleep: longer than any run takes. */
    private static final Duration SPIN = Duration.ofHours(1);
    private static final int TYPE = 1;
    private static final int LIMIT = 256;

    private final Channel channel;
    private Client client;
    private Server server;
    private final PayloadBuffer question = new PayloadBuffer();
    /** Calls under way, each at its number modulo how many there may be. */
    private final Call[] calls;
    private final int[] places;
    private int next;
    private final RequestHandler answer = request -> {
        int length = table.get(request.buffer().getLong(0), buffer, 0);
        request.reply(buffer, 0, Math.max(length, 0), TYPE);
    };

    FlyringServer(Setup setup, Messages messages) {
        super(setup, messages);
        question.wrap(ByteBuffer.allocateDirect(Long.BYTES));
        int underWay = setup.option("outstanding", 64);
        calls = new Call[underWay];
        places = new int[underWay];
        channel = Channel.openOrCreate(setup.path("service.ring").toString(), ChannelOptions.service());
        if (setup.client()) {
            client = channel.client();
            client.setSpin(SPIN);
        }
    }

    @Override
    boolean serves() {
        return true;
    }

    @Override
    void join() {
        open();
        server = channel.server();
        server.setSpin(SPIN);
    }

    @Override
    void serve() {
        server.poll(answer, LIMIT, 0);
    }

    /** Starts a call, behind the end of the oldest one if as many as may be are under way. */
    @Override
    boolean get(int at) {
        finish(next);
        question.putLong(0, sequence[at]);
        places[next] = at;
        calls[next] = client.start(question, 0, Long.BYTES, TYPE, Publisher.FOREVER);
        next = next + 1 == calls.length ? 0 : next + 1;
        return true; // the answers are checked when they come
    }

    @Override
    void finish() {
        for (int i = 0; i < calls.length; i++) {
            finish(i);
        }
    }

    private void finish(int call) {
        if (calls[call] == null) {
            return;
        }
        Message got = calls[call].result();
        calls[call] = null;
        long key = sequence[places[call]];
        if (got.length() != VALUE) {
            throw wrong(key, "is not there");
        }
        got.buffer().getBytes(0, value, 0, VALUE); // absolute, in both
        check(value, key);
    }

    @Override
    public void close() {
        channel.close();
        super.close();
    }
}
