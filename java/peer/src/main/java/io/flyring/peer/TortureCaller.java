// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.BusyException;
import io.flyring.Call;
import io.flyring.CancelledException;
import io.flyring.Channel;
import io.flyring.ChannelOptions;
import io.flyring.Client;
import io.flyring.ClosedException;
import io.flyring.Delivery;
import io.flyring.ExpiredException;
import io.flyring.FlyringException;
import io.flyring.Message;
import io.flyring.Publisher;
import io.flyring.Server;
import io.flyring.ServerGoneException;
import io.flyring.ServiceErrorException;
import io.flyring.SlotLostException;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Calls the server of a service in the SIGKILL torture (interop-tests/torture/WORKER.md). */
final class TortureCaller extends TortureWorker {
    private static final Duration[] TIMEOUTS = {Duration.ofSeconds(2), Duration.ofMillis(20), Duration.ofMillis(1)};
    private static final Duration[] POLLS = {Duration.ZERO, Duration.ofMillis(2), Duration.ofMillis(20)};
    private static final Duration LAST_POLL = Duration.ofMillis(100);
    private static final int LONGEST = 500; // bytes of a request

    private final List<Asked> open = new ArrayList<>();
    private final long publisher;
    private Throwable failure; // thrown in a callback of a future
    private long begun; // when the running verb began, ns
    private long epoch;
    private long calls;

    TortureCaller(Map<String, String> orders) throws IOException {
        super(orders);
        publisher = publisherNumber(orders.get("name"));
        warmUp();
    }

