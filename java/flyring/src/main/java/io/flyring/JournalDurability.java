// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Makes what was appended durable (journal.md 5). By the writer, or by the helper. */
final class JournalDurability {
    private final JournalFile file;

    JournalDurability(JournalFile file) {
        this.file = file;
    }

    /**
     * Syncs up to the last check, and raises {@code synced} (sync 2 to 4).
     *
     * @param current a segment that is open already; null for none.
     * @throws IoException if the sync fails: the writer ends, and the sync is not tried again. Also if a segment was
     *     removed by hand: {@code synced} stays, and the writer goes on.
     */
    void sync(JournalSegment current) {
        if (file.failed()) {
            throw file.failure();
        }
        syncAgain(current);
    }

    /** Does the same, and also after a sync that failed, once the slot's next owner has written all bytes once more. */
    void syncAgain(JournalSegment current) {
        final boolean failedBefore = file.failed();
        final long to = file.checked(); // sync 2
        final long from = file.segmentOf(file.synced());
        if (!JournalFile.isPosition(to)) {
            throw file.corrupt(to, "checked is no position");
        }
        if (!failedBefore && to <= file.synced()) {
            return;
        }
        syncSegments(from, file.segmentOf(to), current); // sync 3
        if (!failedBefore && file.failed()) { // another process has tried, too
            throw file.failure();
        }
        file.raise(Layout.JOURNAL_CONTROL_SYNCED, to); // sync 4
        file.word(Layout.JOURNAL_CONTROL_SYNCED_AT, file.identity.now());
        file.data().wakeAll(); // readers that wait for what is durable
    }

    /** Syncs the segments of a range, the lowest first. */
    private void syncSegments(long from, long to, JournalSegment current) {
        long base = from;
        while (base <= to) {
            if (syncOne(base, current)) {
                base += file.segmentSize;
            } else {
                // Another process may have synced it, and a trim removed it. Loaded after it was not found.
                final long synced = file.segmentOf(file.synced());
                if (synced <= base) {
                    throw ChannelFile.io("open", Linux.ENOENT, file.segmentPath(base));
                }
                base = synced;
            }
        }
    }

    /** False if the segment is not there. A failure of the sync itself ends the writer. */
    private boolean syncOne(long base, JournalSegment current) {
        final int result;
        if (current != null && current.base == base) {
            result = current.file.syncData();
        } else {
            try (JournalSegment segment = JournalSegment.open(file, base, true)) {
                if (segment == null) {
                    return false;
                }
                result = segment.file.syncData();
            }
        }
        if (result < 0) {
            file.fail(-result);
            throw file.failure();
        }
        return true;
    }
}
