// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;

/** Does with a service of any bytes what its servers and clients can do, and what happens to them. */
final class FuzzService extends FuzzKind {
    private static final byte[] PAYLOAD = Rings.pattern(1, 2048);
    private static final Duration[] TIMES = {Duration.ZERO, Duration.ofNanos(20_000), Duration.ofMillis(5),
        Duration.ofMillis(20)};
    private static final int MOST = 8; // calls of a client, requests that were kept
    private static final int PLACES = 12;

    private final Client[] clients = new Client[2];
    private final List<List<Call>> calls = List.of(new ArrayList<>(), new ArrayList<>());
    private final List<Request> kept = new ArrayList<>();
    private Server server;
    /** Places that were taken: each maps its rings, and there is only so much between the guards. */
    private int taken;
    private int handed;

    FuzzService(FuzzDrive drive) {
        super(drive);
    }

    private static void need(boolean good, String what) {
        if (!good) {
            throw new IllegalStateException(what);
        }
    }

    /** A few things: nothing comes of a request alone. */
    @Override
    void step(boolean full) {
        for (int i = random.nextInt(6); i >= 0; i--) {
            int which = random.nextInt(clients.length);
            switch (random.nextInt(8)) {
                case 0, 1, 2 -> serve(full);
                case 3 -> answerLater();
                case 4 -> converse(which);
                default -> call(which, full);
            }
        }
    }

    /** What asks, answers and hears in a row. */
    private void converse(int which) {
        if (server == null || clients[which] == null) {
            return;
        }
        ask(which, random.nextInt(3) == 0);
        poll();
        attempt(clients[which]::poll);
        if (!calls.get(which).isEmpty()) {
            List<Call> some = calls.get(which);
            hear(some.get(some.size() - 1));
        }
    }

    // The server

    private void serve(boolean full) {
        if (server == null) {
            if (!full && taken++ < PLACES) {
                attempt(() -> {
                    server = channel.server(random.nextBoolean() ? "" : "s");
                    count("server");
                });
            }
            return;
        }
        switch (random.nextInt(24)) {
            case 0, 1 -> endServer();
            case 2 -> attempt(() -> channel.evict(0));
            case 3 -> attempt(() -> {
                need(server.inHand() >= server.repliesWaiting() && server.repliesWaiting() >= 0, "held");
                if (server.damaged() > 0) {
                    count("damaged");
                }
                server.stop();
                server.serve(request -> {
                    throw new AssertionError("a server that was stopped hands out a request");
                });
            });
            default -> poll();
        }
    }

    private void poll() {
        attempt(() -> {
            int limit = 1 + random.nextInt(20);
            handed = 0;
            int returned = server.poll(this::handle, limit);
            need(returned == handed && handed <= limit, "a poll of " + limit + " returned " + returned);
        });
    }

    /** A close, or the end of its process. */
    private void endServer() {
        Server old = server;
        server = null;
        kept.clear();
        if (random.nextBoolean()) {
            attempt(old::close);
        } else {
            old.seat().abandon();
            count("server died");
        }
    }

    private void handle(Request request) {
        handed++;
        count(request.repeat() ? "repeated request" : "request");
        int length = request.length();
        if (length < 0 || length > channel.capacity() - Layout.RECORD_HEADER_LENGTH || request.type() < 1
            || request.client() < 0 || request.client() >= channel.clients() || request.sender() == null
            || request.sender().ring() != request.client() || request.toByteArray().length != length
            || request.remaining() != null && request.remaining().isNegative()) {
            throw new AssertionError("a request of type " + request.type() + " with " + length + " bytes of client "
                + request.client()); // no exception: that would be its answer
        }
        FuzzDrive.read(request.buffer(), length);
        if (request.isStream()) {
            request.stream(items(), 1 + random.nextInt(9));
            return;
        }
        switch (random.nextInt(32)) {
            case 0 -> throw new FuzzDrive.Thrown();
            case 1 -> file.scribble(random);
            case 2 -> {
                if (random.nextInt(4) == 0) {
                    channel.evict(1 + request.client());
                }
            }
            case 3 -> count("not answered");
            case 4, 5, 6, 7, 8, 9, 10, 11 -> {
                if (kept.size() < MOST) {
                    request.keep();
                    kept.add(request);
                }
            }
            default -> answer(request);
        }
    }

    private Iterator<byte[]> items() {
        byte[] item = new byte[random.nextInt(200)];
        return Stream.generate(() -> item).limit(random.nextInt(6)).iterator();
    }

