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
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.flyring.Services.Pair;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CyclicBarrier;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;

/**
 * Clients and servers that are killed, stopped, evicted, closed or hostile, and what the others see. The tests of
 * service.md 12 have the names from there.
 */
@Timeout(120)
class ServiceSurvivorsTest {
    private static final Duration FOREVER = Publisher.FOREVER;
    private static final Duration LONG = Duration.ofSeconds(20);

    @RegisterExtension
    final Rings rings = new Rings();

    private final List<Process> children = new ArrayList<>();

    @AfterEach
    void end() throws Exception {
        kill();
    }

    private Process child(String what, Channel channel, String... more) throws Exception {
        List<String> arguments = new ArrayList<>(List.of(what, channel.path()));
        arguments.addAll(List.of(more));
        Process child = Rings.java(Child.class, arguments.toArray(new String[0])).start();
        children.add(child);
        BufferedReader output = new BufferedReader(
            new InputStreamReader(child.getInputStream(), StandardCharsets.UTF_8));
        assertEquals("ready", output.readLine());
        return child;
    }

    private void kill() throws Exception {
        for (Process child : children) {
            child.destroyForcibly().waitFor();
        }
        children.clear();
    }

    private static String serve(Server server) {
        StringBuilder handed = new StringBuilder();
        server.poll(request -> {
            handed.append(text(request)).append(request.repeat() ? "! " : " ");
            Services.echo(request);
        });
        return handed.toString().trim();
    }

    @Test
    void deadServerIsSeen() throws Exception {
        try (Channel channel = Channel.create(rings.path("c.ring"), service()); Client client = channel.client()) {
            for (boolean isAsleep : new boolean[] {true, false}) {
                Process child = child("serve", channel);
                assertEquals("child", client.server().name());
                assertEquals("here", text(client.call(bytes("here"), 1, LONG)));
                client.setSpin(isAsleep ? Duration.ZERO : LONG);
                Call taken = client.start(bytes("hang"));
                Thread.sleep(100);
                Call lies = client.start(bytes("behind it"));
                long[] killed = {0};
                Thread killer = new Thread(() -> {
                    Pause.nanos(20_000_000);
                    killed[0] = System.nanoTime();
                    child.destroyForcibly();
                });
                killer.start();
                assertEquals("server-gone true", mayHaveRun(taken::result));
                long now = System.nanoTime();
                killer.join();
                assertTrue(now - killed[0] < 300_000_000, "within 100 ms, on a machine that has time for it");
                ServerGoneException error = assertThrows(ServerGoneException.class, lies::result);
                assertFalse(error.mayHaveRun());
                assertEquals("child", error.name());
                assertEquals(child.pid(), error.pid());
                assertNull(client.server());
                assertEquals(0, client.outstanding());
                assertEquals("expired false",
                    mayHaveRun(() -> client.call(bytes("nobody"), 1, Duration.ofMillis(20))));
            }
        }
    }

    @Test
    void whatAServerRepliedBeforeItWentIsRead() {
        try (Pair pair = new Pair(rings)) {
            Call call = pair.client.start(bytes("x"));
            Call other = pair.client.start(bytes("y"));
            pair.server.poll(Services::echo, 1);
            pair.server.close();
            assertEquals("x", text(call.result(LONG)));
            assertEquals("server-gone false", mayHaveRun(() -> other.result(LONG)));
        }
    }

    @Test
    void aServerAndItsChannelMayCloseAtOnce() throws Exception {
        for (int round = 0; round < 500; round++) {
            Channel channel = Channel.openOrCreate(rings.path("c.ring"), service());
            Server server = channel.server();
            CyclicBarrier start = new CyclicBarrier(2);
            List<Thread> closing = List.of(closes(server, start), closes(channel, start));
            for (Thread one : closing) {
                one.join(LONG.toMillis());
                assertEquals(Thread.State.TERMINATED, one.getState(), "round " + round);
            }
        }
    }

