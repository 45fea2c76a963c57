// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicReference;

/**
 * What a helper thread and the writer of the same process hand each other: the next segment, mapped and with its pages
 * brought in, and segments to be unmapped, which takes too long for the writer.
 */
final class JournalHandover {
    private final AtomicReference<JournalSegment> next = new AtomicReference<>();
    private final Queue<JournalSegment> left = new ConcurrentLinkedQueue<>();
    private volatile boolean helping;

    /** Whether a helper thread runs. */
    void helping(boolean value) {
        helping = value;
        if (!value) {
            closeAll();
        }
    }

    /** The position of the segment that the writer has not taken yet; -1 if there is none. */
    long offered() {
        final JournalSegment now = next.get();
        return now == null ? -1 : now.base;
    }

    void offer(JournalSegment segment) {
        final JournalSegment before = next.getAndSet(segment);
        if (before != null) {
            before.close();
        }
    }

    /** The segment that begins at a position, if it was prepared here; else null. */
    JournalSegment take(long base) {
        final JournalSegment segment = next.getAndSet(null);
        if (segment != null && segment.base != base) {
            segment.close();
            return null;
        }
        return segment;
    }

    /** The writer has left a segment. */
    void leave(JournalSegment segment) {
        if (helping) {
            left.add(segment);
            if (!helping) { // it has ended meanwhile
                closeLeft();
            }
        } else {
            segment.close();
        }
    }

    /** Unmaps what the writer has left. */
    void closeLeft() {
        for (JournalSegment segment = left.poll(); segment != null; segment = left.poll()) {
            segment.close();
        }
    }

    private void closeAll() {
        closeLeft();
        final JournalSegment segment = next.getAndSet(null);
        if (segment != null) {
            segment.close();
        }
    }
}
