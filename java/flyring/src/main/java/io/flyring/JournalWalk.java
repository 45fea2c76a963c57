// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Walks a journal cold, span by span, and proves each span by its check (journal.md 3.2, 3.3, 7). */
final class JournalWalk implements AutoCloseable {
    /** What {@link #next} found behind a span's start. */
    enum Found {
        /** A right check: {@link #check} is its position, and {@link #record} its content. */
        RIGHT,
        /** A right cut at the span's start. */
        CUT,
        /** Nothing at {@link #stopped}, or the limit. */
        NOTHING,
        /** What lies at {@link #stopped} is no record, or the check is not right. */
        WRONG,
        /** The segment of {@link #stopped} is missing. */
        MISSING
    }

    final JournalBytes bytes;
    final JournalRecord record = new JournalRecord();
    private final JournalFile file;
    private final JournalCrc crc = new JournalCrc();
    private final long segmentSize;
    /** The most bytes of records before a check (10), without padding. */
    private final long longest;
    private long check;
    private long stopped;
    private long messages;

    JournalWalk(JournalFile file) {
        this.file = file;
        this.bytes = new JournalBytes(file);
        this.segmentSize = file.segmentSize;
        this.longest = Layout.JOURNAL_CHECK_EVERY + segmentSize / Layout.MAX_MESSAGE_DIVISOR;
    }

    /** The position of the check, after {@link Found#RIGHT}. */
    long check() {
        return check;
    }

    /** How far the records reached that were found. */
    long stopped() {
        return stopped;
    }

    /** How many messages the span has. */
    long messages() {
        return messages;
    }

    /**
     * Reads the span from {@code start}, the end of a check, or where a cut leads. After {@link Found#RIGHT} the span's
     * records lie in {@link #bytes}, up to the end of their segment.
     *
     * @param limit records from here on are not committed, or not to be believed.
     */
    Found next(long start, long limit) {
        check = start;
        messages = 0;
        stopped = start;
        crc.reset();
        long added = start;
        long p = start;
        while (p < limit) {
            if ((p & segmentSize - 1) == 0) { // a segment begins with a check or a cut
                addSpan(added, p);
                return first(start, p);
            }
            final int at = bytes.load(start, p, JournalRecord.CHECK, limit);
            if (at < 0) {
                return at == JournalBytes.MISSING ? Found.MISSING : Found.WRONG;
            }
            final int length = bytes.memory().getInt(at);
            final int type = bytes.memory().getInt(at + Layout.RECORD_TYPE);
            if (length == 0) {
                return Found.NOTHING;
            }
            final long size = JournalRecord.size(length);
            if (!JournalRecord.isSound(length, type, p & segmentSize - 1, segmentSize) || p + size > limit) {
                return Found.WRONG;
            }
            if (type == Layout.JOURNAL_TYPE_CHECK) {
                addSpan(added, p);
                return checkAt(p, at);
            }
            if (type == Layout.JOURNAL_TYPE_CUT) {
                record.read(bytes.memory(), at);
                check = p;
                return p == start && record.isCut(p, segmentSize) ? Found.CUT : Found.WRONG;
            }
            if (type == Layout.TYPE_PADDING) {
                addSpan(added, p);
                crc.add(bytes.memory(), (int) (p - bytes.from()), Layout.RECORD_HEADER_LENGTH);
                added = p + size;
            } else {
                if (p + size - start > longest + segmentSize / 2 || bytes.load(start, p, (int) size, limit) < 0) {
                    return Found.WRONG;
                }
                messages++;
            }
            p += size;
            stopped = p;
        }
        return Found.NOTHING;
    }

    /** Adds the records from {@code added} up to {@code p}, which lie in one segment and were all loaded. */
    private void addSpan(long added, long p) {
        if (p > added) {
            crc.add(bytes.memory(), (int) (added - bytes.from()), (int) (p - added));
        }
    }

    /** The first record of a segment: the span before it ends there. Its bytes stay loaded. */
    private Found first(long start, long p) {
        if (!JournalSegment.readFirst(file, p, record)) {
            return JournalSegment.isWhole(file, p) ? Found.WRONG : Found.MISSING;
        }
        check = p;
        if (record.length() == 0) {
            return Found.NOTHING;
        }
        if (p == start && record.isCut(p, segmentSize)) {
            return Found.CUT;
        }
        return isRight(p) ? Found.RIGHT : Found.WRONG;
    }

    private Found checkAt(long p, int at) {
        record.read(bytes.memory(), at);
        check = p;
        return isRight(p) ? Found.RIGHT : Found.WRONG;
    }

    private boolean isRight(long p) {
        final int span = crc.value();
        return record.isCheck(p) && record.spanCrc() == span;
    }

    @Override
    public void close() {
        bytes.close();
    }
}
