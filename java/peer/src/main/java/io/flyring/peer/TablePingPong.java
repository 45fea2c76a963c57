// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonObject;
import io.flyring.PayloadBuffer;
import io.flyring.Versioned;
import java.time.Duration;

/** Runs one ping_pong operation with a table: each end puts its key, and sleeps until the other one has changed. */
final class TablePingPong {
    private static final int LENGTH = 2 * Long.BYTES;
    private static final long LATE_NANOS = 50_000_000;

    private final Changer table;
    private final Object put;
    private final Object get;
    private final String how;
    private final long count;
    private final boolean first;
    private final long lateAfter;
    private final long start = System.nanoTime(); // CLOCK_MONOTONIC, as the times in messages
    private final long patience;
    private final long pause;
    private final PayloadBuffer message = new PayloadBuffer();
    private final PayloadBuffer got = new PayloadBuffer();
    private long seen;
    private long longest;
    private long late;

    TablePingPong(Changer table, Request request) {
        this.patience = (long) (request.seconds() * Request.NANOS);
        this.table = new Changer(table.table, null, Duration.ofNanos(patience));
        this.put = Tables.key(table.table, request, "put");
        this.get = Tables.key(table.table, request, "get");
        this.how = request.text("how", "key");
        this.count = request.number("count");
        this.pause = request.number("pause", 0);
        this.first = request.flag("first");
        this.lateAfter = request.number("late", LATE_NANOS);
        message.wrap(new byte[LENGTH]);
        if (!how.equals("key") && !how.equals("table") && !how.equals("absent")) {
            throw new Request.Bad("how: " + how);
        }
    }

    void run(JsonObject answer) {
        for (long i = 0; i < count; i++) {
            if (first) {
                send(i);
            }
            take(i);
            if (!first) {
                send(i);
            }
        }
        answer.addProperty("count", count);
        answer.addProperty("seconds", (System.nanoTime() - start) / Request.NANOS);
        answer.addProperty("longest", longest);
        answer.addProperty("late", late);
    }

    private Duration left() {
        return Duration.ofNanos(Math.max(0, patience - (System.nanoTime() - start)));
    }

    private void send(long number) {
        final long begin = System.nanoTime();
        while (pause > 0 && System.nanoTime() - begin < pause) {
            Thread.onSpinWait(); // as if it worked for its answer
        }
        message.putLong(0, number);
        message.putLong(Long.BYTES, System.nanoTime());
        table.put(put, message, LENGTH);
    }

    private Versioned await() {
        while (true) {
            long before = table.table.version();
            Versioned found = table.get(get);
            if (found != null && found.version() != seen) {
                return found;
            }
            if (how.equals("table")) {
                table.table.waitChanged(before, left());
            } else {
                table.waitChanged(get, how.equals("key") ? seen : 0, left());
            }
        }
    }

    private void take(long number) {
        Versioned found = await();
        final long now = System.nanoTime();
        got.wrap(found.value());
        if (found.value().length != LENGTH || got.getLong(0) != number) {
            throw new Request.Bad("mismatch", "Message " + number + " was awaited; this one has "
                + found.value().length + " bytes.");
        }
        seen = found.version();
        final long took = now - got.getLong(Long.BYTES);
        longest = Math.max(longest, took);
        late += took >= lateAfter ? 1 : 0;
        if (how.equals("absent")) {
            table.remove(get);
        }
    }
}
