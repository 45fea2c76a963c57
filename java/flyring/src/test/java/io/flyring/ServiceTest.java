// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Services.bytes;
import static io.flyring.Services.code;
import static io.flyring.Services.least;
import static io.flyring.Services.mayHaveRun;
import static io.flyring.Services.service;
import static io.flyring.Services.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.flyring.Services.Pair;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** The verbs of a service: what a caller receives, what a handler may do with a request, and what is refused. */
@Timeout(60)
class ServiceTest {
    private static final Duration FOREVER = Publisher.FOREVER;
    private static final Duration LONG = Duration.ofSeconds(20);

    @RegisterExtension
    final Rings rings = new Rings();

    private String refused(ChannelOptions options) {
        try {
            Channel.replace(rings.path("refused.ring"), options).close();
            return "none";
        } catch (InvalidArgumentException e) {
            return e.argument();
        }
    }

    @Test
    void aCallGetsItsAnswer() {
        try (Pair pair = new Pair(rings)) {
            assertEquals(1, pair.server.epoch());
            assertEquals(0, pair.client.number());
            assertEquals(1, pair.client.slot());
            assertEquals(new ServerInfo("pricing", 1), pair.client.server());
            assertEquals("42", pair.answeredBy(request -> {
                assertEquals(7, request.type());
                assertEquals(0, request.client());
                assertEquals("desk", request.sender().name());
                assertFalse(request.repeat());
                assertFalse(request.isStream());
                assertFalse(request.cancelled());
                assertNull(request.remaining());
                assertEquals("price?", text(request));
                request.reply(bytes("42"));
            }));
        }
    }

    @Test
    void whatItIsMadeOf() {
        assertEquals("none", refused(service()));
        assertEquals("publishers", refused(service().publishers(4)));
        assertEquals("subscribers", refused(service().subscribers(4)));
        assertEquals("producers", refused(service().producers(4)));
        assertEquals("workers", refused(service().workers(4)));
        assertEquals("clients", refused(service(0)));
        assertEquals("clients", refused(service(513)));
        assertEquals("max_outstanding", refused(service().maxOutstanding(0)));
        assertEquals("max_outstanding", refused(service().maxOutstanding(65536)));
        assertEquals("clients", refused(ChannelOptions.inbox().clients(2)));
        assertEquals("delivery", refused(ChannelOptions.inbox().delivery(Delivery.AT_MOST_ONCE)));
        assertEquals("max_outstanding", refused(ChannelOptions.inbox().maxOutstanding(2)));
        try (Channel channel = Channel.create(rings.path("plain.ring"), ChannelOptions.service());
            Channel other = Channel.create(rings.path("other.ring"), ChannelOptions.queue())) {
            assertEquals(65536, channel.capacity());
            assertEquals(16, channel.clients());
            assertEquals(32, channel.publishers());
            assertEquals(17, channel.subscribers());
            assertEquals(64, channel.maxOutstanding());
            assertEquals("invalid-argument", code(channel::publisher));
            assertEquals("invalid-argument", code(() -> channel.subscriber("", false)));
            assertEquals("invalid-argument", code(channel::worker));
            assertEquals("invalid-argument", code(other::server));
            assertEquals("invalid-argument", code(other::client));
            assertEquals("none", differs(ChannelOptions.service()));
            assertEquals("clients", differs(ChannelOptions.service().clients(3)));
            assertEquals("delivery", differs(ChannelOptions.service().delivery(Delivery.AT_LEAST_ONCE)));
            assertEquals("max_outstanding", differs(ChannelOptions.service().maxOutstanding(3)));
        }
    }

    private String differs(ChannelOptions options) {
        try {
            Channel.openOrCreate(rings.path("plain.ring"), options).close();
            return "none";
        } catch (ChannelDiffersException e) {
            return e.field();
        }
    }

    @Test
    void thereIsOneServerAndSoManyClients() throws Exception {
        try (Channel channel = Channel.create(rings.path("c.ring"), service())) {
            Server server = channel.server("first");
            NoFreeSlotException error = assertThrows(NoFreeSlotException.class, () -> channel.server("second"));
            assertEquals(1, error.owners().size());
            assertEquals("first", error.owners().get(0).name());
            assertEquals(ProcessHandle.current().pid(), error.owners().get(0).pid());
            Client a = channel.client();
            Client b = channel.client();
            assertEquals("no-free-slot", code(channel::client));
            a.close();
            assertEquals(0, channel.client("late").number());
            Thread closes = new Thread(() -> {
                Pause.nanos(30_000_000);
                server.close();
            });
            closes.start();
            assertEquals(2, channel.server("second", LONG).epoch());
            closes.join();
            assertEquals(1, b.epoch());
        }
    }

