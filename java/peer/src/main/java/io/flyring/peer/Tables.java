// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.flyring.Entry;
import io.flyring.KeyType;
import io.flyring.OpenOptions;
import io.flyring.Table;
import io.flyring.TableItem;
import io.flyring.TableOptions;
import io.flyring.TableStats;
import io.flyring.TableWriter;
import io.flyring.Versioned;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiConsumer;
import org.agrona.MutableDirectBuffer;

/** The operations on tables. */
final class Tables {
    private final Map<String, Table> tables = new LinkedHashMap<>();
    private final Map<String, TableWriter> writers = new HashMap<>();
    /** The handle of the table that a writer or entry is of. */
    private final Map<String, String> owners = new HashMap<>();
    private final Map<String, Entry> entries = new HashMap<>();

    /** The exception that a handler of update throws on request. */
    private static final class Thrown extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    /** Call it after the operations on channels were added: some of these are on tables, too. */
    void addTo(Map<String, BiConsumer<Request, JsonObject>> operations) {
        or(operations, "create", "table", (request, answer) ->
            attached(request, answer, Table.create(request.text("name"), options(request))));
        or(operations, "open_or_create", "table", (request, answer) ->
            attached(request, answer, Table.openOrCreate(request.text("name"), options(request))));
        or(operations, "replace", "table", (request, answer) ->
            attached(request, answer, Table.replace(request.text("name"), options(request))));
        or(operations, "open", "table", this::open);
        or(operations, "info", "table", (request, answer) -> info(table(request), answer));
        or(operations, "stats", "table", this::stats);
        BiConsumer<Request, JsonObject> unlink = operations.get("unlink");
        operations.put("unlink", (request, answer) -> {
            if (request.flag("table")) {
                Table.unlink(request.text("name"));
            } else {
                unlink.accept(request, answer);
            }
        });
        or(operations, "ping_pong", "table", (request, answer) ->
            new TablePingPong(new Changer(table(request), null, null), request).run(answer));
        or(operations, "close", "table", (request, answer) ->
            table(request).close(request.flag("sync")));
        or(operations, "close", "writer", (request, answer) ->
            writers.get(Operations.known(writers, request, "writer")).close());
        operations.put("writer", this::makeWriter);
        operations.put("entry", this::makeEntry);
        operations.put("get", this::get);
        operations.put("put", this::put);
        operations.put("remove", (request, answer) ->
            answer.addProperty("removed", changer(request).remove(key(request))));
        operations.put("update", this::update);
        operations.put("clear", (request, answer) -> answer.addProperty("removed", changer(request).clear()));
        operations.put("size", this::size);
        operations.put("each", this::each);
        operations.put("wait_changed", this::waitChanged);
        operations.put("snapshot", (request, answer) ->
            answer.addProperty("keys", changer(request).snapshot(request.text("path"))));
        operations.put("grow", (request, answer) -> changer(request).grow(request.number("capacity")));
        operations.put("sync", (request, answer) -> table(request).sync());
        operations.put("put_many", (request, answer) -> new PutMany(changer(request), request).run(answer));
        operations.put("get_many", (request, answer) ->
            new GetMany(changer(request), request).run(answer));
    }

    /** Lets an operation act on tables, too: on requests that have this field. */
    private static void or(Map<String, BiConsumer<Request, JsonObject>> operations, String op, String field,
        BiConsumer<Request, JsonObject> ours) {
        BiConsumer<Request, JsonObject> others = operations.get(op);
        operations.put(op, (request, answer) -> (request.has(field) ? ours : others).accept(request, answer));
    }

    void closeAll() {
        tables.values().forEach(Table::close);
    }

    private Table table(Request request) {
        return tables.get(Operations.known(tables, request, "table"));
    }

    private Entry entry(Request request) {
        return entries.get(Operations.known(entries, request, "entry"));
    }

    private static Duration limit(Request request) {
        return Duration.ofNanos(request.timeout());
    }

