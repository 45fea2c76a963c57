// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Locale;

/**
 * What a {@link Watchdog} has found.
 *
 * @param kind what is late.
 * @param label the name of the heartbeat or the label of the canary.
 * @param pid process id, in the pid namespace of the thread.
 * @param interval what was promised or expected, in ns.
 * @param late by how much it is longer, in ns.
 * @param times how often it happened since it was last reported; then {@code late} is the largest.
 * @param running whether the thread or the stretch is still late.
 * @param stack the stack of the thread; empty if it is not known.
 */
public record Missed(Kind kind, String label, int pid, long interval, long late, long times, boolean running,
                     String stack) {
    private static final double NANOS_PER_MILLI = 1e6;
    private static final double NANOS_PER_SECOND = 1e9;

    /** What is late. */
    public enum Kind {
        /** A thread does not beat. */
        HEARTBEAT,
        /** A stretch of code takes longer than expected. */
        CANARY,
        /** The watchdog itself slept too long. */
        WATCHDOG
    }

    /** One line, and the stack if there is one. */
    @Override
    public String toString() {
        String shown = label.replaceAll("\\p{Cntrl}", " "); // other processes write it
        String total = duration(interval + late);
        String line = "flyring: " + shown + " of process " + pid + switch (kind) {
            case HEARTBEAT -> " has not beaten for " + total + "; it promises a beat every " + duration(interval);
            case CANARY -> (running ? " has run for " : " took ") + total + "; expected " + duration(interval);
            case WATCHDOG -> " slept " + duration(late) + " too long; that time counts against no thread";
        };
        if (times > 1) {
            line += " (the worst of " + times + ")";
        }
        return stack.isEmpty() ? line : line + "\n" + stack;
    }

    private static String duration(long nanos) {
        return nanos >= NANOS_PER_SECOND ? String.format(Locale.ROOT, "%.3f s", nanos / NANOS_PER_SECOND)
            : String.format(Locale.ROOT, "%.3f ms", nanos / NANOS_PER_MILLI);
    }
}
