// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.flyring.Journal;
import io.flyring.JournalClaim;
import io.flyring.JournalRecovery;
import io.flyring.JournalWriter;
import io.flyring.PayloadBuffer;
import io.flyring.Publisher;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Function;
import org.agrona.DirectBuffer;

/** The operations of a journal's writer, and push. */
final class JournalWriters {
    private final Map<String, JournalWriter> writers = new HashMap<>();
    private final Map<String, JournalClaim> claims = new HashMap<>();
    /** The type that a verb without one gives, by the handle of the writer. */
    private final Map<String, Integer> types = new HashMap<>();
    private final Function<Request, Journal> journal;

    JournalWriters(Function<Request, Journal> journal) {
        this.journal = journal;
    }

    void addTo(Map<String, BiConsumer<Request, JsonObject>> operations) {
        operations.put("writer", this::make);
        operations.put("append", this::append);
        operations.put("append_many", this::appendMany);
        operations.put("claim", this::claim);
        operations.put("commit", this::commit);
        operations.put("abort", (request, answer) -> answer.addProperty("position", claim(request).abort()));
        operations.put("push", this::push);
        operations.put("sync", (request, answer) -> writer(request).sync());
        operations.put("append_stream", (request, answer) -> new AppendStream(writer(request), request).run(answer));
    }

    boolean has(Request request) {
        return request.has("writer") && writers.containsKey(request.text("writer"));
    }

    void clear() {
        writers.clear();
        claims.clear();
        types.clear();
    }

    private JournalWriter writer(Request request) {
        return writers.get(Operations.known(writers, request, "writer"));
    }

    private JournalClaim claim(Request request) {
        return claims.get(Operations.known(claims, request, "writer"));
    }

    private static int rawType(Journal journal) {
        return journal.schema() == null || journal.schema().isEmpty() ? 1 : 1 << 16;
    }

    private void make(Request request, JsonObject answer) {
        Journal from = journal.apply(request);
        JournalWriter writer = from.writer(request.text("name", ""), request.flag("helper", true),
            request.integer("ahead", 1), request.waits() ? Journals.limit(request) : Duration.ZERO);
        String handle = request.text("writer");
        writers.put(handle, writer);
        claims.remove(handle);
        types.put(handle, rawType(from));
        answer.addProperty("epoch", writer.epoch());
        place(request, answer);
        answer.add("recovery", json(writer.recovery()));
    }

    void place(Request request, JsonObject answer) {
        answer.addProperty("position", writer(request).position());
        answer.addProperty("number", writer(request).number());
    }

    private static JsonElement json(JournalRecovery recovery) {
        if (recovery == null) {
            return JsonNull.INSTANCE;
        }
        JsonObject json = new JsonObject();
        json.addProperty("position", recovery.position());
        json.addProperty("next", recovery.next());
        json.addProperty("messages", recovery.messages());
        json.addProperty("reached", recovery.reached());
        json.addProperty("reason", recovery.reason());
        return json;
    }

    private void append(Request request, JsonObject answer) {
        byte[] data = request.bytes("data");
        JournalWriter writer = writer(request);
        long position;
        if (request.has("time")) {
            position = writer.append(data, 0, data.length, request.integer("type", 1), request.number("time"));
        } else if (request.has("type")) {
            position = writer.append(data, 0, data.length, request.integer("type"));
        } else {
            position = writer.append(data);
        }
        answer.addProperty("position", position);
    }

    private void appendMany(Request request, JsonObject answer) {
        List<DirectBuffer> batch = new ArrayList<>();
        for (JsonElement data : request.list("data")) {
            PayloadBuffer buffer = new PayloadBuffer();
            buffer.wrap(Request.hex(data));
            batch.add(buffer);
        }
        DirectBuffer[] all = batch.toArray(new DirectBuffer[0]);
        JournalWriter writer = writer(request);
        int taken;
        if (request.has("time")) {
            taken = writer.appendMany(all, 0, all.length, request.integer("type", 1), request.number("time"));
        } else if (request.has("type")) {
            taken = writer.appendMany(all, 0, all.length, request.integer("type"));
        } else {
            taken = writer.appendMany(all);
        }
        answer.addProperty("taken", taken);
    }

    private void claim(Request request, JsonObject answer) {
        int length = request.integer("length");
        claims.put(request.text("writer"), request.has("type")
            ? writer(request).claim(length, request.integer("type")) : writer(request).claim(length));
    }

    private void commit(Request request, JsonObject answer) {
        JournalClaim claim = claim(request);
        claim.buffer().putBytes(0, request.bytes("data"));
        answer.addProperty("position", claim.commit());
    }

    private void push(Request request, JsonObject answer) {
        byte[] data = request.bytes("data");
        Journal to = journal.apply(request);
        int type = request.has("type") ? request.integer("type") : rawType(to);
        answer.addProperty("position",
            to.push(data, type, request.waits() ? Journals.limit(request) : Publisher.FOREVER));
    }

    void close(Request request) {
        writer(request).close(request.flag("sync", true));
    }
}
