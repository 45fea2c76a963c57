// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonObject;
import io.flyring.Call;
import io.flyring.CallEvents;
import io.flyring.Client;
import io.flyring.FlyringException;
import io.flyring.Message;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

/** Calls with the messages of a stream, whose answers are their own bytes: call_many of interop-tests/PEER.md. */
final class CallMany {
    private static final Duration POLL = Duration.ofMillis(100);

    private final Client client;
    private final Stream stream;
    private final long count;
    private final int window;
    private final long dieAt;
    private final Duration timeout;
    private final long start = System.nanoTime();
    private final long end;
    private final Map<String, Long> ends = new TreeMap<>();
    private int underWay;
    private long mayHaveRun;
    private long wrong;

    CallMany(Client client, Request request) {
        this.client = client;
        this.stream = new Stream(request.number("seed"), request.number("min"), request.number("max"),
            request.integer("type", 0), true);
        this.count = request.number("count");
        this.window = request.integer("window", 1);
        this.dieAt = request.dieAt();
        this.timeout = request.has("timeout") ? Duration.ofNanos(request.timeout()) : Publisher.FOREVER;
        this.end = start + (long) (request.seconds() * Request.NANOS);
    }

    void run(JsonObject answer) {
        for (long i = 0; i < count; i++) {
            checkTime();
            if (i == dieAt) {
                Sigkill.now();
            }
            one(i);
        }
        while (underWay > 0) {
            checkTime();
            client.poll(POLL);
        }
        JsonObject all = new JsonObject();
        ends.forEach(all::addProperty);
        answer.add("ends", all);
        answer.addProperty("may_have_run", mayHaveRun);
        answer.addProperty("wrong", wrong);
        answer.addProperty("seconds", (System.nanoTime() - start) / Request.NANOS);
    }

    private void checkTime() {
        if (System.nanoTime() >= end) {
            throw new Request.Bad("timeout", "Not all calls ended in time.");
        }
    }

    private void one(long number) {
        stream.at(number);
        final byte[] bytes = new byte[stream.length()];
        final int type = stream.type();
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(bytes);
        stream.write(buffer, 0);
        try {
            if (window <= 1) {
                check(client.call(bytes, type, timeout), bytes, type);
                return;
            }
            while (underWay >= window) {
                checkTime();
                client.poll(POLL);
            }
            Call call = client.start(bytes, type, timeout);
            underWay++;
            CallEvents.of(call, ended -> end(ended, bytes, type));
        } catch (FlyringException e) {
            note(e);
        }
    }

    private void end(Call call, byte[] bytes, int type) {
        underWay--;
        try {
            check(call.result(), bytes, type);
        } catch (FlyringException e) {
            note(e);
        }
    }

    private void check(Message answer, byte[] bytes, int type) {
        ends.merge("answer", 1L, Long::sum);
        if (answer.type() != type || !Arrays.equals(answer.toByteArray(), bytes)) {
            wrong++;
        }
    }

    private void note(FlyringException error) {
        ends.merge(error.code(), 1L, Long::sum);
        JsonObject carried = new JsonObject();
        Peer.carried(error, carried);
        if (carried.has("may_have_run") && carried.get("may_have_run").getAsBoolean()) {
            mayHaveRun++;
        }
    }
}
