// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.Channel;
import io.flyring.ChannelOptions;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.function.ToIntFunction;

/** A worker of the SIGKILL torture test; interop-tests/torture/WORKER.md describes its actions and its log. */
public final class Torture {
    private Torture() {
    }

    /**
     * Waits for a line with its orders and follows them.
     *
     * @param arguments none.
     * @throws IOException if the side file cannot be mapped.
     */
    public static void main(String[] arguments) throws IOException {
        System.out.println("ready");
        String line = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine();
        if (line == null) {
            return;
        }
        Map<String, String> orders = new HashMap<>();
        for (String word : line.split(" ")) {
            orders.put(word.substring(0, word.indexOf('=')), word.substring(word.indexOf('=') + 1));
        }
        switch (orders.get("role")) {
            case "creator" -> create(orders);
            case "publisher" -> new TorturePublisher(orders).run();
            case "worker" -> new TortureJobs(orders).run();
            case "server" -> new TortureServer(orders).run();
            case "caller" -> new TortureCaller(orders).run();
            case "operator" -> new Operator(orders).run();
            case "putter" -> new TorturePutter(orders).run();
            case "looker" -> new TortureLooker(orders).run();
            case "appender" -> new TortureAppender(orders).run();
            case "follower" -> new TortureFollower(orders).run();
            case "consumer" -> new TortureConsumer(orders).run();
            default -> new TortureSubscriber(orders).run();
        }
    }

    private static void create(Map<String, String> orders) {
        if (orders.get("kind").equals("table")) {
            TortureTable.create(orders);
            return;
        }
        if (orders.get("kind").equals("journal")) {
            TortureJournal.create(orders);
            return;
        }
        ToIntFunction<String> number = key -> Integer.parseInt(orders.get(key));
        ChannelOptions options = switch (orders.get("kind")) {
            case "service" -> ChannelOptions.service().clients(number.applyAsInt("clients"))
                .maxOutstanding(number.applyAsInt("max_outstanding"))
                .delivery(Operations.delivery(orders.get("delivery")));
            case "queue" -> ChannelOptions.queue().producers(number.applyAsInt("publishers"))
                .workers(number.applyAsInt("subscribers"));
            case "inbox" -> ends(ChannelOptions.inbox(), number);
            default -> ends(ChannelOptions.broadcast(), number);
        };
        options.capacity(number.applyAsInt("capacity")).alignment(number.applyAsInt("alignment"))
            .counters(number.applyAsInt("counters"));
        try (Channel channel = Channel.create(orders.get("channel"), options)) {
            channel.counters().allocate("common");
        }
    }

    private static ChannelOptions ends(ChannelOptions options, ToIntFunction<String> number) {
        return options.publishers(number.applyAsInt("publishers")).subscribers(number.applyAsInt("subscribers"));
    }

    /** Evicts a slot. */
    private static final class Operator extends TortureWorker {
        Operator(Map<String, String> orders) throws IOException {
            super(orders);
        }

        @Override
        void session() {
            int slot = Integer.parseInt(orders.get("slot"));
            long begins = System.nanoTime();
            log(Entry.EVICTED, slot, begins);
            enter(Phase.EVICTING, 2);
            channel.evict(slot);
            linger(2);
            log(Entry.EVICTED, slot, begins, System.nanoTime());
            phase(Phase.WORKING);
        }

        @Override
        void run() {
            session();
            channel.close();
        }
    }
}
