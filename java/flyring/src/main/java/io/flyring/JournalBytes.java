// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;

/**
 * Bytes of segments in memory of this process: read with pread, so a bad sector is an error and no signal (journal.md
 * 3.3, cold). Holds a window of one segment. A reader of more moves the window.
 */
final class JournalBytes implements AutoCloseable {
    /** Results of {@link #load}: the segment is missing; the bytes cannot be read, or lie beyond the limit. */
    static final int MISSING = -1;
    static final int UNREADABLE = -2;

    private static final int CHUNK = 1 << 18;

    private final JournalFile file;
    private final int least;
    private JournalSegment segment;
    private Memory memory;
    /** The same memory for handlers: a write throws. */
    private Memory shown;
    private long from;
    private long to;

    JournalBytes(JournalFile file) {
        this.file = file;
        this.least = (int) Math.min(CHUNK, file.segmentSize);
        allocate(least);
    }

    private void allocate(int capacity) {
        memory = Memory.of(ByteBuffer.allocateDirect(capacity));
        shown = Memory.of(memory.view().asReadOnlyBuffer());
    }

    Memory memory() {
        return memory;
    }

    Memory shown() {
        return shown;
    }

    /** The position of the first byte. */
    long from() {
        return from;
    }

    /**
     * Makes bytes available.
     *
     * @param keep bytes from here on stay available, if they lie in the same segment.
     * @param limit bytes from here on are not written yet: they are not read.
     * @return the index of the first one in {@link #memory}, or a result below 0.
     */
    int load(long keep, long position, int length, long limit) {
        if (position >= from && position + length <= to && segment != null) {
            return (int) (position - from);
        }
        final long base = file.segmentOf(position);
        if (segment == null || segment.base != base) {
            forget();
            segment = JournalSegment.open(file, base, true);
            if (segment == null) {
                return MISSING;
            }
            from = base;
            to = base;
        }
        final long end = Math.min(limit, base + file.segmentSize);
        if (position + length > end) {
            return UNREADABLE;
        }
        make(keep < base || keep > position ? position : keep, position + length);
        final int wanted = (int) Math.min(end - to, memory.capacity() - (to - from));
        final int result = segment.read(to, memory, (int) (to - from), wanted);
        to += Math.max(0, result);
        return position + length <= to ? (int) (position - from) : UNREADABLE;
    }

    /** Makes room for bytes from {@code start} up to at least {@code needed}; keeps those that are there. */
    private void make(long start, long needed) {
        final int kept = start >= from && start < to ? (int) (to - start) : 0;
        final int index = (int) Math.max(0, Math.min(Integer.MAX_VALUE, start - from));
        if (needed - start > memory.capacity()) {
            final Memory before = memory;
            allocate(Math.max(least, (int) Long.highestOneBit(2 * (needed - start) - 1)));
            copy(before, index, kept);
        } else if (start != from) {
            copy(memory, index, kept);
        }
        from = start;
        to = start + kept;
    }

    private void copy(Memory source, int index, int length) {
        if (length > 0) {
            memory.putBytes(0, source, index, length);
        }
    }

    /** Forgets what was read, for it may change. The segment stays open. */
    void drop() {
        from = segment == null ? 0 : segment.base;
        to = from;
    }

    /** Forgets what was read, and the segment. */
    void forget() {
        from = 0;
        to = 0;
        if (segment != null) {
            segment.close();
            segment = null;
        }
    }

    @Override
    public void close() {
        forget();
    }
}
