// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Where a reader of a journal begins. Immutable. Spec journal.md 3.3, "Where to begin". */
public final class JournalStart {
    /** At the oldest message that is there. */
    public static final JournalStart OLDEST = new JournalStart(What.OLDEST, 0);

    /** Behind the newest message: only what is appended from now on. */
    public static final JournalStart NEWEST = new JournalStart(What.NEWEST, 0);

    final What what;
    final long value;

    /** What a start is given by. */
    enum What {
        OLDEST, NEWEST, POSITION, NUMBER, TIME
    }

    private JournalStart(What what, long value) {
        this.what = what;
        this.value = value;
    }

    /**
     * At a position that an append has returned, or that a message has.
     *
     * @param position bytes since the journal's creation: that of a message, of a reader, or of the end.
     * @return the start.
     */
    public static JournalStart position(long position) {
        return new JournalStart(What.POSITION, position);
    }

    /**
     * At the message with a number.
     *
     * @param number how many messages lie before it.
     * @return the start.
     */
    public static JournalStart number(long number) {
        return new JournalStart(What.NUMBER, number);
    }

    /**
     * At the first message that is not older than a time; if there is none, as {@link #NEWEST}.
     *
     * @param nanos ns since 1970.
     * @return the start.
     */
    public static JournalStart time(long nanos) {
        return new JournalStart(What.TIME, nanos);
    }

    static InvalidArgumentException invalid(String text) {
        return new InvalidArgumentException("start", text);
    }

    @Override
    public String toString() {
        return what.name().toLowerCase(java.util.Locale.ROOT)
            + (what == What.OLDEST || what == What.NEWEST ? "" : " " + value);
    }
}
