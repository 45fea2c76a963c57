// SPDX-License-Identifier: Apache-2.0

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.flyring.BusyException;
import io.flyring.Channel;
import io.flyring.Client;
import io.flyring.ExpiredException;
import io.flyring.FlyringException;
import io.flyring.Message;
import io.flyring.MessageTooLargeException;
import io.flyring.ServerGoneException;
import io.flyring.sbe.Dispatcher;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import keyvalue.ChangedDecoder;
import keyvalue.RefusedDecoder;
import keyvalue.ValueDecoder;
import org.agrona.sbe.MessageEncoderFlyweight;

/**
 * The key-value server as a web server: GET, PUT and DELETE of /keys/KEY. An ETag is a version. It handles one request
 * after the other, as a client of a service is for one thread.
 *
 * <pre>
 * Web PORT    then: curl -i http://127.0.0.1:PORT/keys/apples
 * </pre>
 */
public final class Web {
    private static final Map<String, Integer> STATUS =
        Map.of("too-large", 413, "no-space", 507, "invalid-argument", 400);
    private static final int LONGEST = 10_000;
    private static final long ANY = -1;

    private final Client client;
    private final Dispatcher dispatcher = new Dispatcher()
        .on(new ValueDecoder(), (found, message) -> value(found))
        .on(new ChangedDecoder(), (changed, message) -> changed(changed.before(), changed.version()))
        .on(new RefusedDecoder(), (refused, message) ->
            answer(STATUS.getOrDefault(refused.code(), 500), 0, text(refused.text())));
    private HttpExchange exchange;
    private long condition;

    private Web(Client client) {
        this.client = client;
    }

    public static void main(String[] args) throws IOException, InterruptedException {
        if (args.length != 1) {
            System.err.println("Use Web PORT.");
            System.exit(2);
        }
        InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(args[0]));
        try (Channel service = KeyValue.openService(); Client client = service.client("web")) {
            HttpServer server = HttpServer.create(address, 0);
            server.createContext("/keys/", new Web(client)::handle);
            server.start();
            Thread.currentThread().join(); // until the process is ended
        }
    }

    private void handle(HttpExchange asked) throws IOException {
        exchange = asked;
        try {
            MessageEncoderFlyweight request = request();
            if (request != null) {
                dispatcher.onMessage(client.call(request, KeyValue.TIMEOUT));
            }
        } catch (ExpiredException e) { // no server runs, or it is slow; a change may have been made all the same
            answer(504, 0, text("no answer in time"));
        } catch (ServerGoneException | BusyException e) {
            asked.getResponseHeaders().set("Retry-After", "1");
            answer(503, 0, text(e.getMessage()));
        } catch (MessageTooLargeException e) {
            answer(413, 0, text(e.getMessage()));
        } finally {
            asked.close();
        }
    }

    /** The request to the key-value server; null if it was answered here. */
    private MessageEncoderFlyweight request() throws IOException {
        String key = exchange.getRequestURI().getPath().substring("/keys/".length());
        byte[] value = exchange.getRequestBody().readNBytes(LONGEST + 1);
        String method = exchange.getRequestMethod();
        condition = condition(method);
        if (value.length > LONGEST) {
            answer(413, 0, text("a value may have 8000 bytes"));
        } else if (condition < ANY) {
            answer(501, 0, text("use If-Match: \"VERSION\", or If-None-Match: * for PUT"));
        } else if (method.equals("GET")) {
            return KeyValue.get(key);
        } else if (method.equals("PUT")) {
            return condition == ANY ? KeyValue.put(key, value) : KeyValue.compareAndPut(condition, key, value);
        } else if (method.equals("DELETE")) {
            return KeyValue.remove(Math.max(0, condition), key);
        } else {
            answer(405, 0, text("use GET, PUT or DELETE"));
        }
        return null;
    }

    /** The version that the key must have: of If-Match, 0 of "If-None-Match: *", ANY; -2 for what is not supported. */
    private long condition(String method) {
        String match = exchange.getRequestHeaders().getFirst("If-Match");
        String noneMatch = exchange.getRequestHeaders().getFirst("If-None-Match");
        if (match == null && noneMatch == null) {
            return ANY;
        }
        if (match == null) {
            return noneMatch.equals("*") && method.equals("PUT") ? 0 : -2;
        }
        Matcher tag = Pattern.compile("\"([1-9]\\d{0,17})\"").matcher(match);
        return noneMatch == null && tag.matches() ? Long.parseLong(tag.group(1)) : -2;
    }

    private void value(ValueDecoder found) {
        long version = found.version();
        byte[] value = new byte[found.valueLength()];
        found.getValue(value, 0, value.length);
        if (version == 0) {
            answer(404, 0, text("there is no such key"));
        } else {
            exchange.getResponseHeaders().set("Content-Type", "application/octet-stream");
            answer(200, version, value);
        }
    }

    private void changed(long before, long version) {
        if (version != before) {
            answer(before == 0 ? 201 : 204, version, new byte[0]);
        } else if (before == 0 && condition == ANY) {
            answer(404, 0, text("there is no such key"));
        } else {
            answer(412, version, text("the key has another version"));
        }
    }

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private void answer(int status, long version, byte[] body) {
        try {
            if (version != 0) {
                exchange.getResponseHeaders().set("ETag", "\"" + version + "\"");
            }
            exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
        } catch (IOException e) {
            System.err.println("the caller has gone: " + e.getMessage());
        }
    }
}
