// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.zip.CRC32C;
import org.agrona.DirectBuffer;

/**
 * Makes the changes of a table for the owner of its slot: writes, inserts and removes, and the steps of a rebuild (3 to
 * 7). Words that only writers use are checked before they are used (10). Numbers in parentheses are sections of
 * spec/table.md; 'write 5' is step 5 of its operation write.
 */
final class TableChange {
    /** In the place of a cell or a position: none. */
    private static final long NONE = -1;
    private static final int CRC_WORDS = Integer.BYTES + Long.BYTES;

    private final TableFile file;
    private final TableHeader header;
    /** Whether changes wake sleepers. */
    private final boolean wakes;
    /** Whether the membarrier of sleepers reaches this process; if not, it needs a fence before each wake. */
    private final boolean registered;
    private final CRC32C crc = new CRC32C();
    private final ByteBuffer words = ByteBuffer.allocate(CRC_WORDS).order(ByteOrder.LITTLE_ENDIAN);
    private final WaitingWords data;
    /** The slot's epoch since its owner took it. */
    private long epoch;

    TableChange(TableFile file, boolean wakes) {
        this.file = file;
        this.header = file.header;
        this.wakes = wakes;
        this.registered = wakes && Waker.register();
        this.data = file.data();
    }

    TableFile file() {
        return file;
    }

    /** Makes changes from now on as the owner with this epoch. */
    void own(long newEpoch) {
        epoch = newEpoch;
    }

    long epoch() {
        return epoch;
    }

    /** Throws unless the slot's epoch is still the owner's (4). */
    void checkOwned() {
        if (file.word(Layout.TABLE_CONTROL_SLOT + Layout.PUBLISHER_SLOT_EPOCH) != epoch) {
            throw new SlotLostException(0, "The writer's slot of " + file.path + " was taken from this process, which"
                + " has lost the slot's lock. Close the writer and take the slot again.");
        }
    }

    /**
     * Puts the look's key; returns the new version. {@code cell} is where the key lies, or {@link TableLook#ABSENT}.
     */
    long put(TableLook look, long cell, DirectBuffer value, int offset, int length) {
        long version;
        if (cell >= 0) {
            version = write(cell, null, value, offset, length);
            complete();
            wake(cell);
        } else {
            version = insert(look.key, value, offset, length);
        }
        rebuildOn();
        return version;
    }

    /** Removes the look's key, which lies in this cell (5). */
    void remove(TableLook look, long cell) {
        final long entry = entryOf(look.key.hash(), cell);
        final long size = file.word(Layout.TABLE_CONTROL_SIZE);
        final long top = checkedTop(cell);
        checkedStamp();
        file.word(Layout.TABLE_CONTROL_INTENT_SIZE, size); // remove 1
        file.wordRelease(Layout.TABLE_CONTROL_INTENT, entry); // pairs with: take 3
        write(cell, null, null, 0, Layout.TABLE_REMOVED); // remove 2
        bury(entry); // remove 3
        push(cell, top); // remove 4
        complete();
        file.wordRelease(Layout.TABLE_CONTROL_SIZE, size - 1); // remove 5
        file.wordRelease(Layout.TABLE_CONTROL_INTENT, 0);
        wake(cell); // last, so that a process that is woken finds the new size (8)
        rebuildOn();
    }

    /** Puts a key that the table does not have (5); returns the new version. */
    private long insert(TableKey key, DirectBuffer value, int offset, int length) {
        final long size = file.word(Layout.TABLE_CONTROL_SIZE);
        final long top = checkedTop(NONE);
        final long cell = top != 0 ? top - 1 : checkedFresh();
        if (cell == header.cells) {
            throw new NoSpaceException(1, 0, "Table " + file.path + " is full: it holds as many keys as its capacity, "
                + header.capacity + ". Remove keys, or grow it.");
        }
        final long below = top != 0 ? checkedNext(cell) : 0;
        checkedStamp();
        final long entry = entryOf(key.hash(), cell);
        final int copy = current();
        final long place = place(copy, entry);
        final long other = isMoving() ? place(1 - copy, entry) : NONE;
        file.word(Layout.TABLE_CONTROL_INTENT_SIZE, size + 1); // insert 1
        file.wordRelease(Layout.TABLE_CONTROL_INTENT, entry); // pairs with: take 3
        if (top != 0) { // insert 2; release, so that a compiler keeps it after the intent
            file.control.putIntRelease(Layout.TABLE_CONTROL_TOP, (int) below);
        } else {
            file.control.putIntRelease(Layout.TABLE_CONTROL_FRESH, (int) usableFrom(cell + 1));
        }
        enter(copy, place, entry); // insert 3
        if (other >= 0) {
            enter(1 - copy, other, entry);
        }
        final long version = write(cell, key, value, offset, length); // insert 4
        complete();
        file.wordRelease(Layout.TABLE_CONTROL_SIZE, size + 1); // insert 5
        file.wordRelease(Layout.TABLE_CONTROL_INTENT, 0);
        wake(cell); // last, so that a process that is woken finds the new size (8)
        return version;
    }

