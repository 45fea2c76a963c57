// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonObject;
import io.flyring.Client;
import io.flyring.ExpiredException;
import io.flyring.FlyringException;
import io.flyring.Message;
import io.flyring.PayloadBuffer;
import io.flyring.ServerGoneException;
import java.time.Duration;
import java.util.Map;
import java.util.TreeMap;

/** Runs one call_many operation: each call is answered by its own bytes and type. */
final class CallMany {
    private static final Duration STEP = Duration.ofMillis(100);
    private static final long LATE = 50_000_000; // ns

    private final Client client;
    private final Stream stream;
    private final long first;
    private final long end;
    private final long window;
    private final Duration patience;
    /** The call before which the peer dies. */
    private final long last;
    /** In ns: a call that takes longer than this is late. */
    private final long lateness;
    private final long begin = System.nanoTime();
    private final long time;
    private final Map<String, Long> ends = new TreeMap<>();
    private long mayHaveRun;
    private long wrong;
    private long longest;
    private long late;
    private long underWay;

    CallMany(Client client, Request request) {
        this.client = client;
        this.stream = new Stream(request.number("seed"), request.number("min"), request.number("max"),
            request.integer("type", 0), true);
        this.first = request.number("first", 0);
        this.end = first + request.number("count");
        this.window = request.number("window", 1);
        this.patience = Duration.ofNanos(request.timeout());
        this.last = request.dieAt();
        this.lateness = request.number("late", LATE);
        request.spin(client::setSpin);
        this.time = (long) (request.seconds() * Request.NANOS);
    }

    void run(JsonObject answer) {
        for (long i = first; i < end; i++) {
            checkTime();
            if (i == last) {
                Sigkill.now();
            }
            if (window > 1) {
                start(i);
            } else {
                call(i);
            }
        }
        while (underWay > 0) {
            checkTime();
            client.poll(STEP);
        }
        JsonObject all = new JsonObject();
        ends.forEach(all::addProperty);
        answer.add("ends", all);
        answer.addProperty("may_have_run", mayHaveRun);
        answer.addProperty("wrong", wrong);
        answer.addProperty("seconds", (System.nanoTime() - begin) / Request.NANOS);
        if (window <= 1) {
            answer.addProperty("longest", longest);
            answer.addProperty("late", late);
        }
    }

    private void checkTime() {
        if (System.nanoTime() - begin > time) {
            throw new Request.Bad("timeout", "Not all calls ended in time.");
        }
    }

    /** Moves the stream to message i and returns its payload. */
    private PayloadBuffer message(long i) {
        stream.at(i);
        PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(new byte[stream.length()]);
        stream.write(buffer, 0);
        return buffer;
    }

    private void call(long i) {
        PayloadBuffer sent = message(i);
        try {
            long before = System.nanoTime();
            Message answer = client.call(sent, 0, sent.capacity(), stream.type(), patience);
            long took = System.nanoTime() - before;
            longest = Math.max(longest, took);
            late += took >= lateness ? 1 : 0;
            note(i, answer);
        } catch (FlyringException e) {
            note(e);
        }
    }

    private void start(long i) {
        PayloadBuffer sent = message(i);
        int type = stream.type();
        while (underWay >= window) {
            checkTime();
            client.poll(STEP);
        }
        try {
            client.start(sent, 0, sent.capacity(), type, patience).future().whenComplete((answer, error) -> {
                underWay--;
                if (error instanceof FlyringException failure) {
                    note(failure);
                } else if (error != null) {
                    ends.merge(error.toString(), 1L, Long::sum);
                } else {
                    note(i, answer);
                }
            });
            underWay++;
        } catch (FlyringException e) {
            note(e);
        }
    }

    private void note(long i, Message answer) {
        ends.merge("answer", 1L, Long::sum);
        stream.at(i);
        if (stream.check(answer.buffer(), answer.length(), answer.type()) != null) {
            wrong++;
        }
    }

    private void note(FlyringException error) {
        ends.merge(error.code(), 1L, Long::sum);
        if (error instanceof ExpiredException expired && expired.mayHaveRun()
            || error instanceof ServerGoneException gone && gone.mayHaveRun()) {
            mayHaveRun++;
        }
    }
}
