// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;

/**
 * When what is appended to a journal is made durable. Spec journal.md 5.
 *
 * @param nanos 0 never, -1 each append, else the interval in ns.
 */
public record JournalSync(long nanos) {
    /** The helper, or a push, syncs each segment that the writer has left. A loss of power may take what came since. */
    public static final JournalSync NEVER = new JournalSync(Layout.JOURNAL_SYNC_NEVER);

    /** Each append, and each batch, is durable when it returns. */
    public static final JournalSync EACH = new JournalSync(Layout.JOURNAL_SYNC_EACH);

    private static final long SHORTEST = 1_000_000;
    private static final long LONGEST = 3_600_000_000_000L;

    /**
     * Checks the number.
     *
     * @param nanos 0 never, -1 each append, else 1 ms to 1 h in ns.
     * @throws InvalidArgumentException for any other number.
     */
    public JournalSync {
        if (nanos != Layout.JOURNAL_SYNC_NEVER && nanos != Layout.JOURNAL_SYNC_EACH
            && (nanos < SHORTEST || nanos > LONGEST)) {
            throw new InvalidArgumentException("sync", "The option sync is " + nanos
                + " ns; it must be NEVER, EACH, or an interval of 1 ms to 1 h.");
        }
    }

    /**
     * The helper, or a push, syncs at an interval, while there are appends. A writer that stops appending calls
     * {@link JournalWriter#sync} itself.
     *
     * @param interval 1 ms to 1 h.
     * @return the policy.
     */
    public static JournalSync every(Duration interval) {
        return new JournalSync(interval.compareTo(Duration.ofHours(1)) > 0 ? Long.MAX_VALUE
            : Math.max(1, interval.toNanos()));
    }

    @Override
    public String toString() {
        return text(nanos);
    }

    static String text(long nanos) {
        return nanos == Layout.JOURNAL_SYNC_NEVER ? "never"
            : nanos == Layout.JOURNAL_SYNC_EACH ? "each" : nanos + " ns";
    }
}
