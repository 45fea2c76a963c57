// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.stream.Stream;

/**
 * An attached table file: its sections, mapped in pieces of 2^30 bytes, and access to their words (2). A grown table is
 * another object of this class; {@link TableState} lets the old one go. Numbers in parentheses are sections of
 * spec/table.md; 'write 5' is step 5 of its operation write.
 */
final class TableFile {
    /** The bits of an entry that hold the number of its cell, + 1. */
    static final long CELL_BITS = 0xffff_ffffL;
    private static final int PIECE_BITS = Integer.numberOfTrailingZeros(Layout.TABLE_PIECE);
    /** The bits of an offset in a section that are the offset in a piece. */
    private static final long INSIDE = Layout.TABLE_PIECE - 1;
    /** The largest valid stamp. */
    static final long MAX_STAMP = 1L << 62;

    final String path;
    final ChannelFile file;
    final TableHeader header;
    final Memory control;
    /** The two copies of the index, in pieces. */
    private final Memory[] first;
    private final Memory[] second;
    private final Memory[] cells;
    /** The same memory as cells, for handlers: a write throws. */
    private final Memory[] readable;
    /**
     * For the hot path: the addresses of the two copies of the index, and of the pieces of the cells; null if not
     * known.
     */
    private final long[] copiesAt;
    private final long[] cellsAt;
    private long busy;
    /** True once {@link #isWhole} has found that the content can be trusted; it does not look again. */
    private boolean whole;
    /** How many use the file for longer than the read of a key; guarded by the state of the table. */
    int users;

    private TableFile(String path, ChannelFile file, TableHeader header) {
        this.path = path;
        this.file = file;
        this.header = header;
        this.control = file.map(header.controlOffset, Layout.TABLE_CONTROL_LENGTH, file.readOnly());
        this.first = map(header.indexOffset, header.entries * Long.BYTES);
        this.second = map(header.indexOffset + header.indexStride, header.entries * Long.BYTES);
        this.cells = map(header.cellsOffset, header.cells * header.cellStride);
        this.readable = Arrays.stream(cells).map(each -> Memory.of(each.view().asReadOnlyBuffer()))
            .toArray(Memory[]::new);
        long[] addresses = Stream.of(first, second, cells).flatMap(Arrays::stream).mapToLong(Memory::readableAt)
            .map(Raw::base).toArray();
        boolean known = first.length == 1 && second.length == 1 && Arrays.stream(addresses).allMatch(at -> at != 0);
        this.copiesAt = known ? Arrays.copyOf(addresses, 2) : null;
        this.cellsAt = known ? Arrays.copyOfRange(addresses, 2, addresses.length) : null;
        Memory.whenForgotten(this, file::close);
    }

    /** Maps a file; closes it if that fails. */
    static TableFile of(String path, ChannelFile file, TableHeader header) {
        boolean done = false;
        try {
            TableFile table = new TableFile(path, file, header);
            done = true;
            return table;
        } finally {
            if (!done) {
                file.close();
            }
        }
    }

    /** Opens and checks a file (channel.md 3.3). */
    static TableFile open(String path, OpenOptions options) {
        ChannelFile file = ChannelFile.open(path, options.readOnly);
        boolean done = false;
        try {
            TableHeader header = TableHeader.parse(file.read(0, Layout.HEADER_LENGTH), file.size(), path);
            file.checkFileSystem(options.anyFileSystem);
            options.check(header.schemaLength, header.schemaId, header.schemaVersion, path);
            if (!options.readOnly) {
                Lock.selfTest(file, header.controlOffset + Layout.TABLE_CONTROL_LOCK_TEST, path);
            }
            done = true;
            return of(path, file, header);
        } finally {
            if (!done) {
                file.close();
            }
        }
    }

    private Memory[] map(long offset, long length) {
        Memory[] pieces = new Memory[(int) ((length + INSIDE) >>> PIECE_BITS)];
        for (int i = 0; i < pieces.length; i++) {
            long at = (long) i << PIECE_BITS;
            pieces[i] = file.map(offset + at, Math.min(Layout.TABLE_PIECE, length - at), file.readOnly());
        }
        return pieces;
    }

    String schema() {
        return new String(file.read(header.schemaOffset, (int) header.schemaLength), StandardCharsets.UTF_8);
    }

    /** Whether a cell exists and lies inside one piece. Other cells are never used. */
    boolean usable(long cell) {
        return cell >= 0 && cell < header.cells && cellAt(cell) <= Layout.TABLE_PIECE - header.cellStride;
    }

    /** The piece in which a usable cell lies. */
    Memory cell(long cell) {
        return cells[(int) (cell * header.cellStride >>> PIECE_BITS)];
    }

    /** The address of a usable cell; 0 if not known. The caller keeps this object reachable. */
    long cellAddress(long cell) {
        final long at = cell * header.cellStride;
        return cellsAt == null ? 0 : cellsAt[(int) (at >>> PIECE_BITS)] + (at & INSIDE);
    }

    /** The piece in which a usable cell lies, for handlers: a write throws. */
    Memory readableCell(long cell) {
        return readable[(int) (cell * header.cellStride >>> PIECE_BITS)];
    }

    /** The offset of a usable cell in its piece. */
    int cellAt(long cell) {
        return (int) (cell * header.cellStride & INSIDE);
    }

