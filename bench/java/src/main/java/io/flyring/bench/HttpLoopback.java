// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.flyring.PayloadBuffer;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.util.concurrent.Semaphore;
import org.agrona.DirectBuffer;

/**
 * HTTP/1.1 over loopback by what the JDK has, {@link HttpServer} and {@link HttpClient}: a POST on a connection that
 * stays. The server's own thread answers, and side b's waits meanwhile. Which port it is, a file says.
 */
final class HttpLoopback extends Contender {
    private static final int OK = 200;
    private static final int BACKLOG = 16;

    private final HttpServer server;
    private final HttpClient client;
    private final byte[] out;
    private final PayloadBuffer outgoing = new PayloadBuffer();
    private final PayloadBuffer incoming = new PayloadBuffer();
    private HttpRequest.Builder request;

    HttpLoopback(Setup setup, Messages messages) throws IOException {
        super(setup, messages);
        if (setup.streaming()) {
            throw new IllegalArgumentException("cannot: http-jdk: round trips only");
        }
        out = new byte[messages.size];
        outgoing.wrap(out);
        if (setup.client()) {
            server = null;
            client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
            return;
        }
        client = null;
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), BACKLOG);
        server.createContext("/", this::answer);
        server.start();
        Files.writeString(setup.path("port"), Integer.toString(server.getAddress().getPort()));
    }

    @Override
    void connect() {
        if (client == null) {
            return;
        }
        try {
            String port = Files.readString(setup.path("port"));
            request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    void send(long tag) {
        messages.write(outgoing, 0, tag);
        try {
            HttpRequest one = request.POST(HttpRequest.BodyPublishers.ofByteArray(out)).build();
            HttpResponse<byte[]> response = client.send(one, HttpResponse.BodyHandlers.ofByteArray());
            if (response.statusCode() != OK || response.body().length != messages.size) {
                throw new IllegalStateException("status " + response.statusCode() + ", " + response.body().length
                    + " bytes");
            }
            incoming.wrap(response.body());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    @Override
    void receive() {
        receiver.onMessage(incoming, 0);
    }

    /** In the server's thread. */
    private void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            byte[] body = exchange.getRequestBody().readAllBytes();
            if (body.length != messages.size) {
                throw new IllegalStateException("received " + body.length + " bytes");
            }
            incoming.wrap(body);
            receiver.onMessage(incoming, 0);
            exchange.sendResponseHeaders(OK, body.length);
            try (OutputStream to = exchange.getResponseBody()) {
                to.write(body);
            }
        } catch (IllegalStateException e) {
            System.err.println("flyring-bench: " + e);
            System.exit(1);
        }
    }

    @Override
    String library() {
        return "JDK " + Runtime.version();
    }

    @Override
    public void close() {
        if (server != null) {
            server.stop(0);
        }
    }

    /** {@code rtt}, side b: compares in the server's thread, and waits in its own for the end of the slice. */
    static final class Answerer extends Role {
        private final Semaphore ends = new Semaphore(0);
        private long number;

        Answerer(Setup setup, HttpLoopback http) {
            super(setup, http);
        }

        @Override
        String slice(boolean timed) {
            ends.acquireUninterruptibly();
            return null;
        }

        @Override
        void onMessage(DirectBuffer buffer, int at) {
            long tag = Messages.tag(0, number);
            if (messages.is(buffer, at, tag)) {
                number++;
            } else {
                messages.mustBeEnd(buffer, at, number, tag);
                number = 0;
                ends.release();
            }
        }
    }
}