    /** Lets calls end in each common way, in a separate service. Later, loading classes would be measured as a wait. */
    private void warmUp() {
        String path = orders.get("side") + ".warm";
        byte[] bytes = new byte[1];
        try (Channel own = Channel.create(path, ChannelOptions.service().clients(1).capacity(4096).counters(0))) {
            Server server = own.server();
            Client client = own.client();
            List<Call> ends = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                ends.add(client.start(bytes, 1, i == 2 ? Duration.ofMillis(1) : LAST_POLL));
            }
            server.poll(request -> request.reply(bytes), 1);
            server.poll(request -> request.fail(""), 1);
            client.poll(POLLS[1]);
            server.close();
            client.poll(LAST_POLL);
            ends.forEach(call -> call.future().handle((answer, error) -> error));
        } finally {
            Channel.unlink(path);
        }
    }

    /** How a call ended; the order is that of side.py. */
    private enum End {
        ANSWER, SERVICE_ERROR, EXPIRED, SERVER_GONE, CANCELLED, CLOSED, SLOT_LOST, REFUSED
    }

    /** One call. */
    private static final class Asked {
        private final long number;
        private final byte[] bytes;
        private final Duration timeout;
        private final boolean stream;
        private Call call;
        private long items; // the number of items that came; below 0 after a wrong one

        Asked(long number, byte[] bytes, Duration timeout, boolean stream) {
            this.number = number;
            this.bytes = bytes;
            this.timeout = timeout;
            this.stream = stream;
        }
    }

    @Override
    void session() {
        long asked = System.nanoTime();
        enter(Phase.SEATING, 2);
        Client client = channel.client(orders.get("name"), Duration.ofSeconds(5));
        linger(2);
        epoch = client.epoch();
        calls = 0;
        open.clear();
        log(Entry.SEATED, client.slot(), epoch, System.nanoTime(), asked);
        try {
            work(client);
        } catch (SlotLostException e) {
            long when = System.nanoTime();
            client.close();
            log(Entry.SLOT_LOST, client.slot(), 0, when, begun);
        }
        forgetEnded();
        phase(Phase.WORKING);
    }

    private void work(Client client) {
        for (int steps = below(10) == 0 ? below(10) : below(600); !full() && !stopped() && steps > 0; steps--) {
            begun = System.nanoTime();
            int dice = below(32);
            if (dice < 8) {
                call(client);
            } else if (dice < 20) {
                start(client, dice < 11 && channel.delivery() == Delivery.AT_MOST_ONCE);
            } else if (dice == 20 && !open.isEmpty()) {
                open.get(below(open.size())).call.cancel();
            } else {
                await(client, POLLS[below(POLLS.length)]);
            }
            forgetEnded();
            if (below(50) == 0) {
                nap(below(3_000_000));
            }
        }
        while (!open.isEmpty() && (stopped() || below(20) != 0)) {
            await(client, LAST_POLL);
        }
        long begins = System.nanoTime();
        enter(Phase.LEAVING, 2);
        client.close();
        linger(2);
        log(Entry.LEFT, 0, 0, 0, begins);
    }

    private void await(Client client, Duration timeout) {
        if (fault("deaf", 4)) { // more often than other faults: few calls expire during one sleep
            nap(600_000_000);
        }
        enter(Phase.AWAITING, 200);
        begun = System.nanoTime();
        client.poll(timeout);
        forgetEnded();
        phase(Phase.IDLE);
    }

    /** Takes the items of streams, removes calls that have ended, and throws what failed in a callback. */
    private void forgetEnded() {
        for (Asked one : open) {
            if (one.stream) {
                takeItems(one);
            }
        }
        open.removeIf(one -> one.call.done() && (!one.stream || endStream(one)));
        if (failure != null) {
            throw new IllegalStateException(failure);
        }
    }

    /** Prepares the next call and logs it. */
    private Asked next(Client client, boolean stream) {
        long number = calls++;
        Duration timeout = below(4) == 0 ? TIMEOUTS[below(TIMEOUTS.length)] : Publisher.FOREVER;
        byte[] bytes = TortureMessage.request(publisher, epoch, number,
            below(Math.min(client.maxMessageLength(), LONGEST) - HEADER));
        if (fault("torn")) {
            bytes[bytes.length - 1] ^= 1;
        }
        log(Entry.CALLED, number, timeout == Publisher.FOREVER ? 0 : timeout.toNanos(), System.nanoTime(),
            number(stream));
        return new Asked(number, bytes, timeout, stream);
    }

    private void call(Client client) {
        Asked one = next(client, false);
        enter(Phase.CALLING, 100);
        try {
            noteAnswer(one, client.call(one.bytes, 1, one.timeout), false);
        } catch (FlyringException e) {
            noteError(one, e);
        }
        phase(Phase.IDLE);
    }

    private void start(Client client, boolean stream) {
        Asked one = next(client, stream);
        enter(Phase.CALLING, 100);
        try {
            one.call = stream ? client.stream(one.bytes, 1, 1 + below(4), one.timeout)
                : client.start(one.bytes, 1, one.timeout);
        } catch (FlyringException e) {
            noteError(one, e);
            phase(Phase.IDLE);
            return;
        }
        open.add(one);
        if (!stream) {
            one.call.future().whenComplete((answer, error) -> {
                try {
                    end(one, answer, error);
                } catch (Throwable e) { // the future would drop it
                    failure = e;
                }
            });
        }
        phase(Phase.IDLE);
    }

    private boolean endStream(Asked one) {
        takeItems(one); // what came during other calls
        try {
            one.call.result();
            note(one, End.ANSWER, false, one.items != TortureMessage.items(one.number), 0, false);
        } catch (FlyringException e) {
            end(one, null, e);
        }
        return true;
    }

    private void end(Asked one, Message answer, Throwable error) {
        if (error == null) {
            noteAnswer(one, answer, one.call.repeat());
        } else if (error instanceof SlotLostException) {
            note(one, End.SLOT_LOST, false);
        } else {
            noteError(one, error);
        }
    }

    /** Takes the items of a stream that have come. */
    private void takeItems(Asked one) {
        try {
            for (Message got = one.call.next(Duration.ZERO); got != null; got = one.call.next(Duration.ZERO)) {
                TortureMessage item = TortureMessage.answer(got.toByteArray());
                boolean right = item.whole() && item.epoch() == epoch && item.call() == one.number
                    && item.publisher() == publisher && item.item() == one.items;
                one.items = right ? one.items + 1 : Long.MIN_VALUE;
            }
        } catch (FlyringException e) {
            if (!one.call.done()) {
                throw e;
            } // else the stream has ended, and its future has the result
        }
    }

    private void noteAnswer(Asked one, Message got, boolean repeat) {
        TortureMessage answer = TortureMessage.answer(got.toByteArray());
        boolean right = answer.whole() && answer.epoch() == epoch && answer.call() == one.number
            && answer.publisher() == publisher;
        note(one, End.ANSWER, false, !right, answer.server(), repeat);
    }

    /** Logs an error; throws a lost slot again. */
    private void noteError(Asked one, Throwable error) {
        if (error instanceof ServerGoneException gone) {
            note(one, End.SERVER_GONE, gone.mayHaveRun());
        } else if (error instanceof ExpiredException expired) {
            note(one, End.EXPIRED, expired.mayHaveRun());
        } else if (error instanceof ServiceErrorException) {
            note(one, End.SERVICE_ERROR, false);
        } else if (error instanceof SlotLostException lost) {
            note(one, End.SLOT_LOST, false);
            throw lost;
        } else if (error instanceof ClosedException) {
            note(one, End.CLOSED, false);
        } else if (error instanceof CancelledException) {
            note(one, End.CANCELLED, false);
        } else if (error instanceof BusyException) {
            note(one, End.REFUSED, false);
        } else {
            throw new IllegalStateException("call " + one.number + " ended with " + error, error);
        }
    }

    private void note(Asked one, End how, boolean mayHaveRun) {
        note(one, how, mayHaveRun, false, 0, false);
    }

    private void note(Asked one, End how, boolean mayHaveRun, boolean wrong, long server, boolean repeat) {
        if (fault("forget")) {
            return;
        }
        for (int times = fault("again") ? 2 : 1; times > 0; times--) {
            log(Entry.ENDED, one.number, how.ordinal(), number(mayHaveRun), number(wrong), System.nanoTime(), server,
                number(repeat));
        }
    }
}
