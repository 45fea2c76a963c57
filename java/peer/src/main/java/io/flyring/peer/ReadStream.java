// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.flyring.AnyReading;
import io.flyring.Message;
import io.flyring.MessageHandler;
import org.agrona.concurrent.BackoffIdleStrategy;

/** Runs one read_stream operation. */
final class ReadStream implements MessageHandler {
    private static final int POLL_LIMIT = 256;
    private static final long ONE_WAIT_NANOS = 200_000_000;

    private final AnyReading reading;
    private final Request request;
    private final Stream stream;
    private final long end;
    private final long last;
    private long next;
    private long lost;
    private long number;
    private long position;
    private long seen;

    /** Thrown for the first message that is wrong. */
    private static final class Wrong extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Wrong(String what) {
            super(what);
        }
    }

    ReadStream(AnyReading reading, Request request) {
        this.reading = reading;
        this.request = request;
        this.stream = Stream.of(request);
        this.next = request.number("first", 0);
        this.end = next + request.number("count");
        this.last = request.dieAt();
        this.lost = reading.lost();
        this.number = reading.number();
        this.position = reading.position();
        request.spin(reading::setSpin);
    }

    void run(JsonObject answer) {
        String how = request.text("how", "poll");
        final boolean blocks = request.blocks();
        BackoffIdleStrategy idle = Stream.patience();
        final long start = System.nanoTime();
        final long patience = (long) (request.seconds() * Request.NANOS);
        try {
            for (long turn = 1; next < end; turn++) {
                long before = seen;
                long timeout = blocks ? ONE_WAIT_NANOS : 0;
                if (seen != last && (how.equals("take") || how.equals("mix") && turn % 2 == 1)) {
                    Message message = reading.take(timeout);
                    if (message != null) {
                        onMessage(message);
                    }
                } else {
                    reading.poll(this, (int) Math.min(POLL_LIMIT, end - next), timeout);
                }
                if (!blocks) {
                    idle.idle((int) (seen - before));
                }
                if (System.nanoTime() - start > patience && next < end) {
                    JsonArray counts = new JsonArray();
                    counts.add(seen);
                    answer.add("counts", counts);
                    throw new Request.Bad("timeout", "not all messages came in time");
                }
            }
        } catch (Wrong e) {
            answer.addProperty("sequence", next);
            answer.addProperty("what", e.getMessage());
            throw new Request.Bad("mismatch", "message " + next + ": " + e.getMessage());
        }
        answer.addProperty("count", seen);
        answer.addProperty("seconds", (System.nanoTime() - start) / Request.NANOS);
        answer.addProperty("verified", true);
        answer.addProperty("position", reading.position());
        answer.addProperty("number", reading.number());
        answer.addProperty("lost", reading.lost());
    }

    @Override
    public void onMessage(Message message) {
        if (seen == last) {
            Sigkill.now();
        }
        long gap = reading.lost() - lost;
        lost += gap;
        number += gap;
        next += gap;
        check(next < end, "behind the stream's end");
        stream.at(next);
        String wrong = stream.check(message.buffer(), message.length(), message.type());
        check(wrong == null, wrong);
        check(message.number() == number, "number " + message.number());
        check(message.position() >= position, "position " + message.position());
        check(message.time() > 0, "time " + message.time());
        position = message.position() + 1;
        number++;
        next++;
        seen++;
    }

    private static void check(boolean right, String what) {
        if (!right) {
            throw new Wrong(what);
        }
    }
}
