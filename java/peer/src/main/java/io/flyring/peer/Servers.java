// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.flyring.Channel;
import io.flyring.PayloadBuffer;
import io.flyring.Server;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Queue;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiConsumer;
import java.util.function.Function;

/** The operations on servers of a service. */
final class Servers {
    private static final int LIMIT = 256;

    private final Function<Request, Channel> channel;
    private final Map<String, Server> servers = new HashMap<>();
    /** The requests that were kept, by their handles. */
    private final Map<String, io.flyring.Request> kept = new HashMap<>();

    /** The exception that a handler throws on request. */
    private static final class Thrown extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Thrown(String text) {
            super(text);
        }
    }

    Servers(Function<Request, Channel> channel) {
        this.channel = channel;
    }

    void addTo(Map<String, BiConsumer<Request, JsonObject>> operations) {
        operations.put("server", this::make);
        operations.put("serve", this::serve);
        operations.put("later", this::later);
        operations.put("request", (request, answer) -> answer.addProperty("cancelled", kept(request).cancelled()));
        operations.put("held", this::held);
        operations.put("serve_many", this::serveMany);
    }

    void clear() {
        servers.clear();
        kept.clear();
    }

    void close(Request request) {
        server(request).close();
    }

    private Server server(Request request) {
        return servers.get(Operations.known(servers, request, "server"));
    }

    private io.flyring.Request kept(Request request) {
        return kept.get(Operations.known(kept, request, "request"));
    }

    private void make(Request request, JsonObject answer) {
        String name = request.text("name", "");
        Server server = request.waits()
            ? channel.apply(request).server(name, Duration.ofNanos(request.timeout()))
            : channel.apply(request).server(name);
        servers.put(request.text("server"), server);
        answer.addProperty("epoch", server.epoch());
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
        }, request.integer("limit", LIMIT), Duration.ofNanos(request.waits() ? request.timeout() : 0));
        answer.add("requests", requests);
    }

    private void later(Request request, JsonObject answer) {
        io.flyring.Request one = kept(request);
        Request handler = request.object("handler");
        if (handler.has("throw") && !handler.has("stream")) {
            one.fail(handler.text("throw"));
        } else {
            act(one, handler);
        }
        if (!handler.has("nothing")) {
            kept.remove(request.text("request"));
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

    private void serveMany(Request request, JsonObject answer) {
        Server server = server(request);
        long end = System.nanoTime() + (long) (request.seconds() * Request.NANOS);
        long most = request.number("count", Long.MAX_VALUE);
        long dieAt = request.dieAt();
        long silentFrom = request.flag("silent") && dieAt >= 0 ? dieAt : Long.MAX_VALUE;
        request.spin(server::setSpin);
        long[] count = new long[1];
        while (count[0] < most) {
            long left = end - System.nanoTime();
            if (left <= 0) {
                break;
            }
            server.poll(one -> {
                long number = count[0]++;
                if (number >= silentFrom) {
                    one.keep();
                    kept.put("silent" + number, one);
                    return;
                }
                if (number == dieAt) {
                    Sigkill.now();
                }
                one.reply(one.buffer(), 0, one.length(), one.type());
            }, (int) Math.min(most - count[0], LIMIT), Duration.ofNanos(left));
        }
        while (server.repliesWaiting() > 0 && System.nanoTime() < end) { // polls send replies that wait for room
            server.poll(one -> { }, 0);
            LockSupport.parkNanos(50_000);
        }
        answer.addProperty("count", count[0]);
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

    /** Does what the request's handler says, except keep. */
    private static void act(io.flyring.Request request, Request handler) {
        if (handler.has("stream")) {
            request.stream(new Items(handler), handler.integer("type"));
        } else if (handler.has("reply")) {
            byte[] bytes = handler.bytes("reply");
            PayloadBuffer buffer = new PayloadBuffer();
            buffer.wrap(bytes);
            request.reply(buffer, 0, bytes.length, handler.integer("type"));
        } else if (handler.has("echo")) {
            request.reply(request.buffer(), 0, request.length(), request.type());
        } else if (handler.has("fail")) {
            request.fail(handler.text("fail"));
        } else if (handler.has("throw")) {
            throw new Thrown(handler.text("throw"));
        } else if (!handler.has("nothing")) {
            throw new Request.Bad("There is no such handler: " + handler.json() + ".");
        }
    }

    /** The items of a stream, and an exception after them if requested. */
    private static final class Items implements Iterator<byte[]> {
        private final Queue<byte[]> items = new ArrayDeque<>();
        private final String text;

        Items(Request handler) {
            for (JsonElement item : handler.list("stream")) {
                items.add(Request.hex(item));
            }
            text = handler.has("throw") ? handler.text("throw") : null;
        }

        @Override
        public boolean hasNext() {
            if (items.isEmpty() && text != null) {
                throw new Thrown(text);
            }
            return !items.isEmpty();
        }

        @Override
        public byte[] next() {
            if (items.isEmpty()) {
                throw new NoSuchElementException();
            }
            return items.remove();
        }
    }
}
