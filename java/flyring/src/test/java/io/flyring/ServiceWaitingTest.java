// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static io.flyring.Services.bytes;
import static io.flyring.Services.code;
import static io.flyring.Services.mayHaveRun;
import static io.flyring.Services.service;
import static io.flyring.Services.text;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.flyring.Services.Action;
import io.flyring.Services.Pair;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/** What the waits of a service sleep on, what wakes them, and what else ends them (service.md 6, channel.md 6.16). */
@Timeout(60)
class ServiceWaitingTest {
    private static final Duration LONG = Duration.ofSeconds(20);
    /** Much longer than a wake-up, much shorter than the sum of the caps. */
    private static final long SOON = 1_000_000_000L;

    @RegisterExtension
    final Rings rings = new Rings();

    private static Thread started(Action action, AtomicReference<String> code) {
        Thread thread = new Thread(() -> code.set(code(action)));
        thread.start();
        return thread;
    }

    private static void untilAsleep(WaitingWords words) throws Exception {
        long end = System.nanoTime() + 20_000_000_000L;
        while (words.control().getIntOpaque(words.asleep()) == 0) {
            assertTrue(System.nanoTime() < end, "no thread sleeps");
            Thread.sleep(1);
        }
        Thread.sleep(2);
    }

    /** Lets another thread fall asleep in a wait, runs an action, and returns how the wait ended. */
    private static String endedBy(WaitingWords words, Action wait, Action end) throws Exception {
        words.control().putIntOpaque(words.asleep(), 0); // clears the bits of earlier sleeps
        AtomicReference<String> code = new AtomicReference<>();
        Thread thread = started(wait, code);
        untilAsleep(words);
        long start = System.nanoTime();
        end.run();
        thread.join();
        assertTrue(System.nanoTime() - start < SOON);
        return code.get();
    }

