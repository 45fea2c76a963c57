// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.InvalidArgumentException;
import io.flyring.NoFreeSlotException;
import io.flyring.NoSpaceException;
import io.flyring.PayloadBuffer;
import io.flyring.TableWriter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.Map;
import java.util.function.LongSupplier;

/** Changes a table in the SIGKILL torture (interop-tests/torture/WORKER.md). */
final class TorturePutter extends TortureTable {
    private long last; // the version of its last put

    TorturePutter(Map<String, String> orders) throws IOException {
        super(orders);
    }

    /** The changes; the order is that of side.py. */
    private enum Change {
        NONE, PUT, IF_ABSENT, COMPARE, REMOVE, CLEAR, GROW
    }

    @Override
    void session() {
        if (below(2) == 0) {
            hold();
        } else {
            Duration timeout = Duration.ofMillis(new int[] {0, 20, 2000}[below(3)]);
            for (int left = below(60); left > 0 && !stopped() && !full(); left--) {
                if (below(20) == 0) {
                    beIdle();
                }
                some(null, timeout);
            }
        }
        beIdle();
    }

    @Override
    void run() {
        leftCopy();
        while (!stopped() && !full()) {
            session();
        }
        table.close();
    }

    private void hold() {
        long asked = System.nanoTime();
        enter(Phase.SEATING, 2);
        TableWriter writer;
        try {
            writer = table.writer(orders.get("name"), Duration.ofMillis(below(200)));
        } catch (NoFreeSlotException e) {
            phase(Phase.WORKING);
            return;
        }
        linger(2);
        log(Entry.SEATED, 0, writer.epoch(), System.nanoTime(), asked);
        for (int left = below(300); left > 0 && !stopped() && !full(); left--) {
            if (below(20) == 0) {
                beIdle();
            }
            if (below(200) == 0) {
                copy(writer::snapshot, How.HELD_SNAPSHOT);
            } else {
                some(writer, null);
            }
        }
        long leaves = System.nanoTime();
        enter(Phase.LEAVING, 2);
        writer.close();
        linger(2);
        log(Entry.LEFT, 0, 0, 0, leaves);
        phase(Phase.WORKING);
    }

    /** A change, logged before and after it; its result is -1 if it was not made. */
    private void change(Change what, Phase phase, long key, long number, long expected, LongSupplier make) {
        log(Entry.BEGUN, what.ordinal(), key, number, expected, 0, System.nanoTime());
        enter(phase, what == Change.CLEAR || what == Change.GROW ? 2 : 200);
        long result = -1;
        if (what == Change.PUT && fault("lost")) {
            result = last + 2;
        } else {
            try {
                result = make.getAsLong();
            } catch (NoFreeSlotException | NoSpaceException e) {
                result = -1;
            } catch (InvalidArgumentException e) {
                if (what != Change.GROW) { // another process has made the table larger
                    throw e;
                }
            }
        }
        linger(200);
        log(Entry.CHANGED, result, System.nanoTime());
        if (what.compareTo(Change.COMPARE) <= 0 && result > 0) {
            last = result;
        }
        phase(Phase.WORKING);
    }

    private byte[] valueOf(long key) {
        byte[] value = new byte[VALUE + below(table.valueBytes() - VALUE + 1)];
        for (int i = VALUE; i < value.length; i++) {
            value[i] = (byte) (next + 7 * i);
        }
        ByteBuffer bytes = ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN);
        bytes.putInt(4, value.length).putLong(8, key).putLong(16, next);
        bytes.putInt(0, checksum(value));
        if (fault("torn")) {
            value[VALUE - 1] ^= 1;
        }
        return value;
    }

    /** One change, by a writer or, with null, by the table. */
    private void some(TableWriter writer, Duration timeout) {
        long key = below(KEYS);
        int dice = below(400);
        if (dice < 2) {
            change(Change.CLEAR, Phase.CLEARING, -1, 0, 0,
                () -> writer == null ? table.clear(timeout) : writer.clear());
        } else if (dice < 4 && !text) {
            change(Change.GROW, Phase.GROWING, -1, 0, 0, () -> {
                long capacity = table.capacity() + 1;
                if (writer == null) {
                    table.grow(capacity, timeout);
                } else {
                    writer.grow(capacity);
                }
                return 1;
            });
        } else if (dice < 120) {
            change(Change.REMOVE, Phase.REMOVING, key, 0, 0, () -> number(remove(writer, key, timeout)));
        } else {
            Seen seen = Seen.absent(key);
            if (dice < 200) {
                long begin = System.nanoTime();
                seen = look(key);
                note(seen, begin, System.nanoTime(), How.GET);
            }
            byte[] bytes = valueOf(key);
            PayloadBuffer value = new PayloadBuffer();
            value.wrap(bytes);
            long number = next++;
            long expected = seen.version();
            if (dice < 200 && seen.fault() == 0) {
                change(Change.COMPARE, Phase.COMPARING, key, number, expected,
                    () -> compareAndPut(writer, key, expected, value, timeout));
            } else if (dice < 240) {
                change(Change.IF_ABSENT, Phase.COMPARING, key, number, 0,
                    () -> putIfAbsent(writer, key, value, timeout));
            } else {
                change(Change.PUT, Phase.PUTTING, key, number, 0, () -> put(writer, key, value, timeout));
            }
        }
    }

    private long put(TableWriter writer, long key, PayloadBuffer value, Duration timeout) {
        int length = value.capacity();
        if (writer == null) {
            return text ? table.put(name(key), value, 0, length, timeout) : table.put(key, value, 0, length, timeout);
        }
        return text ? writer.put(name(key), value, 0, length) : writer.put(key, value, 0, length);
    }

    private long putIfAbsent(TableWriter writer, long key, PayloadBuffer value, Duration timeout) {
        int length = value.capacity();
        if (writer == null) {
            return text ? table.putIfAbsent(name(key), value, 0, length, timeout)
                : table.putIfAbsent(key, value, 0, length, timeout);
        }
        return text ? writer.putIfAbsent(name(key), value, 0, length) : writer.putIfAbsent(key, value, 0, length);
    }

    private long compareAndPut(TableWriter writer, long key, long version, PayloadBuffer value, Duration timeout) {
        int length = value.capacity();
        if (writer == null) {
            return text ? table.compareAndPut(name(key), version, value, 0, length, timeout)
                : table.compareAndPut(key, version, value, 0, length, timeout);
        }
        return text ? writer.compareAndPut(name(key), version, value, 0, length)
            : writer.compareAndPut(key, version, value, 0, length);
    }

    private boolean remove(TableWriter writer, long key, Duration timeout) {
        if (writer == null) {
            return text ? table.remove(name(key), timeout) : table.remove(key, timeout);
        }
        return text ? writer.remove(name(key)) : writer.remove(key);
    }
}
