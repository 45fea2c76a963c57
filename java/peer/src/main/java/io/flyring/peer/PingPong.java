// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonObject;
import io.flyring.LossySubscriber;
import io.flyring.Message;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import io.flyring.Subscriber;
import java.time.Duration;
import java.util.function.LongFunction;

/** Runs one ping_pong operation: messages go to and fro, and both ends sleep while they wait. */
final class PingPong {
    private static final int LENGTH = 2 * Long.BYTES;
    private static final int TYPE = 1;
    private static final long LATE_NANOS = 50_000_000;

    private final Publisher publisher;
    /** Takes one message, with a time-out in ns. */
    private final LongFunction<Message> taker;
    private final long count;
    private final boolean first;
    private final long lateAfter;
    private final long patience;
    private final long start = System.nanoTime(); // CLOCK_MONOTONIC, as the times in messages
    private final PayloadBuffer message = new PayloadBuffer();
    private long longest;
    private long late;

    PingPong(Publisher publisher, Subscriber subscriber, Request request) {
        this(publisher, subscriber::take, request);
        subscriber.setSpin(spin(request));
    }

    PingPong(Publisher publisher, LossySubscriber subscriber, Request request) {
        this(publisher, subscriber::take, request);
        subscriber.setSpin(spin(request));
    }

    private PingPong(Publisher publisher, LongFunction<Message> taker, Request request) {
        this.publisher = publisher;
        this.taker = taker;
        this.count = request.number("count");
        this.first = request.flag("first");
        this.lateAfter = request.number("late", LATE_NANOS);
        this.patience = (long) (request.seconds() * Request.NANOS);
        message.wrap(new byte[LENGTH]);
        publisher.setSpin(spin(request));
    }

    private static Duration spin(Request request) {
        return Duration.ofNanos(request.number("spin", 0));
    }

    void run(JsonObject answer) {
        for (long i = 0; i < count; i++) {
            if (first) {
                send(i);
            }
            take(i, answer);
            if (!first) {
                send(i);
            }
        }
        answer.addProperty("count", count);
        answer.addProperty("seconds", (System.nanoTime() - start) / Request.NANOS);
        answer.addProperty("longest", longest);
        answer.addProperty("late", late);
    }

    private long left() {
        return Math.max(0, patience - (System.nanoTime() - start));
    }

    private void send(long number) {
        message.putLong(0, number);
        message.putLong(Long.BYTES, System.nanoTime());
        publisher.send(message, 0, LENGTH, TYPE, left());
    }

    private void take(long number, JsonObject answer) {
        final Message got = taker.apply(left());
        final long now = System.nanoTime();
        if (got == null) {
            refuse(answer, "timeout", "Message " + number + " did not come in time.");
        }
        if (got.length() != LENGTH || got.type() != TYPE || got.buffer().getLong(0) != number) {
            refuse(answer, "mismatch", "Message " + number + " was awaited; this one has " + got.length()
                + " bytes and the type " + got.type()
                + (got.length() < Long.BYTES ? "" : ", and the number " + got.buffer().getLong(0)) + ".");
        }
        final long took = now - got.buffer().getLong(Long.BYTES);
        longest = Math.max(longest, took);
        late += took >= lateAfter ? 1 : 0;
    }

    private static void refuse(JsonObject answer, String error, String text) {
        answer.addProperty("error", error);
        answer.addProperty("message", text);
        throw new Operations.Refused();
    }
}
