// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The servers and clients of golden files: performs their operations, and checks what a server finds. */
final class GoldenCalls {
    private static final Set<String> OPERATIONS = Set.of("server", "client", "start", "poll_client", "cancel", "serve",
        "later", "clock");

    private final Map<String, Server> servers = new HashMap<>();
    private final Map<String, Client> clients = new HashMap<>();
    private final Map<String, Call> calls = new HashMap<>();
    private final Map<String, Request> kept = new HashMap<>();
    private JsonArray found = new JsonArray();

    boolean takes(JsonObject operation) {
        return OPERATIONS.contains(operation.get("op").getAsString()) || operation.has("server")
            || operation.has("client");
    }

    void clear() {
        servers.clear();
        clients.clear();
        calls.clear();
        kept.clear();
    }

    void perform(Channel channel, JsonObject operation, String where) {
        switch (operation.get("op").getAsString()) {
            case "server" -> {
                Server made = channel.server(operation.get("name").getAsString());
                servers.put(operation.get("as").getAsString(), made);
                assertEquals(operation.get("epoch").getAsLong(), made.epoch(), where);
            }
            case "client" -> {
                Client made = channel.client(operation.get("name").getAsString());
                clients.put(operation.get("as").getAsString(), made);
                assertEquals(operation.get("number").getAsInt(), made.number(), where);
                assertEquals(operation.get("epoch").getAsLong(), made.epoch(), where);
            }
            case "start" -> assertEquals(operation.get("started").getAsBoolean(), start(operation), where);
            case "poll_client" -> {
                found = new JsonArray();
                clients.get(operation.get("client").getAsString()).poll();
                assertEquals(operation.get("found"), found, where);
            }
            case "cancel" -> calls.get(operation.get("call").getAsString()).cancel();
            case "serve" -> assertEquals(byClient(operation.getAsJsonArray("requests")),
                serve(servers.get(operation.get("server").getAsString()), operation.get("limit").getAsInt(),
                    operation.getAsJsonObject("handler")), where);
            case "later" -> answer(kept.get(operation.get("request").getAsString()),
                operation.getAsJsonObject("handler"));
            case "clock" -> channel.identity().monotonic(operation.get("monotonic").getAsLong());
            case "close" -> {
                if (operation.has("server")) {
                    servers.get(operation.get("server").getAsString()).close();
                } else {
                    clients.get(operation.get("client").getAsString()).close();
                }
            }
            default -> throw new AssertionError(where);
        }
    }

    private boolean start(JsonObject operation) {
        Client client = clients.get(operation.get("client").getAsString());
        String name = operation.get("as").getAsString();
        long time = operation.get("timeout").getAsLong();
        Duration timeout = time == 0 ? Publisher.FOREVER : Duration.ofNanos(time);
        int credit = operation.get("credit").getAsInt();
        byte[] data = GoldenTest.data(operation.get("data"));
        int type = operation.get("type").getAsInt();
        try {
            Call call = credit == 0 ? client.start(data, type, timeout) : client.stream(data, type, credit, timeout);
            call.listener = heard -> hear(name, heard);
            calls.put(name, call);
            return true;
        } catch (BusyException e) {
            return false;
        }
    }

    private void hear(String name, Call call) {
        JsonObject each = new JsonObject();
        each.addProperty("call", name);
        try {
            Message item = call.credit > 0 ? call.next(Duration.ZERO) : null;
            Message answer = item == null ? call.result() : item;
            each.addProperty("is", item != null ? "item" : call.credit > 0 ? "end-of-stream" : "answer");
            if (answer != null) {
                each.addProperty("type", answer.type());
                each.addProperty("data", HexFormat.of().formatHex(answer.toByteArray()));
                each.addProperty("repeat", call.repeat());
            }
        } catch (ServiceErrorException e) {
            each.addProperty("is", e.code());
            each.addProperty("text", e.text());
        } catch (ExpiredException e) {
            each.addProperty("is", e.code());
            each.addProperty("may_have_run", e.mayHaveRun());
        } catch (ServerGoneException e) {
            each.addProperty("is", e.code());
            each.addProperty("may_have_run", e.mayHaveRun());
        } catch (CancelledException e) {
            return; // the end of a cancelled call is not reported
        } catch (FlyringException e) {
            each.addProperty("is", e.code());
        }
        found.add(each);
    }

