// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import java.util.HashMap;
import java.util.Map;

/** A HashMap of this process. Its keys are boxed at each call, as a program's are; a put stores a new array. */
final class HeapMap extends MapContender {
    private final Map<Long, byte[]> map = new HashMap<>();

    HeapMap(Setup setup, Messages messages) {
        super(setup, messages);
    }

    @Override
    void fill(long key) {
        put(key, 0);
    }

    @Override
    boolean get(int at) {
        long key = sequence[at];
        byte[] value = map.get(key);
        if (value == null) {
            return false;
        }
        check(value, key);
        return true;
    }

    @Override
    void put(int at, long write) {
        put(sequence[at], write);
    }

    private void put(long key, long write) {
        byte[] value = new byte[VALUE];
        write(value, key, write);
        map.put(key, value);
    }

    @Override
    String library() {
        return "java.util.HashMap";
    }
}
