// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Arrays;

/** Removes the oldest segments of a journal (journal.md 8). */
final class JournalTrim {
    private final JournalFile file;
    private final long segmentBytes;

    JournalTrim(JournalFile file) {
        this.file = file;
        this.segmentBytes = Layout.HEADER_LENGTH + file.segmentSize;
    }

    /**
     * Removes what the options say (8). Returns the bytes that became free.
     *
     * @param age whether {@code max_age} counts, too: for that it reads the folder.
     */
    long byOptions(boolean age) {
        final long oldest = file.limit(Layout.JOURNAL_CONTROL_MAX_AGE);
        final long most = file.limit(Layout.JOURNAL_CONTROL_MAX_SIZE);
        long freed = 0;
        if (age && oldest > 0) {
            freed += before(file.identity.now() - oldest, false);
        }
        if (most > 0 && file.ready() - file.trimmed() > most) {
            freed += size(most, false);
        }
        return file.trimsConsumed() ? freed + consumed() : freed;
    }

    /** Removes what all consumers have consumed; nothing without a consumer. Returns the bytes that became free. */
    long consumed() {
        for (int slot = 0; slot < file.header.consumers; slot++) {
            if (new JournalGate(file, slot).isKept()) {
                return trim(Layout.MAX_POSITION, true);
            }
        }
        return 0;
    }

    /** Removes segments whose messages are all older than a time. */
    long before(long time, boolean gates) {
        final JournalRecord first = new JournalRecord();
        long limit = 0;
        final long[] all = there();
        for (int i = 0; i < all.length; i++) { // a first check has the largest time of all messages before it
            if (i > 0 && !isOlder(all[i], time, first, all.length)) {
                break;
            }
            limit = all[i];
        }
        return trim(limit, gates);
    }

    /** Whether all messages before a segment are older than a time. No message of a segment comes after its cut. */
    private boolean isOlder(long base, long time, JournalRecord first, int most) {
        long at = base;
        for (int i = 0; i < most; i++) {
            if (!JournalSegment.readFirst(file, at, first)) {
                return false;
            }
            if (first.isCheck(at)) {
                return first.time() < time;
            }
            if (!first.isCut(at, file.segmentSize)) {
                return false;
            }
            at = first.next();
        }
        return false;
    }

    /** Removes segments until at most so many bytes of them are left. */
    long size(long bytes, boolean gates) {
        final long[] there = there();
        int left = there.length;
        long limit = 0;
        for (int i = 1; i < there.length && left * file.segmentSize > bytes; i++) { // the last one stays
            left--;
            limit = there[i];
        }
        return trim(limit, gates);
    }

    private long[] there() {
        final long trimmed = file.trimmed();
        return Arrays.stream(file.segments()).filter(base -> base >= trimmed).toArray();
    }

    /**
     * Removes all segments below that of a position.
     *
     * @param gates whether consumers hold it back.
     * @return the bytes that became free.
     */
    long trim(long limit, boolean gates) {
        if (lowest(limit, gates) <= file.trimmed()) { // trim 1
            final long[] all = file.segments();
            if (all.length == 0 || all[0] >= file.trimmed()) {
                return 0;
            }
            file.syncControl(); // trim 5, which a killed process has not done
            return unlinkBelow(file.trimmed());
        }
        file.syncControl(); // trim 2: before the store, else a power loss brings back an older gate
        final long x;
        try (JournalSeat seat = new JournalSeat(file)) {
            seat.lockControl(); // trim 3: a consumer may have joined meanwhile
            x = lowest(limit, gates);
            if (x <= file.trimmed()) {
                return 0;
            }
            file.wordRelease(Layout.JOURNAL_CONTROL_TRIMMED, x); // trim 4; pairs with: read
        }
        file.syncControl(); // trim 5: before anything is unlinked
        return unlinkBelow(x);
    }

    private long unlinkBelow(long x) {
        long freed = 0;
        for (long base : file.segments()) {
            if (base < x) {
                file.unlinkSegment(base);
                freed += segmentBytes;
            }
        }
        return freed;
    }

    /** The highest segment that is there, at or below the limit, what is synced, and the gates. */
    private long lowest(long limit, boolean gates) {
        long x = Math.min(limit, file.synced());
        for (int slot = 0; gates && slot < file.header.consumers; slot++) {
            final JournalGate gate = new JournalGate(file, slot);
            if (gate.isKept()) {
                final long position = gate.position();
                // a gate may lie after a record that is committed and not yet published
                final long most = Math.max(file.published(), file.word(Layout.JOURNAL_CONTROL_CLAIMED));
                x = Math.min(x, JournalFile.isPosition(position) && position <= most ? position : 0);
            }
        }
        final long base = file.segmentOf(Math.max(0, x));
        return base <= file.trimmed() ? 0 : file.wholeAtOrBelow(base);
    }
}
