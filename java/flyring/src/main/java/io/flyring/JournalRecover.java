// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.HashSet;
import java.util.Set;
import java.util.function.BiConsumer;

/**
 * Makes a journal of another boot whole again, or one whose pages the kernel has dropped after a sync that failed
 * (journal.md 7). Under the writer's slot's lock and the control lock. Only synced, trimmed, gates and pairs are
 * believed.
 */
final class JournalRecover {
    private final JournalFile file;
    private final int reason;
    private final BiConsumer<Long, Long> progress;
    /** Where the walk began: a durable check. */
    private long begin;
    /** The end of the last right check (c of the specification), its count (k), and the largest time of a message. */
    private long c;
    private long k;
    private long time;
    /** How far the records reached that were found. */
    private long reached;
    /** The segments that the walk passed. */
    private final Set<Long> passed = new HashSet<>();

    JournalRecover(JournalFile file, int reason, BiConsumer<Long, Long> progress) {
        this.file = file;
        this.reason = reason;
        this.progress = progress;
    }

    /** Recovers; the appender begins in the new segment. */
    JournalRecovery recover(JournalAppender appender) {
        final boolean failed = file.failed();
        walk(); // recover 1
        final long h = newSegment(); // recover 2
        file.wordRelease(Layout.JOURNAL_CONTROL_READY, 0); // of what is there, nothing is known
        final JournalRecord first = new JournalRecord();
        first.check(h, k, time, 0);
        JournalSegment segment = JournalSegment.prepare(file, h, first);
        boolean done = false;
        try {
            if (failed) {
                new JournalRewrite(file).write(begin, c);
            }
            moveGates(h); // recover 3
            file.syncControl();
            syncWalked(c < h ? cut(h) : null); // recover 4
            unlinkStrays(h); // recover 5
            file.wordRelease(Layout.JOURNAL_CONTROL_SYNCED, h); // recover 6
            file.wordRelease(Layout.JOURNAL_CONTROL_CHECKED, h);
            file.wordRelease(Layout.JOURNAL_CONTROL_READY, h + file.segmentSize);
            file.wordRelease(Layout.JOURNAL_CONTROL_CLAIMED, h + JournalRecord.CHECK);
            file.wordRelease(Layout.JOURNAL_CONTROL_PUBLISHED, h + JournalRecord.CHECK);
            file.word(Layout.JOURNAL_CONTROL_MESSAGES, k);
            appender.startAt(segment, new JournalTail(h + JournalRecord.CHECK, k, time, h + JournalRecord.CHECK));
            file.failed(0);
            file.syncControl(); // recover 7
            file.storeBoot();
            done = true;
        } finally {
            if (!done) {
                segment.close();
            }
        }
        progress.accept(reached - begin, reached - begin);
        return new JournalRecovery(c, h, k, Math.max(reached, c), reason);
    }

    /** Walks from the last durable check to the first check that is not right. */
    private void walk() {
        begin = Math.max(file.synced(), file.trimmed());
        final long[] all = file.segments();
        final long estimate = Math.max(0, (all.length == 0 ? 0 : all[all.length - 1] + file.segmentSize) - begin);
        final JournalRecord start = new JournalRecord();
        if (!JournalSegment.readRecord(file, file.segmentOf(begin), begin, start)
            || !start.isCheck(begin) && !start.isCut(begin, file.segmentSize)) {
            throw file.corrupt(begin, "no check where a recovery begins");
        }
        final boolean cut = !start.isCheck(begin);
        c = begin + JournalRecord.CHECK;
        k = start.count();
        time = cut ? 0 : start.time();
        reached = c;
        passed.add(file.segmentOf(begin));
        try (JournalWalk walk = new JournalWalk(file)) {
            long p = cut ? begin : c;
            while (true) {
                final JournalWalk.Found found = walk.next(p, Layout.MAX_POSITION);
                reached = Math.max(reached, walk.stopped());
                pass(p, walk.stopped());
                if (found == JournalWalk.Found.RIGHT) {
                    c = walk.check() + JournalRecord.CHECK;
                    k = walk.record.count();
                    time = walk.record.time();
                    pass(walk.check(), walk.check());
                    p = c;
                    progress.accept(p - begin, Math.max(estimate, p - begin));
                } else if (found == JournalWalk.Found.CUT) {
                    p = walk.record.next();
                } else {
                    reached = Math.max(reached, c);
                    return;
                }
            }
        }
    }