    /** Stores a value, or a removal, in a cell (3), and the key unless it is null; returns the new version. */
    private long write(long cell, TableKey key, DirectBuffer value, int offset, int length) {
        final Memory memory = file.cell(cell);
        final int at = file.cellAt(cell);
        final long stamp = checkedStamp() + 1;
        file.word(Layout.TABLE_CONTROL_STAMP, stamp); // write 1
        final long v = stamp << 1 | 1 - (memory.getLongOpaque(at + Layout.TABLE_CELL_VERSION) & 1);
        store(memory, at, key, value, offset, length, v);
        return v;
    }

    /** Stores key and value in the body that {@code v} names, then the version (write 2 to 5). */
    private void store(Memory memory, int at, TableKey key, DirectBuffer value, int offset, int length, long v) {
        final int body = at + file.bodyAt(v);
        memory.putLongOpaque(body + Layout.TABLE_BODY_SEQ, 0); // write 2
        VarHandle.releaseFence(); // pairs with: read 4
        if (key != null) { // write 3
            memory.putIntOpaque(at + Layout.TABLE_CELL_KEY_LENGTH, key.length());
            key.store(memory, at + Layout.TABLE_CELL_KEY);
        }
        if (length > 0) {
            // zero-fills the last word
            memory.putLongOpaque(body + Layout.TABLE_BODY_VALUE + (length - 1 & -Long.BYTES), 0);
            Copy.from(value, offset, memory, body + Layout.TABLE_BODY_VALUE, length);
        }
        memory.putIntOpaque(body + Layout.TABLE_BODY_LENGTH, length);
        memory.putIntOpaque(body + Layout.TABLE_BODY_CRC, header.checked ? crc(memory, at, body, v, length) : 0);
        memory.putLongOpaque(body + Layout.TABLE_BODY_SEQ, v); // write 4
        memory.putLongRelease(at + Layout.TABLE_CELL_VERSION, v); // write 5; pairs with: read 1
    }

    /** The CRC of a body (9). The caller has checked the value's length; that of the key is bounded here (10). */
    int crc(Memory memory, int at, int body, long seq, int length) {
        final int keyLength =
            Math.max(0, Math.min(header.keyBytes, memory.getIntOpaque(at + Layout.TABLE_CELL_KEY_LENGTH)));
        final ByteBuffer view = memory.view();
        crc.reset();
        crc.update(words.clear().putInt(keyLength).flip());
        crc.update(view.limit(at + Layout.TABLE_CELL_KEY + keyLength).position(at + Layout.TABLE_CELL_KEY));
        crc.update(words.clear().putLong(seq).putInt(length).flip());
        if (length > 0) {
            final int value = body + Layout.TABLE_BODY_VALUE;
            crc.update(view.limit(value + length).position(value));
        }
        return (int) crc.getValue();
    }

    /** Publishes that the change is complete (write 6). */
    private void complete() {
        // pairs with: TableFile.changed
        file.wordRelease(Layout.TABLE_CONTROL_CHANGED, file.word(Layout.TABLE_CONTROL_STAMP));
    }

    /** Wakes the processes that wait for a change of this cell, then those that wait for any change (8). */
    private void wake(long cell) {
        if (!wakes) {
            return;
        }
        if (!registered) {
            VarHandle.fullFence(); // pairs with: sleep 3
        }
        final Memory memory = file.cell(cell);
        if ((memory.getIntOpaque(file.cellAt(cell) + Layout.TABLE_CELL_ASLEEP) & 1) != 0) {
            file.waitingOf(cell).wake(1);
        }
        if ((file.control.getIntOpaque(Layout.TABLE_CONTROL_DATA_ASLEEP) & 1) != 0) {
            data.wake(1);
        }
    }

