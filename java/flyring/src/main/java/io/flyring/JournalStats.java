// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/**
 * What a journal holds at one moment. Its fields are read one after another, not atomically. Spec api.md, "Journal".
 *
 * @param path the journal's folder.
 * @param id the journal's id.
 * @param segmentSize the bytes of a segment.
 * @param content 0 messages of the user, 1 a recording.
 * @param sync when what is appended is made durable.
 * @param maxAge segments that are older are removed, ns; 0: no limit.
 * @param maxSize segments beyond this many bytes are removed; 0: no limit.
 * @param trimConsumed whether segments that all consumers have consumed are removed.
 * @param published the position of the end.
 * @param messages how many messages were ever appended.
 * @param synced up to where everything is durable.
 * @param syncedAt when that was made durable, ns since 1970; 0: never.
 * @param unsyncedSince the time of the oldest message that is not durable; 0 if there is none.
 * @param trimmed where the journal begins.
 * @param ready the end of the last segment that is ready.
 * @param segments how many segments there are.
 * @param bytes how many bytes they take on the disk.
 * @param oldest the time of the oldest message; 0 if there is none.
 * @param newest the largest time of a message; 0 if there is none.
 * @param writer name of the last held writer, empty if it had none.
 * @param pid process id of the last held writer; for people.
 * @param attachedAt when the last held writer came, ns since 1970.
 * @param epoch how often the writer's slot was taken.
 * @param writing whether a process has the writer's slot now.
 * @param helping whether a helper runs now.
 * @param failed whether a sync has failed, and no writer has mended that yet.
 * @param needsRecovery whether the journal was written in another boot, and no writer has recovered it yet.
 * @param successor 0; 2 if the journal was unlinked.
 * @param consumers the consumers, in the order of their slots.
 */
public record JournalStats(String path, UUID id, long segmentSize, int content, JournalSync sync, long maxAge,
    long maxSize, boolean trimConsumed, long published, long messages, long synced, long syncedAt, long unsyncedSince,
    long trimmed, long ready, int segments, long bytes, long oldest, long newest, String writer, int pid,
    long attachedAt, long epoch, boolean writing, boolean helping, boolean failed, boolean needsRecovery, int successor,
    List<JournalConsumerStats> consumers) {
    private static final int MOST = 100_000;

    static JournalStats of(JournalFile file) {
        final JournalHeader header = file.header;
        final long published = file.published();
        final long messages = file.word(Layout.JOURNAL_CONTROL_MESSAGES);
        final long synced = file.wordAcquire(Layout.JOURNAL_CONTROL_SYNCED);
        final long trimmed = file.wordAcquire(Layout.JOURNAL_CONTROL_TRIMMED);
        final JournalSeat.Owner owner = JournalSeat.owner(file, Layout.JOURNAL_CONTROL_SLOT);
        final List<JournalConsumerStats> consumers = new ArrayList<>();
        for (int slot = 0; slot < header.consumers; slot++) {
            if (new JournalGate(file, slot).isKept()) {
                consumers.add(JournalConsumerStats.of(file, slot, published, messages));
            }
        }
        final boolean recovered = file.isOfBoot();
        final long end = recovered ? published : synced; // else nothing counts but what is durable
        final int segments = file.segments().length;
        return new JournalStats(file.path, header.id, header.segmentSize, header.content, sync(file),
            file.limit(Layout.JOURNAL_CONTROL_MAX_AGE), file.limit(Layout.JOURNAL_CONTROL_MAX_SIZE),
            file.trimsConsumed(), published, messages, synced,
            Math.max(0, file.word(Layout.JOURNAL_CONTROL_SYNCED_AT)), firstTime(file, synced, end),
            trimmed, file.ready(), segments,
            segments * (Layout.HEADER_LENGTH + header.segmentSize), firstTime(file, trimmed, end),
            time(file, recovered ? file.checked() : synced, end, false),
            owner.name(), owner.pid(), owner.attachedAt(), owner.epoch(),
            JournalSeat.isLive(file, Layout.JOURNAL_CONTROL_SLOT),
            JournalSeat.isLive(file, Layout.JOURNAL_CONTROL_HELPER_LOCK), file.failed(), !recovered,
            file.successor(), List.copyOf(consumers));
    }

    private static JournalSync sync(JournalFile file) {
        try {
            return new JournalSync(file.syncEvery());
        } catch (InvalidArgumentException hostile) {
            return JournalSync.NEVER;
        }
    }

    private static long firstTime(JournalFile file, long from, long end) {
        return time(file, from, end, true);
    }

    /** The time of the first message from a check on, or the largest one; 0 if there is none. */
    private static long time(JournalFile file, long from, long published, boolean first) {
        if (!JournalFile.isPosition(from) || !JournalFile.isPosition(published)) {
            return 0;
        }
        final JournalRecord record = new JournalRecord();
        long largest = 0;
        try (JournalBytes bytes = new JournalBytes(file)) {
            long p = from;
            for (int i = 0; p < published && i < MOST; i++) {
                final int at = bytes.load(p, p, JournalRecord.CHECK, published);
                final int length = at < 0 ? 0 : bytes.memory().getInt(at);
                final int type = at < 0 ? 0 : bytes.memory().getInt(at + Layout.RECORD_TYPE);
                if (length == 0
                    || !JournalRecord.isSound(length, type, p & file.segmentSize - 1, file.segmentSize)) {
                    break;
                }
                if (type > 0) {
                    final long time = bytes.memory().getLong(at + Layout.JOURNAL_RECORD_TIME);
                    if (first) {
                        return time;
                    }
                    largest = Math.max(largest, time);
                } else if (type == Layout.JOURNAL_TYPE_CUT) {
                    if (!record.read(bytes.memory(), at).isCut(p, file.segmentSize)) {
                        break;
                    }
                    p = record.next();
                    continue;
                } else if (!first && type == Layout.JOURNAL_TYPE_CHECK) {
                    largest = Math.max(largest, bytes.memory().getLong(at + Layout.JOURNAL_CHECK_TIME));
                }
                p += JournalRecord.size(length);
            }
        } catch (FlyringException unreadable) {
            return largest;
        }
        return largest;
    }
}
