// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.List;
import java.util.function.BiConsumer;

/** Makes a new owner of the writer's slot ready to append: resume, recovery, or both (journal.md 3.4, 5, 7). */
final class JournalTaking {
    private final JournalFile file;
    private final JournalSeat seat;
    private final JournalAppender appender;
    private final BiConsumer<Long, Long> progress;

    JournalTaking(JournalFile file, JournalSeat seat, JournalAppender appender, BiConsumer<Long, Long> progress) {
        this.file = file;
        this.seat = seat;
        this.appender = appender;
        this.progress = progress;
    }

    /**
     * Becomes the owner, under the slot's lock.
     *
     * @param name of a held writer; null for a single append.
     * @return what a recovery found; null if there was none.
     */
    JournalRecovery enter(byte[] name) {
        file.checkLinked();
        boolean done = false;
        try {
            JournalRecovery recovery = null;
            if (!file.isOfBoot()) {
                recovery = recover(Layout.JOURNAL_CUT_POWER_LOSS);
            } else {
                recovery = resume();
            }
            seat.enter(name, true);
            appender.own(seat.epoch());
            file.data().wakeAll();
            done = true;
            return recovery;
        } finally {
            if (!done) {
                appender.leave();
            }
        }
    }

    private JournalRecovery resume() {
        final boolean failed = file.failed();
        try {
            new JournalResume(file).resume(appender);
        } catch (CorruptJournalException e) {
            if (!failed) {
                throw e;
            }
            appender.leave(); // the kernel has dropped pages
            return recover(Layout.JOURNAL_CUT_FAILED_SYNC);
        }
        return failed ? afterFailedSync() : null;
    }

    private JournalRecovery recover(int reason) {
        seat.lockControl();
        try {
            return new JournalRecover(file, reason, progress).recover(appender);
        } finally {
            seat.unlockControl();
        }
    }

    /** The kernel may have dropped what it could not write: proves it, and writes it once more. */
    private JournalRecovery afterFailedSync() {
        if (isProven()) {
            appender.writeAgain();
            return null;
        }
        appender.leave();
        return recover(Layout.JOURNAL_CUT_FAILED_SYNC);
    }

    private boolean isProven() {
        final long synced = file.synced();
        final JournalRecord check = new JournalRecord();
        if (!JournalSegment.readRecord(file, file.segmentOf(synced), synced, check) || !check.isCheck(synced)) {
            return false;
        }
        final long end = appender.end();
        try (JournalWalk walk = new JournalWalk(file)) {
            long p = synced + JournalRecord.CHECK;
            while (true) {
                final JournalWalk.Found found = walk.next(p, end);
                if (found == JournalWalk.Found.NOTHING) {
                    return walk.stopped() == end;
                }
                if (found != JournalWalk.Found.RIGHT) {
                    return false;
                }
                p = walk.check() + JournalRecord.CHECK;
            }
        }
    }

    /** The error that the slot was not free in time; names the last held writer. */
    static NoFreeSlotException noFreeSlot(JournalFile file) {
        final JournalSeat.Owner owner = JournalSeat.owner(file, Layout.JOURNAL_CONTROL_SLOT);
        return noFreeSlot(file.path, owner.name(), owner.pid());
    }

    /** The same; {@code pid} is 0 if no held writer is known. */
    static NoFreeSlotException noFreeSlot(String path, String name, int pid) {
        final String last = pid == 0 ? "" : "The last JournalWriter was "
            + (name.isEmpty() ? "without a name" : "'" + name + "'") + " (pid " + pid + "). ";
        return new NoFreeSlotException("writer", 1, List.of(new NoFreeSlotException.Owner(0, name, pid)), path
            + ": the writer's slot is taken. " + last
            + "Wait longer, close that writer, or kill its process if it is stopped.");
    }
}
