// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import javax.management.ObjectName;

/**
 * A journal's {@link JournalStats} in the platform's MBean server, for JMX agents. Its attributes are open types, so an
 * agent needs no class of Flyring. It costs nothing until an agent asks.
 *
 * <p>The object's name is {@code io.flyring:type=Journal,name=NAME,id=ID}. The attributes are the fields of
 * {@link JournalStats}, with a capital letter; {@code Sync} is text, {@code Consumers} a table.
 */
public final class JournalMetrics implements AutoCloseable {
    private final ObjectName name;

    private JournalMetrics(ObjectName name) {
        this.name = name;
    }

    /**
     * Registers a journal in the platform's MBean server.
     *
     * @param journal the journal.
     * @return the registration, which its close ends. The close of the journal does not end it.
     * @throws InvalidArgumentException if the journal is registered already.
     * @throws ClosedException if the journal is closed.
     */
    public static JournalMetrics register(Journal journal) {
        journal.stats(); // throws if it is closed
        return new JournalMetrics(bean(journal).register(journal.path(), ".journal", journal.id()));
    }

    /**
     * The name in the MBean server.
     *
     * @return the name.
     */
    public ObjectName name() {
        return name;
    }

    /** Unregisters the journal. A second close does nothing. */
    @Override
    public void close() {
        StatsBean.unregister(name);
    }

    private static StatsBean<JournalStats> bean(Journal journal) {
        return new StatsBean<JournalStats>("Journal", journal::stats)
            .text("Path", "The journal's folder.", JournalStats::path)
            .text("Id", "The journal's id.", JournalStats::id)
            .number("SegmentSize", "The bytes of a segment.", JournalStats::segmentSize)
            .small("Content", "0: messages of the user; 1: a recording.", JournalStats::content)
            .text("Sync", "When what is appended is made durable.", JournalStats::sync)
            .number("MaxAge", "Segments that are older are removed, in ns; 0: no limit.", JournalStats::maxAge)
            .number("MaxSize", "Segments beyond this many bytes are removed; 0: no limit.", JournalStats::maxSize)
            .flag("TrimConsumed", "Whether segments that all consumers have consumed are removed.",
                JournalStats::trimConsumed)
            .number("Published", "The position of the end.", JournalStats::published)
            .number("Messages", "How many messages were ever appended.", JournalStats::messages)
            .number("Synced", "Up to where everything is durable.", JournalStats::synced)
            .number("SyncedAt", "When that was made durable, in ns since 1970; 0: never.", JournalStats::syncedAt)
            .number("UnsyncedSince", "The time of the oldest message that is not durable; 0 if there is none.",
                JournalStats::unsyncedSince)
            .number("Trimmed", "Where the journal begins.", JournalStats::trimmed)
            .number("Ready", "The end of the last segment that is ready.", JournalStats::ready)
            .small("Segments", "How many segments there are.", JournalStats::segments)
            .number("Bytes", "How many bytes they take on the disk.", JournalStats::bytes)
            .number("Oldest", "The time of the oldest message; 0 if there is none.", JournalStats::oldest)
            .number("Newest", "The largest time of a message; 0 if there is none.", JournalStats::newest)
            .text("Writer", "Name of the last held writer, empty if it had none.", JournalStats::writer)
            .small("Pid", "Process id of the last held writer; for people.", JournalStats::pid)
            .number("AttachedAt", "When the last held writer came, in ns since 1970.", JournalStats::attachedAt)
            .number("Epoch", "How often the writer's slot was taken.", JournalStats::epoch)
            .flag("Writing", "Whether a process has the writer's slot now.", JournalStats::writing)
            .flag("Helping", "Whether a helper runs now.", JournalStats::helping)
            .flag("Failed", "Whether a sync has failed, and no writer has mended that yet.", JournalStats::failed)
            .flag("NeedsRecovery", "Whether it was written in another boot, and no writer has recovered it.",
                JournalStats::needsRecovery)
            .small("Successor", "2: its name was removed; 0: it was not.", JournalStats::successor)
            .table("Consumers", "The consumers, by their slots.", JournalConsumerStats.class, JournalStats::consumers,
                "slot");
    }
}
