// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.flyring.Call;
import io.flyring.Channel;
import io.flyring.Client;
import io.flyring.Delivery;
import io.flyring.Message;
import io.flyring.Publisher;
import io.flyring.ServerInfo;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** The operations on clients of a service and their calls. */
final class Clients {
    private final Function<Request, Channel> channel;
    private final Map<String, Caller> clients = new LinkedHashMap<>();

    Clients(Function<Request, Channel> channel) {
        this.channel = channel;
    }

    void addTo(Map<String, BiConsumer<Request, JsonObject>> operations) {
        operations.put("client", this::make);
        operations.put("call", this::call);
        operations.put("start", this::start);
        operations.put("result", this::result);
        operations.put("next", this::next);
        operations.put("cancel", (request, answer) -> callerOf(request).cancel(request.text("call")));
        operations.put("poll_client", (request, answer) ->
            answer.add("found", caller(request).poll(request.waits() ? request.timeout() : 0)));
        operations.put("calls", this::calls);
        operations.put("call_many", (request, answer) ->
            new CallMany(caller(request).client, request).run(answer));
    }

    void clear() {
        clients.clear();
    }

    void close(Request request) {
        caller(request).client.close();
    }

    private Caller caller(Request request) {
        return clients.get(Operations.known(clients, request, "client"));
    }

    private Caller callerOf(Request request) {
        String name = request.text("call");
        for (Caller caller : clients.values()) {
            if (caller.call(name) != null) {
                return caller;
            }
        }
        throw new Request.Bad("There is no call " + name + ".");
    }

    private Call callOf(Request request) {
        return callerOf(request).call(request.text("call"));
    }

    private static Duration limit(Request request) {
        return Duration.ofNanos(request.timeout());
    }

    private void make(Request request, JsonObject answer) {
        String name = request.text("name", "");
        Channel of = channel.apply(request);
        Caller before = clients.remove(request.text("client"));
        if (before != null) {
            before.client.close();
        }
        Client client = request.waits() ? of.client(name, limit(request)) : of.client(name);
        clients.put(request.text("client"), new Caller(client, of.delivery() == Delivery.AT_LEAST_ONCE));
        answer.addProperty("number", client.number());
        answer.addProperty("epoch", client.epoch());
    }

    private void call(Request request, JsonObject answer) {
        Caller caller = caller(request);
        byte[] data = request.bytes("data");
        int type = request.integer("type", 1);
        if (caller.atLeastOnce) { // the waiting verb returns a message, which has no repeat flag
            answer(caller.client.start(data, type, limit(request)), Publisher.FOREVER, answer);
        } else {
            answer.add("answer", json(caller.client.call(data, type, limit(request)), false));
        }
    }

    private void start(Request request, JsonObject answer) {
        Caller caller = caller(request);
        String name = request.text("call");
        int credit = request.integer("credit", 0);
        byte[] data = request.bytes("data");
        int type = request.integer("type", 1);
        clients.values().forEach(one -> one.forget(name));
        caller.add(name, credit == 0 ? caller.client.start(data, type, limit(request))
            : caller.client.stream(data, type, credit, limit(request)), credit != 0);
    }

    private void result(Request request, JsonObject answer) {
        answer(callOf(request), limit(request), answer);
    }

    private static void answer(Call call, Duration timeout, JsonObject answer) {
        Message message = call.result(timeout);
        answer.add("answer", message == null ? JsonNull.INSTANCE : json(message, call.repeat()));
    }

    private void next(Request request, JsonObject answer) {
        Call call = callOf(request);
        Message item = call.next(limit(request));
        if (item == null && !call.done()) {
            throw new Request.Bad("timed-out", "There was no item in time.");
        }
        answer.add("item", item == null ? JsonNull.INSTANCE : json(item, false));
    }

    private static JsonObject json(Message message, boolean repeat) {
        JsonObject json = new JsonObject();
        Caller.put(json, message, repeat);
        return json;
    }

    private void calls(Request request, JsonObject answer) {
        Client client = caller(request).client;
        ServerInfo server = client.server();
        answer.addProperty("outstanding", client.outstanding());
        answer.addProperty("late", client.late());
        answer.add("server", JsonNull.INSTANCE);
        if (server != null) {
            JsonObject json = new JsonObject();
            json.addProperty("name", server.name());
            json.addProperty("epoch", server.epoch());
            answer.add("server", json);
        }
    }
}
