// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.flyring.Action;
import io.flyring.AnyReading;
import io.flyring.Journal;
import io.flyring.JournalConsumer;
import io.flyring.JournalReader;
import io.flyring.JournalStart;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** The operations of readers and consumers of a journal. */
final class JournalReadings {
    private final Map<String, JournalReader> readers = new HashMap<>();
    private final Map<String, JournalConsumer> consumers = new HashMap<>();
    /** The journal of each consumer, by the same handle. */
    private final Map<String, Journal> owners = new HashMap<>();
    private final Function<Request, Journal> journal;

    /** The exception that a handler throws on request. */
    private static final class Thrown extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    JournalReadings(Function<Request, Journal> journal) {
        this.journal = journal;
    }

    void addTo(Map<String, BiConsumer<Request, JsonObject>> operations) {
        operations.put("reader", this::makeReader);
        operations.put("consumer", this::makeConsumer);
        operations.put("seek", this::seek);
        operations.put("poll", this::poll);
        operations.put("take", (request, answer) ->
            Journals.addMessage(reading(request).take(limit(request).toNanos()), answer));
        operations.put("pop", (request, answer) -> Journals.addMessage(
            request.waits() ? consumer(request).pop(limit(request)) : consumer(request).pop(), answer));
        operations.put("peek", (request, answer) -> Journals.addMessage(consumer(request).peek(), answer));
        operations.put("ended", (request, answer) -> answer.addProperty("ended", reading(request).ended()));
        operations.put("size", (request, answer) -> answer.addProperty("size", consumer(request).size()));
        operations.put("read_stream", (request, answer) -> new ReadStream(reading(request), request).run(answer));
    }

    void clear() {
        readers.clear();
        consumers.clear();
        owners.clear();
    }

    private JournalReader reader(Request request) {
        return readers.get(Operations.known(readers, request, "reader"));
    }

    JournalConsumer consumer(Request request) {
        return consumers.get(Operations.known(consumers, request, "consumer"));
    }

    AnyReading reading(Request request) {
        return request.has("consumer") ? new AnyReading(consumer(request)) : new AnyReading(reader(request));
    }

    /** The time-out of a verb that does not wait without one. */
    private static Duration limit(Request request) {
        return request.waits() ? Journals.limit(request) : Duration.ZERO;
    }

    private static JournalStart start(Request request) {
        if (!request.has("start")) {
            return JournalStart.OLDEST;
        }
        if (request.json().get("start").isJsonObject()) {
            Request at = request.object("start");
            return at.has("position") ? JournalStart.position(at.number("position"))
                : at.has("number") ? JournalStart.number(at.number("number")) : JournalStart.time(at.number("time"));
        }
        return switch (request.text("start")) {
            case "oldest" -> JournalStart.OLDEST;
            case "newest" -> JournalStart.NEWEST;
            default -> throw new Request.Bad("The start is oldest, newest, or an object.");
        };
    }

    void place(AnyReading reading, JsonObject answer) {
        answer.addProperty("position", reading.position());
        answer.addProperty("number", reading.number());
        answer.addProperty("lost", reading.lost());
        answer.addProperty("cuts", reading.cuts());
    }

    private void makeReader(Request request, JsonObject answer) {
        JournalReader reader = journal.apply(request).reader(start(request), request.flag("durable"),
            request.flag("skip_damaged"));
        readers.put(request.text("reader"), reader);
        place(new AnyReading(reader), answer);
    }

    private void makeConsumer(Request request, JsonObject answer) {
        JournalConsumer consumer = journal.apply(request).consumer(request.text("name"), start(request),
            request.flag("skip_damaged"));
        consumers.put(request.text("consumer"), consumer);
        owners.put(request.text("consumer"), journal.apply(request));
        place(new AnyReading(consumer), answer);
        answer.addProperty("epoch", consumer.epoch());
    }

    private void seek(Request request, JsonObject answer) {
        reader(request).seek(start(request));
        place(new AnyReading(reader(request)), answer);
    }

    private void poll(Request request, JsonObject answer) {
        JsonArray messages = new JsonArray();
        String name = request.text("action", "CONTINUE");
        boolean fails = name.equals("throw");
        Action action = fails ? Action.CONTINUE : Action.valueOf(name);
        answer.add("messages", messages);
        try {
            reading(request).controlledPoll(message -> {
                messages.add(Journals.json(message));
                if (fails) {
                    throw new Thrown();
                }
                return action;
            }, request.integer("limit", 256), limit(request));
        } catch (Thrown e) {
            answer.addProperty("threw", true);
        }
    }

    /** Gives up a consumer's name, and closes it. */
    void forget(Request request) {
        JournalConsumer consumer = consumer(request);
        consumer.close();
        owners.get(request.text("consumer")).forget(consumer.name());
    }

    void close(Request request) {
        reading(request).close();
    }
}
