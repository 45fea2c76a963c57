// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.UUID;

/**
 * The wait of one thread for a change of a key or of any key (8). Numbers in parentheses are sections of spec/table.md;
 * 'write 5' is step 5 of its operation write.
 */
final class TableWait extends Waiting {
    private static final long CAP_NANOS = 100_000_000;

    private final TableState table;
    private TableFile file;
    private WaitingWords words;
    /** The cell whose version must change; below 0 if {@code changed} must. */
    private long cell;
    /** The value from which it must differ. */
    private long version;
    /** The value of {@code successor} at the last look (7). */
    private int successor;

    TableWait(TableState table, boolean writable, TableFile file) {
        super(file.data(), writable, 1, "a change of a table");
        this.table = table;
        this.file = file;
        this.words = file.data();
    }

    /** Makes the wait end when the version of a cell differs from {@code newVersion}. */
    void forCell(TableFile newFile, long newCell, long newVersion) {
        file = newFile;
        cell = newCell;
        version = newVersion;
        words = newFile.waitingOf(newCell);
        look();
    }

    /** Makes the wait end when {@code changed} differs from {@code newVersion}. */
    void forAny(TableFile newFile, long newVersion) {
        file = newFile;
        cell = -1;
        version = newVersion;
        words = newFile.data();
        look();
    }

    /** Lets the sleeper look again, by the futex call alone. */
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

    /** Follows a table that has grown; throws if another table has the name (7). */
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
        // every method of a table looks
    }

    @Override
    void setBusy(boolean busy) {
        // several threads may use a table at once
    }
}
