// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * How long a queue's producer rests before it looks for room (queue.md 4). Without a rest, each finished job wakes the
 * producer while jobs take long. It publishes one message, finds no room, and waits again.
 */
final class RoomRest {
    private static final long SHORTEST_NANOS = 100_000;
    private static final long LONGEST_NANOS = 10_000_000;
    private static final long LEAST_NANOS = 200_000; // a timer may be late by half of it

    /** The time at the last measurement, and the end of what was published then. */
    private long since;
    private long from;
    private long rest;

    /**
     * A wait for room begins.
     *
     * @param end the end of what was published.
     * @param capacity bytes of the ring.
     * @return ns; 0: no rest.
     */
    long begin(long now, long end, long capacity) {
        final long time = now - since;
        if (time < SHORTEST_NANOS) { // too short to measure
            return rest;
        }
        final long bytes = end - from;
        since = now;
        from = end;
        rest = 0;
        if (time <= LONGEST_NANOS && bytes > 0) {
            // The ring was full at both times. So workers made room for as many bytes as were published.
            final long quarter = time * (capacity / 4) / bytes;
            rest = quarter < LEAST_NANOS ? 0 : Math.min(quarter, Waiting.SHORT_CAP_NANOS);
        }
        return rest;
    }
}
