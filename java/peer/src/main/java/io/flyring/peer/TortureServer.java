// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.NoFreeSlotException;
import io.flyring.Request;
import io.flyring.Server;
import io.flyring.SlotLostException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;

/** Answers the calls of a service in the SIGKILL torture (interop-tests/torture/WORKER.md). */
final class TortureServer extends TortureWorker {
    private static final long LONGEST = 400_000_000; // ns: a time-out longer than the delay that a death may cause
    private static final long[] TIMEOUTS = {0, 2_000_000, 20_000_000, LONGEST};
    private static final long SHORTEST_IDLE = 20_000_000; // ns: the shortest idle time that gets an entry in the log
    private static final int MOST_KEPT = 20;
    private static final int SOME = 64;
    private static final String TEXT = "not this one";

    private final Deque<Kept> kept = new ArrayDeque<>();
    private long begun; // when the poll began, ns
    private long epoch;

    TortureServer(Map<String, String> orders) throws IOException {
        super(orders);
    }

    /** A request that is answered later. */
    private record Kept(Request request, TortureMessage asked) {
    }

    @Override
    void session() {
        long asked = System.nanoTime();
        enter(Phase.SEATING, 2);
        Server server;
        try {
            server = channel.server(orders.get("name"), Duration.ofMillis(200));
        } catch (NoFreeSlotException e) {
            phase(Phase.WORKING);
            return;
        }
        linger(2);
        epoch = server.epoch();
        log(Entry.SEATED, 0, epoch, System.nanoTime(), asked);
        try {
            work(server);
        } catch (SlotLostException e) {
            log(Entry.SLOT_LOST, 0, 0, System.nanoTime(), begun);
        }
        server.close();
        kept.clear();
        phase(Phase.WORKING);
    }

    private void work(Server server) {
        int polls = below(10) == 0 ? below(10) : below(400);
        boolean drained = false;
        while (!full() && !drained && (polls > 0 || stopped())) {
            polls--;
            boolean last = stopped(); // read before the poll: a request that the poll does not find was never there
            long timeout = !kept.isEmpty() ? 0 : last ? LONGEST : TIMEOUTS[below(TIMEOUTS.length)];
            phase(Phase.FETCHING);
            begun = System.nanoTime();
            int handed = server.poll(this::handle, below(2) == 0 ? 1 : SOME, Duration.ofNanos(timeout));
            long end = System.nanoTime();
            if (handed == 0 && end - begun > SHORTEST_IDLE) {
                log(Entry.IDLE, begun, end);
            }
            phase(Phase.IDLE);
            drained = last && handed == 0 && kept.isEmpty();
            while (!kept.isEmpty() && (last || below(3) != 0)) {
                answerLater();
            }
            if (timeout == 0 && handed == 0 || below(100) == 0) {
                nap(below(2_000_000));
            }
        }
        long begins = System.nanoTime();
        enter(Phase.LEAVING, 2);
        server.close();
        linger(2);
        log(Entry.LEFT, 0, number(drained), 0, begins);
    }

    private void handle(Request request) {
        phase(Phase.HANDLING);
        TortureMessage asked = TortureMessage.request(request.toByteArray());
        long state = 0;
        if (!asked.whole()) {
            state = 1;
        } else if (request.sender().epoch() == 0) {
            state = 3;
        } else if (publisherNumber(request.sender().name()) != asked.publisher()) {
            state = 2;
        }
        if (!fault("drop")) {
            note(request, asked, state);
        }
        if (fault("twice")) {
            note(request, asked, state);
        }
        linger(30);
        if (below(500) == 0) {
            nap(30_000_000);
        }
        if (request.isStream()) {
            phase(Phase.REPLYING);
            request.stream(new Items(asked), 1);
        } else {
            answer(request, asked);
        }
    }

    private void note(Request request, TortureMessage asked, long state) {
        log(Entry.REQUEST, request.client(), asked.epoch(), asked.call(), number(request.repeat()), state,
            System.nanoTime());
    }

    private void answer(Request request, TortureMessage asked) {
        int dice = below(32);
        if (dice < 2) {
            enter(Phase.REPLYING, 50);
            request.fail(TEXT);
        } else if (dice == 2) {
            throw new IllegalStateException(TEXT);
        } else if (dice == 3) {
            return; // no answer
        } else if (dice < 9 && kept.size() < MOST_KEPT) {
            request.keep();
            kept.add(new Kept(request, asked));
        } else {
            reply(request, asked);
        }
    }

    private void reply(Request request, TortureMessage asked) {
        long call = fault("answer") ? asked.call() + 1 : asked.call();
        byte[] bytes = asked.answer(call, epoch, 0, below(400));
        enter(Phase.REPLYING, 50);
        request.reply(bytes);
        linger(50);
    }

    /** Answers the oldest or the newest kept request, by this thread or another one. */
    private void answerLater() {
        Kept one = below(2) == 0 ? kept.removeFirst() : kept.removeLast();
        if (below(8) == 0) {
            elsewhere(one);
        } else {
            reply(one.request, one.asked);
        }
        phase(Phase.IDLE);
    }

    private void elsewhere(Kept one) {
        RuntimeException[] failed = new RuntimeException[1];
        Thread thread = new Thread(() -> {
            try {
                reply(one.request, one.asked);
            } catch (RuntimeException e) {
                failed[0] = e;
            }
        });
        thread.start();
        try {
            thread.join();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
        if (failed[0] != null) {
            throw failed[0];
        }
    }

    /** The items of a call's stream. */
    private final class Items implements Iterator<byte[]> {
        private final TortureMessage asked;
        private long next;

        Items(TortureMessage asked) {
            this.asked = asked;
        }

        @Override
        public boolean hasNext() {
            return next < TortureMessage.items(asked.call());
        }

        @Override
        public byte[] next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            return asked.answer(asked.call(), epoch, next++, below(200));
        }
    }
}
