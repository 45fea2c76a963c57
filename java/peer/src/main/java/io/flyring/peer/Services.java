// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import io.flyring.Call;
import io.flyring.CallEvents;
import io.flyring.CancelledException;
import io.flyring.Channel;
import io.flyring.Client;
import io.flyring.FlyringException;
import io.flyring.Message;
import io.flyring.PayloadBuffer;
import io.flyring.Server;
import io.flyring.ServerInfo;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** What a driver may ask of a service's server and clients. */
final class Services {
    private final Function<Request, Channel> channel;
    private final Map<String, Server> servers = new HashMap<>();
    private final Map<String, Caller> clients = new HashMap<>();
    private final Map<String, io.flyring.Request> kept = new HashMap<>();

    /** A client with its calls, and what is to be told of them. */
    private static final class Caller {
        private final Client client;
        private final Map<String, Call> calls = new HashMap<>();
        /** Calls whose end was told. */
        private final Set<String> told = new HashSet<>();
        /** What happened outside of poll_client. */
        private final List<String> heard = new ArrayList<>();
        private JsonArray found = new JsonArray();
        private boolean telling;

        Caller(Client client) {
            this.client = client;
        }

        void hear(String name) {
            Call call = calls.get(name);
            if (call == null) {
                return; // another one has its handle
            }
            JsonObject tells = new JsonObject();
            tells.addProperty("call", name);
            try {
                Message item = CallEvents.isStream(call) ? call.next(Duration.ZERO) : null;
                if (item != null) {
                    tells.addProperty("is", "item");
                    add(tells, item, false);
                } else if (call.done() && told.add(name)) {
                    Message end = call.result();
                    tells.addProperty("is", CallEvents.isStream(call) ? "end-of-stream" : "answer");
                    if (end != null) {
                        add(tells, end, call.repeat());
                    }
                } else {
                    return; // result or next has given it already
                }
            } catch (CancelledException e) {
                return; // of which nobody is told
            } catch (FlyringException e) {
                told.add(name);
                tells.addProperty("is", e.code());
                Peer.carried(e, tells);
            }
            found.add(tells);
        }
    }

    Services(Function<Request, Channel> channel) {
        this.channel = channel;
    }

    void addTo(Map<String, BiConsumer<Request, JsonObject>> operations) {
        operations.put("server", this::makeServer);
        operations.put("client", this::makeClient);
        operations.put("serve", this::serve);
        operations.put("later", this::later);
        operations.put("request", (request, answer) -> answer.addProperty("cancelled",
            kept.get(Operations.known(kept, request, "request")).cancelled()));
        operations.put("held", this::held);
        operations.put("call", this::call);
        operations.put("start", this::start);
        operations.put("result", this::result);
        operations.put("next", this::next);
        operations.put("cancel", (request, answer) -> callOf(request).cancel());
        operations.put("poll_client", this::pollClient);
        operations.put("calls", this::calls);
        operations.put("serve_many", (request, answer) -> new ServeMany(server(request), request, kept).run(answer));
        operations.put("call_many", (request, answer) -> new CallMany(caller(request).client, request).run(answer));
    }

    void clear() {
        servers.clear();
        clients.clear();
        kept.clear();
    }

    void closeServer(Request request) {
        server(request).close(); // may be refused, and the handle stays
        servers.remove(request.text("server"));
    }

    void closeClient(Request request) {
        caller(request).client.close();
        clients.remove(request.text("client"));
    }

    private Server server(Request request) {
        return servers.get(Operations.known(servers, request, "server"));
    }

    private Caller caller(Request request) {
        return clients.get(Operations.known(clients, request, "client"));
    }

    private Call callOf(Request request) {
        for (Caller caller : clients.values()) {
            Call call = caller.calls.get(request.text("call"));
            if (call != null) {
                return call;
            }
        }
        throw new Request.Bad("There is no call with the handle " + request.text("call") + ".");
    }

    private void makeServer(Request request, JsonObject answer) {
        String name = request.text("name", "");
        Server made = request.waits() ? channel.apply(request).server(name, Duration.ofNanos(request.timeout()))
            : channel.apply(request).server(name);
        servers.put(request.text("server"), made);
        request.spin(made::setSpin);
        answer.addProperty("epoch", made.epoch());
    }

    private void makeClient(Request request, JsonObject answer) {
        String name = request.text("name", "");
        Client made = request.waits() ? channel.apply(request).client(name, Duration.ofNanos(request.timeout()))
            : channel.apply(request).client(name);
        clients.put(request.text("client"), new Caller(made));
        request.spin(made::setSpin);
        answer.addProperty("number", made.number());
        answer.addProperty("epoch", made.epoch());
    }

    private void serve(Request request, JsonObject answer) {
        Request handler = request.object("handler");
        JsonArray requests = new JsonArray();
        server(request).poll(one -> {
            requests.add(json(one));
            if (handler.has("keep")) {
                one.keep();
                kept.put(handler.text("keep") + (requests.size() - 1), one);
            } else {
                act(one, handler);
            }
        }, request.integer("limit", 256), request.waits() ? request.timeout() : 0);
        answer.add("requests", requests);
    }