    /**
     * Completes the change that a dead writer left half done (take 3 and 4). Returns whether that writer died before it
     * stored its last change in {@code changed}.
     */
    boolean finishIntent() {
        final long stamp = checkedStamp();
        final long intent = file.word(Layout.TABLE_CONTROL_INTENT);
        final long cell = file.cellOf(intent);
        if (intent != 0 && cell >= 0) {
            final long size = file.word(Layout.TABLE_CONTROL_INTENT_SIZE);
            if (isLive(cell)) {
                file.word(Layout.TABLE_CONTROL_SIZE, size);
            } else {
                bury(intent);
                final long top = file.control.getIntOpaque(Layout.TABLE_CONTROL_TOP) & TableFile.CELL_BITS;
                if (top != cell + 1 && cell < file.fresh()) {
                    push(cell, top);
                }
                file.word(Layout.TABLE_CONTROL_SIZE, size - 1);
            }
        }
        final boolean unpublished = file.word(Layout.TABLE_CONTROL_CHANGED) != stamp;
        if (unpublished) {
            file.wordRelease(Layout.TABLE_CONTROL_CHANGED, stamp); // take 4
        }
        if (intent != 0) {
            file.wordRelease(Layout.TABLE_CONTROL_INTENT, 0);
        }
        return unpublished;
    }

    /** The entry that leads from a hash to a cell. */
    private static long entryOf(long hash, long cell) {
        return hash >>> Integer.SIZE << Integer.SIZE | cell + 1;
    }

    /** The current copy of the index. */
    private int current() {
        return (int) file.word(Layout.TABLE_CONTROL_GENERATION) & 1;
    }

    /** The next step of a rebuild; 0 if none is under way, or if the word is not valid. */
    private long rebuild() {
        final long rebuild = file.word(Layout.TABLE_CONTROL_REBUILD);
        return rebuild < 0 || rebuild > 2 * header.entries + 1 ? 0 : rebuild;
    }

    /** Whether a rebuild moves entries, so that changes go into both copies of the index. */
    private boolean isMoving() {
        return rebuild() > header.entries;
    }

    /** The position of the first empty entry or tombstone that a search for this entry finds. */
    private long place(int copy, long entry) {
        long at = file.home(entry);
        for (long left = header.entries; left > 0; left--) {
            final long there = file.entry(copy, at);
            if (there == 0 || there == Layout.TABLE_TOMBSTONE) {
                return at;
            }
            at = at + 1 == header.entries ? 0 : at + 1;
        }
        throw file.corrupt(NONE, "the index has no empty entry in copy " + copy);
    }

    /** The position of an entry in a copy of the index, or {@link #NONE}. */
    private long placeOf(int copy, long entry) {
        long at = file.home(entry);
        for (long left = header.entries; left > 0; left--) {
            final long there = file.entry(copy, at);
            if (there == entry) {
                return at;
            }
            if (there == 0) {
                return NONE;
            }
            at = at + 1 == header.entries ? 0 : at + 1;
        }
        return NONE;
    }

    /** Stores an entry at a position that was empty or had a tombstone. */
    private void enter(int copy, long place, long entry) {
        if (file.entry(copy, place) == 0) {
            final int filled = filledAt(copy);
            file.word(filled, file.word(filled) + 1); // before the entry, so that it is never too low
        }
        file.entry(copy, place, entry);
    }

    private static int filledAt(int copy) {
        return copy == 0 ? Layout.TABLE_CONTROL_FILLED : Layout.TABLE_CONTROL_FILLED_OTHER;
    }

    /** Replaces each occurrence of an entry by a tombstone, in both copies while a rebuild moves entries. */
    private void bury(long entry) {
        final int copy = current();
        buryIn(copy, entry);
        if (isMoving()) {
            buryIn(1 - copy, entry);
        }
    }

    private void buryIn(int copy, long entry) {
        long at = file.home(entry);
        for (long left = header.entries; left > 0; left--) {
            final long there = file.entry(copy, at);
            if (there == 0) {
                return;
            }
            if (there == entry) {
                file.entry(copy, at, Layout.TABLE_TOMBSTONE);
            }
            at = at + 1 == header.entries ? 0 : at + 1;
        }
    }

    /**
     * Puts a cell on the stack of free cells. Clears its older body, whose value may not come back after a loss of
     * power (remove 4).
     */
    private void push(long cell, long top) {
        final Memory memory = file.cell(cell);
        final int at = file.cellAt(cell);
        final long other = ~memory.getLongOpaque(at + Layout.TABLE_CELL_VERSION);
        memory.putLongOpaque(at + file.bodyAt(other) + Layout.TABLE_BODY_SEQ, 0);
        memory.putIntOpaque(at + Layout.TABLE_CELL_NEXT, (int) top);
        file.control.putIntRelease(Layout.TABLE_CONTROL_TOP, (int) (cell + 1)); // after next
    }

