// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Goes on where the last writer of this boot ended, also where it was killed (journal.md 3.4). */
final class JournalResume {
    private final JournalFile file;
    private final long segmentSize;

    JournalResume(JournalFile file) {
        this.file = file;
        this.segmentSize = file.segmentSize;
    }

    /** Finds the end, and makes an appender go on there. Its owner holds the slot's lock. */
    void resume(JournalAppender appender) {
        final long p = file.published();
        final long q = file.word(Layout.JOURNAL_CONTROL_CLAIMED);
        final long x = file.checked();
        checkWords(p, q, x); // resume 1
        final long base = file.segmentOf(p);
        JournalSegment segment = p == base && p == q ? null : JournalSegment.open(file, base, false);
        boolean done = false;
        try {
            long r = p;
            if (segment == null && (p != base || p < q)) {
                throw file.corrupt(p, "the segment that the writer was writing is missing");
            }
            if (p < q) {
                final Memory memory = segment.map();
                r = committed(memory, base, p, q); // resume 2
                memory.fill((int) (r - base), (int) (q - r), (byte) 0); // resume 3
                file.wordRelease(Layout.JOURNAL_CONTROL_PUBLISHED, r); // pairs with: read
                file.wordRelease(Layout.JOURNAL_CONTROL_CLAIMED, r);
            }
            appender.startAt(segment, walk(x, r)); // resume 4
            done = true;
        } finally {
            if (!done && segment != null) {
                segment.close();
            }
        }
    }

    private void checkWords(long p, long q, long x) {
        final long base = file.segmentOf(p);
        if (!JournalFile.isPosition(p)) {
            throw file.corrupt(p, "published is no position");
        }
        if (!JournalFile.isPosition(q) || q < p || q > base + segmentSize || q - p > segmentSize
            / Layout.MAX_MESSAGE_DIVISOR + Layout.JOURNAL_ANNOUNCE_AHEAD + JournalRecord.CHECK) {
            throw file.corrupt(p, "claimed is " + q + ", which does not follow from published");
        }
        if (!JournalFile.isPosition(x) || x > p) {
            throw file.corrupt(p, "checked is " + x + ", which does not follow from published");
        }
    }

    /** The end of the last record that was committed. */
    private long committed(Memory memory, long base, long p, long q) {
        long r = p;
        while (r < q) {
            final int at = (int) (r - base);
            final int length = memory.getIntAcquire(at); // pairs with: append 5
            if (length == 0) {
                break;
            }
            final int type = memory.getInt(at + Layout.RECORD_TYPE);
            if (!JournalRecord.isSound(length, type, at, segmentSize) || r + JournalRecord.size(length) > q) {
                throw file.corrupt(r, "a record of type " + type + " and " + length + " bytes");
            }
            r += JournalRecord.size(length);
        }
        return r;
    }

    /** Walks from the last check to the end. Stores each check that the killed writer had not stored. */
    private JournalTail walk(long x, long r) {
        try (JournalBytes bytes = new JournalBytes(file)) {
            final JournalRecord check = new JournalRecord();
            int at = bytes.load(x, x, JournalRecord.CHECK, r);
            if (at < 0 || !check.read(bytes.memory(), at).isCheck(x)) {
                throw file.corrupt(x, "checked leads to no check");
            }
            long count = check.count();
            long time = check.time();
            long p = x + JournalRecord.CHECK;
            long spanStart = p;
            while (p < r) {
                at = bytes.load(p, p, JournalRecord.CHECK, r);
                final int length = at < 0 ? 0 : bytes.memory().getInt(at);
                final int type = at < 0 ? 0 : bytes.memory().getInt(at + Layout.RECORD_TYPE);
                if (length == 0 || !JournalRecord.isSound(length, type, p & segmentSize - 1, segmentSize)
                    || p + JournalRecord.size(length) > r || type == Layout.JOURNAL_TYPE_CUT) {
                    throw file.corrupt(p, "a record of type " + type + " and " + length + " bytes");
                }
                if (type == Layout.JOURNAL_TYPE_CHECK) {
                    file.wordRelease(Layout.JOURNAL_CONTROL_CHECKED, p); // pairs with: sync 2
                    spanStart = p + JournalRecord.CHECK;
                } else if (type > 0) {
                    count++;
                    time = Math.max(time, bytes.memory().getLong(at + Layout.JOURNAL_RECORD_TIME));
                }
                p += JournalRecord.size(length);
            }
            file.word(Layout.JOURNAL_CONTROL_MESSAGES, count);
            return new JournalTail(r, count, time, spanStart);
        }
    }
}