    @Test
    void requestsAndAnswersOfEveryLengthWrapAroundTheRings() {
        for (int alignment : new int[] {8, 64}) {
            try (Pair pair = new Pair(rings, service(1, 4096, alignment, 64))) {
                assertEquals(4096 / 4 - 32, pair.client.maxMessageLength());
                assertEquals(4096 / 4 - 24, pair.server.maxMessageLength());
                byte[] message = Rings.pattern(3, pair.client.maxMessageLength());
                for (int length = 0; length <= message.length; length += 13) {
                    byte[] sent = Arrays.copyOf(message, length);
                    Call call = pair.client.start(sent, 3, FOREVER);
                    assertEquals(1, pair.server.poll(Services::echo));
                    assertEquals(1, pair.client.poll());
                    assertTrue(Arrays.equals(sent, call.result().toByteArray()));
                    assertEquals(3, call.result().type());
                }
                byte[] large = new byte[pair.server.maxMessageLength() + 1];
                assertEquals("too-large", code(() -> pair.client.start(new byte[message.length + 1])));
                assertTrue(pair.errorOf(request -> request.reply(large)).startsWith("A message of"));
                assertEquals("as you like", pair.errorOf(request -> {
                    assertEquals("too-large", code(() -> request.reply(large)));
                    request.fail("as you like");
                }));
            }
        }
    }

    @Test
    void aHandlerMayAnswerFailThrowOrForget() {
        try (Pair pair = new Pair(rings)) {
            assertEquals("no such item", pair.errorOf(request -> request.fail("no such item")));
            assertEquals("out of stock", pair.errorOf(request -> {
                throw new IllegalStateException("out of stock");
            }));
            assertEquals("java.lang.Exception", pair.errorOf(request -> {
                throw new Exception();
            }));
            assertEquals("no answer", pair.errorOf(request -> { }));
            String umlauts = "x" + "\u00e4".repeat(1000);
            String sent = pair.errorOf(request -> request.fail(umlauts));
            assertEquals(500, sent.length(), "as many whole letters as fit in 4096 / 4 - 24 bytes");
            assertTrue(umlauts.startsWith(sent));
            assertEquals("once", pair.answeredBy(request -> {
                request.reply(bytes("once"));
                assertEquals("invalid-argument", code(() -> request.reply(bytes("twice"))));
                assertEquals("invalid-argument", code(() -> request.fail("twice")));
                assertEquals("invalid-argument", code(request::keep));
                throw new IllegalStateException("too late");
            }));
            assertTrue(pair.errorOf(request -> request.reply(request.buffer(), 0, 1, 0)).startsWith("The type 0"));
            assertEquals(0, pair.server.inHand());
        }
    }

    @Test
    void anErrorOfAHandlerComesOutOfThePollBehindTheReply() {
        try (Pair pair = new Pair(rings)) {
            Call call = pair.client.start(bytes("x"));
            AssertionError error = new AssertionError("what no handler catches");
            assertSame(error, assertThrows(AssertionError.class, () -> pair.server.poll(request -> {
                throw error;
            })));
            pair.client.poll();
            assertTrue(assertThrows(ServiceErrorException.class, call::result).text().contains("no handler catches"));
            assertEquals("y", pair.answeredBy(request -> request.reply(bytes("y"))));
        }
    }

    @Test
    void aHandlersOwnSlotLostIsItsCallersError() {
        try (Pair pair = new Pair(rings)) {
            assertEquals("of another channel", pair.errorOf(request -> {
                throw new SlotLostException(3, "of another channel");
            }));
            assertEquals("price?", pair.answeredBy(Services::echo));
        }
    }