    private List<JsonObject> serve(Server server, int limit, JsonObject handler) {
        List<JsonObject> handed = new ArrayList<>();
        server.poll(request -> {
            if (handler.has("keep")) {
                request.keep();
                kept.put(handler.get("keep").getAsString() + handed.size(), request);
            } else {
                answer(request, handler);
            }
            JsonObject facts = new JsonObject();
            facts.addProperty("client", request.client());
            facts.addProperty("type", request.type());
            facts.addProperty("repeat", request.repeat());
            facts.addProperty("data", HexFormat.of().formatHex(request.toByteArray()));
            handed.add(facts);
        }, limit);
        handed.sort(Comparator.comparingInt(each -> each.get("client").getAsInt()));
        return handed;
    }

    private static void answer(Request request, JsonObject handler) {
        if (handler.has("reply")) {
            byte[] data = GoldenTest.data(handler.get("reply"));
            PayloadBuffer buffer = new PayloadBuffer();
            buffer.wrap(data);
            request.reply(buffer, 0, data.length, handler.get("type").getAsInt());
        } else if (handler.has("fail")) {
            request.fail(handler.get("fail").getAsString());
        } else {
            List<byte[]> items = new ArrayList<>();
            handler.getAsJsonArray("stream").forEach(item -> items.add(GoldenTest.data(item)));
            request.stream(items.iterator(), handler.get("type").getAsInt());
        }
    }

    /** Requests ordered by client, without fields that a handler does not see. */
    static List<JsonObject> byClient(JsonArray requests) {
        List<JsonObject> sorted = new ArrayList<>();
        for (JsonElement each : requests) {
            JsonObject request = each.getAsJsonObject().deepCopy();
            request.remove("sequence");
            sorted.add(request);
        }
        sorted.sort(Comparator.comparingInt(each -> each.get("client").getAsInt()));
        return sorted;
    }

    /** The requests that a poll of that server hands out; keeps all of them. */
    List<JsonObject> finds(String name) {
        JsonObject handler = new JsonObject();
        handler.addProperty("keep", "found");
        return servers.containsKey(name) ? serve(servers.get(name), 256, handler) : List.of();
    }

    /** Checks that the file of a service holds what `expected` says. */
    void read(Channel channel, JsonObject expected) {
        JsonObject header = expected.getAsJsonObject("header");
        assertEquals(header.get("delivery").getAsInt(), channel.delivery().ordinal());
        assertEquals(header.get("max_outstanding").getAsInt(), channel.maxOutstanding());
        assertEquals(expected.get("serving").getAsLong(), channel.control().getLong(Layout.CONTROL_SERVING));
        long epoch = 0;
        for (JsonElement element : expected.getAsJsonArray("subscribers")) {
            JsonObject slot = element.getAsJsonObject();
            if (slot.get("slot").getAsInt() == 0) {
                epoch = slot.get("epoch").getAsLong();
                words(channel, slot, "taken_ends", 0, channel.clients());
            } else {
                Memory trailer = channel.trailers().get(channel.clients() + slot.get("slot").getAsInt() - 1);
                assertEquals(slot.get("outstanding").getAsInt(),
                    trailer.getInt(Layout.TRAILER_GATE + Layout.GATE_OUTSTANDING));
                assertEquals(slot.get("expired").getAsLong(),
                    trailer.getLong(Layout.TRAILER_GATE + Layout.GATE_EXPIRED));
            }
        }
        Server server = channel.server();
        servers.put("reader", server);
        assertEquals(epoch + 1, server.epoch());
        assertEquals(byClient(expected.getAsJsonArray("requests")), finds("reader"));
    }

    private static void words(Channel channel, JsonObject slot, String key, int from, int end) {
        List<Long> found = new ArrayList<>();
        for (int ring = from; ring < end; ring++) {
            found.add(channel.trailers().get(ring).getLong(Layout.TRAILER_GATE + Layout.GATE_TAKEN_END));
        }
        List<Long> wanted = new ArrayList<>();
        slot.getAsJsonArray(key).forEach(each -> wanted.add(each.getAsLong()));
        assertEquals(wanted, found);
        assertTrue(end > from);
    }
}
