// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.time.Duration;

/**
 * Watches a stretch of code that has an expected duration. Make it once, because the watchdog keeps each canary until
 * its own end; then run the stretch, in one thread at a time, and not nested:
 *
 * <pre>{@code
 * try (Canary stretch = canary.begin()) {
 *     ...
 * }
 * }</pre>
 *
 * <p>A stretch that takes longer is reported to the callback of the watchdog: with its stack while it runs, and again
 * when it has ended. It costs two reads of the clock, and allocates nothing. {@link #OFF} takes its place where nothing
 * is to be watched; from a {@code static final} field the compiler removes it.
 */
public sealed class Canary implements AutoCloseable {
    /** Does nothing. */
    public static final Canary OFF = new Off();

    private static final VarHandle START;
    private static final VarHandle TIMES;
    private static final VarHandle WORST;
    private static final VarHandle ROUND;

    static {
        try {
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            START = lookup.findVarHandle(Canary.class, "start", long.class);
            TIMES = lookup.findVarHandle(Canary.class, "times", long.class);
            WORST = lookup.findVarHandle(Canary.class, "worst", long.class);
            ROUND = lookup.findVarHandle(Canary.class, "round", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final String label;
    private final long expected;
    /** The thread of the stretch. */
    private Thread thread;
    /** When the stretch began, an odd number; 0: it does not run. */
    private long start;
    /** How many stretches were too long, ever. */
    private long times;
    /** The longest stretch of the round {@link #of}. */
    private long worst;
    private long of;
    /** Grows each time the watchdog has reported the ended stretches. */
    private long round;

    /**
     * Makes a canary.
     *
     * @param watchdog the watchdog that reports the stretches.
     * @param label what the stretch is, for people.
     * @param expected the longest duration that is expected.
     * @throws InvalidArgumentException if {@code expected} is not above 0.
     * @throws ClosedException if the watchdog is closed.
     */
    public Canary(Watchdog watchdog, String label, Duration expected) {
        if (expected.isNegative() || expected.isZero()) {
            throw new InvalidArgumentException("expected", expected + " must be above 0.");
        }
        this.label = label;
        this.expected = expected.toNanos();
        watchdog.add(this);
    }

    private Canary() {
        this.label = "off";
        this.expected = Long.MAX_VALUE;
    }

    /**
     * Begins the stretch.
     *
     * @return this object, whose {@link #close()} ends the stretch.
     */
    public Canary begin() {
        thread = Thread.currentThread();
        START.setRelease(this, System.nanoTime() | 1); // pairs with: start
        return this;
    }

    /** Ends the stretch. The canary can begin again. */
    public void end() {
        long took = System.nanoTime() - start;
        START.setOpaque(this, 0L);
        if (took > expected) {
            tooLong(took);
        }
    }

    private void tooLong(long took) {
        long now = (long) ROUND.getOpaque(this);
        if (of != now || took > worst) {
            WORST.setOpaque(this, took);
        }
        of = now;
        TIMES.setRelease(this, times + 1); // pairs with: times
    }

    /** Ends the stretch, as {@link #end()} does. */
    @Override
    public void close() {
        end();
    }

    /**
     * What the stretch is.
     *
     * @return the label.
     */
    public String label() {
        return label;
    }

    /**
     * The longest duration that is expected.
     *
     * @return the duration.
     */
    public Duration expected() {
        return Duration.ofNanos(expected);
    }

    long expectedNanos() {
        return expected;
    }

    long started() {
        return (long) START.getAcquire(this); // pairs with: begin
    }

    /** The thread of the stretch, after {@link #started()} was not 0. */
    Thread thread() {
        return thread;
    }

    long times() {
        return (long) TIMES.getAcquire(this); // pairs with: tooLong
    }

    /** The longest stretch since the last call. */
    long takeWorst() {
        long longest = (long) WORST.getOpaque(this);
        ROUND.setOpaque(this, round + 1);
        return longest;
    }

    private static final class Off extends Canary {
        @Override
        public Canary begin() {
            return this;
        }

        @Override
        public void end() {
            // nothing was begun
        }

        @Override
        public void close() {
            // nothing was begun
        }
    }
}
