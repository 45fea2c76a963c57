// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.function.BiConsumer;

/**
 * Recovers a checked table after a reboot; the caller holds its slot (9). Numbers in parentheses are sections of
 * spec/table.md; 'write 5' is step 5 of its operation write.
 */
final class TableRecovery {
    /** How many cells are checked between two reports of the progress. */
    private static final int REPORT = 1 << 16;

    private final TableFile file;
    private final TableHeader header;
    private final TableChange change;
    private final BiConsumer<Long, Long> progress;
    private final TableLook look = new TableLook();
    /** The largest stamp so far. */
    private long largest;
    private long damaged;
    private long live;
    /** The cell after the last one whose version is not 0. */
    private long end;

    TableRecovery(TableFile file, TableChange change, BiConsumer<Long, Long> progress) {
        this.file = file;
        this.header = file.header;
        this.change = change;
        this.progress = progress;
    }

    /**
     * Checks all cells, and makes index, stack and stamp from them (recover 1 to 4). The caller then syncs, and stores
     * boot_id (recover 5).
     */
    void recover() {
        final long stamp = file.word(Layout.TABLE_CONTROL_STAMP);
        largest = stamp >= 0 && stamp < TableFile.MAX_STAMP - 1 ? stamp : 0;
        for (long entry = 0; entry < header.entries; entry++) {
            file.entry(0, entry, 0);
            file.entry(1, entry, 0);
        }
        change.reset();
        for (long cell = change.usableFrom(0); cell < header.cells; cell = change.usableFrom(cell + 1)) {
            recoverCell(cell);
            if ((cell & REPORT - 1) == 0) {
                progress.accept(cell, header.cells);
            }
        }
        if (largest > TableFile.MAX_STAMP - Layout.TABLE_RECOVERY_JUMP - 2) {
            throw file.corrupt(-1, "the number of the last change (stamp) is too large to go on: " + largest);
        }
        change.freeBelow(end);
        file.word(Layout.TABLE_CONTROL_STAMP, largest + Layout.TABLE_RECOVERY_JUMP); // recover 4
        file.word(Layout.TABLE_CONTROL_CHANGED, largest + Layout.TABLE_RECOVERY_JUMP);
        file.word(Layout.TABLE_CONTROL_SIZE, live);
        file.word(Layout.TABLE_CONTROL_DAMAGED, damaged);
    }

    /** Reports that all cells were checked. */
    void report() {
        progress.accept(header.cells, header.cells);
    }

    private void recoverCell(long cell) {
        final Memory memory = file.cell(cell);
        final int at = file.cellAt(cell);
        final long version = memory.getLongOpaque(at + Layout.TABLE_CELL_VERSION);
        if (version == 0 && seq(memory, at, 0) == 0 && seq(memory, at, 1) == 0) {
            return; // never used, or forgotten before: without a store, its page stays as it is
        }
        final long zero = goodSeq(memory, at, 0);
        final long one = goodSeq(memory, at, 1);
        largest = Math.max(largest, Math.max(zero, one) >> 1);
        long chosen = 0;
        if (version != 0) { // recover 2
            final long own = (version & 1) == 0 ? zero : one;
            chosen = own == version ? own : Math.max(zero, one);
            if (chosen == 0) {
                damaged++;
            }
        }
        if (chosen != 0 && memory.getIntOpaque(at + file.bodyAt(chosen) + Layout.TABLE_BODY_LENGTH) >= 0) {
            memory.putLongOpaque(at + Layout.TABLE_CELL_VERSION, chosen);
            keepLarger(cell, memory, at, chosen);
        } else if (chosen != 0) { // a removal: free, and keeps its bodies
            memory.putLongOpaque(at + Layout.TABLE_CELL_VERSION, chosen);
        } else {
            forget(memory, at);
        }
        if (memory.getLongOpaque(at + Layout.TABLE_CELL_VERSION) != 0) {
            end = cell + 1;
        }
    }

    /** Enters a live cell into the index; of two cells with one key, the one with the larger stamp (recover 3). */
    private void keepLarger(long cell, Memory memory, int at, long version) {
        final int length = memory.getIntOpaque(at + Layout.TABLE_CELL_KEY_LENGTH);
        if (!header.validKey(length)) { // a broken process has changed it since goodSeq
            forget(memory, at);
            return;
        }
        look.key.set(memory, at + Layout.TABLE_CELL_KEY, length);
        final long other = look.find(file);
        if (other < 0) {
            change.enterNew(look.key, cell);
            live++;
        } else if (look.version >> 1 < version >> 1) {
            forget(file.cell(other), file.cellAt(other));
            change.reenter(look.key, other, cell);
        } else {
            forget(memory, at);
        }
    }

    private long seq(Memory memory, int at, int number) {
        return memory.getLongOpaque(at + file.bodyAt(number) + Layout.TABLE_BODY_SEQ);
    }

    /** Takes from a cell its version and both bodies. */
    private void forget(Memory memory, int at) {
        memory.putLongOpaque(at + Layout.TABLE_CELL_VERSION, 0);
        memory.putLongOpaque(at + file.bodyAt(0) + Layout.TABLE_BODY_SEQ, 0);
        memory.putLongOpaque(at + file.bodyAt(1) + Layout.TABLE_BODY_SEQ, 0);
    }

    /** The seq of a body if the body is good, else 0 (recover 1). */
    private long goodSeq(Memory memory, int at, int number) {
        final int body = at + file.bodyAt(number);
        final long seq = seq(memory, at, number);
        final int length = memory.getIntOpaque(body + Layout.TABLE_BODY_LENGTH);
        final boolean good = seq > 0 && (seq & 1) == number && length >= Layout.TABLE_REMOVED
            && length <= header.valueBytes
            && header.validKey(memory.getIntOpaque(at + Layout.TABLE_CELL_KEY_LENGTH))
            && memory.getIntOpaque(body + Layout.TABLE_BODY_CRC) == change.crc(memory, at, body, seq, length);
        return good ? seq : 0;
    }
}