    private void answer(Request request) {
        switch (random.nextInt(4)) {
            case 0 -> request.fail("not this one");
            case 1 -> {
                PayloadBuffer bytes = new PayloadBuffer();
                bytes.wrap(PAYLOAD);
                request.reply(bytes, 0, random.nextInt(PAYLOAD.length), random.nextInt(9));
            }
            default -> request.reply(request.buffer(), 0, request.length(), request.type());
        }
    }

    private void answerLater() {
        if (!kept.isEmpty()) {
            Request one = kept.remove(random.nextInt(kept.size()));
            attempt(() -> {
                answer(one);
                count("answered later");
            });
        }
    }

    // The clients

    private void call(int which, boolean full) {
        Client client = clients[which];
        List<Call> some = calls.get(which);
        if (client == null) {
            if (!full && taken++ < PLACES) {
                attempt(() -> {
                    clients[which] = channel.client(random.nextBoolean() ? "" : "c");
                    count("client");
                });
            }
            return;
        }
        switch (random.nextInt(16)) {
            case 0 -> endClient(which);
            case 1 -> attempt(() -> {
                need(client.outstanding() <= channel.maxOutstanding() && client.late() >= 0, "counts");
                ServerInfo lives = client.server();
                need(lives == null || lives.epoch() > 0, "a server that cannot be");
            });
            case 2 -> attempt(() -> look(client.call(bytes(), 1 + random.nextInt(9), TIMES[1])));
            case 3, 4, 5, 6 -> ask(which, random.nextInt(4) == 0);
            case 7, 8 -> handleACall(some);
            case 9 -> endClient(which);
            default -> attempt(() -> client.poll(TIMES[random.nextInt(2)]));
        }
    }

    private void ask(int which, boolean stream) {
        Client client = clients[which];
        attempt(() -> {
            // Without a server it waits for one.
            Duration time = client.server() == null ? TIMES[1] : TIMES[random.nextInt(TIMES.length)];
            add(calls.get(which), stream ? client.stream(bytes(), 1, random.nextInt(6), time)
                : client.start(bytes(), random.nextInt(9), time));
        });
    }

    private byte[] bytes() {
        byte[] bytes = new byte[random.nextInt(random.nextInt(8) == 0 ? channel.capacity() / 4 : 100)];
        System.arraycopy(PAYLOAD, 0, bytes, 0, Math.min(bytes.length, PAYLOAD.length));
        return bytes;
    }

    private void add(List<Call> some, Call call) {
        if (some.size() == MOST) {
            some.remove(0);
        }
        some.add(call);
        if (random.nextBoolean()) {
            call.future().whenComplete((answer, error) -> count(error == null ? "completed" : "failed"));
        }
    }

    private void handleACall(List<Call> some) {
        if (some.isEmpty()) {
            return;
        }
        Call call = some.get(random.nextInt(some.size()));
        switch (random.nextInt(4)) {
            case 0 -> attempt(() -> {
                call.cancel();
                need(call.done(), "a call goes on that was cancelled");
            });
            case 1 -> some.remove(call);
            case 2 -> hear(call);
            default -> attempt(() -> look(call.result(TIMES[random.nextInt(2)])));
        }
    }

    private void hear(Call call) {
        attempt(() -> {
            for (Message item = call.next(TIMES[random.nextInt(2)]); item != null; item = call.next(Duration.ZERO)) {
                look(item);
                count("item");
            }
            if (call.done()) {
                look(call.result());
            }
        });
    }

    private void look(Message answer) {
        if (answer == null) {
            count("end of a stream");
        } else {
            count("answer");
            need(answer.length() <= channel.capacity() && answer.type() > 0
                && answer.toByteArray().length == answer.length(), "an answer that cannot be");
        }
    }

    /** A close, or the end of its process. */
    private void endClient(int which) {
        Client old = clients[which];
        clients[which] = null;
        if (random.nextBoolean()) {
            close(old, calls.get(which));
        } else {
            old.seat.abandon();
            count("client died");
        }
        calls.get(which).clear();
    }

    private void close(Client client, List<Call> some) {
        attempt(client::close);
        need(some.stream().allMatch(Call::done), "a call has no end, and its client is closed");
    }

    @Override
    void end() {
        for (int which = 0; which < clients.length; which++) {
            if (clients[which] != null) {
                close(clients[which], calls.get(which));
            }
        }
        if (server != null) {
            attempt(server::close);
        }
    }
}