    private void pass(long from, long to) {
        for (long base = file.segmentOf(from); base <= to; base += file.segmentSize) {
            passed.add(base);
        }
    }

    /** Where the journal goes on (h): behind the highest whole segment, so that no position is used again. */
    private long newSegment() {
        if (!JournalSegment.isWhole(file, file.segmentOf(c))) {
            return c;
        }
        final long highest = file.wholeAtOrBelow(Layout.MAX_POSITION);
        return Math.max(c, highest + file.segmentSize);
    }

    /** Gates behind c go on at h; the pairs of the others are counted again. */
    private void moveGates(long h) {
        final long trimmed = file.trimmed();
        for (int slot = 0; slot < file.header.consumers; slot++) {
            final JournalGate gate = new JournalGate(file, slot);
            // after a failed sync a consumer may be at work: it follows the cut by itself
            if (!gate.isKept() || reason == Layout.JOURNAL_CUT_FAILED_SYNC
                && JournalSeat.isLive(file, JournalHeader.consumerSlot(slot))) {
                continue;
            }
            final long position = gate.position();
            gate.read();
            if (!JournalFile.isPosition(position)) {
                continue;
            }
            if (position > c) {
                gate.store(h, k, gate.lost());
            } else if (position >= trimmed) {
                final long count = countAt(position);
                if (count >= 0) {
                    gate.store(position, count, gate.lost());
                }
            }
        }
    }

    /** How many messages lie before a gate, by a walk from the first record of its segment; -1 if it cannot be told. */
    private long countAt(long position) {
        if (position == c) {
            return k;
        }
        final long base = file.segmentOf(position);
        final JournalRecord first = new JournalRecord();
        if (!JournalSegment.readFirst(file, base, first)
            || !first.isCheck(base) && !first.isCut(base, file.segmentSize)) {
            return -1;
        }
        long count = first.count();
        try (JournalBytes bytes = new JournalBytes(file)) {
            for (long p = base; p < position;) {
                final int at = bytes.load(p, p, JournalRecord.CHECK, Layout.MAX_POSITION);
                final int length = at < 0 ? 0 : bytes.memory().getInt(at);
                final int type = at < 0 ? 0 : bytes.memory().getInt(at + Layout.RECORD_TYPE);
                if (length == 0 || !JournalRecord.isSound(length, type, p - base, file.segmentSize)) {
                    return -1;
                }
                count += type > 0 ? 1 : 0;
                p += JournalRecord.size(length);
            }
        }
        return count;
    }

    private JournalRecord cut(long h) {
        final JournalRecord cut = new JournalRecord();
        cut.cut(c, k, h, Math.max(reached, c), reason);
        return cut;
    }

    /** Writes the cut, and makes it and all segments of the walk durable. */
    private void syncWalked(JournalRecord cut) {
        for (long base : file.segments()) {
            if (base < file.segmentOf(begin) || base > c) {
                continue;
            }
            try (JournalSegment segment = JournalSegment.open(file, base, false)) {
                if (segment == null) {
                    continue;
                }
                if (cut != null && base == file.segmentOf(c)) {
                    final String path = file.segmentPath(base);
                    segment.write(c + Long.BYTES, cut.memory, Long.BYTES, JournalRecord.CHECK - Long.BYTES, path);
                    segment.write(c, cut.memory, 0, Long.BYTES, path); // its length last
                }
                final int result = segment.file.syncData();
                if (result < 0) {
                    file.fail(-result);
                    throw file.failure();
                }
            }
        }
    }

    /** Removes what the walk did not pass, what was trimmed, and what an earlier recovery that was killed has left. */
    private void unlinkStrays(long h) {
        final long trimmed = file.trimmed();
        for (long base : file.segments()) {
            final boolean stray = base > begin && base != h && (base > c || !passed.contains(base));
            if (stray || base + file.segmentSize <= trimmed) {
                file.unlinkSegment(base);
            }
        }
        file.syncFolder();
    }
}