    /** The first usable cell from this one on; the number of cells if there is none. */
    long usableFrom(long cell) {
        return cell < header.cells && !file.usable(cell) ? cell + 1 : cell;
    }

    /** Whether a cell holds a key. Only for the writer: no other process may change the cell meanwhile. */
    boolean isLive(long cell) {
        final Memory memory = file.cell(cell);
        final int at = file.cellAt(cell);
        final long v = memory.getLongOpaque(at + Layout.TABLE_CELL_VERSION);
        return v > 0 && memory.getIntOpaque(at + file.bodyAt(v) + Layout.TABLE_BODY_LENGTH) >= 0;
    }

    private long checkedStamp() {
        final long stamp = file.word(Layout.TABLE_CONTROL_STAMP);
        if (stamp < 0 || stamp >= TableFile.MAX_STAMP - 1) {
            throw file.corrupt(NONE, "the number of the last change (stamp) is out of range: " + stamp);
        }
        return stamp;
    }

    private long checkedFresh() {
        final long fresh = file.control.getIntOpaque(Layout.TABLE_CONTROL_FRESH) & TableFile.CELL_BITS;
        if (fresh != header.cells && !file.usable(fresh)) {
            throw file.corrupt(NONE, "the number of the first unused cell (fresh) is not that of a usable cell: "
                + fresh);
        }
        if (fresh != header.cells && isLive(fresh)) {
            throw file.corrupt(fresh, "it is marked as never used (fresh), but holds a key");
        }
        return fresh;
    }

    /** The word {@code top}. {@code removed} is a cell that is about to be freed, so it may not be on top. */
    private long checkedTop(long removed) {
        final long top = file.control.getIntOpaque(Layout.TABLE_CONTROL_TOP) & TableFile.CELL_BITS;
        if (top != 0 && (!isFree(top - 1) || top - 1 == removed)) {
            throw file.corrupt(NONE, "the stack of free cells (top) leads to a cell that is not free: " + (top - 1));
        }
        return top;
    }

    private long checkedNext(long cell) {
        final long next = file.cell(cell).getIntOpaque(file.cellAt(cell) + Layout.TABLE_CELL_NEXT)
            & TableFile.CELL_BITS;
        if (next != 0 && (!isFree(next - 1) || next - 1 == cell)) {
            throw file.corrupt(cell, "the stack of free cells (next) leads to a cell that is not free: " + (next - 1));
        }
        return next;
    }

    /** Whether a cell can be on the stack of free cells. */
    private boolean isFree(long cell) {
        return file.usable(cell) && cell < file.fresh() && !isLive(cell);
    }

    /** Does the steps of a rebuild that follow a change (7). */
    private void rebuildOn() {
        for (int i = 0; i < Layout.TABLE_REBUILD_STEPS; i++) {
            final long rebuild = rebuild();
            if (rebuild == 0 && (i > 0
                || file.word(filledAt(current())) <= header.entries / 4 * 3)) {
                return;
            }
            rebuildStep(rebuild);
        }
    }

    private void rebuildStep(long rebuild) {
        final int copy = current();
        final int other = 1 - copy;
        if (rebuild == 0) {
            VarHandle.releaseFence(); // rebuild 0; pairs with: find 5
            file.word(filledAt(other), 0);
            file.wordRelease(Layout.TABLE_CONTROL_REBUILD, 1);
        } else if (rebuild <= header.entries) {
            file.entry(other, rebuild - 1, 0); // rebuild 1
            file.wordRelease(Layout.TABLE_CONTROL_REBUILD, rebuild + 1);
        } else if (rebuild <= 2 * header.entries) { // rebuild 2
            final long entry = file.entry(copy, rebuild - header.entries - 1);
            if (entry != 0 && file.cellOf(entry) >= 0 && placeOf(other, entry) == NONE) {
                enter(other, emptyPlace(other, entry), entry);
            }
            file.wordRelease(Layout.TABLE_CONTROL_REBUILD, rebuild + 1);
        } else {
            file.wordRelease(Layout.TABLE_CONTROL_REBUILD, 0); // rebuild 3
            file.wordRelease(Layout.TABLE_CONTROL_GENERATION, file.word(Layout.TABLE_CONTROL_GENERATION) + 1);
        }
    }

