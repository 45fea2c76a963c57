// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.UUID;

/**
 * Statistics of a table. The fields are read one after another, not atomically. See spec/api.md, "Table".
 *
 * @param path the table's file.
 * @param id the table's id.
 * @param capacity how many keys fit.
 * @param size how many keys there are.
 * @param version the number of the last completed change.
 * @param entries how many entries one copy of the index has.
 * @param filled how many entries of the current copy are not empty.
 * @param rebuild the next step of the rebuild of the index, 1 to 2 * entries + 1; 0 if none is under way.
 * @param writing whether a process has the writer's slot now.
 * @param closed whether the slot was last taken by a {@link TableWriter} that was closed.
 * @param unfinished whether a process died during a change, which the next writer completes.
 * @param writer name of the last {@link TableWriter}, empty if it had none.
 * @param pid process id of the last {@link TableWriter}; for people.
 * @param attachedAt when the last {@link TableWriter} took the slot, ns since 1970.
 * @param epoch how often the slot was taken.
 * @param successor 0; 1 if the table was replaced or has grown, 2 if it was unlinked.
 * @param needsRecovery whether reads throw {@link NeedsRecoveryException}, until a writer has recovered the table.
 * @param clean whether nothing was changed since a synced close.
 * @param damaged how many cells the last recovery found whose value was lost.
 * @param busy how many reads through this table object gave up after 1 ms, because the value kept changing.
 */
public record TableStats(String path, UUID id, long capacity, long size, long version, long entries, long filled,
    long rebuild, boolean writing, boolean closed, boolean unfinished, String writer, int pid, long attachedAt,
    long epoch, int successor, boolean needsRecovery, boolean clean, long damaged, long busy) {
    static TableStats of(TableFile file, byte[] boot) {
        final TableSlot.Owner owner = TableSlot.owner(file);
        final boolean second = (file.generation() & 1) != 0;
        final boolean writing = file.file.locked(TableSlot.lockByte(file));
        final boolean cutOff = file.word(Layout.TABLE_CONTROL_INTENT) != 0
            || file.changed() != file.word(Layout.TABLE_CONTROL_STAMP);
        final boolean unfinished = !writing && cutOff && TableSlot.owner(file).epoch() == owner.epoch();
        return new TableStats(file.path, file.header.id, file.header.capacity,
            Math.max(0, file.word(Layout.TABLE_CONTROL_SIZE)),
            file.changed(), file.header.entries,
            file.word(second ? Layout.TABLE_CONTROL_FILLED_OTHER : Layout.TABLE_CONTROL_FILLED),
            file.word(Layout.TABLE_CONTROL_REBUILD), writing, owner.closed(), unfinished, owner.name(),
            owner.pid(), owner.attachedAt(), owner.epoch(), file.successor(), !file.isWhole(boot),
            file.control.getIntOpaque(Layout.TABLE_CONTROL_CLEAN) == 1, file.word(Layout.TABLE_CONTROL_DAMAGED),
            file.busy());
    }
}
