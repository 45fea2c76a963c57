// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.HexFormat;

/** An open segment that is whole (journal.md 2.3); how one is made (4). */
final class JournalSegment implements AutoCloseable {
    private static final byte[] MAGIC = HexFormat.of().parseHex(Layout.JOURNAL_SEGMENT_MAGIC_HEX);
    private static final int TRIES = 100;

    /** The position of its first byte. */
    final long base;
    final ChannelFile file;
    private final long size;
    private Memory memory;

    private JournalSegment(long base, ChannelFile file, long size) {
        this.base = base;
        this.file = file;
        this.size = size;
    }

    /** Opens a segment; null if it is missing, which one that is not whole is, too. */
    static JournalSegment open(JournalFile journal, long base, boolean readOnly) {
        final String path = journal.segmentPath(base);
        final ChannelFile file;
        try {
            file = ChannelFile.open(path, readOnly);
        } catch (NoSuchChannelException | NotAChannelException missing) {
            return null;
        }
        boolean whole = false;
        try {
            whole = file.size() == Layout.HEADER_LENGTH + journal.segmentSize
                && passes(journal, base, file.read(0, Layout.HEADER_LENGTH));
            return whole ? new JournalSegment(base, file, journal.segmentSize) : null;
        } finally {
            if (!whole) {
                file.close();
            }
        }
    }

    static boolean isWhole(JournalFile journal, long base) {
        try (JournalSegment segment = open(journal, base, true)) {
            return segment != null;
        }
    }

    private static ByteBuffer header(JournalFile journal, long base, long createdAt) {
        ByteBuffer page = ByteBuffer.allocate(Layout.HEADER_LENGTH).order(ByteOrder.LITTLE_ENDIAN);
        page.put(Layout.JOURNAL_SEGMENT_MAGIC, MAGIC);
        page.putShort(Layout.JOURNAL_SEGMENT_MAJOR, (short) Layout.MAJOR);
        page.putShort(Layout.JOURNAL_SEGMENT_MINOR, (short) Layout.MINOR);
        page.putInt(Layout.JOURNAL_SEGMENT_HEADER_LENGTH, Layout.HEADER_LENGTH);
        page.put(Layout.JOURNAL_SEGMENT_JOURNAL_ID, Identity.bytes(journal.header.id));
        page.putLong(Layout.JOURNAL_SEGMENT_POSITION, base);
        page.putLong(Layout.JOURNAL_SEGMENT_SIZE, journal.segmentSize);
        page.putLong(Layout.JOURNAL_SEGMENT_CREATED_AT, createdAt);
        page.putInt(Layout.JOURNAL_SEGMENT_CRC, Header.crc(page));
        return page;
    }

    private static boolean passes(JournalFile journal, long base, byte[] first) {
        if (first.length != Layout.HEADER_LENGTH) {
            return false;
        }
        ByteBuffer page = ByteBuffer.wrap(first).order(ByteOrder.LITTLE_ENDIAN);
        final int id = Layout.JOURNAL_SEGMENT_JOURNAL_ID;
        return Arrays.equals(MAGIC, Arrays.copyOf(first, MAGIC.length))
            && page.getShort(Layout.JOURNAL_SEGMENT_MAJOR) == Layout.MAJOR
            && page.getInt(Layout.JOURNAL_SEGMENT_HEADER_LENGTH) == Layout.HEADER_LENGTH
            && Arrays.equals(Identity.bytes(journal.header.id), Arrays.copyOfRange(first, id, id + 2 * Long.BYTES))
            && page.getLong(Layout.JOURNAL_SEGMENT_POSITION) == base
            && page.getLong(Layout.JOURNAL_SEGMENT_SIZE) == journal.segmentSize
            && page.getInt(Layout.JOURNAL_SEGMENT_CRC) == Header.crc(page);
    }