    @Test
    void aKeptRequestThatIsDroppedFails() throws Exception {
        try (Pair pair = new Pair(rings)) {
            Call dropped = pair.client.start(bytes("a"));
            Call answered = pair.client.start(bytes("b"));
            Call inHandler = pair.client.start(bytes("c"));
            Call notKept = pair.client.start(bytes("d"));
            List<Request> kept = new ArrayList<>();
            pair.server.poll(request -> {
                if (!text(request).equals("d")) {
                    request.keep();
                    kept.add(request);
                }
                if (text(request).equals("c")) {
                    request.close();
                }
                if (text(request).equals("d")) {
                    request.close(); // not kept: its handler may still answer it
                    request.reply(bytes("d"));
                }
            });
            assertEquals(2, pair.server.inHand());
            Thread thread = new Thread(kept.get(0)::close);
            thread.start();
            thread.join();
            try (Request request = kept.get(1)) {
                request.reply(bytes("B"));
            }
            assertEquals(0, pair.server.inHand());
            assertEquals("no answer", assertThrows(ServiceErrorException.class, () -> dropped.result(LONG)).text());
            assertEquals("no answer", assertThrows(ServiceErrorException.class, () -> inHandler.result(LONG)).text());
            assertEquals("B", text(answered.result(LONG)));
            assertEquals("d", text(notKept.result(LONG)));
            assertEquals("invalid-argument", code(() -> kept.get(0).reply(bytes("late"))));
            kept.get(0).close();
            pair.client.start(bytes("e"));
            Request last = pair.keepAll().get(0);
            pair.channel.evict(0);
            last.close(); // its call ends as server gone
            pair.server.close();
            last.close();
        }
    }

    @Test
    void keptRequestsAreAnsweredFromAnyThreadInAnyOrder() throws Exception {
        try (Pair pair = new Pair(rings, service(2, 65536, 64, 64))) {
            List<Call> calls = new ArrayList<>();
            for (int i = 0; i < 60; i++) {
                calls.add(pair.client.start(bytes("call " + i)));
            }
            List<Request> kept = pair.keepAll();
            assertEquals(60, kept.size());
            assertEquals(60, pair.server.inHand());
            List<Thread> threads = new ArrayList<>();
            for (int t = 0; t < 3; t++) {
                final int first = t;
                threads.add(new Thread(() -> {
                    for (int i = 57 + first; i >= 0; i -= 3) {
                        kept.get(i).reply(kept.get(i).toByteArray());
                    }
                }));
            }
            threads.forEach(Thread::start);
            Client other = pair.channel.client(); // meanwhile polls serve another client
            for (int i = 0; i < 200; i++) {
                Call call = other.start(bytes("other"));
                pair.server.poll(Services::echo);
                assertEquals("other", text(call.result(LONG)));
            }
            for (Thread thread : threads) {
                thread.join();
            }
            for (int i = 0; i < 60; i++) {
                assertEquals("call " + i, text(calls.get(i).result(LONG)));
            }
            assertEquals(0, pair.server.inHand());
            assertEquals("invalid-argument", code(() -> kept.get(0).reply(bytes("again"))));
        }
    }

    @Test
    void aKeptRequestMayOutliveItsServer() {
        try (Pair pair = new Pair(rings)) {
            Call call = pair.client.start(bytes("y"));
            Request kept = pair.keepAll().get(0);
            pair.server.close();
            assertEquals("closed", code(() -> kept.reply(bytes("late"))));
            assertEquals("y", text(kept));
            assertEquals("server-gone", code(() -> call.result(LONG)));
        }
    }

    @Test
    void noMoreThanMaxOutstanding() {
        try (Pair pair = new Pair(rings, service(1, 65536, 64, 3))) {
            List<Call> calls = new ArrayList<>();
            for (int i = 0; i < 3; i++) {
                calls.add(pair.client.start(bytes("x")));
            }
            BusyException error = assertThrows(BusyException.class, () -> pair.client.start(bytes("x")));
            assertEquals(3, error.outstanding());
            assertNull(error.holder());
            assertEquals("busy", code(() -> pair.client.call(bytes("x"), 1, Duration.ofMillis(1))));
            calls.get(0).cancel();
            assertEquals("busy", code(() -> pair.client.start(bytes("x"))), "it counts until its final reply");
            assertEquals(3, pair.channel.stats().subscribers().get(1).outstanding());
            assertEquals(3, pair.server.poll(Services::echo));
            pair.client.start(bytes("x"));
            assertEquals(1, pair.client.outstanding());
            assertEquals(1, pair.client.late(), "the answer of the one that was cancelled");
            assertEquals("cancelled", code(calls.get(0)::result));
            assertEquals("x", text(calls.get(1).result()));
        }
    }

