// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Stream;

/** Server and clients of a service, stopped after each of their stores: {@code StoreByStoreCalls FOLDER}. */
final class StoreByStoreCalls extends StoreDeaths<StoreByStoreCalls.Talk> {
    private static final int CAPACITY = 4096;
    private static final int ASKED = 3; // calls that are under way before the operation
    private static final int LAPS = 2 * CAPACITY / 64;
    private static final Duration LONG = Duration.ofSeconds(5);

    private final boolean least;

    private StoreByStoreCalls(Path folder, int alignment, boolean least) {
        super(folder, alignment);
        this.least = least;
    }

    /** A process with a server and a client. A call is known by its type, from 1. */
    static final class Talk extends StoreDeaths.Process {
        private Server server;
        private Client client;
        private final List<Request> kept = new ArrayList<>();
        private final List<Call> calls = new ArrayList<>();
        /** The least number of requests that were published; below: those that handlers got, and that have a reply. */
        private int asked;
        private final Map<Integer, Integer> given = new HashMap<>();
        private final Set<Integer> replied = new HashSet<>();

        Talk(Channel channel) {
            super(channel);
        }

        private void both() {
            server = channel.server("first");
            client = channel.client("desk");
        }

        private void ask() {
            int type = asked + 1;
            calls.add(client.start(bytes(type), type, Publisher.FOREVER));
            asked = type;
        }

        private static byte[] bytes(int type) {
            return Rings.pattern(type, usual(type));
        }

        private void ask(int times) {
            for (int i = 0; i < times; i++) {
                ask();
            }
        }

        private void askForStream() {
            int type = asked + 1;
            calls.add(client.stream(bytes(type), type, 2, Publisher.FOREVER));
            asked = type;
        }

        private void give(Request request) {
            given.merge(request.type(), 1, Integer::sum);
            if (!Arrays.equals(bytes(request.type()), request.toByteArray())) {
                throw new AssertionError("a request that is not whole"); // an Exception would become the answer
            }
        }

        private void answer(Request request) {
            give(request);
            echo(request);
        }

        private void echo(Request request) {
            request.reply(request.buffer(), 0, request.length(), request.type());
            replied.add(request.type());
        }

        private void keep(Request request) {
            give(request);
            request.keep();
            kept.add(request);
        }

        private void stream(Request request) {
            give(request);
            request.stream(items(), 1);
        }

        private static Iterator<byte[]> items() {
            return Stream.of(1, 2, 3, 4, 5).map(Talk::bytes).iterator();
        }

        private void pollAll(RequestHandler handler, int expected) {
            need(server.poll(handler) == expected, "another number of requests");
        }
    }

    public static void main(String[] arguments) throws Exception {
        int points = 0;
        for (boolean least : new boolean[] {false, true}) {
            StoreByStoreCalls all = new StoreByStoreCalls(Path.of(arguments[0]), least ? 8 : 64, least);
            for (Scenario<Talk> scenario : scenarios(least)) {
                all.run(scenario);
            }
            points += all.points();
        }
        System.out.println("done: " + points + " points");
    }

    private static List<Scenario<Talk>> scenarios(boolean least) {
        List<Scenario<Talk>> all = new ArrayList<>();
        Consumer<Talk> asking = ((Consumer<Talk>) Talk::both).andThen(talk -> talk.ask(ASKED));
        Consumer<Talk> answered = asking.andThen(talk -> talk.pollAll(talk::answer, ASKED));
        Consumer<Talk> keeping = asking.andThen(talk -> talk.pollAll(talk::keep, ASKED));
        Consumer<Talk> nothing = talk -> { };
        all.add(new Scenario<>("take the server's place", nothing, talk -> talk.server = talk.channel.server("first")));
        all.add(new Scenario<>("take a client's place", nothing, talk -> talk.client = talk.channel.client("desk")));
        all.add(new Scenario<>("start", Talk::both, Talk::ask));
        all.add(new Scenario<>("second start", asking, Talk::ask));
        all.add(new Scenario<>("poll with replies", asking, talk -> talk.pollAll(talk::answer, ASKED)));
        all.add(new Scenario<>("poll of kept ones", asking, talk -> talk.pollAll(talk::keep, ASKED)));
        all.add(new Scenario<>("poll with an error", asking, talk -> talk.pollAll(request -> {
            talk.give(request);
            request.fail("not this one");
            talk.replied.add(request.type());
        }, ASKED)));
        all.add(new Scenario<>("a later reply", keeping, talk -> talk.echo(talk.kept.get(1))));
        all.add(new Scenario<>("the first later reply", keeping, talk -> talk.echo(talk.kept.get(0))));
        all.add(new Scenario<>("drain", answered, talk -> need(talk.client.poll() == ASKED, "other ends")));
        if (!least) {
            Consumer<Talk> streaming = ((Consumer<Talk>) Talk::both).andThen(Talk::askForStream);
            all.add(new Scenario<>("a stream's items", streaming, talk -> talk.pollAll(talk::stream, 1)));
            all.add(new Scenario<>("a stream's credit", streaming.andThen(talk -> {
                talk.pollAll(talk::stream, 1);
                talk.client.poll();
            }), talk -> need(talk.calls.get(0).next(Duration.ZERO) != null, "no item")));
        }
        all.add(new Scenario<>("cancel", asking, talk -> talk.calls.get(1).cancel()));
        all.add(new Scenario<>("close a client", asking, talk -> talk.client.close()));
        all.add(new Scenario<>("close a server", keeping, talk -> talk.server.close()));
        all.add(new Scenario<>("evict the server", asking, talk -> talk.channel.evict(0)));
        all.add(new Scenario<>("evict a client", answered, talk -> talk.channel.evict(1)));
        all.add(new Scenario<>("a poll after an evict", asking.andThen(talk -> talk.channel.evict(0)), talk -> {
            try {
                talk.server.poll(talk::answer);
                need(false, "it has not lost its slot");
            } catch (SlotLostException e) {
                need(e.slot() == 0, "another slot");
            }
        }));
        all.add(new Scenario<>("the next server", keeping.andThen(talk -> {
            talk.echo(talk.kept.get(1));
            talk.server.seat().abandon();
        }), talk -> talk.server = talk.channel.server("second")));
        all.add(new Scenario<>("the next client", answered.andThen(talk -> talk.client.seat.abandon()),
            talk -> talk.client = talk.channel.client("heir")));
        return all;
    }

