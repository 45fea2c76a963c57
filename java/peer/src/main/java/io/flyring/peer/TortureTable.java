// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import io.flyring.BusyException;
import io.flyring.KeyType;
import io.flyring.OpenOptions;
import io.flyring.Table;
import io.flyring.TableOptions;
import io.flyring.Versioned;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.ToLongFunction;

/** What the workers of tables share in the SIGKILL torture (interop-tests/torture/WORKER.md). */
abstract class TortureTable extends TortureWorker {
    static final int KEYS = 20;
    /** Bytes before a value's filling: checksum of what follows, length, key, number. */
    static final int VALUE = 24;

    final Table table;
    final boolean text;
    /** The number of the next value. */
    long next;

    TortureTable(Map<String, String> orders) throws IOException {
        super(orders);
        table = Table.open(orders.get("channel"));
        text = table.keyType() == KeyType.TEXT;
        next = Long.parseLong(orders.get("seed")) << 24;
    }

    /** How a value was read. */
    enum How {
        NONE, GET, WALK, SNAPSHOT, HELD_SNAPSHOT, LEFT_SNAPSHOT
    }

    /**
     * What was read.
     *
     * @param key the key.
     * @param number of the value; -1: absent.
     * @param version 0: not known.
     * @param fault 1: torn, 2: busy.
     */
    record Seen(long key, long number, long version, long fault) {
        static Seen absent(long key) {
            return new Seen(key, -1, 0, 0);
        }

        static Seen busy(long key) {
            return new Seen(key, 0, 0, 2);
        }
    }

    static void create(Map<String, String> orders) {
        TableOptions options = orders.get("key").equals("text") ? TableOptions.text() : TableOptions.integer();
        options.capacity(Long.parseLong(orders.get("capacity")))
            .valueBytes(Integer.parseInt(orders.get("value_bytes"))).checked(orders.get("checked").equals("1"));
        Table.create(orders.get("channel"), options).close();
    }

    static String name(long key) {
        return "key " + key;
    }

    /** What a value says. */
    static Seen whatOf(long key, byte[] value, long version) {
        if (value.length < VALUE) {
            return new Seen(key, 0, version, 1);
        }
        ByteBuffer bytes = ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN);
        boolean right = bytes.getInt(0) == checksum(value) && bytes.getInt(4) == value.length
            && bytes.getLong(8) == key;
        return new Seen(key, bytes.getLong(16), version, number(!right));
    }

    final Seen look(long key) {
        try {
            Versioned found = versioned(table, key);
            return found == null ? Seen.absent(key) : whatOf(key, found.value(), found.version());
        } catch (BusyException e) {
            return Seen.busy(key);
        }
    }

    final Versioned versioned(Table from, long key) {
        return text ? from.getVersioned(name(key)) : from.getVersioned(key);
    }

    final void note(Seen seen, long begin, long end, How how) {
        log(Entry.SAW, seen.key, seen.number, seen.version, seen.fault, begin, end, how.ordinal());
    }

    /** Logs all keys of a table by iteration, and those that it has not met. */
    final void walkOf(Table from, How how, long begin, long ended, long stamp, long size) {
        List<Seen> found = new ArrayList<>();
        Set<Long> met = new HashSet<>();
        from.forEach(item -> {
            long key = text ? Long.parseLong(item.textKey().substring(4)) : item.integerKey();
            byte[] value = new byte[item.value().capacity()];
            item.value().getBytes(0, value);
            found.add(whatOf(key, value, item.version()));
            met.add(key);
        });
        long end = ended == 0 ? System.nanoTime() : ended;
        for (long key = 0; key < KEYS; key++) {
            if (!met.contains(key)) {
                found.add(Seen.absent(key));
            }
        }
        found.forEach(seen -> note(seen, begin, end, how));
        log(Entry.WALKED, how.ordinal(), found.size(), begin, end, stamp, size);
    }

    private String copyPath() {
        return orders.get("channel") + "." + orders.get("name") + ".table";
    }

    /** Makes a copy and opens it. */
    final void copy(ToLongFunction<String> make, How how) {
        enter(Phase.COPYING, 2);
        long begin = System.nanoTime();
        long size = make.applyAsLong(copyPath());
        long end = System.nanoTime();
        linger(2);
        try (Table copied = Table.open(copyPath(), new OpenOptions().readOnly(below(2) == 0))) {
            walkOf(copied, how, begin, end, copied.version(), size);
        }
        phase(Phase.WORKING);
    }

    /** Looks at the copy that a process of this name has left, which may have been killed in the next one. */
    final void leftCopy() {
        if (Files.exists(Path.of(copyPath()))) {
            try (Table copied = Table.open(copyPath())) {
                walkOf(copied, How.LEFT_SNAPSHOT, 0, System.nanoTime(), copied.version(), 0);
            }
        }
    }

    final void beIdle() {
        phase(Phase.IDLE);
        nap(below(4_000_000));
    }
}