    @Test
    void deadlines() throws Exception {
        try (Pair pair = new Pair(rings)) {
            long start = System.nanoTime();
            assertEquals("expired true", mayHaveRun(() -> pair.client.call(bytes("x"), 1, Duration.ofMillis(20))));
            assertTrue(System.nanoTime() - start >= 20_000_000);
            Call call = pair.client.start(bytes("y"), 1, Duration.ofMillis(20));
            Call calm = pair.client.start(bytes("z"), 1, Duration.ofSeconds(10));
            Thread.sleep(25);
            StringBuilder handed = new StringBuilder();
            pair.server.poll(request -> {
                handed.append(text(request));
                assertTrue(request.remaining().compareTo(Duration.ofSeconds(5)) > 0);
                assertTrue(request.remaining().compareTo(Duration.ofSeconds(10)) <= 0);
                Services.echo(request);
            });
            assertEquals("z", handed.toString(), "what comes too late is given to no handler");
            assertEquals(2, pair.server.expired());
            assertEquals("expired false", mayHaveRun(call::result));
            assertEquals("z", text(calm.result()));
            assertEquals(0, pair.client.outstanding());
            assertEquals(2, pair.channel.stats().subscribers().get(1).expired());
        }
    }

    @Test
    void cancelTellsTheServer() {
        try (Pair pair = new Pair(rings)) {
            Call call = pair.client.start(bytes("x"));
            Request kept = pair.keepAll().get(0);
            assertFalse(kept.cancelled());
            CompletableFuture<Message> future = call.future();
            call.cancel();
            assertTrue(call.done());
            assertTrue(future.isCompletedExceptionally());
            assertEquals("cancelled", code(call::result));
            pair.server.poll(Services::echo);
            assertTrue(kept.cancelled());
            kept.reply(bytes("all the same"));
            assertEquals(0, pair.client.poll());
            assertEquals(1, pair.client.late());
            assertEquals(0, pair.client.outstanding());
        }
    }

    @Test
    void futuresMayStartCallsButNotWait() {
        try (Pair pair = new Pair(rings)) {
            int[] ended = {0};
            Consumer<Message> heard = new Consumer<>() {
                @Override
                public void accept(Message answer) {
                    ended[0]++;
                    assertEquals("x", text(answer));
                    assertEquals("two-threads", code(() -> pair.client.call(bytes("x"))));
                    assertEquals("two-threads", code(pair.client::poll));
                    assertEquals("view-alive", code(pair.client::close));
                    if (ended[0] < 5) {
                        pair.client.start(bytes("x")).future().thenAccept(this);
                    }
                }
            };
            CompletableFuture<Void> first = pair.client.start(bytes("x")).future().thenAccept(heard);
            for (int i = 1; i <= 5; i++) {
                assertEquals(1, pair.server.poll(Services::echo));
                assertEquals(1, pair.client.poll());
                assertEquals(i, ended[0]);
            }
            first.join();
            assertEquals(0, pair.client.outstanding());
        }
    }

    @Test
    void futuresAreCompletedWhileAnotherVerbWaits() throws Exception {
        try (Pair pair = new Pair(rings)) {
            pair.client.setSpin(Duration.ZERO);
            CompletableFuture<Message> told = pair.client.start(bytes("a")).future();
            Thread server = new Thread(() -> {
                List<Request> kept = new ArrayList<>();
                while (kept.size() < 2) {
                    pair.server.poll(request -> {
                        request.keep();
                        kept.add(request);
                    }, 256, Duration.ofMillis(10));
                }
                kept.get(0).reply(bytes("a"));
                assertEquals("a", text(told.join()));
                kept.get(1).reply(bytes("b"));
            });
            server.start();
            assertEquals("b", text(pair.client.call(bytes("b"), 1, LONG)));
            server.join();
        }
    }

    @Test
    void closedCallsAreTold() {
        try (Pair pair = new Pair(rings)) {
            Call call = pair.client.start(bytes("x"));
            CompletableFuture<Message> told = call.future();
            pair.client.close();
            assertTrue(told.isCompletedExceptionally());
            assertEquals("closed", code(call::result));
            assertEquals("closed", code(() -> pair.client.call(bytes("x"))));
            try (Client brief = pair.channel.client()) {
                brief.start(bytes("y"));
            }
            StringBuilder handed = new StringBuilder();
            pair.server.poll(request -> handed.append(text(request)));
            assertEquals("xy", handed.toString(), "what was published is run all the same");
            assertEquals(2, pair.server.clientGone());
        }
    }

