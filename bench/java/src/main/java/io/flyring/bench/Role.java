// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import org.agrona.DirectBuffer;

/**
 * The work of one side in a slice. Loops over messages are methods of {@link #CHUNK} messages, so that HotSpot compiles
 * them as methods and not in the middle of a long call.
 */
abstract class Role extends Receiver {
    static final int CHUNK = 64;

    private static final int FEWEST = 64;
    private static final int GROWTH = 4;

    final Setup setup;
    final Contender contender;
    final Messages messages;
    private double rate;
    private long last = FEWEST / GROWTH;

    Role(Setup setup, Contender contender) {
        this.setup = setup;
        this.contender = contender;
        this.messages = contender.messages;
        contender.receiver = this;
    }

    static Role of(Setup setup, Contender contender) {
        if (setup.scenario == Setup.Scenario.IDLE) {
            return new Idle(setup, contender);
        }
        if (setup.scenario == Setup.Scenario.MAP) {
            if (contender instanceof MapContender map) {
                return new MapUser(setup, map);
            }
            throw new IllegalArgumentException("cannot: " + setup.contender + ": it is no map");
        }
        if (setup.scenario == Setup.Scenario.JOBS) {
            return setup.producer() ? new JobSender(setup, contender) : new JobWorker(setup, contender);
        }
        if (setup.scenario == Setup.Scenario.BURST) {
            return setup.producer() ? new BurstSender(setup, contender) : new BurstReader(setup, contender);
        }
        if (contender instanceof AgronaInside inside && setup.producer()) {
            return new AgronaInside.Sender(setup, inside);
        }
        if (contender instanceof HttpLoopback http && !setup.client()) {
            return new HttpLoopback.Answerer(setup, http);
        }
        if (!setup.streaming()) {
            return setup.client() ? new Client(setup, contender) : new Server(setup, contender);
        }
        if (setup.behind()) {
            return setup.producer() ? new Appender(setup, contender) : new ReaderBehind(setup, contender);
        }
        return setup.producer() ? new Producer(setup, contender)
            : setup.producers() > 1 ? new MergingConsumer(setup, contender) : new Consumer(setup, contender);
    }

    /** Runs one slice; returns the answer's JSON object, or null if this side has no result. */
    abstract String slice(boolean timed);

    @Override
    void onMessage(DirectBuffer buffer, int at) {
        throw new IllegalStateException("a message for a side that gets none");
    }

    /** The number of messages of the next slice. */
    long count(long most) {
        long wanted = Math.min((long) (rate * setup.timeSlice), last * GROWTH);
        return Math.min(Math.max(wanted, FEWEST), most);
    }

    void ran(long count, long ns) {
        last = count;
        rate = count * 1e9 / ns;
    }

    static String mean(long count, long ns, long lost, long timed) {
        return "{\"kind\": \"mean\", \"count\": " + count + ", \"ns\": " + ns + ", \"lost\": " + lost
            + ", \"timed\": " + timed + "}";
    }
}
