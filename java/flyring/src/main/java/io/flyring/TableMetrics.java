// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import javax.management.ObjectName;

/**
 * A table's {@link TableStats} in the platform's MBean server, for JMX agents. Its attributes are open types, so an
 * agent needs no class of Flyring. It costs nothing until an agent asks.
 *
 * <p>The object's name is {@code io.flyring:type=Table,name=NAME,id=ID}. The attributes are the fields of
 * {@link TableStats}, with a capital letter.
 */
public final class TableMetrics implements AutoCloseable {
    private final ObjectName name;

    private TableMetrics(ObjectName name) {
        this.name = name;
    }

    /**
     * Registers a table in the platform's MBean server.
     *
     * @param table the table; it may be open read-only.
     * @return the registration, which its close ends. The close of the table does not end it.
     * @throws InvalidArgumentException if the table is registered already.
     * @throws ClosedException if the table is closed.
     */
    public static TableMetrics register(Table table) {
        table.stats(); // throws if it is closed
        return new TableMetrics(bean(table).register(table.path(), ".table", table.id()));
    }

    /**
     * The name in the MBean server.
     *
     * @return the name.
     */
    public ObjectName name() {
        return name;
    }

    /** Unregisters the table. A second close does nothing. */
    @Override
    public void close() {
        StatsBean.unregister(name);
    }

    private static StatsBean<TableStats> bean(Table table) {
        return new StatsBean<TableStats>("Table", table::stats)
            .text("Path", "The table's file.", TableStats::path)
            .text("Id", "The table's id.", TableStats::id)
            .number("Capacity", "How many keys fit.", TableStats::capacity)
            .number("Size", "How many keys there are.", TableStats::size)
            .number("Version", "The number of the last completed change.", TableStats::version)
            .number("Entries", "How many entries one copy of the index has.", TableStats::entries)
            .number("Filled", "How many entries of the current copy are not empty.", TableStats::filled)
            .number("Rebuild", "The next step of the rebuild of the index; 0 if none is under way.",
                TableStats::rebuild)
            .flag("Writing", "Whether a process has the writer's slot now.", TableStats::writing)
            .flag("Closed", "Whether the slot was last taken by a TableWriter that was closed.", TableStats::closed)
            .flag("Unfinished", "Whether a process died during a change, which the next writer completes.",
                TableStats::unfinished)
            .text("Writer", "Name of the last TableWriter, empty if it had none.", TableStats::writer)
            .small("Pid", "Process id of the last TableWriter; for people.", TableStats::pid)
            .number("AttachedAt", "When the last TableWriter took the slot, in ns since 1970.", TableStats::attachedAt)
            .number("Epoch", "How often the slot was taken.", TableStats::epoch)
            .small("Successor", "1: replaced or grown; 2: its name was removed; 0: neither.", TableStats::successor)
            .flag("NeedsRecovery", "Whether reads fail until a writer has recovered the table.",
                TableStats::needsRecovery)
            .flag("Clean", "Whether nothing was changed since a synced close.", TableStats::clean)
            .number("Damaged", "How many cells the last recovery found whose value was lost.", TableStats::damaged)
            .number("Busy", "How many reads of this process gave up after 1 ms, as the value kept changing.",
                TableStats::busy);
    }
}
