// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.UUID;

/**
 * What a table holds at one moment. Its fields are read one after another, not atomically. Spec api.md, "Table".
 *
 * @param path the table's file.
 * @param id the table's id.
 * @param capacity how many keys fit.
 * @param size how many keys there are.
 * @param version the last completed change.
 * @param entries how many entries one copy of the index has.
 * @param filled how many of these are not empty.
 * @param rebuild 0, or the next step of a rebuild of the index: 1 to twice the entries and one.
 * @param writing whether a process has the writer's slot now.
 * @param closed whether the last held writer was closed.
 * @param unfinished whether no process has the slot, but a change was cut off: the next writer finishes it.
 * @param writer name of the last held writer, empty if it had none.
 * @param pid process id of the last held writer; for people.
 * @param attachedAt when the last held writer came, ns since 1970.
 * @param epoch how often the slot was taken.
 * @param successor 0; 1 if the table was replaced or has grown, 2 if it was unlinked.
 * @param needsRecovery whether reads throw {@link NeedsRecoveryException}, until a writer has recovered the table.
 * @param clean whether nothing was changed since a synced close.
 * @param damaged how many cells the last recovery found without a whole value although they had one.
 * @param busy how often a read of this object gave up because the value changed for 1 ms.
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
