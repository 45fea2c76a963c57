// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.BusyException;
import io.flyring.PayloadBuffer;
import io.flyring.TimedOutException;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;

/** Reads a table in the SIGKILL torture (interop-tests/torture/WORKER.md). */
final class TortureLooker extends TortureTable {
    private final Seen[] before = new Seen[KEYS];

    TortureLooker(Map<String, String> orders) throws IOException {
        super(orders);
    }

    @Override
    void run() {
        leftCopy();
        while (!stopped() && !full()) {
            session();
        }
        if (stopped() && !full()) { // from now on nothing is changed
            for (int key = 0; key < KEYS; key++) {
                get(key);
            }
            walk();
        }
        table.close();
    }

    @Override
    void session() {
        int dice = below(300);
        if (dice == 0) {
            copy(table::snapshot, How.SNAPSHOT);
        } else if (dice < 10) {
            walk();
        } else if (dice < 16) {
            sleep();
        } else {
            get(below(KEYS));
        }
        if (below(20) == 0) {
            beIdle();
        }
    }

    private void get(int key) {
        phase(Phase.LOOKING);
        long begin = System.nanoTime();
        Seen seen = look(key);
        if (below(4) == 0 && seen.fault() == 0) {
            seen = inPlace(key);
        }
        long end = System.nanoTime();
        linger(200);
        if (fault("stale", 50) && before[key] != null) {
            seen = before[key];
        }
        if (fault("blind", 50)) {
            seen = Seen.absent(key);
        }
        if (seen.version() != 0 && before[key] == null) {
            before[key] = seen;
        }
        note(seen, begin, end, How.GET);
        phase(Phase.WORKING);
    }

    private Seen inPlace(long key) {
        try {
            Seen found = text ? table.read(name(key), value -> whatOf(key, copy(value), 0))
                : table.read(key, value -> whatOf(key, copy(value), 0));
            return found == null ? Seen.absent(key) : found;
        } catch (BusyException e) {
            return Seen.busy(key);
        }
    }

    private static byte[] copy(PayloadBuffer value) {
        byte[] bytes = new byte[value.capacity()];
        value.getBytes(0, bytes);
        return bytes;
    }

    private void walk() {
        enter(Phase.WALKING, 2);
        long begin = System.nanoTime();
        try {
            walkOf(table, How.WALK, begin, 0, table.version(), 0);
        } catch (BusyException e) {
            nap(1000); // a key that is changed all the time
        }
        phase(Phase.WORKING);
    }

    private void sleep() {
        boolean any = below(3) == 0;
        int key = any ? -1 : below(KEYS);
        Seen seen = any ? Seen.absent(-1) : look(key);
        if (seen.fault() != 0) {
            return;
        }
        long version = any ? table.version() : seen.version();
        Duration timeout = Duration.ofMillis(below(2) == 0 ? 20 : 400);
        phase(Phase.SLEEPING);
        long begin = System.nanoTime();
        long result = -1;
        try {
            if (any) {
                result = table.waitChanged(version, timeout);
            } else {
                result = text ? table.waitChanged(name(key), version, timeout)
                    : table.waitChanged((long) key, version, timeout);
            }
        } catch (TimedOutException | BusyException e) {
            result = -1;
        }
        if (fault("deaf", 1)) {
            nap(600_000_000);
        }
        log(Entry.SLEPT, key, version, result, begin, System.nanoTime());
        phase(Phase.WORKING);
    }
}
