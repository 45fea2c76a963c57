// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.io.IOException;
import net.openhft.chronicle.map.ChronicleMap;
import net.openhft.chronicle.map.ChronicleMapBuilder;

/**
 * Chronicle Map in a file in shared memory, which several processes may use. A get takes a read lock in the file, and
 * copies the value into an array that is used again. Keys are boxed, values have one size, and a put returns nothing.
 */
final class ChronicleTable extends MapContender {
    private final byte[] value = new byte[VALUE];
    private ChronicleMap<Long, byte[]> map;

    ChronicleTable(Setup setup, Messages messages) throws IOException {
        super(setup, messages);
        System.setProperty("chronicle.analytics.disable", "true");
        System.setProperty("chronicle.disk.monitor.disable", "true");
        if (setup.client()) {
            map = open();
        }
    }

    private ChronicleMap<Long, byte[]> open() throws IOException {
        return ChronicleMapBuilder.of(Long.class, byte[].class)
            .name("map")
            .entries(setup.option("keys", 0))
            .constantValueSizeBySample(value)
            .putReturnsNull(true)
            .createPersistedTo(setup.path("map.chronicle").toFile());
    }

    @Override
    void fill(long key) {
        put(key, 0);
    }

    @Override
    void join() {
        try {
            map = open();
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }

    @Override
    boolean get(int at) {
        long key = sequence[at];
        byte[] found = map.getUsing(key, value);
        if (found == null) {
            return false;
        }
        check(found, key);
        return true;
    }

    @Override
    void put(int at, long write) {
        put(sequence[at], write);
    }

    private void put(long key, long write) {
        write(value, key, write);
        map.put(key, value);
    }

    @Override
    String library() {
        return "chronicle-map";
    }

    @Override
    public void close() {
        if (map != null) {
            map.close();
        }
    }
}