    /**
     * Makes a segment ready: whole, durable, and under its name (4).
     *
     * @param first the record that a recovery, which holds the control lock, or a creation begins it with; null for
     *     none.
     * @return the open segment.
     * @throws NoSpaceException if there is no room; nothing is left behind.
     */
    static JournalSegment prepare(JournalFile journal, long base, JournalRecord first) {
        final String path = journal.segmentPath(base);
        for (int i = 0; i < TRIES; i++) {
            JournalSegment segment = open(journal, base, false); // prepare 1
            final boolean found = segment != null;
            if (!found) {
                segment = make(journal, base, first);
                if (segment == null) {
                    continue; // another process has made it meanwhile
                }
            }
            boolean done = false;
            try {
                if (found) { // prepare 4: its maker may have been killed before it synced
                    syncOrUnlink(segment, path);
                }
                journal.syncFolder();
                journal.raise(Layout.JOURNAL_CONTROL_READY, base + journal.segmentSize); // prepare 5
                done = true;
                return segment;
            } finally {
                if (!done) {
                    segment.close();
                }
            }
        }
        throw new IoException("link", Linux.EEXIST, path, path + ": other processes make and remove this segment again"
            + " and again. Find out which.");
    }

    private static void syncOrUnlink(JournalSegment segment, String path) {
        boolean synced = false;
        try {
            segment.file.sync();
            synced = true;
        } finally {
            if (!synced) {
                JournalFile.unlink(path); // a second sync would prove nothing
            }
        }
    }

    /**
     * Makes a file and gives it its name: prepare 2 and 3. Null if another file got the name meanwhile. A file that is
     * not a segment of this journal is replaced. Only under the control lock: another process may do so at this time,
     * and use its own already.
     */
    private static JournalSegment make(JournalFile journal, long base, JournalRecord first) {
        final JournalSegment made = make(journal, base, first, false);
        if (made != null || isWhole(journal, base)) {
            return made;
        }
        if (first != null) {
            return make(journal, base, first, true);
        }
        try (JournalSeat seat = new JournalSeat(journal)) {
            seat.lockControl();
            return isWhole(journal, base) ? null : make(journal, base, first, true);
        }
    }

    private static JournalSegment make(JournalFile journal, long base, JournalRecord first, boolean replace) {
        final String path = journal.segmentPath(base);
        final String advice = base == 0 ? "Choose smaller segments, or make room on the disk."
            : "Trim the journal, or make room on the disk.";
        ChannelFile file = ChannelFile.create(path, Layout.HEADER_LENGTH + journal.segmentSize, journal.file.mode(),
            true, advice);
        boolean done = false;
        try {
            file.write(0, header(journal, base, journal.identity.creation()));
            if (first != null) {
                ChannelFile.check("pwrite", file.write(Layout.HEADER_LENGTH, first.memory, 0, JournalRecord.CHECK),
                    path);
            }
            file.sync(); // prepare 3: before it has its name
            file.publish(path, replace);
            done = true;
            return new JournalSegment(base, file, journal.segmentSize);
        } catch (ChannelExistsException madeMeanwhile) {
            return null;
        } finally {
            if (!done) {
                file.discard();
            }
        }
    }

    /** The segment's bytes, mapped: the index is the position less {@link #base}. */
    Memory map() {
        if (memory == null) {
            memory = file.map(Layout.HEADER_LENGTH, size, file.readOnly());
        }
        return memory;
    }

    /** Reads bytes into memory of this process; returns how many, or a negated error number. */
    int read(long position, Memory target, int index, int length) {
        return file.read(Layout.HEADER_LENGTH + position - base, target, index, length);
    }

    /** Writes bytes; throws if that fails. */
    void write(long position, Memory source, int index, int length, String path) {
        ChannelFile.check("pwrite", file.write(Layout.HEADER_LENGTH + position - base, source, index, length), path);
    }

    /**
     * Reads the first record of a segment, which is a check or a cut; false if the segment is missing or unreadable.
     */
    static boolean readFirst(JournalFile journal, long base, JournalRecord target) {
        return readRecord(journal, base, base, target);
    }

    /** The same for any place of it. */
    static boolean readRecord(JournalFile journal, long base, long position, JournalRecord target) {
        try (JournalSegment segment = open(journal, base, true)) {
            return segment != null
                && segment.read(position, target.memory, 0, JournalRecord.CHECK) == JournalRecord.CHECK;
        }
    }

    /** Unmaps and closes. A thread that still uses the memory reads zeros, and changes nothing in the file. */
    @Override
    public void close() {
        file.close();
    }
}
