// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.DirectBuffer;

/**
 * A push under the slot's lock (journal.md 5): an append, and what a helper would do if no process has the helper lock.
 */
final class JournalPush {
    private final JournalFile file;
    private final JournalAppender appender;

    JournalPush(JournalFile file, JournalAppender appender) {
        this.file = file;
        this.appender = appender;
    }

    /**
     * Appends one message; returns where its record begins.
     *
     * @throws IoException if that sync fails: the message is appended.
     */
    long append(DirectBuffer source, int offset, int length, int type) {
        long position;
        try {
            position = appender.append(source, offset, length, type, false, 0); // push 1
        } catch (NoSpaceException e) {
            if (hasHelper() || trim() == 0) {
                throw e;
            }
            position = appender.append(source, offset, length, type, false, 0);
        }
        final boolean syncs = isSyncDue();
        final boolean trims = (position & file.segmentSize - 1) == JournalRecord.CHECK;
        if ((syncs || trims) && !hasHelper()) {
            if (syncs) {
                appender.sync(); // push 2
            }
            if (trims) {
                trim(); // push 3
            }
        }
        return position;
    }

    /**
     * Whether a process has the helper lock. If that cannot be found out, this push helps: it does no harm if two
     * processes help at once.
     */
    private boolean hasHelper() {
        try {
            return JournalSeat.isLive(file, Layout.JOURNAL_CONTROL_HELPER_LOCK);
        } catch (FlyringException e) {
            return false;
        }
    }

    /** Whether a sync is due that a helper would make. */
    private boolean isSyncDue() {
        final long every = file.syncEvery();
        if (every == Layout.JOURNAL_SYNC_EACH) {
            return false; // the append has synced
        }
        return file.segmentOf(file.checked()) > file.segmentOf(file.synced())
            || every != Layout.JOURNAL_SYNC_NEVER && file.sinceSync() >= every;
    }

    /** Trims by the options. If that fails, nothing is lost: the next push that enters a segment tries again. */
    private long trim() {
        try {
            return new JournalTrim(file).byOptions(true);
        } catch (FlyringException e) {
            return 0;
        }
    }
}
