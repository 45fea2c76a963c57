// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;

/** The rules of a record (journal.md 3), and checks and cuts (3.2, 7.1), in memory of this process. */
final class JournalRecord {
    static final int CHECK = Layout.JOURNAL_CHECK_SIZE;
    static final int HEADER = Layout.JOURNAL_RECORD_PAYLOAD;

    /** One check or cut. */
    final Memory memory = Memory.of(ByteBuffer.allocateDirect(CHECK));
    private final JournalCrc crc = new JournalCrc();

    /** Bytes that a record of this length takes. */
    static long size(int length) {
        return (long) length + JournalFile.ALIGNMENT - 1 & -JournalFile.ALIGNMENT;
    }

    /** Whether a record header is sound at this offset of a segment: type, length, and an end that lies in it (3). */
    static boolean isSound(int length, int type, long offset, long segmentSize) {
        if (offset + size(length) > segmentSize) {
            return false;
        }
        if (type > 0) {
            return length >= HEADER && length <= segmentSize / Layout.MAX_MESSAGE_DIVISOR;
        }
        return type == Layout.TYPE_PADDING ? length >= Layout.RECORD_HEADER_LENGTH
            : (type == Layout.JOURNAL_TYPE_CHECK || type == Layout.JOURNAL_TYPE_CUT) && length == CHECK;
    }

    /** Makes this a check (3.2). */
    void check(long position, long count, long time, int spanCrc) {
        begin(Layout.JOURNAL_TYPE_CHECK, position, count);
        memory.putLong(Layout.JOURNAL_CHECK_TIME, time);
        memory.putInt(Layout.JOURNAL_CHECK_SPAN_CRC, spanCrc);
        memory.putInt(Layout.JOURNAL_CHECK_CRC, crc.of(memory, 0, Layout.JOURNAL_CHECK_CRC));
    }

    /** Makes this a cut (7.1). */
    void cut(long position, long count, long next, long reached, int reason) {
        begin(Layout.JOURNAL_TYPE_CUT, position, count);
        memory.putLong(Layout.JOURNAL_CUT_NEXT, next);
        memory.putLong(Layout.JOURNAL_CUT_REACHED, reached);
        memory.putInt(Layout.JOURNAL_CUT_REASON, reason);
        memory.putInt(Layout.JOURNAL_CUT_CRC, crc.of(memory, 0, Layout.JOURNAL_CUT_CRC));
    }

    private void begin(int type, long position, long count) {
        memory.fill(0, CHECK, (byte) 0);
        memory.putInt(Layout.JOURNAL_CHECK_LENGTH, CHECK);
        memory.putInt(Layout.JOURNAL_CHECK_TYPE, type);
        memory.putLong(Layout.JOURNAL_CHECK_POSITION, position);
        memory.putLong(Layout.JOURNAL_CHECK_COUNT, count);
    }

    /** Copies the record out of other memory, which another process may change meanwhile. */
    JournalRecord read(Memory from, int index) {
        memory.putBytes(0, from, index, CHECK);
        return this;
    }

    int length() {
        return memory.getInt(Layout.JOURNAL_CHECK_LENGTH);
    }

    int type() {
        return memory.getInt(Layout.JOURNAL_CHECK_TYPE);
    }

    /** Whether this is a check that is right by its own crc. */
    boolean isCheck(long position) {
        return type() == Layout.JOURNAL_TYPE_CHECK && isRight(position);
    }

    /** Whether this is a right cut whose next is believable (10). */
    boolean isCut(long position, long segmentSize) {
        return type() == Layout.JOURNAL_TYPE_CUT && isRight(position) && next() > position
            && next() < Layout.MAX_POSITION && (next() & segmentSize - 1) == 0;
    }

    private boolean isRight(long position) {
        return length() == CHECK && memory.getLong(Layout.JOURNAL_CHECK_POSITION) == position && count() >= 0
            && memory.getInt(Layout.JOURNAL_CHECK_CRC) == crc.of(memory, 0, Layout.JOURNAL_CHECK_CRC);
    }

    long count() {
        return memory.getLong(Layout.JOURNAL_CHECK_COUNT);
    }

    long time() {
        return memory.getLong(Layout.JOURNAL_CHECK_TIME);
    }

    int spanCrc() {
        return memory.getInt(Layout.JOURNAL_CHECK_SPAN_CRC);
    }

    long next() {
        return memory.getLong(Layout.JOURNAL_CUT_NEXT);
    }
}