    /** The offset, from the start of a cell, of the body that a version names. */
    int bodyAt(long version) {
        return header.bodyAt + ((int) version & 1) * header.bodyStride;
    }

    /** The number of the cell to which an entry leads; -1 if it leads to no usable cell. */
    long cellOf(long entry) {
        long cell = (entry & CELL_BITS) - 1;
        return entry != Layout.TABLE_TOMBSTONE && usable(cell) ? cell : -1;
    }

    /** The position in the index at which the search for an entry, or for a hash, begins. */
    long home(long entryOrHash) {
        return (entryOrHash >>> Integer.SIZE) * header.entries >>> Integer.SIZE;
    }

    /** The piece of a copy of the index in which the position {@code entry} lies. */
    private Memory index(int copy, long entry) {
        return (copy == 0 ? first : second)[(int) (entry >>> PIECE_BITS - 3)];
    }

    /** The entry at a position of a copy of the index. Pairs with: insert 3, remove 3, rebuild. */
    long entry(int copy, long entry) {
        if (copiesAt != null) {
            final long value = Raw.getLongAcquire(copiesAt[copy] + (entry << 3));
            Reference.reachabilityFence(this);
            return value;
        }
        return index(copy, entry).getLongAcquire((int) (entry << 3 & INSIDE));
    }

    /** Stores an entry at a position of a copy of the index. */
    void entry(int copy, long entry, long value) {
        index(copy, entry).putLongRelease((int) (entry << 3 & INSIDE), value); // pairs with: find 2
    }

    /** The generation: its lowest bit says which copy of the index is current. */
    long generation() {
        return control.getLongAcquire(Layout.TABLE_CONTROL_GENERATION); // pairs with: rebuild 3
    }

    /** The number of the last completed change. */
    long changed() {
        return control.getLongAcquire(Layout.TABLE_CONTROL_CHANGED); // pairs with: write 6
    }

    /** Loads a word of the control section, without ordering. Such words are written only under the writer's slot. */
    long word(int at) {
        return control.getLongOpaque(at);
    }

    /** Stores such a word, without ordering. */
    void word(int at, long value) {
        control.putLongOpaque(at, value);
    }

    /** Stores such a word after all stores before it. */
    void wordRelease(int at, long value) {
        control.putLongRelease(at, value);
    }

    /** The first cell that was never used, at most the number of cells. */
    long fresh() {
        return Math.min(control.getIntOpaque(Layout.TABLE_CONTROL_FRESH) & CELL_BITS, header.cells);
    }

    /** The words on which processes sleep that wait for any change of the table (8). */
    WaitingWords data() {
        return new WaitingWords(control, Layout.TABLE_CONTROL_DATA_SEQUENCE, Layout.TABLE_CONTROL_DATA_ASLEEP);
    }

    /** The words on which processes sleep that wait for a change of this cell (8). */
    WaitingWords waitingOf(long cell) {
        int at = cellAt(cell);
        return new WaitingWords(cell(cell), at + Layout.TABLE_CELL_SEQUENCE, at + Layout.TABLE_CELL_ASLEEP);
    }

    /** A hint: if it is not 0, another file may have the name (7). {@link #replacement} finds out. */
    int successor() {
        return control.getIntOpaque(Layout.TABLE_CONTROL_SUCCESSOR);
    }

    void successor(int value) {
        control.putIntOpaque(Layout.TABLE_CONTROL_SUCCESSOR, value);
    }

    /** Whether the file has this boot id: the table was created, recovered or found clean since the machine started. */
    boolean isOfBoot(byte[] boot) {
        for (int i = 0; i < boot.length; i++) {
            if (control.getByte(Layout.TABLE_CONTROL_BOOT_ID + i) != boot[i]) {
                return false;
            }
        }
        return true;
    }

    /** Whether the content can be trusted: the file has this boot's id, or was synced and marked clean (9). */
    boolean isWhole(byte[] boot) {
        if (!whole) {
            // before boot_id; pairs with: take 2
            final boolean clean = control.getIntAcquire(Layout.TABLE_CONTROL_CLEAN) == 1;
            whole = clean || isOfBoot(boot);
            VarHandle.acquireFence(); // pairs with: the store of boot_id
        }
        return whole;
    }

    CorruptTableException corrupt(long cell, String reason) {
        return new CorruptTableException(cell, reason, path);
    }

    /** The header of another table that has this one's name now; null if there is none (channel.md 6.13). */
    TableHeader replacement() {
        return file.removed() ? headerAt(path) : null;
    }

    /**
     * The header of the table at a path; null if there is no valid table. Throws if the process cannot tell, because it
     * has no descriptor left.
     */
    static TableHeader headerAt(String path) {
        try (ChannelFile now = ChannelFile.open(path, true)) {
            return TableHeader.parse(now.read(0, Layout.HEADER_LENGTH), now.size(), path);
        } catch (IoException e) {
            if (e.errno() == Linux.EMFILE || e.errno() == Linux.ENFILE || e.errno() == Linux.ENOMEM) {
                throw e;
            }
            return null;
        } catch (FlyringException noTable) {
            return null;
        }
    }

    /** Counts a read that gave up. Threads that count at once may lose a count, which does no harm. */
    void countBusy() {
        busy++;
    }

    long busy() {
        return busy;
    }
}