    /** The table or writer of a request. */
    private Changer changer(Request request) {
        if (!request.has("writer")) {
            return new Changer(table(request), null, limit(request));
        }
        String handle = Operations.known(writers, request, "writer");
        return new Changer(tables.get(owners.get(handle)), writers.get(handle), null);
    }

    private Object key(Request request) {
        return key(changer(request).table, request, "key");
    }

    /** The key that a field of a request stands for. */
    static Object key(Table table, Request request, String field) {
        JsonElement key = request.json().get(field);
        if (key == null || !key.isJsonPrimitive()) {
            throw new Request.Bad("The field " + field + " is missing.");
        }
        if (key.getAsJsonPrimitive().isNumber()) {
            return request.number(field);
        }
        return table.keyType() == KeyType.BYTES ? Changer.buffer(request.bytes(field)) : request.text(field);
    }

    private static TableOptions options(Request request) {
        TableOptions options = switch (request.text("key", "")) {
            case "bytes" -> TableOptions.bytes();
            case "text" -> TableOptions.text();
            case "integer" -> TableOptions.integer();
            default -> throw new Request.Bad("invalid-argument", "The key is bytes, text or integer.");
        };
        if (request.has("capacity")) {
            options.capacity(request.number("capacity"));
        }
        if (request.has("key_bytes")) {
            options.keyBytes(request.integer("key_bytes"));
        }
        if (request.has("value_bytes")) {
            options.valueBytes(request.integer("value_bytes"));
        }
        if (request.has("checked")) {
            options.checked(request.flag("checked"));
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
            .anyFileSystem(request.flag("any_file_system"));
        if (request.has("inject")) {
            Operations.identity(request.object("inject")).in(options);
        }
        attached(request, answer, request.waits() ? Table.waitFor(name, limit(request), options)
            : Table.open(name, options));
    }

    private void attached(Request request, JsonObject answer, Table table) {
        tables.put(request.text("table"), table);
        info(table, answer);
    }

    private static void info(Table table, JsonObject answer) {
        answer.addProperty("path", table.path());
        answer.addProperty("table_id", table.id().toString());
        answer.addProperty("key_type", table.keyType().toString());
        answer.addProperty("key_bytes", table.keyBytes());
        answer.addProperty("value_bytes", table.valueBytes());
        answer.addProperty("capacity", table.capacity());
        answer.addProperty("checked", table.checked());
        try {
            answer.addProperty("file_length", Files.size(Path.of(table.path())));
        } catch (IOException e) {
            answer.addProperty("file_length", -1); // the table is there all the same
        }
    }

    private void stats(Request request, JsonObject answer) {
        TableStats stats = table(request).stats();
        JsonObject json = new JsonObject();
        json.addProperty("path", stats.path());
        json.addProperty("id", stats.id().toString());
        json.addProperty("capacity", stats.capacity());
        json.addProperty("size", stats.size());
        json.addProperty("version", stats.version());
        json.addProperty("entries", stats.entries());
        json.addProperty("filled", stats.filled());
        json.addProperty("rebuild", stats.rebuild());
        json.addProperty("writing", stats.writing());
        json.addProperty("closed", stats.closed());
        json.addProperty("unfinished", stats.unfinished());
        json.addProperty("writer", stats.writer());
        json.addProperty("pid", stats.pid());
        json.addProperty("attached_at", stats.attachedAt());
        json.addProperty("epoch", stats.epoch());
        json.addProperty("successor", stats.successor());
        json.addProperty("needs_recovery", stats.needsRecovery());
        json.addProperty("clean", stats.clean());
        json.addProperty("damaged", stats.damaged());
        json.addProperty("busy", stats.busy());
        answer.add("stats", json);
    }

    private void makeWriter(Request request, JsonObject answer) {
        String name = request.text("name", "");
        TableWriter writer = request.waits() ? table(request).writer(name, limit(request))
            : table(request).writer(name);
        writers.put(request.text("writer"), writer);
        owners.put(request.text("writer"), request.text("table"));
        answer.addProperty("epoch", writer.epoch());
    }

    private void makeEntry(Request request, JsonObject answer) {
        Entry entry = changer(request).entry(key(request));
        if (entry != null) {
            entries.put(request.text("entry"), entry);
        }
        answer.addProperty("found", entry != null);
    }

    private void get(Request request, JsonObject answer) {
        boolean inPlace = request.flag("in_place");
        byte[] value;
        long version = 0;
        if (!request.has("entry") && !inPlace) {
            Versioned found = changer(request).get(key(request));
            value = found == null ? null : found.value();
            version = found == null ? 0 : found.version();
        } else if (!request.has("entry")) {
            value = changer(request).read(key(request));
        } else if (inPlace) {
            value = entry(request).read(Changer.COPY);
        } else {
            version = entry(request).version();
            MutableDirectBuffer buffer = Changer.buffer(new byte[1 << 16]);
            int length = entry(request).get(buffer, 0);
            value = length < 0 ? null : new byte[length];
            if (value != null) {
                buffer.getBytes(0, value);
            }
        }
        answer.add("value", JsonNull.INSTANCE);
        if (value != null) {
            answer.addProperty("value", Request.hex(value));
        }
        if (!inPlace) {
            answer.addProperty("version", version);
        }
    }

    private void put(Request request, JsonObject answer) {
        byte[] bytes = request.bytes("value");
        MutableDirectBuffer value = Changer.buffer(bytes);
        long version;
        if (request.has("entry")) {
            version = writers.get(Operations.known(writers, request, "writer"))
                .put(entry(request), value, 0, bytes.length);
        } else if (request.flag("if_absent")) {
            version = changer(request).putIfAbsent(key(request), value, bytes.length);
        } else if (request.has("version")) {
            version = changer(request).compareAndPut(key(request), request.number("version"), value, bytes.length);
        } else {
            version = changer(request).put(key(request), value, bytes.length);
        }
        answer.addProperty("version", version);
    }

    private void update(Request request, JsonObject answer) {
        byte[] bits = request.has("xor") ? request.bytes("xor") : new byte[0];
        boolean fails = request.flag("throw");
        try {
            answer.addProperty("version", changer(request).update(key(request), value -> {
                if (fails) {
                    throw new Thrown();
                }
                for (int i = 0; i < Math.min(bits.length, value.capacity()); i++) {
                    value.putByte(i, (byte) (value.getByte(i) ^ bits[i]));
                }
            }));
            answer.addProperty("threw", false);
        } catch (Thrown e) {
            answer.addProperty("version", 0);
            answer.addProperty("threw", true);
        }
    }

    private void size(Request request, JsonObject answer) {
        answer.addProperty("size", table(request).size());
        answer.addProperty("version", table(request).version());
    }

    private void each(Request request, JsonObject answer) {
        JsonArray items = new JsonArray();
        KeyType type = table(request).keyType();
        table(request).forEach(item -> items.add(json(type, item)));
        answer.add("items", items);
    }

    private static JsonObject json(KeyType type, TableItem item) {
        JsonObject json = new JsonObject();
        switch (type) {
            case INTEGER -> json.addProperty("key", item.integerKey());
            case TEXT -> json.addProperty("key", item.textKey());
            default -> json.addProperty("key", Request.hex(item.key()));
        }
        json.addProperty("value", Request.hex(Changer.COPY.onValue(item.value())));
        json.addProperty("version", item.version());
        return json;
    }

    private void waitChanged(Request request, JsonObject answer) {
        long version = request.number("version");
        long changed;
        if (request.has("entry")) {
            changed = entry(request).waitChanged(version, limit(request));
        } else if (request.has("key")) {
            changed = changer(request).waitChanged(key(request), version, limit(request));
        } else {
            changed = table(request).waitChanged(version, limit(request));
        }
        answer.addProperty("version", changed);
    }
}
