// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.Entry;
import io.flyring.PayloadBuffer;
import io.flyring.Table;
import io.flyring.TableOptions;
import io.flyring.TableWriter;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** A Flyring table. Puts are those of a writer that holds the slot. */
class FlyringTable extends MapContender {
    final ByteBuffer value = ByteBuffer.allocateDirect(VALUE).order(ByteOrder.LITTLE_ENDIAN);
    /** Agrona's own buffers need a JVM flag. */
    final PayloadBuffer buffer = new PayloadBuffer();
    Table table;
    private final String path;
    private TableWriter writer;

    FlyringTable(Setup setup, Messages messages) {
        super(setup, messages);
        buffer.wrap(value);
        path = setup.path("map.table").toString();
        if (setup.client()) {
            table = Table.create(path,
                TableOptions.integer().capacity(setup.option("keys", 0)).valueBytes(VALUE));
            writer = table.writer("bench");
        }
    }

    @Override
    void fill(long key) {
        write(value, key, 0);
        writer.put(key, buffer, 0, VALUE);
    }

    @Override
    void ready() {
        if (!puts) {
            writer.close();
        }
    }

    @Override
    void join() {
        open();
        writer = table.writer("bench");
    }

    void open() {
        table = Table.open(path);
    }

    @Override
    boolean get(int at) {
        long key = sequence[at];
        if (table.get(key, buffer, 0) != VALUE) {
            return false;
        }
        check(value, key);
        return true;
    }

    @Override
    void put(int at, long write) {
        long key = sequence[at];
        write(value, key, write);
        writer.put(key, buffer, 0, VALUE);
    }

    @Override
    String library() {
        return "flyring";
    }

    @Override
    public void close() {
        if (table != null) {
            table.close();
        }
    }

    /** An entry for each place of the sequence. */
    static final class Entries extends FlyringTable {
        private Entry[] entries = {};

        Entries(Setup setup, Messages messages) {
            super(setup, messages);
        }

        @Override
        void ready() {
            super.ready();
            entries = new Entry[sequence.length];
            for (int i = 0; i < entries.length; i++) {
                entries[i] = table.entry(sequence[i]);
            }
        }

        @Override
        boolean get(int at) {
            if (entries[at].get(buffer, 0) != VALUE) {
                return false;
            }
            check(value, sequence[at]);
            return true;
        }
    }
}