    /**
     * The position of the first empty entry that a search for this entry finds. If the copy has none, which only
     * hostile memory can cause, that of the first tombstone.
     */
    private long emptyPlace(int copy, long entry) {
        long at = file.home(entry);
        for (long left = header.entries; left > 0; left--) {
            if (file.entry(copy, at) == 0) {
                return at;
            }
            at = at + 1 == header.entries ? 0 : at + 1;
        }
        return place(copy, entry);
    }

    /** Resets the words of index, stack and intent for a recovery, which has cleared the entries (9). */
    void reset() {
        file.control.putIntRelease(Layout.TABLE_CONTROL_TOP, 0);
        file.control.putIntRelease(Layout.TABLE_CONTROL_FRESH, (int) header.cells);
        file.word(Layout.TABLE_CONTROL_INTENT, 0);
        file.word(Layout.TABLE_CONTROL_INTENT_SIZE, 0);
        file.word(Layout.TABLE_CONTROL_GENERATION, 0);
        file.word(Layout.TABLE_CONTROL_REBUILD, 0);
        file.word(Layout.TABLE_CONTROL_FILLED, 0);
        file.word(Layout.TABLE_CONTROL_FILLED_OTHER, 0);
    }

    /** Enters a key that the index does not have into the current copy. */
    void enterNew(TableKey key, long cell) {
        final long entry = entryOf(key.hash(), cell);
        enter(current(), place(current(), entry), entry);
    }

    /** Changes the entry of a key that lay in the cell {@code before}, so that it leads to {@code cell}. */
    void reenter(TableKey key, long before, long cell) {
        final long at = placeOf(current(), entryOf(key.hash(), before));
        file.entry(current(), at, entryOf(key.hash(), cell));
    }

    /**
     * Puts each cell below {@code end} that is not live on the stack, the lowest on top. The cells from {@code end} on
     * become those that were never used.
     */
    void freeBelow(long end) {
        long top = 0;
        for (long cell = end - 1; cell >= 0; cell--) {
            if (file.usable(cell) && !isLive(cell)) {
                push(cell, top);
                top = cell + 1;
            }
        }
        file.control.putIntRelease(Layout.TABLE_CONTROL_FRESH, (int) usableFrom(end));
    }

    /** A copy of the value that the look found in this cell. */
    PayloadBuffer copyOf(long cell, TableLook look) {
        final byte[] bytes = new byte[look.length];
        file.cell(cell).getBytes(file.cellAt(cell) + file.bodyAt(look.version) + Layout.TABLE_BODY_VALUE, bytes, 0,
            bytes.length);
        final PayloadBuffer copy = new PayloadBuffer();
        copy.wrap(bytes);
        return copy;
    }

    /** Removes all keys, each as {@link #remove} does; returns how many. */
    long clear(TableLook look) {
        long removed = 0;
        final long fresh = file.fresh();
        for (long cell = usableFrom(0); cell < fresh; cell = usableFrom(cell + 1)) {
            if (isLive(cell)) {
                checkOwned();
                final Memory memory = file.cell(cell);
                final int at = file.cellAt(cell);
                final int length = memory.getIntOpaque(at + Layout.TABLE_CELL_KEY_LENGTH);
                if (!header.validKey(length)) {
                    throw file.corrupt(cell, "the length of its key is out of range: " + length);
                }
                look.key.set(memory, at + Layout.TABLE_CELL_KEY, length);
                remove(look, cell);
                removed++;
            }
        }
        return removed;
    }

    /**
     * Adds a key with its version to a copy of a table, which no other process sees yet. If the copy has the key
     * already, because it moved to another cell while the original was read, the larger version stays.
     */
    void add(TableLook look, TableKey key, DirectBuffer value, int length, long version) {
        look.key.set(key);
        final long known = look.find(file);
        if (known >= 0 && look.version > version) {
            return;
        }
        final long cell = known >= 0 ? known : file.fresh();
        final Memory memory = file.cell(cell);
        final int at = file.cellAt(cell);
        if (known < 0) {
            file.control.putIntOpaque(Layout.TABLE_CONTROL_FRESH, (int) usableFrom(cell + 1));
            enterNew(key, cell);
            file.word(Layout.TABLE_CONTROL_SIZE, file.word(Layout.TABLE_CONTROL_SIZE) + 1);
        }
        final long stamp = version >> 1;
        file.word(Layout.TABLE_CONTROL_STAMP, Math.max(stamp, file.word(Layout.TABLE_CONTROL_STAMP)));
        store(memory, at, key, value, 0, length, version);
    }
}