    @Test
    void callsThatEndWithTheirClientAreToldOnce() {
        for (boolean isEvicted : new boolean[] {true, false}) {
            try (Pair pair = new Pair(rings)) {
                StringBuilder told = new StringBuilder();
                for (int i = 0; i < 3; i++) {
                    Call call = pair.client.start(bytes("x"));
                    call.future().whenComplete((answer, error) -> told.append(code(call::result)).append(' '));
                }
                String code = isEvicted ? "slot-lost" : "corrupt-ring";
                if (isEvicted) {
                    pair.channel.evict(1);
                } else {
                    pair.server.poll(Services::echo);
                    Services.poke(pair.channel, 2, 128, 5, false);
                }
                assertEquals(code, code(pair.client::poll));
                assertEquals((code + " ").repeat(3), told.toString());
                assertEquals(0, pair.client.outstanding());
                pair.client.close();
                assertEquals((code + " ").repeat(3), told.toString());
            }
        }
    }

    @Test
    void theCallerTakesTheAnswerInPlace() throws Exception {
        try (Pair pair = new Pair(rings)) {
            Thread thread = new Thread(() -> pair.server.serve(Services::echo));
            thread.start();
            PayloadBuffer request = new PayloadBuffer();
            request.wrap(bytes("..in place"));
            StringBuilder seen = new StringBuilder();
            pair.client.call(request, 2, 8, 5, Long.MAX_VALUE, answer ->
                seen.append(text(answer)).append(answer.type()));
            assertEquals("in place5", seen.toString());
            IllegalStateException error = new IllegalStateException("the caller's own");
            assertSame(error, assertThrows(IllegalStateException.class,
                () -> pair.client.call(request, 2, 8, 5, 10_000_000_000L, answer -> {
                    assertEquals("two-threads", code(() -> pair.client.start(bytes("x"))));
                    throw error;
                })));
            assertEquals(0, pair.client.outstanding());
            assertEquals("x", text(pair.client.call(bytes("x"))));
            pair.server.stop();
            thread.join();
        }
    }

    @Test
    void aLossySubscriberLooksOn() {
        try (Pair pair = new Pair(rings); LossySubscriber lossy = pair.channel.lossySubscriber()) {
            assertEquals("price?", pair.answeredBy(Services::echo));
            StringBuilder seen = new StringBuilder();
            lossy.poll(message -> seen.append(message.ring()).append(text(message)
                .substring(message.ring() < 2 ? Layout.REQUEST_LENGTH : Layout.REPLY_LENGTH)).append(' '));
            assertEquals("0price? 2price? ", seen.toString());
        }
    }

    @Test
    void stats() {
        try (Pair pair = new Pair(rings, service(3, 4096, 64, 9))) {
            pair.client.start(bytes("x"));
            Stats stats = pair.channel.stats();
            assertEquals(3, stats.clients());
            assertEquals(9, stats.maxOutstanding());
            assertEquals(Delivery.AT_MOST_ONCE, stats.delivery());
            assertEquals(1, stats.serving());
            List<SubscriberStats> slots = stats.subscribers();
            assertEquals(4, slots.size());
            assertEquals(SlotState.LIVE, slots.get(0).state());
            assertEquals(-1, slots.get(0).outstanding());
            assertEquals(3, slots.get(0).gates().size());
            assertEquals(1, slots.get(0).gates().get(0).lagMessages());
            assertEquals("desk", slots.get(1).name());
            assertEquals(1, slots.get(1).outstanding());
            assertEquals(0, slots.get(1).expired());
            assertEquals(3, slots.get(1).gates().get(0).ring());
            assertEquals(SlotState.UNUSED, slots.get(2).state());
            assertTrue(slots.get(2).gates().isEmpty());
        }
    }

    @Test
    void atLeastOnceHasNoStreams() {
        try (Pair pair = new Pair(rings, least())) {
            assertEquals("invalid-argument", code(() -> pair.client.stream(bytes("x"))));
        }
    }
}
