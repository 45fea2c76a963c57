// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Flyring's own idle strategies. */
class WaitTest {
    private static final long STAND_BACK_NS = 2_000_000;

    /** The time in ns of the first idle call after a poll of {@code messages} messages. */
    private static long afterRunOf(BatchSpinIdleStrategy strategy, int messages) {
        strategy.idle(messages);
        long start = System.nanoTime();
        strategy.idle(0);
        return System.nanoTime() - start;
    }

    /** The shortest time of many tries, because a thread may lose its core. */
    private static long shortest(BatchSpinIdleStrategy strategy, int messages) {
        long shortest = Long.MAX_VALUE;
        for (int i = 0; i < 50; i++) {
            shortest = Math.min(shortest, afterRunOf(strategy, messages));
        }
        return shortest;
    }

    @Test
    void batchSpinStandsBackAsLongAsItIsToldAfterARunAndNotAfterAFewMessages() {
        BatchSpinIdleStrategy strategy = new BatchSpinIdleStrategy(STAND_BACK_NS);
        for (int i = 0; i < 3; i++) {
            assertTrue(afterRunOf(strategy, 4) >= STAND_BACK_NS);
        }
        assertTrue(shortest(strategy, 3) < STAND_BACK_NS / 2);
    }

    @Test
    void batchSpinStandsBackOncePerRun() {
        BatchSpinIdleStrategy strategy = new BatchSpinIdleStrategy(STAND_BACK_NS);
        long shortest = Long.MAX_VALUE;
        for (int i = 0; i < 20; i++) {
            assertTrue(afterRunOf(strategy, 256) >= STAND_BACK_NS);
            long start = System.nanoTime();
            strategy.idle(0);
            shortest = Math.min(shortest, System.nanoTime() - start);
        }
        assertTrue(shortest < STAND_BACK_NS / 2);
    }

    @Test
    void batchSpinForgetsARunWhenItIsReset() {
        BatchSpinIdleStrategy strategy = new BatchSpinIdleStrategy(STAND_BACK_NS);
        long shortest = Long.MAX_VALUE;
        for (int i = 0; i < 50; i++) {
            strategy.idle(256);
            strategy.reset();
            long start = System.nanoTime();
            strategy.idle(0);
            shortest = Math.min(shortest, System.nanoTime() - start);
        }
        assertTrue(shortest < STAND_BACK_NS / 2);
    }

    @Test
    void batchSpinStandsBackForFiveMicrosecondsUnlessItIsTold() {
        BatchSpinIdleStrategy strategy = new BatchSpinIdleStrategy();
        long shortest = shortest(strategy, 256);
        assertTrue(shortest >= 5_000 && shortest < 1_000_000, () -> shortest + " ns");
    }

    @ParameterizedTest
    @ValueSource(longs = {0, -1, Long.MIN_VALUE})
    void batchSpinTakesATimeAboveZeroOnly(long time) {
        InvalidArgumentException refused =
            assertThrows(InvalidArgumentException.class, () -> new BatchSpinIdleStrategy(time));
        assertEquals("stand_back", refused.argument());
    }
}
