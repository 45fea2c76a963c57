// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.ByteBuffer;

/** After a sync that failed: writes bytes once more, as they are, so that a sync proves something (journal.md 5, 7). */
final class JournalRewrite {
    private static final int PIECE = 1 << 20;

    private final JournalFile file;
    private final Memory piece;

    JournalRewrite(JournalFile file) {
        this.file = file;
        this.piece = Memory.of(ByteBuffer.allocateDirect((int) Math.min(PIECE, file.segmentSize)));
    }

    /** Writes the bytes of a range, as far as their segments are there. */
    void write(long from, long to) {
        for (long base : file.segments()) {
            if (base + file.segmentSize > from && base < to) {
                try (JournalSegment segment = JournalSegment.open(file, base, false)) {
                    if (segment != null) {
                        write(segment, Math.max(from, base), Math.min(to, base + file.segmentSize));
                    }
                }
            }
        }
    }

    private void write(JournalSegment segment, long from, long to) {
        final String path = file.segmentPath(segment.base);
        for (long at = from; at < to;) {
            final int length = (int) Math.min(piece.capacity(), to - at);
            final int read = segment.read(at, piece, 0, length);
            ChannelFile.check("pread", read, path);
            segment.write(at, piece, 0, length, path);
            at += length;
        }
    }
}
