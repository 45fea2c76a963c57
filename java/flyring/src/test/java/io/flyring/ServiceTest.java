// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The verbs of a service: service.md 3 to 6, 8, 9. */
@Timeout(30)
class ServiceTest {
    private static final Duration FOREVER = Publisher.FOREVER;
    @RegisterExtension
    final Rings rings = new Rings();

    private Channel service() {
        return Channel.create(rings.path("s.ring"),
            ChannelOptions.service().capacity(4096).clients(2).maxOutstanding(4));
    }

    private static void echo(Request request) {
        request.reply(request.toByteArray());
    }

    @Test
    void callIsAnswered() throws Exception {
        try (Channel channel = service(); Server server = channel.server("s"); Client client = channel.client()) {
            Thread thread = new Thread(() -> server.serve(ServiceTest::echo));
            thread.start();
            for (byte i = 0; i < 100; i++) {
                assertArrayEquals(new byte[] {i, 7}, client.call(new byte[] {i, 7}).toByteArray());
            }
            assertEquals(0, client.outstanding());
            server.stop();
            thread.join();
        }
    }

    @Test
    void handlerThatThrowsEndsItsCallOnly() {
        try (Channel channel = service(); Server server = channel.server(); Client client = channel.client()) {
            Call bad = client.start(new byte[1], 1, FOREVER);
            Call silent = client.start(new byte[2], 1, FOREVER);
            assertEquals(2, server.poll(request -> {
                if (request.length() == 1) {
                    throw new IllegalStateException("broken");
                }
            }));
            assertEquals("broken", assertThrows(ServiceErrorException.class, bad::result).text());
            assertEquals("no answer", assertThrows(ServiceErrorException.class, silent::result).text());
        }
    }

    @Test
    void keptRequestsAreAnsweredInAnyOrder() {
        try (Channel channel = service(); Server server = channel.server(); Client client = channel.client()) {
            Call first = client.start(new byte[] {1}, 1, FOREVER);
            Call second = client.start(new byte[] {2}, 1, FOREVER);
            List<Request> kept = new ArrayList<>();
            server.poll(request -> {
                request.keep();
                kept.add(request);
            });
            assertEquals(2, server.inHand());
            echo(kept.get(1));
            assertArrayEquals(new byte[] {2}, second.result().toByteArray());
            assertFalse(first.done());
            echo(kept.get(0));
            assertArrayEquals(new byte[] {1}, first.result().toByteArray());
            assertEquals("reply", assertThrows(InvalidArgumentException.class, () -> echo(kept.get(0))).argument());
        }
    }

    @Test
    void busyAtMaxOutstanding() {
        try (Channel channel = service(); Server server = channel.server(); Client client = channel.client()) {
            for (int i = 0; i < 4; i++) {
                client.start(new byte[1], 1, FOREVER);
            }
            assertEquals(4, assertThrows(BusyException.class, () -> client.start(new byte[1], 1, FOREVER))
                .outstanding());
            server.poll(ServiceTest::echo);
            client.start(new byte[1], 1, FOREVER);
        }
    }

    /** iceoryx2 #1763: the dead side still counts as connected. */
    @Test
    void deadServerIsSeen() {
        try (Channel channel = service(); Client client = channel.client()) {
            Server server = channel.server("one");
            Call taken = client.start(new byte[1], 1, FOREVER);
            List<Request> kept = new ArrayList<>();
            server.poll(request -> {
                request.keep();
                kept.add(request);
            });
            Call waits = client.start(new byte[1], 1, FOREVER);
            server.close();
            assertNull(client.server());
            ServerGoneException error = assertThrows(ServerGoneException.class, taken::result);
            assertTrue(error.mayHaveRun());
            assertEquals("one", error.name());
            assertFalse(assertThrows(ServerGoneException.class, waits::result).mayHaveRun());
            assertFalse(assertThrows(ExpiredException.class,
                () -> client.call(new byte[1], 1, Duration.ofMillis(20))).mayHaveRun());
        }
    }

    /** iceoryx2 #748: requests are lost with their sender. */
    @Test
    void requestOfAClientThatLeftIsRun() {
        try (Channel channel = service(); Server server = channel.server()) {
            Client client = channel.client();
            client.start(new byte[3], 1, FOREVER);
            client.close();
            assertEquals(1, server.poll(ServiceTest::echo));
            assertEquals(1, server.clientGone());
        }
    }

    /** iceoryx2 #1905: a reply to a recycled connection. */
    @Test
    void oldReplyNeverReachesTheNextClient() {
        try (Channel channel = service(); Server server = channel.server()) {
            Client old = channel.client();
            old.start(new byte[] {1}, 1, FOREVER);
            List<Request> kept = new ArrayList<>();
            server.poll(request -> {
                request.keep();
                kept.add(request);
            });
            old.close();
            try (Client next = channel.client()) {
                assertEquals(0, next.number());
                Call call = next.start(new byte[] {2}, 1, FOREVER);
                echo(kept.get(0));
                server.poll(ServiceTest::echo);
                assertArrayEquals(new byte[] {2}, call.result().toByteArray());
            }
        }
    }

    /** iceoryx2 #1797: the server aborts after a number of clients. */
    @Test
    void clientsComeAndGo() {
        try (Channel channel = service(); Server server = channel.server()) {
            for (int i = 0; i < 300; i++) {
                try (Client client = channel.client()) {
                    Call call = client.start(new byte[8], 1, FOREVER);
                    server.poll(ServiceTest::echo);
                    assertEquals(8, call.result().length());
                }
            }
            assertEquals(0, server.inHand());
        }
    }

    /** iceoryx2 #1131 and #1969: a client that does not read delays nobody, and its replies leak nothing. */
    @Test
    void slowClientDelaysNobody() {
        try (Channel channel = service(); Server server = channel.server(); Client slow = channel.client();
            Client quick = channel.client()) {
            List<Call> calls = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                calls.add(slow.start(new byte[8], 1, FOREVER));
            }
            byte[] large = new byte[1000];
            server.poll(request -> request.reply(large));
            assertTrue(server.repliesWaiting() > 0);
            Call call = quick.start(new byte[1], 1, FOREVER);
            server.poll(request -> request.reply(large));
            assertEquals(1000, call.result().length());
            while (server.inHand() > 0) {
                slow.poll();
                server.poll(ServiceTest::echo);
            }
            for (Call each : calls) {
                assertEquals(1000, each.result().length());
            }
        }
    }

    @Test
    void atLeastOnceTheNextServerAnswers() {
        try (Channel channel = Channel.create(rings.path("l.ring"),
            ChannelOptions.service().delivery(Delivery.AT_LEAST_ONCE).clients(1)); Client client = channel.client()) {
            Server first = channel.server();
            Call call = client.start(new byte[] {5}, 1, FOREVER);
            first.poll(Request::keep);
            first.close();
            try (Server second = channel.server()) {
                assertEquals(1, second.poll(request -> {
                    assertTrue(request.repeat());
                    echo(request);
                }));
                assertArrayEquals(new byte[] {5}, call.result().toByteArray());
                assertTrue(call.repeat());
            }
        }
    }
}
