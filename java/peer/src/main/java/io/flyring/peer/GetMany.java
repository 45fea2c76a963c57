// SPDX-License-Identifier: Apache-2.0
package io.flyring.peer;

import com.google.gson.JsonObject;
import io.flyring.BusyException;
import io.flyring.Entry;
import io.flyring.KeyType;
import io.flyring.PayloadBuffer;
import io.flyring.Table;
import io.flyring.TableItem;
import io.flyring.TimedOutException;
import io.flyring.Versioned;
import java.time.Duration;
import java.util.Set;
import org.agrona.DirectBuffer;

/** Runs one get_many operation: its checks and counts. */
final class GetMany {
    private static final String[] WAYS = {"get", "read", "entry"};
    private static final Set<String> HOW = Set.of("get", "read", "entry", "each", "wait", "mix");

    private final Changer of;
    private final Table table;
    private final Stream stream;
    private final Object[] keys;
    private final String how;
    private final long until;
    private final boolean mayBeRemoved;
    private final long end;
    private final Entry[] entries;
    /** The version and the number of the put of each key, as of the last read that told them. */
    private final long[] versions;
    private final long[] numbers;
    /** Whether the last read found the key. */
    private final boolean[] there;
    private final PayloadBuffer buffer;
    private final PayloadBuffer looked = new PayloadBuffer();
    private JsonObject answer;
    private long reads;
    private long changes;
    private long absent;
    private long busy;

    GetMany(Changer of, Request request) {
        this.of = of;
        this.table = of.table;
        this.stream = new Stream(request.number("seed"), request.number("min"), request.number("max"), 0, true);
        this.keys = PutMany.keys(of, request);
        this.how = request.text("how", "get");
        this.until = request.number("until", -1);
        this.mayBeRemoved = request.flag("removes");
        this.end = System.nanoTime() + (long) (request.seconds() * Request.NANOS);
        this.entries = new Entry[keys.length];
        this.versions = new long[keys.length];
        this.numbers = new long[keys.length];
        this.there = new boolean[keys.length];
        this.buffer = Changer.buffer(new byte[table.valueBytes()]);
        if (!HOW.contains(how)) {
            throw new Request.Bad("how: " + how);
        }
    }

    void run(JsonObject to) {
        answer = to;
        long version = -1;
        for (long turn = 0; ; turn++) {
            if (how.equals("wait") && turn > 0 && (until < 0 || version < until)) {
                await(version);
            }
            version = table.version();
            round(turn);
            boolean over = System.nanoTime() - end >= 0;
            if (until < 0 ? over : version >= until) {
                break;
            }
            if (over) {
                throw new Request.Bad("timeout", "The table's version is " + version + ", not " + until + ".");
            }
        }
        answer.addProperty("reads", reads);
        answer.addProperty("changes", changes);
        answer.addProperty("absent", absent);
        answer.addProperty("busy", busy);
        answer.addProperty("version", version);
    }

    private void await(long version) {
        try {
            table.waitChanged(version, Duration.ofNanos(Math.max(0, end - System.nanoTime())));
        } catch (TimedOutException e) {
            return; // the caller looks at the end of the time
        }
    }

    private void round(long turn) {
        for (int k = 0; k < keys.length && !how.equals("each"); k++) {
            reads++;
            try {
                read(k, how.equals("mix") ? WAYS[(int) ((turn + k) % WAYS.length)] : how);
            } catch (BusyException e) {
                busy++;
            }
        }
        if (how.equals("each") || how.equals("mix") && turn % WAYS.length == WAYS.length - 1) {
            each();
        }
    }

    private void read(int k, String way) {
        switch (way) {
            case "read" -> inPlace(k, of.read(keys[k]));
            case "entry" -> byEntry(k);
            default -> {
                Versioned found = of.get(keys[k]);
                check(k, found == null ? null : found.value(), found == null ? 0 : found.version());
            }
        }
    }

    private void each() {
        boolean[] met = new boolean[keys.length];
        try {
            table.forEach(item -> {
                reads++;
                byte[] value = Changer.COPY.onValue(item.value());
                int k = (int) Long.remainderUnsigned(value.length < Long.BYTES ? 0 : number(value), keys.length);
                if (!isKey(item, k)) {
                    throw mismatch(k, "its value lies under another key, " + Request.hex(item.key()));
                }
                if (met[k] && !mayBeRemoved) {
                    throw mismatch(k, "an iteration met it twice");
                }
                met[k] = true;
                check(k, value, item.version());
            });
        } catch (BusyException e) {
            busy++;
            return;
        }
        for (int k = 0; k < keys.length; k++) {
            if (there[k] && !met[k] && !mayBeRemoved) {
                throw mismatch(k, "an iteration did not meet it");
            }
        }
    }

    private boolean isKey(TableItem item, int k) {
        if (table.keyType() == KeyType.INTEGER) {
            return item.integerKey() == k;
        } else if (table.keyType() == KeyType.TEXT) {
            return item.textKey().equals(keys[k]);
        }
        return Changer.buffer(item.key()).compareTo((DirectBuffer) keys[k]) == 0;
    }

    private void inPlace(int k, byte[] value) {
        if (value == null) {
            none(k);
        } else {
            whole(k, value);
            there[k] = true;
        }
    }

    private void byEntry(int k) {
        if (entries[k] == null) {
            entries[k] = of.entry(keys[k]);
            if (entries[k] == null) {
                none(k);
                return;
            }
        }
        long version = entries[k].version();
        int length = entries[k].get(buffer, 0);
        byte[] value = new byte[Math.max(0, length)];
        buffer.getBytes(0, value);
        // They are of two reads: the version is that of the value only if it is still the same, and is not 0 (absent).
        if (length < 0) {
            none(k);
        } else if (version != 0 && entries[k].version() == version) {
            check(k, value, version);
        } else {
            inPlace(k, value);
        }
    }

    private void none(int k) {
        absent++;
        if (there[k] && !mayBeRemoved) {
            throw mismatch(k, "it was there, and is absent");
        }
        there[k] = false;
    }

    private long number(byte[] value) {
        looked.wrap(value);
        return looked.getLong(0);
    }

    /** The number of the put that the value is of. */
    private long whole(int k, byte[] value) {
        if (value.length < Long.BYTES) {
            throw mismatch(k, value.length + " bytes");
        }
        long number = number(value);
        if (Long.remainderUnsigned(number, keys.length) != k) {
            throw mismatch(k, "a value of put " + number);
        }
        stream.at(number);
        String wrong = stream.check(looked, value.length, stream.type());
        if (wrong != null) {
            throw mismatch(k, "not whole: put " + number + ": " + wrong);
        }
        return number;
    }

    private void check(int k, byte[] value, long version) {
        if (value == null) {
            none(k);
            return;
        }
        long number = whole(k, value);
        if (version < versions[k]) {
            throw mismatch(k, "version " + version + " behind " + versions[k]);
        }
        if (version == versions[k] && number != numbers[k]) {
            throw mismatch(k, "version " + version + " with the values of two puts");
        }
        changes += version != versions[k] ? 1 : 0;
        versions[k] = version;
        numbers[k] = number;
        there[k] = true;
    }

    private Request.Bad mismatch(int k, String what) {
        return PutMany.mismatch(answer, k, what);
    }
}
