// SPDX-License-Identifier: Apache-2.0
package io.flyring.bench;

/** The role {@code map}: side a gets or puts; side b writes beside it, or only keeps time. */
final class MapUser extends Role {
    private final MapContender map;
    private final boolean hits;
    private final int mask;
    private int at;
    private long writes;
    private long slices;

    MapUser(Setup setup, MapContender map) {
        super(setup, map);
        this.map = map;
        hits = setup.option("misses", 0) == 0;
        mask = map.sequence.length - 1;
        at = setup.client() ? 0 : map.sequence.length / 2; // not where the reader will soon be
    }

    @Override
    String slice(boolean timed) {
        if (!setup.client()) {
            return map.beside ? writeBeside() : serve();
        }
        long count = (count(Long.MAX_VALUE) + CHUNK - 1) / CHUNK * CHUNK;
        while (map.beside && map.page.get(MapContender.BEGUN) <= slices) {
            Thread.onSpinWait();
        }
        long start = System.nanoTime();
        for (long i = 0; i < count; i += CHUNK) {
            if (map.puts) {
                put();
            } else {
                get();
            }
        }
        map.finish();
        long ns = System.nanoTime() - start;
        map.page.set(MapContender.ENDED, ++slices);
        ran(count, ns);
        return "{\"kind\": \"mean\", \"count\": " + count + ", \"ns\": " + ns + "}";
    }

    private String serve() {
        slices++;
        while (map.serves() && map.page.get(MapContender.ENDED) < slices) {
            map.serve();
        }
        return null;
    }

    private void get() {
        for (int i = 0; i < CHUNK; i++) {
            int place = at++ & mask;
            if (map.get(place) != hits) {
                throw MapContender.wrong(map.sequence[place], hits ? "is not there" : "is there");
            }
        }
    }

    private void put() {
        for (int i = 0; i < CHUNK; i++) {
            map.put(at++ & mask, ++writes);
        }
    }

    private String writeBeside() {
        long start = System.nanoTime();
        long count = 0;
        slices++;
        do {
            put();
            count += CHUNK;
            if (count == CHUNK) {
                map.page.set(MapContender.BEGUN, slices);
            }
        } while (map.page.get(MapContender.ENDED) < slices);
        long ns = System.nanoTime() - start;
        return "{\"kind\": \"mean\", \"count\": " + count + ", \"ns\": " + ns + "}";
    }
}
