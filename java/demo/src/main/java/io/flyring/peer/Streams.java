// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.flyring.Claim;
import io.flyring.Message;
import io.flyring.MessageHandler;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;
import java.util.function.ToIntBiFunction;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.BackoffIdleStrategy;

/** Publishes and verifies deterministic streams. */
final class Streams implements MessageHandler {
    private static final int BATCH = 8;
    private static final int POLL_LIMIT = 256;
    private static final double NANOS = 1e9;

    private final Supplier<Message> taker;
    private final ToIntBiFunction<MessageHandler, Integer> poller;
    private final Request request;
    private final Map<Integer, Expected> expected = new LinkedHashMap<>();
    private JsonObject mismatch;
    private long left;

    private static final class Expected {
        private final Stream stream;
        private final long end;
        private long next;
        private long verified;

        Expected(Request request) {
            stream = stream(request);
            next = request.number("first", 0);
            end = next + request.number("count");
        }
    }

    /** With the take and the poll of a subscriber, reliable or lossy. */
    Streams(Supplier<Message> taker, ToIntBiFunction<MessageHandler, Integer> poller, Request request) {
        this.taker = taker;
        this.poller = poller;
        this.request = request;
        for (JsonElement element : request.list("streams")) {
            Request each = new Request(element.getAsJsonObject());
            Expected stream = new Expected(each);
            expected.put(each.integer("ring"), stream);
            left += stream.end - stream.next;
        }
    }

    private static Stream stream(Request request) {
        return new Stream(request.number("seed"), request.number("min"), request.number("max"),
            request.integer("type", 0));
    }

    private static BackoffIdleStrategy patience() {
        return new BackoffIdleStrategy(1000, 100, 1000, 50_000);
    }

    static void publish(Publisher publisher, Request request, JsonObject answer) {
        new Sender(publisher, request).run(answer);
    }

    void verify(JsonObject answer) {
        String how = request.text("how", "poll");
        BackoffIdleStrategy idle = patience();
        long start = System.nanoTime();
        long count = left;
        boolean take = !how.equals("poll");
        boolean poll = !how.equals("take");
        for (long round = 0; left > 0 && mismatch == null; round++) {
            long before = left;
            if (take && (!poll || round % 2 == 0)) {
                Message message = taker.get();
                if (message != null) {
                    onMessage(message);
                }
            } else {
                poller.applyAsInt(this, POLL_LIMIT);
            }
            idle.idle((int) (before - left));
            if (before == left && System.nanoTime() - start > request.seconds() * NANOS) {
                late(answer);
            }
        }
        if (mismatch != null) {
            mismatch.entrySet().forEach(entry -> answer.add(entry.getKey(), entry.getValue()));
            throw new Operations.Refused();
        }
        answer.addProperty("count", count);
        answer.addProperty("seconds", (System.nanoTime() - start) / NANOS);
        answer.addProperty("verified", true);
    }

    private void late(JsonObject answer) {
        answer.addProperty("error", "timeout");
        answer.addProperty("message", left + " messages did not come in time.");
        JsonObject counts = new JsonObject();
        expected.forEach((ring, stream) -> counts.addProperty(String.valueOf(ring), stream.verified));
        answer.add("counts", counts);
        throw new Operations.Refused();
    }

    @Override
    public void onMessage(Message message) {
        if (mismatch != null) {
            return;
        }
        Expected stream = expected.get(message.ring());
        if (stream == null || stream.next == stream.end) {
            mismatch(message.ring(), stream == null ? -1 : stream.next, "a message more than expected");
            return;
        }
        stream.stream.at(stream.next);
        String wrong = stream.stream.check(message.buffer(), message.length(), message.type());
        if (wrong != null) {
            mismatch(message.ring(), stream.next, wrong);
            return;
        }
        stream.next++;
        stream.verified++;
        left--;
    }