    @Override
    Talk process(Channel opened) {
        return new Talk(opened);
    }

    @Override
    void base() {
        ChannelOptions options = Services.service(2, CAPACITY, alignment, 64)
            .delivery(least ? Delivery.AT_LEAST_ONCE : Delivery.AT_MOST_ONCE);
        try (Channel channel = Channel.create(path.toString(), options); Server server = channel.server("old");
            Client client = channel.client("old")) {
            for (int i = 0; i < CAPACITY * 3 / 2 / 64; i++) {
                Call call = client.start(Talk.bytes(i % 50 + 1));
                server.poll(Services::echo);
                client.poll();
                need(call.done(), "the base: a call without an answer");
            }
        }
    }

    @Override
    void check(Talk left, Channel channel) {
        need(channel.stats().subscribers().get(1).outstanding() >= 0, "outstanding is below 0");
        try (Server server = channel.server("next"); Client one = channel.client("one");
            Client two = channel.client("two")) {
            need(one.number() == 0 && two.number() == 1, "other places");
            checkOld(left, channel, server);
            for (int i = 0; i < LAPS; i++) {
                talk(server, one, i % 50 + 1);
                talk(server, two, i % 40 + 1);
            }
            if (!least) {
                needStream(server, one);
            }
            need(server.inHand() == 0 && server.repliesWaiting() == 0, "the server holds something");
            need(one.outstanding() == 0 && two.outstanding() == 0, "a call is left");
        }
    }

    /** Checks the calls from before the death, whose client has gone. */
    private void checkOld(Talk left, Channel channel, Server server) {
        Map<Integer, Integer> again = new HashMap<>();
        for (int i = 0; i < 3; i++) {
            server.poll(request -> {
                int type = request.type();
                again.merge(type, 1, Integer::sum);
                boolean before = left.given.containsKey(type);
                if (!Arrays.equals(Talk.bytes(type), request.toByteArray()) || before && !request.repeat()) {
                    again.merge(-type, 1, Integer::sum); // an exception here would become the answer
                }
                request.reply();
            });
        }
        need(again.keySet().stream().allMatch(type -> type > 0), "a request is not whole, or says no repeat: " + again);
        need(again.values().stream().allMatch(times -> times == 1), "a request came twice: " + again);
        need(left.given.values().stream().allMatch(times -> times == 1), "given twice: " + left.given);
        int given = left.given.size();
        if (least) {
            for (int type = 1; type <= left.asked; type++) {
                need(again.containsKey(type) || left.replied.contains(type), "request " + type + " is lost");
            }
            need(server.notRun() == 0, "told not to run: " + server.notRun());
        } else {
            need(again.isEmpty(), "requests to another server were run: " + again);
            long told = server.notRun();
            // One may have been published, or be given to a handler, when it died.
            need(given + told <= left.asked + 1, given + " were given, " + told + " told not to run, of " + left.asked);
            need(given + told >= left.asked - 1 && (given + told >= left.asked || !left.ended),
                given + " were given, " + told + " told not to run, of " + left.asked);
        }
    }

    private static void talk(Server server, Client client, int type) {
        Call call = client.start(Talk.bytes(type), type, LONG);
        need(server.poll(Services::echo) == 1, "the request does not come");
        client.poll();
        need(call.done(), "the answer does not come");
        Message answer = call.result();
        need(answer.type() == type && Arrays.equals(Talk.bytes(type), answer.toByteArray()), "another answer");
        need(!call.repeat(), "a new call says repeat");
    }

    private static void needStream(Server server, Client client) {
        Call call = client.stream(Talk.bytes(1), 1, 2, LONG);
        int items = 0;
        for (int i = 0; i < 20 && !call.done(); i++) {
            server.poll(request -> request.stream(Talk.items(), 1));
            client.poll();
            while (call.next(Duration.ZERO) != null) {
                items++;
            }
        }
        need(call.done() && items == 5, "a stream of " + items + " items");
    }
}
