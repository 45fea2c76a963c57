// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonObject;
import io.flyring.BackPressuredException;
import io.flyring.Claim;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import java.util.function.LongConsumer;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.BackoffIdleStrategy;

/** Runs one publish_stream operation. */
final class PublishStream {
    private static final int BATCH = 8;

    private final Publisher publisher;
    private final Stream stream;
    private final String how;
    private final long first;
    private final long end;
    /** The number of the message in which the peer dies. */
    private final long last;
    /** Whether it waits with verbs that sleep. */
    private final boolean blocks;
    private final BackoffIdleStrategy idle = Stream.patience();
    private final PayloadBuffer[] batch = new PayloadBuffer[BATCH];
    private final long start = System.nanoTime();
    private final long patience;
    private long backPressured;

    PublishStream(Publisher publisher, Request request) {
        this.publisher = publisher;
        this.stream = Stream.of(request);
        this.how = request.text("how", "offer");
        this.first = request.number("first", 0);
        this.end = first + request.number("count");
        this.last = request.dieAt();
        this.blocks = request.blocks();
        request.spin(publisher::setSpin);
        this.patience = (long) (request.seconds() * Request.NANOS);
        int most = Math.toIntExact(request.number("max"));
        for (int i = 0; i < BATCH; i++) {
            batch[i] = new PayloadBuffer();
            batch[i].wrap(new byte[most]);
        }
    }

    void run(JsonObject answer) {
        long i = first;
        while (i < end) {
            i += send(i);
            if (late()) {
                break;
            }
        }
        answer.addProperty("count", i - first);
        answer.addProperty("seconds", (System.nanoTime() - start) / Request.NANOS);
        answer.addProperty("back_pressured", backPressured);
        answer.addProperty("position", publisher.position());
        if (i < end) {
            answer.addProperty("error", "timeout");
            answer.addProperty("message", "Only " + (i - first) + " messages could be published in time.");
            throw new Operations.Refused();
        }
    }

    private long send(long i) {
        if (i == last) {
            return claim(i, false);
        }
        return switch (how) {
            case "offer" -> offer(i);
            case "claim" -> claim(i, false);
            case "batch" -> batch(i);
            case "mix" -> i % 3 == 0 ? offer(i) : i % 3 == 1 ? claim(i, i % 30 == 1) : batch(i);
            default -> throw new Request.Bad("how is offer, claim, batch or mix.");
        };
    }

    private boolean late() {
        return left() <= 0;
    }

    /** The time left, in ns. */
    private long left() {
        return patience - (System.nanoTime() - start);
    }

    private boolean giveUp() {
        backPressured++;
        idle.idle();
        return late();
    }

    /** Calls a verb that waits; false if the time is over. */
    private boolean inTime(LongConsumer verb) {
        try {
            verb.accept(Math.max(0, left()));
            return true;
        } catch (BackPressuredException e) {
            backPressured++;
            return false;
        }
    }

    private long offer(long i) {
        stream.at(i);
        stream.write(batch[0], 0);
        if (blocks) {
            return inTime(left -> publisher.send(batch[0], 0, stream.length(), stream.type(), left)) ? 1 : 0;
        }
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
        for (int aborts = abortOneFirst ? 1 : 0; aborts >= 0; aborts--) {
            Claim claim = claim();
            if (claim == null) {
                return 0;
            }
            if (i == last) {
                stream.write(batch[0], 0);
                claim.buffer().putBytes(0, batch[0], 0, stream.length() / 2);
                Sigkill.now();
            } else if (aborts > 0) {
                claim.abort();
            } else {
                stream.write(claim.buffer(), 0);
                claim.commit();
            }
        }
        idle.reset();
        return 1;
    }

    /** Claims space for the stream's current message; null if the time is over. */
    private Claim claim() {
        if (blocks) {
            Claim[] open = new Claim[1];
            inTime(left -> open[0] = publisher.claim(stream.length(), stream.type(), left));
            return open[0];
        }
        Claim claim = publisher.tryClaim(stream.length(), stream.type());
        while (claim == null && !giveUp()) {
            claim = publisher.tryClaim(stream.length(), stream.type());
        }
        return claim;
    }

    /** Publishes up to 8 messages of one type as a batch, none of them the one to die in. */
    private long batch(long i) {
        stream.at(i);
        int type = stream.type();
        DirectBuffer[] messages = new DirectBuffer[BATCH];
        int count = 0;
        while (count < BATCH && i + count < end && i + count != last) {
            stream.at(i + count);
            if (stream.type() != type) {
                break;
            }
            stream.write(batch[count], 0);
            PayloadBuffer view = new PayloadBuffer();
            view.wrap(batch[count], 0, stream.length());
            messages[count++] = view;
        }
        if (blocks) {
            return publisher.sendBatch(messages, 0, count, type, Math.max(0, left()));
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
