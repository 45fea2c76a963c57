// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonObject;
import io.flyring.JournalClaim;
import io.flyring.JournalWriter;
import io.flyring.PayloadBuffer;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;

/** Runs one append_stream operation. */
final class AppendStream {
    private static final int BATCH = 8;
    private static final String[] MIXED = {"append", "claim", "many"};
    private static final int LOOK = 16;

    private final JournalWriter writer;
    private final Stream stream;
    private final String how;
    private final long first;
    private final long end;
    private final long last;
    private final long time;
    private final byte[] bytes;
    private final PayloadBuffer payload = new PayloadBuffer();

    AppendStream(JournalWriter writer, Request request) {
        this.writer = writer;
        this.stream = Stream.of(request);
        this.how = request.text("how", "append");
        this.first = request.number("first", 0);
        this.end = first + request.number("count");
        this.last = request.dieAt();
        this.time = (long) (request.seconds() * Request.NANOS);
        this.bytes = new byte[request.integer("max")];
        payload.wrap(bytes);
        if (!List.of("append", "claim", "many", "mix").contains(how)) {
            throw new Request.Bad("how is append, claim, many or mix.");
        }
    }

    void run(JsonObject answer) {
        final long start = System.nanoTime();
        long i = first;
        while (i < end && (i % LOOK != 0 || System.nanoTime() - start < time)) {
            String way = how.equals("mix") ? MIXED[(int) (i % MIXED.length)] : how;
            stream.at(i);
            if (i == last) {
                JournalClaim claim = writer.claim(stream.length(), stream.type());
                int half = stream.length() / 2;
                stream.write(payload, 0);
                claim.buffer().putBytes(0, bytes, 0, half);
                Sigkill.now();
            }
            switch (way) {
                case "claim" -> claim(i++);
                case "many" -> i += many(i);
                default -> {
                    stream.write(payload, 0);
                    writer.append(bytes, 0, stream.length(), stream.type());
                    i++;
                }
            }
        }
        answer.addProperty("count", i - first);
        answer.addProperty("seconds", (System.nanoTime() - start) / Request.NANOS);
        answer.addProperty("position", writer.position());
        answer.addProperty("number", writer.number());
    }

    private void claim(long i) {
        if (how.equals("mix") && i % 30 == 1) {
            writer.claim(stream.length(), stream.type()).abort();
        }
        JournalClaim claim = writer.claim(stream.length(), stream.type());
        stream.write(claim.buffer(), 0);
        claim.commit();
    }

    private int many(long from) {
        List<DirectBuffer> batch = new ArrayList<>();
        int type = stream.type();
        for (long i = from; i < end && batch.size() < BATCH && (i == from || i != last); i++) {
            stream.at(i);
            if (stream.type() != type) {
                break;
            }
            PayloadBuffer one = new PayloadBuffer();
            one.wrap(new byte[stream.length()]);
            stream.write(one, 0);
            batch.add(one);
        }
        int taken = writer.appendMany(batch.toArray(new DirectBuffer[0]), 0, batch.size(), type);
        if (taken != batch.size()) {
            throw new Request.Bad("mismatch", "append_many took less than it was given");
        }
        return taken;
    }
}
