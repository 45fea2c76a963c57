// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * What a helper thread and the writer of the same process hand each other: the next segments, mapped and with their
 * pages brought in, and segments to be unmapped, which takes too long for the writer.
 */
final class JournalHandover {
    /** In ascending order; guarded by this object. */
    private final ArrayDeque<JournalSegment> next = new ArrayDeque<>();
    private final Queue<JournalSegment> left = new ConcurrentLinkedQueue<>();
    private volatile boolean helping;

    /** Whether a helper thread runs. */
    void helping(boolean value) {
        helping = value;
        if (!value) {
            closeAll();
        }
    }

    /** The position of the last segment that the writer has not taken yet; -1 if there is none. */
    synchronized long offered() {
        final JournalSegment last = next.peekLast();
        return last == null ? -1 : last.base;
    }

    synchronized void offer(JournalSegment segment) {
        next.addLast(segment);
    }

    /** The segment that begins at a position, if it was prepared here; else null. Those below it are left. */
    synchronized JournalSegment take(long base) {
        JournalSegment segment = next.peekFirst();
        while (segment != null && segment.base < base) {
            leave(next.removeFirst());
            segment = next.peekFirst();
        }
        return segment != null && segment.base == base ? next.removeFirst() : null;
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

    private synchronized void closeAll() {
        closeLeft();
        while (!next.isEmpty()) {
            next.removeFirst().close();
        }
    }
}
