// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

import io.flyring.PayloadBuffer;
import io.flyring.Table;
import io.flyring.TableOptions;
import io.flyring.TableWriter;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;
import org.agrona.collections.Long2LongHashMap;

/**
 * What a cache of this size costs the garbage collector: bench/cache.py starts it with a log of the pauses, and puts
 * the two together. Each step fills the cache up to a number of entries, uses it for some seconds (three gets and a
 * put, and 1 KiB of garbage, as a program makes it), and collects everything once. Each line on standard output is a
 * step: entries, ms of the JVM's uptime at the start and end of the use, and how many operations were done.
 */
public final class CacheExperiment {
    private static final int VALUE = 48;
    private static final long MILLION = 1_000_000;
    private static final int GETS = 3;
    private static final int GARBAGE = 1024;
    private static final int CHUNK = 1000;

    /** Keeps the garbage from being optimised away. */
    private static volatile byte[] last;

    private CacheExperiment() {
    }

    private interface Cache extends AutoCloseable {
        void put(long key, byte[] value);

        boolean get(long key, byte[] to);

        @Override
        default void close() {
        }
    }

    /**
     * Runs all steps.
     *
     * @param words the kind (heap, direct, table), the table's path, the seconds of each step, and the steps: millions
     *     of entries, rising.
     */
    public static void main(String[] words) {
        long most = Math.max(1, Long.parseLong(words[words.length - 1])) * MILLION;
        try (Cache cache = cache(words[0], words[1], most)) {
            byte[] value = new byte[VALUE];
            long filled = 0;
            for (int i = 3; i < words.length; i++) {
                for (long to = Long.parseLong(words[i]) * MILLION; filled < to; filled++) {
                    cache.put(key(filled), value);
                }
                System.gc(); // what filling left behind belongs to no step
                long start = uptime();
                long done = use(cache, filled, value, Double.parseDouble(words[2]));
                System.out.println(filled + " " + start + " " + uptime() + " " + done);
                System.gc();
            }
        }
    }

    private static Cache cache(String kind, String path, long most) {
        return switch (kind) {
            case "heap" -> new Heap();
            case "direct" -> new Direct(most);
            case "table" -> new Shared(path, most);
            default -> throw new IllegalArgumentException("no cache is called " + kind);
        };
    }

    private static long use(Cache cache, long filled, byte[] value, double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        long random = 1;
        long done = 0;
        while (System.nanoTime() < end) {
            for (int i = 0; i < CHUNK; i++) {
                last = new byte[GARBAGE];
                for (int j = 0; j <= GETS && filled > 0; j++) {
                    random = random * 0x5851F42D4C957F2DL + 0x14057B7EF767814FL;
                    long key = key((random >>> 32) % filled);
                    if (j == GETS) {
                        cache.put(key, value);
                    } else if (!cache.get(key, value)) {
                        throw new IllegalStateException("key " + key + " is not there");
                    }
                }
            }
            done += filled == 0 ? 0 : CHUNK * (GETS + 1L);
        }
        return done;
    }

    private static long key(long rank) {
        return (rank + 1) * 0x9E3779B97F4A7C15L;
    }

    private static long uptime() {
        return ManagementFactory.getRuntimeMXBean().getUptime();
    }

    /** A HashMap of boxed keys and arrays. */
    private static final class Heap implements Cache {
        private final Map<Long, byte[]> map = new HashMap<>();

        @Override
        public void put(long key, byte[] value) {
            map.put(key, value.clone());
        }

        @Override
        public boolean get(long key, byte[] to) {
            byte[] found = map.get(key);
            if (found == null) {
                return false;
            }
            System.arraycopy(found, 0, to, 0, VALUE);
            return true;
        }
    }

    /** Values in direct buffers; where each lies is in a map of primitive longs on the heap (Agrona's). */
    private static final class Direct implements Cache {
        private static final long SLAB = 1L << 24; // values in each buffer

        private final Long2LongHashMap places = new Long2LongHashMap(-1);
        private final ByteBuffer[] slabs;
        private long next;

        Direct(long most) {
            slabs = new ByteBuffer[(int) ((most + SLAB - 1) / SLAB)];
            for (int i = 0; i < slabs.length; i++) {
                long values = Math.min(SLAB, most - i * SLAB);
                slabs[i] = ByteBuffer.allocateDirect((int) (values * VALUE)).order(ByteOrder.nativeOrder());
            }
        }

        @Override
        public void put(long key, byte[] value) {
            long place = places.get(key);
            if (place < 0) {
                place = next++;
                places.put(key, place);
            }
            slabs[(int) (place / SLAB)].put((int) (place % SLAB) * VALUE, value);
        }

        @Override
        public boolean get(long key, byte[] to) {
            long place = places.get(key);
            if (place < 0) {
                return false;
            }
            slabs[(int) (place / SLAB)].get((int) (place % SLAB) * VALUE, to);
            return true;
        }
    }

    /** A Flyring table, which other processes may read meanwhile. */
    private static final class Shared implements Cache {
        private final Table table;
        private final TableWriter writer;
        private final ByteBuffer bytes = ByteBuffer.allocateDirect(VALUE);
        private final PayloadBuffer buffer = new PayloadBuffer();

        Shared(String path, long most) {
            table = Table.create(path, TableOptions.integer().capacity(most).valueBytes(VALUE));
            writer = table.writer();
            buffer.wrap(bytes);
        }

        @Override
        public void put(long key, byte[] value) {
            bytes.put(0, value);
            writer.put(key, buffer, 0, VALUE);
        }

        @Override
        public boolean get(long key, byte[] to) {
            boolean there = table.get(key, buffer, 0) == VALUE;
            bytes.get(0, to);
            return there;
        }

        @Override
        public void close() {
            writer.close();
            table.close();
        }
    }
}