    @Test
    void aCallerSleepsUntilItsAnswerComesAndAServerUntilARequest() throws Exception {
        try (Pair pair = new Pair(rings)) {
            pair.client.setSpin(Duration.ZERO);
            pair.server.setSpin(Duration.ZERO);
            Thread server = new Thread(() -> pair.server.serve(request -> {
                Thread.sleep(5); // lets the caller fall asleep, too
                Services.echo(request);
            }));
            server.start();
            List<Long> times = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                Thread.sleep(5);
                long start = System.nanoTime();
                assertEquals("x", text(pair.client.call(bytes("x"), 1, LONG)));
                times.add(System.nanoTime() - start);
            }
            times.sort(null);
            assertTrue(times.get(10) < 50_000_000, "woken, and not by a cap of 100 ms: " + times);
            pair.server.stop();
            server.join();
        }
    }

    @Test
    void aCallWaitsForAServer() throws Exception {
        try (Channel channel = Channel.create(rings.path("c.ring"), service()); Client client = channel.client()) {
            client.setSpin(Duration.ZERO);
            Server[] server = {null};
            Thread[] serving = {null};
            assertEquals("none", endedBy(channel.slots().data(), () -> assertEquals("x",
                text(client.call(bytes("x"), 1, LONG))), () -> {
                    server[0] = channel.server();
                    serving[0] = new Thread(() -> server[0].serve(Services::echo));
                    serving[0].start();
                }));
            server[0].stop();
            serving[0].join();
        }
    }

    @Test
    void aCallWaitsForRoomAndTakesRepliesMeanwhile() throws Exception {
        try (Pair pair = new Pair(rings, service(1, 4096, 64, 1000))) {
            byte[] large = new byte[pair.client.maxMessageLength()];
            AtomicReference<String> code = new AtomicReference<>();
            Thread caller = started(() -> {
                pair.client.setSpin(Duration.ZERO);
                List<Call> calls = new ArrayList<>();
                for (int i = 0; i < 20; i++) {
                    calls.add(pair.client.start(large, 1, LONG));
                }
                for (Call call : calls) {
                    call.result(LONG);
                }
            }, code);
            untilAsleep(pair.channel.slots().room());
            assertTrue(pair.channel.stats().publishers().get(0).blockedSince() > 0);
            assertEquals(List.of(0), pair.channel.stats().publishers().get(0).blockedBy());
            // Answers are as large as the requests: the ring of replies is full, too, until the caller drains.
            long end = System.nanoTime() + 20_000_000_000L;
            int answered = 0;
            while ((answered < 20 || pair.server.repliesWaiting() > 0) && System.nanoTime() < end) {
                answered += pair.server.poll(Services::echo, 256, Duration.ofMillis(10));
            }
            caller.join();
            assertEquals("none", code.get());
        }
    }

    private record Ends(String code, Consumer<Pair> action) {
    }

    @Test
    void whatEndsACallThatSleeps() throws Exception {
        for (Ends one : List.of(new Ends("closed", pair -> pair.client.close()),
            new Ends("closed", pair -> pair.channel.close()),
            new Ends("slot-lost", pair -> pair.channel.evict(1)),
            new Ends("server-gone", pair -> pair.channel.evict(0)),
            new Ends("server-gone", pair -> pair.server.close()),
            new Ends("service-error", pair -> pair.server.poll(request -> { })))) {
            try (Pair pair = new Pair(rings)) {
                pair.client.setSpin(Duration.ZERO);
                assertEquals(one.code, endedBy(pair.channel.slots().data(), () -> pair.client.call(bytes("x")),
                    () -> one.action.accept(pair)));
            }
        }
    }

    @Test
    void anInterruptEndsTheWaitAndNotTheCall() throws Exception {
        try (Pair pair = new Pair(rings)) {
            pair.client.setSpin(Duration.ZERO);
            Call call = pair.client.start(bytes("x"));
            AtomicReference<String> code = new AtomicReference<>();
            Thread waits = started(call::result, code);
            untilAsleep(pair.channel.slots().data());
            waits.interrupt();
            waits.join();
            assertEquals("cancelled", code.get());
            assertFalse(call.done());
            pair.server.poll(Services::echo);
            assertEquals("x", text(call.result(LONG)));
            Thread serves = started(() -> pair.server.serve(Services::echo), code);
            Thread.sleep(30);
            serves.interrupt();
            serves.join();
            assertEquals("cancelled", code.get());
        }
    }

    @Test
    void replacedEndsTheWaitAndNotTheCall() throws Exception {
        try (Pair pair = new Pair(rings)) {
            pair.client.setSpin(Duration.ZERO);
            Call call = pair.client.start(bytes("x"));
            assertEquals("replaced", endedBy(pair.channel.slots().data(), call::result,
                () -> Channel.replace(rings.path("pair.ring"), service()).close()));
            assertFalse(call.done());
            pair.server.poll(Services::echo);
            assertEquals("x", text(call.result(LONG)));
        }
    }

    @Test
    void whatEndsAServerThatSleeps() throws Exception {
        for (Ends one : List.of(new Ends("none", pair -> pair.server.stop()),
            new Ends("none", pair -> pair.server.close()),
            new Ends("none", pair -> pair.channel.close()),
            new Ends("slot-lost", pair -> pair.channel.evict(0)),
            new Ends("replaced", pair -> Channel.replace(rings.path("pair.ring"), service()).close()))) {
            try (Pair pair = new Pair(rings)) {
                pair.server.setSpin(Duration.ZERO);
                assertEquals(one.code, endedBy(pair.channel.slots().data(), () -> pair.server.serve(Services::echo),
                    () -> one.action.accept(pair)));
            }
        }
        try (Pair pair = new Pair(rings)) {
            pair.server.stop();
            pair.server.serve(Services::echo); // stop was called before serve
            assertEquals(0, pair.server.poll(Services::echo, 256, Duration.ofMillis(1)));
            pair.client.start(bytes("x"));
            assertEquals(1, pair.server.poll(request -> {
                assertEquals("view-alive", code(pair.server::close));
                assertEquals("view-alive", code(pair.channel::close));
                assertEquals("two-threads", code(() -> pair.server.poll(Services::echo)));
                request.reply();
            }));
        }
    }

    @Test
    void aReplyThatWaitsGoesWhenItsClientReads() throws Exception {
        try (Pair pair = new Pair(rings)) {
            pair.server.setSpin(Duration.ZERO);
            byte[] large = new byte[pair.server.maxMessageLength()];
            List<Call> calls = new ArrayList<>();
            for (int i = 0; i < 12; i++) {
                calls.add(pair.client.start(bytes("x")));
            }
            Thread server = new Thread(() -> pair.server.serve(request -> request.reply(large)));
            server.start();
            long end = System.nanoTime() + 20_000_000_000L;
            while (pair.server.repliesWaiting() == 0 && System.nanoTime() < end) {
                Thread.sleep(1);
            }
            Thread.sleep(30);
            long start = System.nanoTime();
            for (Call call : calls) {
                assertEquals(large.length, call.result(LONG).length());
            }
            assertTrue(System.nanoTime() - start < 12 * 50_000_000L);
            pair.server.stop();
            server.join();
        }
    }

    @Test
    void anItemThatFindsNoRoomGoesWhenItsClientReads() throws Exception {
        try (Pair pair = new Pair(rings)) {
            pair.client.setSpin(Duration.ZERO);
            pair.server.setSpin(Duration.ZERO);
            byte[] large = new byte[pair.server.maxMessageLength()];
            List<Thread> others = new ArrayList<>();
            Thread server = new Thread(() -> pair.server.serve(request -> {
                if (text(request).equals("at once")) {
                    request.stream(Collections.nCopies(60, large).iterator());
                    return;
                }
                request.keep();
                others.add(new Thread(() -> { // while the server sleeps
                    Pause.nanos(20_000_000);
                    request.stream(Collections.nCopies(60, large).iterator());
                }));
                others.get(0).start();
            }));
            server.start();
            for (String when : List.of("at once", "later")) {
                long start = System.nanoTime();
                Call call = pair.client.stream(bytes(when), 1, 64, LONG); // more credit than fits into the ring
                int seen = 0;
                while (call.next(LONG) != null) {
                    seen++;
                }
                assertEquals(60, seen);
                assertTrue(System.nanoTime() - start < 800_000_000, when); // 4 fit into the ring at once
            }
            pair.server.stop();
            server.join();
            others.get(0).join();
        }
    }

    @Test
    void aStreamThatIsHeldBackAndEndsLetsTheServerSleep() {
        try (Pair pair = new Pair(rings)) {
            byte[] large = new byte[pair.server.maxMessageLength()];
            Call stream = pair.client.stream(bytes("stream"), 1, 64, LONG);
            pair.client.start(bytes("call"));
            // The stream finds no room, and ends later in the same poll, so that nothing is in hand at the next one.
            assertEquals(2, pair.server.poll(request -> {
                if (request.isStream()) {
                    request.stream(Stream.generate(() -> large).iterator());
                    assertEquals(ServiceWait.FIRST_ROOM_CAP_NANOS, pair.server.waiting().cap(0));
                } else {
                    pair.client.poll();
                    stream.cancel();
                    request.reply();
                }
            }));
            assertEquals(0, pair.server.inHand());
            assertEquals(ServiceWait.DATA_CAP_NANOS, pair.server.waiting().cap(0));
        }
    }

    @Test
    void anAnswerOfAnotherThreadLetsAFullServerGoOn() throws Exception {
        try (Pair pair = new Pair(rings, service(1, 4096, 64, 2))) {
            pair.server.setSpin(Duration.ZERO);
            List<Request> kept = new ArrayList<>();
            Thread server = new Thread(() -> pair.server.serve(request -> {
                if (kept.size() < 2) {
                    request.keep();
                    kept.add(request);
                } else {
                    request.reply(bytes("at once"));
                }
            }));
            server.start();
            Call first = pair.client.start(bytes("a"));
            Call second = pair.client.start(bytes("b"));
            long end = System.nanoTime() + 20_000_000_000L;
            while (pair.server.inHand() < 2 && System.nanoTime() < end) {
                Thread.sleep(1);
            }
            first.cancel(); // the cancel lies behind the calls, and is handled all the same
            while (!kept.get(0).cancelled() && System.nanoTime() < end) {
                Thread.sleep(1);
            }
            assertTrue(kept.get(0).cancelled());
            kept.get(0).reply(bytes("late"));
            kept.get(1).reply(bytes("b"));
            assertEquals("b", text(second.result(LONG)));
            assertEquals("at once", text(pair.client.call(bytes("c"), 1, LONG)));
            pair.server.stop();
            server.join();
        }
    }

    @Test
    void withoutWakesEachLooksEveryMillisecond() throws Exception {
        Channel.create(rings.path("c.ring"), service()).close();
        try (Channel channel = Channel.open(rings.path("c.ring"), new OpenOptions().wake(false));
            Server server = channel.server(); Client client = channel.client()) {
            client.setSpin(Duration.ZERO);
            server.setSpin(Duration.ZERO);
            Thread serving = new Thread(() -> server.serve(Services::echo));
            serving.start();
            List<Long> times = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                long start = System.nanoTime();
                assertEquals("x", text(client.call(bytes("x"), 1, LONG)));
                times.add(System.nanoTime() - start);
            }
            times.sort(null);
            assertTrue(times.get(10) < 30_000_000, times.toString());
            server.stop();
            serving.join();
        }
    }

    @Test
    void aWaitSetHasServersAndClients() throws Exception {
        try (Pair pair = new Pair(rings)) {
            WaitSet set = new WaitSet().add(pair.server).add(pair.client);
            assertTrue(set.await(Duration.ofMillis(5)).isEmpty());
            pair.client.start(bytes("x"));
            assertSame(pair.server, set.await(LONG).get(0));
            pair.server.poll(Services::echo);
            assertEquals(List.of(pair.client), List.copyOf(set.await(LONG)));
            assertEquals(1, pair.client.poll());
            Call timed = pair.client.start(bytes("y"), 1, Duration.ofMillis(30)); // a deadline
            set.remove(pair.server);
            long start = System.nanoTime();
            assertEquals(List.of(pair.client), List.copyOf(set.await(LONG)));
            assertTrue(System.nanoTime() - start > 20_000_000);
            assertTrue(System.nanoTime() - start < SOON);
            assertEquals(1, pair.client.poll());
            assertEquals("expired true", mayHaveRun(timed::result));
            Call lost = pair.client.start(bytes("z")); // its server goes
            Thread closes = new Thread(() -> {
                Pause.nanos(20_000_000);
                pair.server.close();
            });
            closes.start();
            long then = System.nanoTime();
            while (!lost.done() && System.nanoTime() - then < 10_000_000_000L) {
                set.await(LONG);
                pair.client.poll();
            }
            assertTrue(System.nanoTime() - then < SOON);
            closes.join();
            assertEquals("server-gone false", mayHaveRun(lost::result));
        }
    }

    @Test
    void twoThreadsAreTold() throws Exception {
        try (Pair pair = new Pair(rings)) {
            Duration negative = Duration.ofNanos(-1);
            assertEquals("invalid-argument", code(() -> pair.client.poll(negative)));
            assertEquals("invalid-argument", code(() -> pair.server.poll(Services::echo, 1, negative)));
            assertEquals("invalid-argument", code(() -> pair.client.setSpin(negative)));
            assertEquals("invalid-argument", code(() -> pair.client.call(bytes("x"), 0, LONG)));
            pair.client.setSpin(Duration.ZERO);
            AtomicReference<String> code = new AtomicReference<>();
            Thread caller = started(() -> pair.client.call(bytes("x"), 1, Duration.ofMillis(300)), code);
            untilAsleep(pair.channel.slots().data());
            assertEquals("two-threads", code(() -> pair.client.call(bytes("y"))));
            assertEquals("two-threads", code(pair.client::poll));
            caller.join();
            assertEquals("expired", code.get());
        }
    }
}
