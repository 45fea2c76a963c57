// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Makes what was appended durable (journal.md 5). By the writer, or by the helper. */
final class JournalDurability {
    private final JournalFile file;

    JournalDurability(JournalFile file) {
        this.file = file;
    }

    /**
     * Syncs up to the last check: steps 2 to 4.
     *
     * @param current a segment that is open already; null for none.
     * @throws IoException if the sync fails: the writer ends, and the sync is not tried again.
     */
    void sync(JournalSegment current) {
        if (file.failed()) {
            throw file.failure();
        }
        syncAgain(current);
    }

    /** The same by the next owner of the slot, after a sync that failed: what was in doubt is written again. */
    void syncAgain(JournalSegment current) {
        final boolean failedBefore = file.failed();
        final long to = file.checked(); // 2
        final long from = file.segmentOf(file.synced());
        if (!JournalFile.isPosition(to)) {
            throw file.corrupt(to, "checked is no position");
        }
        if (!failedBefore && to <= file.synced()) {
            return;
        }
        syncSegments(from, file.segmentOf(to), current); // 3
        if (!failedBefore && file.failed()) { // another process has tried, too
            throw file.failure();
        }
        file.raise(Layout.JOURNAL_CONTROL_SYNCED, to); // 4
        file.word(Layout.JOURNAL_CONTROL_SYNCED_AT, file.identity.now());
        file.data().wakeAll(); // readers that wait for what is durable
    }

    /** Syncs the segments of a range, the lowest first; a failure ends the writer. */
    private void syncSegments(long from, long to, JournalSegment current) {
        if (from == to) {
            syncOne(from, current);
            return;
        }
        for (long base : file.segments()) {
            if (base >= from && base <= to) {
                syncOne(base, current);
            }
        }
    }

    private void syncOne(long base, JournalSegment current) {
        final int result;
        if (current != null && current.base == base) {
            result = current.file.syncData();
        } else {
            try (JournalSegment segment = JournalSegment.open(file, base, true)) {
                result = segment == null ? 0 : segment.file.syncData();
            }
        }
        if (result < 0) {
            file.fail(-result);
            throw file.failure();
        }
    }
}
