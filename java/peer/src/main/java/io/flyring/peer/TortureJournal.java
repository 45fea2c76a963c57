// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.Journal;
import io.flyring.JournalOptions;
import io.flyring.Message;
import io.flyring.OpenOptions;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Map;

/** What the workers of journals share in the SIGKILL torture (interop-tests/torture/WORKER.md). */
abstract class TortureJournal extends TortureWorker {
    /** Bytes before a message's filling: checksum of what follows, length, id. */
    static final int MESSAGE = 16;
    private static final long LONG_ENOUGH = 20_000_000; // ns, from which on a wait in vain is logged

    final Journal journal;
    /** Number, position and time of the last message that it read; the number is -1 before the first. */
    long seenNumber = -1;
    long seenPosition;
    long seenTime;
    boolean drained;

    TortureJournal(Map<String, String> orders) throws IOException {
        super(orders);
        boolean readOnly = orders.get("role").equals("follower") && below(2) == 0;
        journal = Journal.open(orders.get("channel"), new OpenOptions().readOnly(readOnly));
    }

    static void create(Map<String, String> orders) {
        JournalOptions options = new JournalOptions().segmentSize(Integer.parseInt(orders.get("segment_size")))
            .consumers(Integer.parseInt(orders.get("consumers"))).maxSize(Long.parseLong(orders.get("max_size")));
        try (Journal made = Journal.create(orders.get("channel"), options)) {
            for (String name : orders.get("names").split(",")) {
                made.consumer(name).close();
            }
        }
    }

    final void beIdle() {
        phase(Phase.IDLE);
        nap(below(4_000_000));
        phase(Phase.WORKING);
    }

    final Duration someTimeout() {
        return Duration.ofMillis(new int[] {0, 2, 20, 400}[below(4)]);
    }

    final int someLimit() {
        return below(4) == 0 ? 256 : 1 + below(8);
    }

    /** Logs a message. */
    final void handle(Message message, long lost) {
        enter(Phase.HANDLING, 200);
        byte[] data = message.toByteArray();
        ByteBuffer bytes = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        boolean whole = data.length >= MESSAGE;
        boolean right = whole && bytes.getInt(0) == checksum(data) && bytes.getInt(4) == data.length;
        seenNumber = message.number();
        seenPosition = message.position();
        seenTime = message.time();
        for (int times = fault("drop") ? 0 : fault("again") ? 2 : 1; times > 0; times--) {
            log(Entry.READ, seenNumber, whole ? bytes.getLong(8) : 0, seenPosition, lost, number(!right),
                System.nanoTime());
        }
        phase(Phase.POLLING);
    }

    /** Logs that nothing was there. */
    final void noteIdle(long begin, Duration timeout) {
        if (timeout.toNanos() >= LONG_ENOUGH) {
            if (fault("deaf", 1)) {
                nap(600_000_000);
            }
            log(Entry.IDLE, begin, System.nanoTime());
        }
    }

    final void rest(int count) {
        phase(Phase.IDLE);
        if (count == 0) {
            nap(100_000);
        } else if (below(20) == 0) {
            nap(below(4_000_000));
        }
        phase(Phase.WORKING);
    }

    final void leave(Runnable close) {
        long leaves = System.nanoTime();
        enter(Phase.LEAVING, 2);
        close.run();
        linger(2);
        log(Entry.LEFT, 0, number(drained), 0, leaves);
        phase(Phase.WORKING);
    }

    @Override
    void run() {
        while (!drained && !full()) {
            session();
        }
        journal.close();
    }
}