    private void mismatch(int ring, long sequence, String what) {
        mismatch = new JsonObject();
        mismatch.addProperty("error", "mismatch");
        mismatch.addProperty("message", "Ring " + ring + ", sequence " + sequence + ": " + what + ".");
        mismatch.addProperty("ring", ring);
        mismatch.addProperty("sequence", sequence);
        mismatch.addProperty("what", what);
    }

    /** One publish_stream. */
    private static final class Sender {
        private final Publisher publisher;
        private final Request request;
        private final Stream stream;
        private final String how;
        private final BackoffIdleStrategy idle = patience();
        private final PayloadBuffer[] batch = new PayloadBuffer[BATCH];
        private final long start = System.nanoTime();
        private long backPressured;

        Sender(Publisher publisher, Request request) {
            this.publisher = publisher;
            this.request = request;
            this.stream = stream(request);
            this.how = request.text("how", "offer");
            int most = Math.toIntExact(request.number("max"));
            for (int i = 0; i < BATCH; i++) {
                batch[i] = new PayloadBuffer();
                batch[i].wrap(new byte[most]);
            }
        }

        void run(JsonObject answer) {
            long first = request.number("first", 0);
            long end = first + request.number("count");
            long i = first;
            while (i < end) {
                i += send(i, end);
                if (System.nanoTime() - start > request.seconds() * NANOS) {
                    break;
                }
            }
            answer.addProperty("count", i - first);
            answer.addProperty("seconds", (System.nanoTime() - start) / NANOS);
            answer.addProperty("back_pressured", backPressured);
            answer.addProperty("position", publisher.position());
            if (i < end) {
                answer.addProperty("error", "timeout");
                answer.addProperty("message", "Only " + (i - first) + " messages could be published in time.");
                throw new Operations.Refused();
            }
        }

        private long send(long i, long end) {
            return switch (how) {
                case "offer" -> offer(i);
                case "claim" -> claim(i, false);
                case "batch" -> batch(i, end);
                case "mix" -> i % 3 == 0 ? offer(i) : i % 3 == 1 ? claim(i, i % 30 == 1) : batch(i, end);
                default -> throw new Request.Bad("how is offer, claim, batch or mix.");
            };
        }

        private boolean giveUp() {
            backPressured++;
            idle.idle();
            return System.nanoTime() - start > request.seconds() * NANOS;
        }

        private long offer(long i) {
            stream.at(i);
            stream.write(batch[0], 0);
            while (publisher.offer(batch[0], 0, stream.length(), stream.type()) < 0) {
                if (giveUp()) {
                    return 0;
                }
            }
            idle.reset();
            return 1;
        }

        private long claim(long i, boolean abortOneFirst) {
            stream.at(i);
            Claim claim;
            for (int aborts = abortOneFirst ? 1 : 0; aborts >= 0; aborts--) {
                claim = publisher.claim(stream.length(), stream.type());
                while (claim == null) {
                    if (giveUp()) {
                        return 0;
                    }
                    claim = publisher.claim(stream.length(), stream.type());
                }
                if (aborts > 0) {
                    claim.abort();
                } else {
                    stream.write(claim.buffer(), 0);
                    claim.commit();
                }
            }
            idle.reset();
            return 1;
        }

        private long batch(long i, long end) {
            stream.at(i);
            int type = stream.type();
            DirectBuffer[] messages = new DirectBuffer[BATCH];
            int count = 0;
            while (count < BATCH && i + count < end) {
                stream.at(i + count);
                if (stream.type() != type) {
                    break;
                }
                stream.write(batch[count], 0);
                PayloadBuffer view = new PayloadBuffer();
                view.wrap(batch[count], 0, stream.length());
                messages[count++] = view;
            }
            int taken = 0;
            while (taken < count) {
                int now = publisher.offerBatch(messages, taken, count - taken, type);
                taken += now;
                if (now == 0 && giveUp()) {
                    break;
                }
            }
            idle.reset();
            return taken;
        }
    }
}
