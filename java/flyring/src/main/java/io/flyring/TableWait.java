// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.UUID;

/** The wait of one thread for a change of a key or of any key (table.md 8). */
final class TableWait extends Waiting {
    private static final long CAP_NANOS = 100_000_000;

    private final TableState table;
    private TableFile file;
    private WaitingWords words;
    /** The cell that must change; below 0: {@code changed}. */
    private long cell;
    private long version;
    /** The successor that was looked for last. */
    private int successor;

    TableWait(TableState table, boolean writable, TableFile file) {
        super(file.data(), writable, 1, "a change of a table");
        this.table = table;
        this.file = file;
        this.words = file.data();
    }

    /** Waits for another version of a cell. */
    void forCell(TableFile newFile, long newCell, long newVersion) {
        file = newFile;
        cell = newCell;
        version = newVersion;
        words = newFile.waitingOf(newCell);
        look();
    }

    /** Waits for another completed change. */
    void forAny(TableFile newFile, long newVersion) {
        file = newFile;
        cell = -1;
        version = newVersion;
        words = newFile.data();
        look();
    }

    void wake() {
        words.wakeSleepers(WaitingWords.ALL_RINGS);
    }

    @Override
    WaitingWords words() {
        return words;
    }

    @Override
    boolean isReady() {
        return table.isClosed() || file.successor() != successor || table.file() != file || isChanged();
    }

    private boolean isChanged() {
        return cell < 0 ? file.changed() != version
            // pairs with: write 5
            : file.cell(cell).getLongAcquire(file.cellAt(cell) + Layout.TABLE_CELL_VERSION) != version;
    }

    @Override
    boolean othersWake() {
        return TableSlot.ownerWakes(file);
    }

    @Override
    long cap(long waited) {
        return CAP_NANOS;
    }

    /** Follows a grown table; throws if another table has the name (7). */
    @Override
    void look() {
        successor = file.successor();
        final UUID other = successor == 0 ? null : table.look(file);
        if (other != null) {
            throw TableState.replaced(file, other);
        }
    }

    @Override
    void lookSoon() {
        // every verb looks
    }

    @Override
    void setBusy(boolean busy) {
        // a table may be used by several threads
    }
}