    private void later(Request request, JsonObject answer) {
        io.flyring.Request one = kept.get(Operations.known(kept, request, "request"));
        Request handler = request.object("handler");
        if (handler.has("throw") && !handler.has("stream")) {
            one.fail(handler.text("throw"));
        } else {
            act(one, handler);
        }
    }

    private static JsonObject json(io.flyring.Request request) {
        JsonObject json = new JsonObject();
        json.addProperty("client", request.client());
        json.addProperty("type", request.type());
        json.addProperty("data", Request.hex(request.toByteArray()));
        json.addProperty("repeat", request.repeat());
        json.addProperty("cancelled", request.cancelled());
        json.addProperty("is_stream", request.isStream());
        JsonObject sender = new JsonObject();
        sender.addProperty("name", request.sender().name());
        sender.addProperty("epoch", request.sender().epoch());
        json.add("sender", sender);
        return json;
    }

    private static void add(JsonObject json, Message answer, boolean repeat) {
        json.addProperty("type", answer.type());
        json.addProperty("data", Request.hex(answer.toByteArray()));
        json.addProperty("repeat", repeat);
    }

    private static JsonObject json(Message answer, boolean repeat) {
        JsonObject json = new JsonObject();
        add(json, answer, repeat);
        return json;
    }

    /** Does what a handler says, but keep. */
    private static void act(io.flyring.Request one, Request handler) {
        if (handler.has("stream")) {
            one.stream(new Items(handler), handler.integer("type"));
        } else if (handler.has("reply")) {
            PayloadBuffer bytes = new PayloadBuffer();
            bytes.wrap(handler.bytes("reply"));
            one.reply(bytes, 0, bytes.capacity(), handler.integer("type"));
        } else if (handler.has("echo")) {
            one.reply(one.buffer(), 0, one.length(), one.type());
        } else if (handler.has("fail")) {
            one.fail(handler.text("fail"));
        } else if (handler.has("throw")) {
            throw new IllegalStateException(handler.text("throw"));
        } else if (!handler.has("nothing")) {
            throw new Request.Bad("handler: " + handler.json());
        }
    }

    /** The items of a stream, and perhaps an exception behind them. */
    private static final class Items implements Iterator<byte[]> {
        private final List<byte[]> items = new ArrayList<>();
        private final String error;
        private int at;

        Items(Request handler) {
            for (JsonElement item : handler.list("stream")) {
                items.add(Request.hex(item));
            }
            error = handler.has("throw") ? handler.text("throw") : null;
        }

        @Override
        public boolean hasNext() {
            return at < items.size() || error != null;
        }

        @Override
        public byte[] next() {
            if (at < items.size()) {
                return items.get(at++);
            }
            if (error != null) {
                throw new IllegalStateException(error);
            }
            throw new NoSuchElementException();
        }
    }

    private void held(Request request, JsonObject answer) {
        Server server = server(request);
        answer.addProperty("in_hand", server.inHand());
        answer.addProperty("waiting", server.repliesWaiting());
        answer.addProperty("client_gone", server.clientGone());
        answer.addProperty("expired", server.expired());
        answer.addProperty("not_run", server.notRun());
        answer.addProperty("damaged", server.damaged());
    }

    private static Duration limit(Request request) {
        return request.has("timeout") ? Duration.ofNanos(request.timeout()) : io.flyring.Publisher.FOREVER;
    }

    private void call(Request request, JsonObject answer) {
        Client client = caller(request).client;
        // As a call that was started, for what it says of a repeat.
        Call call = client.start(request.bytes("data"), request.integer("type", 1), limit(request));
        answer.add("answer", json(call.result(), call.repeat()));
    }

    private void start(Request request, JsonObject answer) {
        Caller caller = caller(request);
        String name = request.text("call");
        byte[] data = request.bytes("data");
        int type = request.integer("type", 1);
        int credit = request.integer("credit", 0);
        clients.values().forEach(other -> other.calls.remove(name));
        caller.told.remove(name);
        Call call = credit == 0 ? caller.client.start(data, type, limit(request))
            : caller.client.stream(data, type, credit, limit(request));
        caller.calls.put(name, call);
        CallEvents.of(call, heard -> {
            if (caller.telling) {
                caller.hear(name);
            } else {
                caller.heard.add(name);
            }
        });
    }

    private void result(Request request, JsonObject answer) {
        Call call = callOf(request);
        Message message = call.result(limit(request));
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

    private void pollClient(Request request, JsonObject answer) {
        Caller caller = caller(request);
        List<String> heard = List.copyOf(caller.heard);
        caller.heard.clear();
        heard.forEach(caller::hear);
        caller.telling = true;
        try {
            caller.client.poll(request.waits() && caller.found.isEmpty() ? limit(request) : Duration.ZERO);
        } finally {
            caller.telling = false;
        }
        answer.add("found", caller.found);
        caller.found = new JsonArray();
    }

    private void calls(Request request, JsonObject answer) {
        Client client = caller(request).client;
        answer.addProperty("outstanding", client.outstanding());
        answer.addProperty("late", client.late());
        ServerInfo server = client.server();
        answer.add("server", JsonNull.INSTANCE);
        if (server != null) {
            JsonObject json = new JsonObject();
            json.addProperty("name", server.name());
            json.addProperty("epoch", server.epoch());
            answer.add("server", json);
        }
    }
}
