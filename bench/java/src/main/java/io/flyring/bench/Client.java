// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.util.Arrays;
import org.agrona.DirectBuffer;

/** The roles {@code rtt} and {@code schedule}, side a: sends and waits for the answer. */
final class Client extends Role {
    private static final int MOST_TIMED = 2_000_000;

    private final int[] samples = new int[MOST_TIMED];
    private final double period;
    private long expected;
    private long number;
    private boolean here;
    private int files;

    Client(Setup setup, Contender contender) {
        super(setup, contender);
        period = setup.rate > 0 ? 1e9 / setup.rate : 0;
        Arrays.fill(samples, -1); // brings its pages in before the first sample
    }

    @Override
    String slice(boolean timed) {
        String result = setup.scenario == Setup.Scenario.SCHEDULE ? schedule() : roundTrips(timed);
        exchange(Messages.END, 0);
        return result;
    }

    private String roundTrips(boolean timed) {
        long count = count(timed ? MOST_TIMED : Long.MAX_VALUE);
        roundTrip(0);
        long start = System.nanoTime();
        long before = start;
        for (long i = 1; i <= count; i += CHUNK) {
            int chunk = (int) Math.min(CHUNK, count + 1 - i);
            if (timed) {
                before = timedRoundTrips(i, chunk, before);
            } else {
                roundTrips(i, chunk);
            }
        }
        long ns = System.nanoTime() - start;
        ran(count, ns);
        return timed ? timed((int) count, ns) : "{\"kind\": \"mean\", \"count\": " + count + ", \"ns\": " + ns + "}";
    }

    private void roundTrips(long from, int count) {
        for (long i = from; i < from + count; i++) {
            roundTrip(i);
        }
    }

    private long timedRoundTrips(long from, int count, long start) {
        long before = start;
        for (long i = from; i < from + count; i++) {
            roundTrip(i);
            long now = System.nanoTime();
            sample(i - 1, now - before);
            before = now;
        }
        return before;
    }

    private String schedule() {
        if (period == 0) {
            throw new IllegalArgumentException("schedule needs --rate");
        }
        long count = Math.min(Math.max((long) (setup.rate * setup.timeSlice), CHUNK), MOST_TIMED);
        roundTrip(0);
        long start = System.nanoTime();
        for (long i = 1; i <= count; i += CHUNK) {
            dueRoundTrips(i, (int) Math.min(CHUNK, count + 1 - i), start + (long) period);
        }
        return timed((int) count, System.nanoTime() - start);
    }

    private void dueRoundTrips(long from, int count, long start) {
        for (long i = from; i < from + count; i++) {
            long due = start + (long) ((i - 1) * period);
            while (System.nanoTime() < due) {
                // too early: wait
            }
            roundTrip(i);
            sample(i - 1, System.nanoTime() - due);
        }
    }

    private void roundTrip(long of) {
        exchange(Messages.tag(0, of), of);
    }

    private void exchange(long tag, long of) {
        expected = tag;
        number = of;
        here = false;
        contender.send(tag);
        contender.flush();
        while (!here) {
            contender.receive();
        }
    }

    @Override
    void onMessage(DirectBuffer buffer, int at) {
        if (!messages.is(buffer, at, expected)) {
            if (expected != Messages.END) {
                throw Messages.wrong(buffer, at, number, expected);
            }
            messages.mustBeEnd(buffer, at, number, expected);
        }
        here = true;
    }

    private void sample(long at, long ns) {
        samples[(int) at] = ns > 0xffffffffL ? -1 : (int) ns;
    }

    private String timed(int count, long ns) {
        String name = "samples-" + files++;
        ByteBuffer bytes = ByteBuffer.allocate(count * Integer.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asIntBuffer().put(samples, 0, count);
        try {
            Files.write(setup.path(name), bytes.array());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return "{\"kind\": \"timed\", \"count\": " + count + ", \"ns\": " + ns + ", \"samples\": \"" + name + "\"}";
    }
}
