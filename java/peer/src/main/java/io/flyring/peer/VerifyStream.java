// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.flyring.LossySubscriber;
import io.flyring.Message;
import io.flyring.MessageHandler;
import io.flyring.Subscriber;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.IntToLongFunction;
import java.util.function.LongFunction;
import org.agrona.concurrent.BackoffIdleStrategy;

/** Runs one verify_stream operation. */
final class VerifyStream implements MessageHandler {
    private static final int POLL_LIMIT = 256;
    private static final long NONE = -1;
    /** The longest single wait of a lossy subscriber, which then checks whether all messages are accounted for. */
    private static final long ONE_WAIT_NANOS = 200_000_000;

    /** Takes one message, with a time-out in ns. */
    private final LongFunction<Message> taker;
    private final Poller poller;
    private final IntToLongFunction lost;
    private final Request request;
    private final Map<Integer, Expected> expected = new LinkedHashMap<>();
    /** The number of messages to look at before the one to die in. */
    private final long last;
    private long looked;
    private JsonObject mismatch;

    /** The messages that are to come in one ring. */
    private static final class Expected {
        private final Stream stream;
        private final boolean numbered;
        private final long end;
        /** Whether the next message must have the number {@link #next}; if not, it may have any. */
        private boolean known;
        private long next;
        private long first = NONE;
        private long seen;
        private long lost;
        private long lostBefore;

        Expected(Request request, long lostBefore) {
            stream = Stream.of(request);
            numbered = request.flag("numbered");
            known = !request.isNull("first");
            next = known ? request.number("first", 0) : 0;
            end = known ? next + request.number("count") : request.number("count");
            this.lostBefore = lostBefore;
            if (!known && !numbered) {
                throw new Request.Bad("Where a stream begins can be told from its messages only if it is numbered.");
            }
        }

    }

    /** The poll of any kind of subscriber. */
    private interface Poller {
        int poll(MessageHandler handler, int limit, long timeout);
    }

    VerifyStream(Subscriber subscriber, Request request) {
        this(subscriber::take, subscriber::poll, ring -> 0, request);
        request.spin(subscriber::setSpin);
    }

    VerifyStream(LossySubscriber subscriber, Request request) {
        this(subscriber::take, subscriber::poll, subscriber::lostMessages, request);
        request.spin(subscriber::setSpin);
    }

    private VerifyStream(LongFunction<Message> taker, Poller poller, IntToLongFunction lost, Request request) {
        this.taker = taker;
        this.poller = poller;
        this.lost = lost;
        this.request = request;
        this.last = request.dieAt();
        for (JsonElement element : request.list("streams")) {
            Request each = new Request(element.getAsJsonObject());
            int ring = each.integer("ring");
            expected.put(ring, new Expected(each, lost.applyAsLong(ring)));
        }
    }

    void run(JsonObject answer) {
        String how = request.text("how", "poll");
        BackoffIdleStrategy idle = Stream.patience();
        final long start = System.nanoTime();
        final long patience = (long) (request.seconds() * Request.NANOS);
        boolean take = !how.equals("poll");
        boolean poll = !how.equals("take");
        final boolean blocks = request.blocks();
        for (long round = 0; mismatch == null && more(); round++) {
            long before = looked;
            long left = patience - (System.nanoTime() - start);
            long timeout = blocks ? Math.max(0, Math.min(ONE_WAIT_NANOS, left)) : 0;
            if (looked == last) {
                poller.poll(this, 1, timeout); // not take, which consumes its message before it returns
            } else if (take && (!poll || round % 2 == 0)) {
                Message message = taker.apply(timeout);
                if (message != null) {
                    onMessage(message);
                }
            } else {
                poller.poll(this, POLL_LIMIT, timeout);
            }
            if (!blocks) {
                idle.idle((int) (looked - before));
            }
            if (System.nanoTime() - start > patience && more() && mismatch == null) {
                late(answer);
            }
        }
        if (mismatch != null) {
            mismatch.entrySet().forEach(entry -> answer.add(entry.getKey(), entry.getValue()));
            throw new Operations.Refused();
        }
        answer.addProperty("count", looked);
        answer.addProperty("seconds", (System.nanoTime() - start) / Request.NANOS);
        answer.addProperty("verified", true);
        answer.add("rings", rings());
    }

