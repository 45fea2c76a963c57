// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.flyring.InjectedIdentity;
import io.flyring.Journal;
import io.flyring.JournalOptions;
import io.flyring.JournalSync;
import io.flyring.Message;
import io.flyring.OpenOptions;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiConsumer;

/** The operations on journals: making, changing and looking at them. */
final class Journals {
    private final Map<String, Journal> journals = new LinkedHashMap<>();
    private final Map<String, BiConsumer<Request, JsonObject>> own = new LinkedHashMap<>();
    private final JournalWriters writers = new JournalWriters(this::journal);
    private final JournalReadings readings = new JournalReadings(this::journal);

    /** Call it last: some operations of these names are those of channels and tables, too. */
    void addTo(Map<String, BiConsumer<Request, JsonObject>> operations) {
        own.put("create", (request, answer) ->
            attached(request, answer, Journal.create(request.text("name"), options(request))));
        own.put("open_or_create", (request, answer) ->
            attached(request, answer, Journal.openOrCreate(request.text("name"), options(request))));
        own.put("open", this::open);
        own.put("info", (request, answer) -> info(journal(request), answer));
        own.put("stats", (request, answer) -> answer.add("stats", StatsJson.of(journal(request).stats())));
        own.put("unlink", (request, answer) -> Journal.unlink(request.text("name")));
        own.put("trim", this::trim);
        own.put("change", (request, answer) -> journal(request).change(policy(request, new JournalOptions())));
        writers.addTo(own);
        readings.addTo(own);
        BiConsumer<Request, JsonObject> sync = own.get("sync");
        own.put("sync", (request, answer) -> {
            if (request.has("consumer")) {
                readings.consumer(request).sync();
            } else {
                sync.accept(request, answer);
            }
        });
        own.put("positions", (request, answer) -> {
            if (request.has("writer")) {
                writers.place(request, answer);
            } else {
                readings.place(readings.reading(request), answer);
            }
        });
        own.put("forget", (request, answer) -> {
            if (request.has("consumer")) {
                readings.forget(request);
            } else {
                journal(request).forget(request.text("name"));
            }
        });
        own.put("close", this::close);
        own.forEach((name, ours) -> {
            BiConsumer<Request, JsonObject> others = operations.get(name);
            operations.put(name, (request, answer) -> choose(request, name, ours, others).accept(request, answer));
        });
    }

    /** The operation for a request that names a journal, or what was made from one; else that of another kind. */
    private BiConsumer<Request, JsonObject> choose(Request request, String name,
        BiConsumer<Request, JsonObject> ours, BiConsumer<Request, JsonObject> others) {
        if (request.has("journal") || request.has("reader") || request.has("consumer") || writers.has(request)) {
            return ours;
        }
        if (others == null) {
            throw new Request.Bad("There is no writer, reader or journal with the handle for " + name + ".");
        }
        return others;
    }

    void closeAll() {
        journals.values().forEach(Journal::close);
    }

    /** Forgets what is closed, so that it can be collected. */
    void clear() {
        if (journals.isEmpty()) {
            writers.clear();
            readings.clear();
        }
    }

    private Journal journal(Request request) {
        return journals.get(Operations.known(journals, request, "journal"));
    }

    static Duration limit(Request request) {
        return Duration.ofNanos(request.timeout());
    }

    private static JournalOptions policy(Request request, JournalOptions options) {
        if (request.has("sync")) {
            options.sync(switch (request.text("sync")) {
                case "never" -> JournalSync.NEVER;
                case "each" -> JournalSync.EACH;
                default -> JournalSync.every(Duration.ofNanos(request.number("sync")));
            });
        }
        if (request.has("max_age")) {
            options.maxAge(Duration.ofNanos(request.number("max_age")));
        }
        if (request.has("max_size")) {
            options.maxSize(request.number("max_size"));
        }
        if (request.has("trim_consumed")) {
            options.trimConsumed(request.flag("trim_consumed"));
        }
        return options;
    }

    private static JournalOptions options(Request request) {
        JournalOptions options = policy(request, new JournalOptions());
        if (request.has("segment_size")) {
            options.segmentSize(request.integer("segment_size"));
        }
        if (request.has("consumers")) {
            options.consumers(request.integer("consumers"));
        }
        if (request.has("content")) {
            InjectedIdentity.content(options, request.integer("content"));
        }
        if (request.has("schema")) {
            InjectedIdentity.schema(options, request.text("schema").getBytes(StandardCharsets.UTF_8),
                request.integer("schema_id", 0), request.integer("schema_version", 0));
        }
        if (request.has("mode")) {
            options.mode(request.integer("mode"));
        }
        options.anyFileSystem(request.flag("any_file_system")).wake(request.flag("wake", true));
        return request.has("inject") ? Operations.identity(request.object("inject")).in(options) : options;
    }

    private void open(Request request, JsonObject answer) {
        String name = request.text("name");
        OpenOptions options = new OpenOptions().readOnly(request.flag("read_only")).wake(request.flag("wake", true))
            .anyFileSystem(request.flag("any_file_system"))
            .minSchemaVersion(request.integer("min_schema_version", 0));
        if (request.has("inject")) {
            Operations.identity(request.object("inject")).in(options);
        }
        attached(request, answer, request.waits() ? Journal.waitFor(name, limit(request), options)
            : Journal.open(name, options));
    }

    private void attached(Request request, JsonObject answer, Journal journal) {
        journals.put(request.text("journal"), journal);
        info(journal, answer);
    }

    private static void info(Journal journal, JsonObject answer) {
        answer.addProperty("path", journal.path());
        answer.addProperty("journal_id", journal.id().toString());
        answer.addProperty("segment_size", journal.segmentSize());
        answer.addProperty("consumers", journal.consumers());
        answer.addProperty("content", journal.content());
        answer.addProperty("created_at", journal.createdAt());
        answer.addProperty("schema", journal.schema() == null ? "" : journal.schema());
        answer.addProperty("schema_id", journal.schemaId());
        answer.addProperty("schema_version", journal.schemaVersion());
    }

    private void trim(Request request, JsonObject answer) {
        Journal journal = journal(request);
        long freed;
        if (request.flag("consumed")) {
            freed = journal.trimConsumed();
        } else if (request.has("position")) {
            freed = journal.trimPosition(request.number("position"));
        } else if (request.has("before")) {
            freed = journal.trimBefore(request.number("before"));
        } else {
            freed = journal.trimSize(request.number("size"));
        }
        answer.addProperty("freed", freed);
    }

    private void close(Request request, JsonObject answer) {
        if (request.has("writer")) {
            writers.close(request);
        } else if (request.has("journal")) {
            final String handle = Operations.known(journals, request, "journal");
            journals.get(handle).close(); // if that fails, it can be closed again
            journals.remove(handle);
        } else {
            readings.close(request);
        }
    }

    /** A message, or null. */
    static JsonElement json(Message message) {
        if (message == null) {
            return JsonNull.INSTANCE;
        }
        JsonObject json = Operations.json(message);
        json.addProperty("time", message.time());
        json.addProperty("number", message.number());
        return json;
    }

    static void addMessage(Message message, JsonObject answer) {
        answer.add("message", json(message));
    }
}
