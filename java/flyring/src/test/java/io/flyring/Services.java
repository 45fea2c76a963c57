// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;

/** Helpers for tests of services. */
final class Services {
    static final int CAPACITY = 4096;

    private Services() {
    }

    static ChannelOptions service(int clients, int capacity, int alignment, int maxOutstanding) {
        return ChannelOptions.service().clients(clients).capacity(capacity).alignment(alignment)
            .maxOutstanding(maxOutstanding).counters(4);
    }

    static ChannelOptions service(int clients) {
        return service(clients, CAPACITY, 64, 64);
    }

    static ChannelOptions service() {
        return service(2);
    }

    static ChannelOptions least() {
        return service().delivery(Delivery.AT_LEAST_ONCE);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(Message message) {
        return new String(message.toByteArray(), StandardCharsets.UTF_8);
    }

    static String text(Request request) {
        return new String(request.toByteArray(), StandardCharsets.UTF_8);
    }

    static void echo(Request request) {
        request.reply(request.buffer(), 0, request.length(), request.type());
    }

    /** Stores a value as a hostile process would: at an offset of a ring, where the trailer follows the data. */
    static void poke(Channel channel, int ring, int at, long value, boolean isLong) {
        Memory memory = channel.file().map(channel.header().ringOffset(ring), channel.header().ringStride, false);
        if (isLong) {
            memory.putLong(at, value);
        } else {
            memory.putInt(at, (int) value);
        }
        channel.file().release(memory);
    }

    static Iterator<byte[]> endless() {
        return Stream.generate(() -> bytes("more")).iterator();
    }

    /** An action that may throw. */
    interface Action {
        void run() throws Exception;
    }

    /** The code of the exception that an action throws; "none" if it throws none. */
    static String code(Action action) {
        try {
            action.run();
            return "none";
        } catch (FlyringException e) {
            return e.code();
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    /** How an action ends, and whether the request may have run. */
    static String mayHaveRun(Action action) {
        try {
            action.run();
            return "none";
        } catch (ExpiredException e) {
            return "expired " + e.mayHaveRun();
        } catch (ServerGoneException e) {
            return "server-gone " + e.mayHaveRun();
        } catch (FlyringException e) {
            return e.code();
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    /** A channel with a server and a client, in one thread. */
    static final class Pair implements AutoCloseable {
        final Channel channel;
        final Server server;
        final Client client;

        Pair(Rings rings, ChannelOptions options) {
            channel = Channel.replace(rings.path("pair.ring"), options);
            server = channel.server("pricing");
            client = channel.client("desk");
        }

        Pair(Rings rings) {
            this(rings, service());
        }

        Call ask(RequestHandler handler) {
            Call call = client.start(bytes("price?"), 7, Publisher.FOREVER);
            assertEquals(1, server.poll(handler));
            assertEquals(1, client.poll());
            return call;
        }

        /** The answer to one call that the handler serves. */
        String answeredBy(RequestHandler handler) {
            return text(ask(handler).result());
        }

        /** The text of the error with which one call ends. */
        String errorOf(RequestHandler handler) {
            try {
                ask(handler).result();
                return "none";
            } catch (ServiceErrorException e) {
                return e.text();
            }
        }

        /** Keeps all requests that a poll hands out. */
        List<Request> keepAll() {
            List<Request> kept = new ArrayList<>();
            server.poll(request -> {
                request.keep();
                kept.add(request);
            });
            return kept;
        }

        @Override
        public void close() {
            channel.close();
        }
    }
}
