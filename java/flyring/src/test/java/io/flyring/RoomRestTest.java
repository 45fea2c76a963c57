// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** How long a queue's producer rests (queue.md 4). */
class RoomRestTest {
    private final RoomRest rest = new RoomRest();
    private long now = 5_000_000_000L;
    private long end;

    private long begins(long later, long bytes) {
        now += later;
        end += bytes;
        return rest.begin(now, end, 65536);
    }

    @Test
    void isAQuarterOfTheTimeInWhichTheWorkersEmptyTheRing() {
        assertEquals(0, begins(0, 65536)); // the first wait
        assertEquals(0, begins(50_000, 640)); // too soon to measure
        assertEquals(1_000_000, begins(150_000, 640)); // 10 ms for the ring: the longest rest
        assertEquals(500_000, begins(1_000_000, 32768)); // 2 ms for the ring
        assertEquals(500_000, begins(50_000, 65536)); // too soon to measure: as before
        assertEquals(0, begins(1_000_000, 32768)); // 0.7 ms for the ring: workers would empty it
        assertEquals(0, begins(10_000_001, 640)); // too long ago
        assertEquals(0, begins(10_000_000, 0)); // nothing was published
        assertEquals(1_000_000, begins(10_000_000, 640));
    }
}
