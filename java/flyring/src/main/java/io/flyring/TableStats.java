// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.UUID;

/**
 * What a table holds at one moment. Its fields are read one after another, not atomically.
 *
 * @param path the table's file.
 * @param id the table's id.
 * @param capacity how many keys fit.
 * @param size how many keys there are.
 * @param version the last completed change.
 * @param entries how many entries the index has.
 * @param filled how many of these are not empty.
 * @param rebuild how far a rebuild of the index is: 0 for none, at most twice the entries and one.
 * @param writing whether a process has the writer's slot now.
 * @param writer name of the last held writer, empty if it had none.
 * @param pid process id of the last held writer; for people.
 * @param epoch how often the slot was taken.
 * @param attachedAt when the last held writer came, ns since 1970.
 * @param damaged how many cells the last recovery found without a whole value although they had one.
 * @param busy how often a read of this object gave up because the value changed for 1 ms.
 */
public record TableStats(String path, UUID id, long capacity, long size, long version, long entries, long filled,
    long rebuild, boolean writing, String writer, int pid, long epoch, long attachedAt, long damaged, long busy) {
    static TableStats of(TableFile file) {
        final TableSlot.Owner owner = TableSlot.owner(file);
        final boolean second = (file.generation() & 1) != 0;
        return new TableStats(file.path, file.header.id, file.header.capacity,
            Math.max(0, file.word(Layout.TABLE_CONTROL_SIZE)),
            file.changed(), file.header.entries,
            file.word(second ? Layout.TABLE_CONTROL_FILLED_OTHER : Layout.TABLE_CONTROL_FILLED),
            file.word(Layout.TABLE_CONTROL_REBUILD), file.file.locked(TableSlot.lockByte(file)), owner.name(),
            owner.pid(), owner.epoch(), owner.attachedAt(), file.word(Layout.TABLE_CONTROL_DAMAGED), file.busy());
    }
}