    /** Whether messages are still to come; lost ones are not. */
    private boolean more() {
        boolean more = false;
        for (Map.Entry<Integer, Expected> entry : expected.entrySet()) {
            Expected stream = entry.getValue();
            skip(entry.getKey(), stream);
            more |= !stream.known || stream.next < stream.end;
        }
        return more;
    }

    /** Skips the messages that the subscriber has lost since the last look. */
    private void skip(int ring, Expected stream) {
        long gap = lost.applyAsLong(ring) - stream.lostBefore;
        if (gap == 0) {
            return;
        }
        stream.lostBefore += gap;
        stream.lost += gap;
        if (!stream.numbered) {
            mismatch(ring, stream.next, gap + " messages of a stream without numbers were lost");
        } else if (stream.known) {
            stream.next += gap;
            if (stream.next > stream.end) {
                mismatch(ring, stream.end, gap + " messages were lost, more than there were");
            }
        }
    }

    private JsonObject rings() {
        JsonObject rings = new JsonObject();
        expected.forEach((ring, stream) -> {
            JsonObject json = new JsonObject();
            json.add("first", JsonNull.INSTANCE);
            if (stream.first != NONE) {
                json.addProperty("first", stream.first);
            }
            json.addProperty("next", stream.next);
            json.addProperty("seen", stream.seen);
            json.addProperty("lost", stream.lost);
            rings.add(String.valueOf(ring), json);
        });
        return rings;
    }

    private void late(JsonObject answer) {
        answer.addProperty("error", "timeout");
        answer.addProperty("message", "Only " + looked + " messages came in time.");
        JsonObject counts = new JsonObject();
        expected.forEach((ring, stream) -> counts.addProperty(String.valueOf(ring), stream.seen));
        answer.add("counts", counts);
        throw new Operations.Refused();
    }

    @Override
    public void onMessage(Message message) {
        if (mismatch != null) {
            return;
        }
        if (looked == last) {
            Sigkill.now();
        }
        looked++;
        Expected stream = expected.get(message.ring());
        if (stream == null) {
            mismatch(message.ring(), NONE, "a message more than expected");
            return;
        }
        skip(message.ring(), stream);
        if (mismatch != null || stream.numbered && !isNext(stream, message)) {
            return;
        }
        if (stream.next >= stream.end) {
            mismatch(message.ring(), stream.next, "a message more than expected");
            return;
        }
        stream.stream.at(stream.next);
        String wrong = stream.stream.check(message.buffer(), message.length(), message.type());
        if (wrong != null) {
            mismatch(message.ring(), stream.next, wrong);
            return;
        }
        stream.first = stream.first == NONE ? stream.next : stream.first;
        stream.next++;
        stream.seen++;
    }

    /** Whether a numbered message has the number that it must have. */
    private boolean isNext(Expected stream, Message message) {
        long number = message.length() < Long.BYTES ? NONE : message.buffer().getLong(0);
        if (!stream.known && number >= 0) {
            stream.known = true;
            stream.next = number;
        }
        if (number != stream.next) {
            mismatch(message.ring(), stream.next, "number " + number + " after a loss of " + stream.lost);
        }
        return number == stream.next;
    }

    private void mismatch(int ring, long sequence, String what) {
        mismatch = new JsonObject();
        mismatch.addProperty("error", "mismatch");
        mismatch.addProperty("message", "Ring " + ring + ", sequence " + sequence + ": " + what + ".");
        mismatch.addProperty("ring", ring);
        mismatch.addProperty("sequence", sequence);
        mismatch.addProperty("what", what);
    }
}