    private static Thread closes(AutoCloseable object, CyclicBarrier start) {
        Thread thread = new Thread(() -> {
            try {
                start.await();
                object.close();
            } catch (Exception e) {
                throw new AssertionError(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    @Test
    void oldReplyNeverReachesTheNextClient() {
        try (Pair pair = new Pair(rings)) {
            pair.client.start(bytes("old"));
            Request kept = pair.keepAll().get(0);
            pair.client.close();
            Client next = pair.channel.client();
            assertEquals(0, next.number());
            Call call = next.start(bytes("new")); // has the same sequence as the old call
            kept.reply(bytes("for the old one"));
            assertEquals(0, next.poll());
            assertEquals(1, pair.server.clientGone());
            pair.server.poll(Services::echo);
            assertEquals("new", text(call.result(LONG)));

            Call lost = next.start(bytes("old")); // its answer is published before the client is evicted
            pair.server.poll(Services::echo);
            pair.channel.evict(1);
            assertEquals("slot-lost", code(next::poll));
            assertEquals("slot-lost", code(lost::result));
            try (Client third = pair.channel.client()) { // the evicted client has given its place up
                assertEquals(0, third.number());
                Call again = third.start(bytes("third"));
                pair.server.poll(Services::echo);
                assertEquals("third", text(again.result(LONG)));
                third.start(bytes("old"));
                kept = pair.keepAll().get(0);
            }
            next.close();
            // A reply that is published while the next client takes the place: closed is 0, the epoch is still the old.
            pokeClosed(pair, 0);
            kept.reply(bytes("for the third one"));
            assertEquals(1, pair.server.clientGone());
            try (Client fourth = pair.channel.client()) {
                assertEquals(0, fourth.number());
                Call last = fourth.start(bytes("fourth"));
                assertEquals(0, fourth.poll());
                pair.server.poll(Services::echo);
                assertEquals("fourth", text(last.result(LONG)));
            }
            aReplyThatIsPublishedBehindTheNextClient(pair);
        }
    }

    /** The server looked at the slot before the next client came, and publishes the reply after that (reply 2). */
    private static void aReplyThatIsPublishedBehindTheNextClient(Pair pair) {
        final Request late;
        final long before;
        try (Client old = pair.channel.client()) {
            old.start(bytes("late"));
            late = pair.keepAll().get(0);
            before = old.epoch();
        }
        try (Client following = pair.channel.client()) {
            assertEquals(0, following.number());
            Call call = following.start(bytes("new")); // has the same sequence as the late call
            int word = pair.channel.header().subscriberSlot(1) + Layout.SUBSCRIBER_SLOT_EPOCH;
            pair.channel.control().putLong(word, before);
            late.reply(bytes("for the old one"));
            pair.channel.control().putLong(word, following.epoch());
            assertEquals(0, following.poll());
            assertEquals(1, following.late());
            pair.server.poll(Services::echo);
            assertEquals("new", text(call.result(LONG)));
        }
    }

    /** Stores the word closed of client 0. */
    private static void pokeClosed(Pair pair, int value) {
        pair.channel.control().putInt(pair.channel.header().publisherSlot(0) + Layout.PUBLISHER_SLOT_CLOSED, value);
    }

    /** A client stores its gate at each call, so a look at the gate would cost a transfer of its line (reply 2). */
    @Test
    void aReplyLooksAtClosedAndNotAtTheGate() {
        try (Pair pair = new Pair(rings)) {
            assertEquals("price?", pair.answeredBy(Services::echo));
            Call call = pair.client.start(bytes("x"));
            Services.poke(pair.channel, 2, Services.CAPACITY + Layout.TRAILER_GATE, Layout.NOT_GATING, true);
            pair.server.poll(Services::echo);
            assertEquals(0, pair.server.clientGone());
            assertEquals("x", text(call.result(LONG)));
            // A client that was killed in its close, in front of the store of its gate.
            pair.client.start(bytes("y"));
            pokeClosed(pair, 1);
            pair.server.poll(Services::echo);
            assertEquals(1, pair.server.clientGone());
            assertEquals(0, pair.server.inHand());
            assertEquals(0, pair.client.poll());
        }
    }

    @Test
    void aStreamEndsWhenItsClientLeaves() {
        for (boolean closes : new boolean[] {true, false}) {
            try (Pair pair = new Pair(rings)) {
                pair.client.stream(bytes("x"), 1, 64, LONG);
                byte[] large = new byte[pair.server.maxMessageLength()];
                pair.server.poll(request -> request.stream(Stream.generate(() -> large).iterator()));
                assertEquals(1, pair.server.inHand(), "it found no room");
                if (closes) {
                    pair.client.close();
                } else {
                    pair.channel.evict(1);
                }
                pair.server.poll(Services::echo);
                assertEquals(0, pair.server.inHand());
                assertTrue(pair.server.clientGone() >= 1);
            }
        }
    }

    @Test
    void aPollWithLimit0SendsWaitingRepliesAndTakesNoRequest() {
        try (Pair pair = new Pair(rings)) {
            byte[] large = new byte[pair.server.maxMessageLength()];
            List<Call> calls = new ArrayList<>();
            for (int i = 0; i < 12; i++) {
                calls.add(pair.client.start(bytes("x")));
            }
            assertEquals(12, pair.server.poll(request -> request.reply(large)));
            assertTrue(pair.server.repliesWaiting() > 0);
            Call last = pair.client.start(bytes("last"));
            long end = System.nanoTime() + 10_000_000_000L;
            while (pair.server.inHand() > 0 && System.nanoTime() < end) {
                pair.client.poll();
                assertEquals(0, pair.server.poll(Services::echo, 0));
            }
            assertEquals(0, pair.server.repliesWaiting());
            pair.client.poll();
            for (Call call : calls) {
                assertEquals(large.length, call.result(LONG).length());
            }
            assertEquals(0, pair.server.poll(Services::echo, 0, Publisher.FOREVER)); // does not wait
            assertFalse(last.done());
            pair.server.poll(Services::echo);
            assertEquals("last", text(last.result(LONG)));
        }
    }

    @Test
    void replyWithoutRoomLeaksNothing() {
        try (Pair pair = new Pair(rings)) {
            byte[] large = new byte[pair.server.maxMessageLength()];
            for (int round = 0; round < 50; round++) {
                List<Call> calls = new ArrayList<>();
                for (int i = 0; i < 12; i++) {
                    calls.add(pair.client.start(bytes("x")));
                }
                assertEquals(12, pair.server.poll(request -> request.reply(large)));
                assertTrue(pair.server.repliesWaiting() > 0);
                assertEquals(pair.server.inHand(), pair.server.repliesWaiting());
                for (int i = 0; i < 12; i++) {
                    pair.client.poll();
                    pair.server.poll(Services::echo);
                }
                for (Call call : calls) {
                    assertEquals(large.length, call.result(LONG).length());
                }
                assertEquals(0, pair.server.inHand());
                assertEquals(0, pair.server.repliesWaiting());
            }
            for (int i = 0; i < 12; i++) { // replies of a client that goes while they wait
                pair.client.start(bytes("x"));
            }
            pair.server.poll(request -> request.reply(large));
            assertTrue(pair.server.repliesWaiting() > 0);
            pair.client.close();
            pair.server.poll(Services::echo);
            assertEquals(0, pair.server.inHand());
        }
    }

    @Test
    void clientsComeAndGo() {
        try (Channel channel = Channel.create(rings.path("c.ring"), service()); Server server = channel.server()) {
            for (int i = 0; i < 400; i++) {
                try (Client client = channel.client()) {
                    Call call = client.start(bytes("x"));
                    assertTrue(server.poll(Services::echo) >= 1); // also serves requests that were left behind
                    assertEquals("x", text(call.result(LONG)));
                    if (i % 3 == 0) {
                        client.start(bytes("left behind"));
                    }
                }
            }
            server.poll(Services::echo);
            assertEquals(0, server.inHand());
            assertEquals(401, channel.client().epoch());
        }
    }

    @Test
    void requestOfAClientThatLeftIsRun() throws Exception {
        try (Pair pair = new Pair(rings)) {
            try (Client brief = pair.channel.client()) {
                for (String what : List.of("a", "b", "c")) {
                    brief.start(bytes(what));
                }
            }
            child("ask", pair.channel, "1");
            kill();
            assertEquals("a b c ask", serve(pair.server));
            assertEquals(0, pair.server.inHand());
            assertTrue(pair.server.clientGone() >= 3);
        }
    }

    @Test
    void slowClientDelaysNoOther() throws Exception {
        try (Pair pair = new Pair(rings); Client slow = pair.channel.client()) {
            byte[] large = new byte[pair.server.maxMessageLength()];
            List<Call> calls = new ArrayList<>();
            for (int i = 0; i < 30; i++) {
                calls.add(slow.start(bytes("s")));
            }
            Thread server = new Thread(() -> pair.server.serve(request -> request.reply(large)));
            server.start();
            for (int i = 0; i < 200; i++) {
                long start = System.nanoTime();
                assertEquals(large.length, pair.client.call(bytes("quick"), 1, LONG).length());
                assertTrue(System.nanoTime() - start < 2_000_000_000L);
            }
            assertTrue(pair.server.repliesWaiting() > 0);
            for (Call call : calls) {
                assertEquals(large.length, call.result(LONG).length(), "nothing of the slow one is lost");
            }
            pair.server.stop();
            server.join();
            assertEquals(0, pair.server.repliesWaiting());
        }
    }

    @Test
    void noCallEndsInSilence() throws Exception {
        // With every ring full: each call ends, and each that ends without an answer has an error.
        try (Pair pair = new Pair(rings, service(1, 4096, 64, 1000))) {
            byte[] large = new byte[pair.client.maxMessageLength()];
            List<Call> started = new ArrayList<>();
            int refused = 0;
            for (int i = 0; i < 40; i++) {
                try {
                    started.add(pair.client.start(large, 1, Duration.ofMillis(5)));
                } catch (ExpiredException e) {
                    assertFalse(e.mayHaveRun());
                    refused++;
                }
            }
            assertFalse(started.isEmpty());
            assertTrue(refused > 0);
            Thread.sleep(10);
            while (pair.server.poll(Services::echo) > 0 || pair.client.poll() > 0) {
                continue;
            }
            for (Call call : started) {
                assertTrue(call.done());
                assertTrue(mayHaveRun(call::result).startsWith("expired"));
            }
            assertEquals(started.size(), pair.server.expired());
            assertEquals(started.size(), pair.client.late(), "replies without a waiting caller are counted");
            assertEquals(0, pair.client.outstanding());
        }
    }

    @Test
    void deadClientDoesNotStopTheServer() throws Exception {
        try (Pair pair = new Pair(rings)) {
            byte[] large = new byte[pair.server.maxMessageLength()];
            for (int i = 0; i < 4; i++) {
                child("ask", pair.channel, "20");
                if (i % 2 == 0) {
                    kill();
                }
                pair.server.poll(request -> {
                    if (request.isStream()) {
                        request.stream(Services.endless());
                    } else {
                        request.reply(large);
                    }
                });
                if (i % 2 == 1) {
                    kill();
                }
                long end = System.nanoTime() + 10_000_000_000L;
                while (pair.server.inHand() != 0 && System.nanoTime() < end) {
                    pair.server.poll(Services::echo, 256, Duration.ofMillis(20));
                }
                assertEquals(0, pair.server.inHand());
                Call call = pair.client.start(bytes("still here?"));
                pair.server.poll(Services::echo);
                assertEquals("still here?", text(call.result(LONG)));
            }
        }
    }

    @Test
    void aSleepingServerSeesThatAClientHasDied() throws Exception {
        try (Pair pair = new Pair(rings)) {
            pair.server.setSpin(Duration.ZERO);
            child("ask", pair.channel, "2");
            List<Request> kept = pair.keepAll();
            assertEquals(3, kept.size());
            kill();
            long start = System.nanoTime();
            assertEquals(0, pair.server.poll(Services::echo, 256, Duration.ofMillis(250)));
            assertTrue(System.nanoTime() - start >= 250_000_000);
            assertTrue(kept.get(0).cancelled());
            assertTrue(kept.get(1).cancelled());
        }
    }

    @Test
    void evictingAServerTellsItsCallers() {
        try (Pair pair = new Pair(rings)) {
            Call taken = pair.client.start(bytes("a"));
            Request kept = pair.keepAll().get(0);
            Call lies = pair.client.start(bytes("b"));
            assertEquals(1, pair.channel.evict(0));
            assertEquals("server-gone true", mayHaveRun(() -> taken.result(LONG)));
            assertEquals("server-gone true", mayHaveRun(() -> lies.result(LONG)), "it may take it before it knows");
            assertEquals("slot-lost", code(() -> kept.reply(bytes("late"))));
            assertEquals("no-free-slot", code(pair.channel::server), "before the victim knows");
            assertEquals("expired false", mayHaveRun(() -> pair.client.call(bytes("c"), 1, Duration.ofMillis(5))));
            assertEquals("slot-lost", code(() -> pair.server.poll(Services::echo)));
            try (Server next = pair.channel.server("next")) { // the victim has given its place up
                Call again = pair.client.start(bytes("d"));
                assertEquals("d", serve(next), "what was asked of the one before is not run");
                assertEquals(1, next.notRun());
                assertEquals("d", text(again.result(LONG)));
            }
            assertEquals("slot-lost", code(() -> pair.server.poll(Services::echo)));
        }
    }

    @Test
    void atLeastOnceTheNextServerAnswers() {
        try (Pair pair = new Pair(rings, least())) {
            List<Call> calls = new ArrayList<>();
            for (String what : List.of("a", "b", "c", "d")) {
                calls.add(pair.client.start(bytes(what)));
            }
            List<Request> kept = new ArrayList<>();
            pair.server.poll(request -> {
                request.keep();
                kept.add(request);
            }, 3);
            kept.get(1).reply(bytes("b1"));
            pair.server.close();
            assertEquals("b1", text(calls.get(1).result(LONG)));
            assertEquals("timed-out", code(() -> calls.get(0).result(Duration.ofMillis(150))),
                "it does not end with its server");
            try (Server next = pair.channel.server()) {
                assertEquals("a! b! c! d", serve(next));
                assertEquals("a", text(calls.get(0).result(LONG)));
                assertTrue(calls.get(0).repeat());
                assertEquals("c", text(calls.get(2).result(LONG)));
                assertEquals("d", text(calls.get(3).result(LONG)));
                assertFalse(calls.get(3).repeat());
                assertEquals(1, pair.client.late(), "the second answer to b");
            }
        }
    }

    @Test
    void atLeastOnceNoRequestIsLostAndWhatWasBegunSaysRepeat() throws Exception {
        try (Channel channel = Channel.create(rings.path("c.ring"), least()); Client client = channel.client()) {
            StringBuilder seen = new StringBuilder();
            for (int server = 0; server < 3; server++) {
                child("serve-and-die", channel, "3");
                for (int i = 0; i < 3; i++) {
                    Call call = client.start(bytes("x"));
                    if (i == 2) {
                        children.get(0).waitFor(); // in that request's handler
                        children.clear();
                        try (Server next = channel.server("", LONG)) {
                            next.poll(request -> {
                                assertTrue(request.repeat());
                                Services.echo(request);
                            }, 256, LONG);
                        }
                    }
                    call.result(LONG);
                    seen.append(call.repeat() ? "a" : "f");
                }
            }
            assertEquals("ffaffaffa", seen.toString());
        }
    }

    @Test
    void aCallOfAnotherBootIsDropped() {
        Identity before = new Identity().bootId(UUID.fromString("11111111-1111-1111-1111-111111111111"));
        try (Channel channel = Channel.create(rings.path("c.ring"), least().identity(before))) {
            Client client = channel.client();
            rings.keep(channel.server());
            client.start(bytes("old"));
        }
        try (Channel channel = Channel.open(rings.path("c.ring"))) {
            Server server = channel.server();
            assertEquals(0, server.poll(Services::echo));
            Client client = channel.client();
            Call call = client.start(bytes("new"));
            assertEquals(1, server.poll(Services::echo));
            assertEquals("new", text(call.result(LONG)));
        }
    }

    @Test
    void aHostileClientIsEvictedAndTheOthersGoOn() {
        try (Pair pair = new Pair(rings)) {
            Client hostile = pair.channel.client();
            assertEquals(1, hostile.number());
            long damaged = 0;
            int[][] harms = {{0, 3}, {0, 5000}, {4, -7}, {0, 20}}; // the offset in the record, and the value
            for (int[] harm : harms) {
                Call first = hostile.start(bytes("first")); // and its owner record before
                int end = (int) Queues.published(pair.channel, 1) & Services.CAPACITY - 1;
                Request kept = pair.keepAll().get(0);
                hostile.start(bytes("second"));
                Services.poke(pair.channel, 1, end + harm[0], harm[1], false);
                pair.server.poll(Services::echo);
                assertEquals(++damaged, pair.server.damaged());
                assertTrue(kept.cancelled());
                assertEquals("slot-lost", code(hostile::poll));
                assertEquals("slot-lost", code(first::result));
                kept.reply(bytes("for nobody"));
                assertEquals("price?", pair.answeredBy(Services::echo));
                hostile.close();
                hostile = pair.channel.client();
                assertEquals(1, hostile.number());
                Call call = hostile.start(bytes("better"));
                assertEquals(1, pair.server.poll(Services::echo));
                assertEquals("better", text(call.result(LONG)));
            }
        }
    }

    @Test
    void hostileWords() {
        for (long value : new long[] {-5, 3, 1L << 62, 1L << 40}) {
            for (int word : new int[] {Layout.TRAILER_PUBLISHED, Layout.TRAILER_GATE, Layout.TRAILER_CLAIMED,
                Layout.TRAILER_GATE + Layout.GATE_TAKEN_END}) {
                // A new server finds ring 0 damaged; the ring of client 1 is valid.
                try (Channel channel = Channel.replace(rings.path("c.ring"), service())) {
                    channel.client();
                    Client whole = channel.client();
                    Services.poke(channel, 0, Services.CAPACITY + word, value, true);
                    Server server = channel.server();
                    Call call = whole.start(bytes("whole"));
                    assertEquals(1, server.poll(Services::echo));
                    assertEquals("whole", text(call.result(LONG)));
                    server.setSpin(Duration.ZERO);
                    assertEquals(0, server.poll(Services::echo, 1, Duration.ofMillis(2)));
                }
            }
            for (int word : new int[] {Layout.TRAILER_PUBLISHED, Layout.TRAILER_CLAIMED}) { // of the rings of replies
                try (Channel channel = Channel.replace(rings.path("c.ring"), service())) {
                    Services.poke(channel, 3, Services.CAPACITY + word, value, true);
                    assertEquals("corrupt-ring", code(channel::server));
                    assertFalse(channel.file().locked(channel.header().controlOffset
                        + channel.header().subscriberSlot(0)));
                }
            }
            try (Pair pair = new Pair(rings)) { // serving, and the words that a client writes for people
                pair.channel.control().putLong(Layout.CONTROL_SERVING, value);
                assertEquals("expired false",
                    mayHaveRun(() -> pair.client.call(bytes("x"), 1, Duration.ofMillis(5))));
                pair.channel.control().putLong(Layout.CONTROL_SERVING, pair.server.epoch());
                Services.poke(pair.channel, 2, Services.CAPACITY + Layout.TRAILER_GATE + Layout.GATE_EXPIRED, value,
                    true);
                assertEquals(Math.max(0, value), pair.channel.stats().subscribers().get(1).expired());
                assertEquals("price?", pair.answeredBy(Services::echo));
            }
        }
    }

    @Test
    void aRingThatCannotBeMendedLetsTheServerSleep() {
        try (Pair pair = new Pair(rings)) {
            pair.client.start(bytes("x"));
            Services.poke(pair.channel, 0, Services.CAPACITY + Layout.TRAILER_PUBLISHED, 3, true);
            Services.poke(pair.channel, 0, 128, 5, false); // behind the owner record
            pair.server.setSpin(Duration.ZERO);
            ThreadMXBean threads = ManagementFactory.getThreadMXBean();
            pair.server.poll(Services::echo);
            long used = threads.getCurrentThreadCpuTime();
            assertEquals(0, pair.server.poll(Services::echo, 256, Duration.ofMillis(500)));
            assertTrue(threads.getCurrentThreadCpuTime() - used < 250_000_000, "it does not spin");
            assertEquals(1, pair.server.damaged());
        }
    }

    /** 4, 2: serving is 0 before the lock is held. 6: a caller that sees the lock then finds no server. */
    @Test
    void aServerThatIsComingIsNotTakenForTheLastOne() {
        try (Pair pair = new Pair(rings)) {
            assertEquals("price?", pair.answeredBy(Services::echo));
            Call call = pair.client.start(bytes("x"));
            pair.server.close();
            Services.poke(pair.channel, 2, Services.CAPACITY + Layout.TRAILER_PUBLISHED, 1, true);
            assertEquals("corrupt-ring", code(pair.channel::server));
            assertEquals(0, pair.channel.stats().serving());
            try (Lock next = pair.channel.file().newLock()) { // a new server that stops after this lock
                Header header = pair.channel.header();
                assertTrue(next.tryLock(header.controlOffset + header.subscriberSlot(0)));
                assertNull(pair.client.server());
                assertEquals("server-gone true", mayHaveRun(() -> call.result(LONG)));
            }
        }
    }

    @Test
    void aCorruptRingOfRepliesEndsTheCallsOfItsClient() {
        try (Pair pair = new Pair(rings)) {
            Call call = pair.client.start(bytes("x"));
            pair.server.poll(Services::echo);
            Services.poke(pair.channel, 2, 128, 5, false);
            assertEquals("corrupt-ring", code(pair.client::poll));
            assertEquals("corrupt-ring", code(call::result));
            assertEquals("corrupt-ring", code(() -> pair.client.call(bytes("x"))));
            assertEquals(0, pair.client.outstanding());
            assertEquals(0, pair.channel.stats().subscribers().get(1).outstanding());
            pair.client.close();
            try (Client next = pair.channel.client()) {
                Call again = next.start(bytes("y"));
                pair.server.poll(Services::echo);
                assertEquals("y", text(again.result(LONG)));
            }
        }
    }

    @Test
    void aClientThatIsForgottenGivesItsPlaceBack() throws Exception {
        try (Channel channel = Channel.create(rings.path("c.ring"), service(1)); Server server = channel.server()) {
            channel.client("forgotten").start(bytes("x"), 1, FOREVER);
            long end = System.nanoTime() + 20_000_000_000L;
            while (!code(() -> channel.client().close()).equals("none") && System.nanoTime() < end) {
                System.gc();
                Thread.sleep(10);
            }
            assertEquals("x", serve(server));
            assertEquals("none", code(() -> channel.client().close()));
        }
    }
}
