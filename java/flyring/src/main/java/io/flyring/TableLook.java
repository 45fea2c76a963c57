// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import org.agrona.MutableDirectBuffer;

/**
 * A search for a key, or a read of a cell (6). It holds the key, the target or handler of the value, and what was
 * found. Each thread uses its own ones again and again, so that a search allocates nothing. Numbers in parentheses are
 * sections of spec/table.md; 'write 5' is step 5 of its operation write.
 */
final class TableLook {
    /** In the place of a cell: the key is not there. */
    static final long ABSENT = -1;
    /** The length of a value that was removed. */
    private static final int REMOVED = Layout.TABLE_REMOVED;
    private static final ThreadLocal<TableLook> OWN = ThreadLocal.withInitial(TableLook::new);

    final TableKey key = new TableKey();
    final TableVerbs.Change change = new TableVerbs.Change();
    /** Where a copy of the value goes; null for none. */
    private MutableDirectBuffer target;
    private int offset;
    private int room;
    /** Reads the value in place; null for none. */
    private ValueHandler<?> handler;
    private Object result;
    private RuntimeException failure;
    private final PayloadBuffer view = new PayloadBuffer(Memory.EMPTY);

    /** What the last read has found: version and length of the value. */
    long version;
    int length;
    /** In the place of a length: {@link #copy} could not tell. */
    static final int UNKNOWN = -2;

    /** The cell that was read last, for an error. */
    private long reading;
    /** A method uses it while it calls a handler. The methods that the handler calls use {@link #next}. */
    private boolean lent;
    private TableLook next;

    /** An object of the calling thread that is not lent. It has neither a target nor a handler. */
    static TableLook own() {
        TableLook look = OWN.get();
        while (look.lent) {
            if (look.next == null) {
                look.next = new TableLook();
            }
            look = look.next;
        }
        return look;
    }

    /** Keeps {@link #own} from returning this object, until {@link #giveBack}. */
    void lend() {
        lent = true;
    }

    /** Ends {@link #lend}; forgets target, handler and result. */
    void giveBack() {
        lent = false;
        handler = null;
        target = null;
        result = null;
        failure = null;
    }

    /** Lets reads copy the value into a buffer. */
    void into(MutableDirectBuffer buffer, int at) {
        if (at < 0) {
            throw new IndexOutOfBoundsException("The offset " + at + " in the target is negative.");
        }
        target = buffer;
        offset = at;
        room = buffer.isExpandable() ? Integer.MAX_VALUE : buffer.capacity() - at;
    }

    /** Lets reads copy the value nowhere. */
    void nowhere() {
        target = null;
    }

    /** Lets reads call a handler with the value in place. */
    void to(ValueHandler<?> newHandler) {
        handler = newHandler;
    }

    /** What the handler's last call returned; throws what it threw. */
    Object result() {
        if (failure != null) {
            throw failure;
        }
        return result;
    }

    /** Returns the cell in which the key lies, or {@link #ABSENT}. */
    long find(TableFile file) {
        final long hash = key.hash();
        final long entries = file.header.entries;
        long since = 0;
        while (true) {
            final long generation = file.generation(); // find 1
            final int copyOf = (int) generation & 1;
            long at = file.home(hash);
            for (long left = entries; left > 0; left--) {
                final long entry = file.entry(copyOf, at); // find 2
                if (entry == 0) {
                    break;
                }
                if ((entry ^ hash) >>> Integer.SIZE == 0) {
                    final long cell = file.cellOf(entry);
                    if (cell >= 0 && read(file, cell)) { // find 3, 4
                        return cell;
                    }
                }
                at = at + 1 == entries ? 0 : at + 1;
            }
            VarHandle.acquireFence(); // find 5; pairs with: rebuild 0
            if (file.word(Layout.TABLE_CONTROL_GENERATION) == generation) {
                return ABSENT;
            }
            since = again(file, since);
        }
    }

    /**
     * Finds an integer key and copies its value. Returns the value's length; {@link Layout#TABLE_REMOVED} if the key is
     * not there; {@link #UNKNOWN} if one try by address could not tell, so that the caller tries with a look. It is
     * short, and stores nothing but the value: the processor then begins the next one while it waits for the memory of
     * this one, which takes most of the time.
     */
    static int copy(TableFile file, long key, PayloadBuffer target, int offset) {
        final long hash = XxHash64.of(key);
        final long entries = file.header.entries;
        final long generation = file.generation(); // find 1
        final int copyOf = (int) generation & 1;
        long at = file.home(hash);
        for (long left = entries; left > 0; left--) {
            final long entry = file.entry(copyOf, at); // find 2
            if (entry == 0) {
                VarHandle.acquireFence(); // find 5; pairs with: rebuild 0
                return file.word(Layout.TABLE_CONTROL_GENERATION) == generation ? Layout.TABLE_REMOVED : UNKNOWN;
            }
            if ((entry ^ hash) >>> Integer.SIZE == 0) {
                final long cell = file.cellOf(entry);
                return cell < 0 ? UNKNOWN : copy(file, cell, key, target, offset); // find 3, 4
            }
            at = at + 1 == entries ? 0 : at + 1;
        }
        return UNKNOWN;
    }

    /** The same for a key that lies in this cell, or not: then {@link #UNKNOWN}. */
    static int copy(TableFile file, long cell, long key, PayloadBuffer target, int offset) {
        final long at = file.cellAddress(cell);
        final TableHeader header = file.header;
        if (at == 0 || header.valueBytes > Memory.SMALL) {
            return UNKNOWN;
        }
        final long v = Raw.getLongAcquire(at + Layout.TABLE_CELL_VERSION); // read 1; pairs with: write 5
        final long even = at + header.bodyAt;
        final long odd = even + header.bodyStride;
        // Both, so that their lines come at the same time as the first one.
        final long evenSeq = Raw.getLongAcquire(even + Layout.TABLE_BODY_SEQ); // read 2; pairs with: write 2
        final long oddSeq = Raw.getLongAcquire(odd + Layout.TABLE_BODY_SEQ);
        final boolean isEven = (v & 1) == 0;
        if (v <= 0 || (isEven ? evenSeq : oddSeq) != v) {
            return UNKNOWN;
        }
        final long body = isEven ? even : odd;
        final int size = Raw.getIntOpaque(body + Layout.TABLE_BODY_LENGTH); // read 3
        if (size < 0 || size > header.valueBytes
            || Raw.getIntOpaque(at + Layout.TABLE_CELL_KEY_LENGTH) != Long.BYTES
            || Raw.getLongOpaque(at + Layout.TABLE_CELL_KEY) != key
            || !target.take(offset, body + Layout.TABLE_BODY_VALUE, size)) {
            return UNKNOWN;
        }
        VarHandle.acquireFence(); // read 4; pairs with: the fence of write 2
        final boolean whole = Raw.getLongOpaque(body + Layout.TABLE_BODY_SEQ) == v;
        Reference.reachabilityFence(file);
        return whole ? size : UNKNOWN;
    }

    /**
     * The same for the writer: no other process writes, so a body that never fits its version is corrupt (10).
     * {@code likely} is the cell in which the key lay last, or {@link #ABSENT}.
     */
    long findAsWriter(TableFile file, long likely) {
        try {
            return likely >= 0 && read(file, likely) ? likely : find(file);
        } catch (BusyException e) {
            throw file.corrupt(reading, "the number of its value (seq) stays different from its version");
        }
    }

    /** Reads a cell; returns whether it is live and has the key. */
    boolean read(TableFile file, long cell) {
        return readByAddress(file, cell) || readChecked(file, cell);
    }

    /**
     * Does read 1 to 4 once, by address; the layout bounds each access. Returns true for a value of the key that is not
     * torn; for anything else false, and {@link #readChecked} finds out what it is. This halves the time of a get: the
     * processor begins the next one meanwhile.
     */
    private boolean readByAddress(TableFile file, long cell) {
        final long at = file.cellAddress(cell);
        if (at == 0) {
            return false;
        }
        final long v = Raw.getLongAcquire(at + Layout.TABLE_CELL_VERSION); // read 1; pairs with: write 5
        final int bodyAt = file.bodyAt(v);
        final long body = at + bodyAt;
        if (v <= 0 || Raw.getLongAcquire(body + Layout.TABLE_BODY_SEQ) != v) { // read 2; pairs with: write 2
            return false;
        }
        final int size = Raw.getIntOpaque(body + Layout.TABLE_BODY_LENGTH); // read 3
        if (size < 0 || size > file.header.valueBytes || target != null && size > room
            || !key.is(at + Layout.TABLE_CELL_KEY, Raw.getIntOpaque(at + Layout.TABLE_CELL_KEY_LENGTH))) {
            return false;
        }
        take(file, cell, file.cell(cell), file.cellAt(cell) + bodyAt + Layout.TABLE_BODY_VALUE, size);
        VarHandle.acquireFence(); // read 4; pairs with: the fence of write 2
        final boolean whole = Raw.getLongOpaque(body + Layout.TABLE_BODY_SEQ) == v;
        Reference.reachabilityFence(file);
        version = v;
        length = size;
        return whole;
    }

    /**
     * Does read 1 to 4, again from 1 while the value is torn. Each access is checked; throws if the cell is corrupt.
     */
    private boolean readChecked(TableFile file, long cell) {
        reading = cell;
        final Memory memory = file.cell(cell);
        final int at = file.cellAt(cell);
        long since = 0;
        while (true) {
            final long v = memory.getLongAcquire(at + Layout.TABLE_CELL_VERSION); // read 1; pairs with: write 5
            if (v <= 0) {
                return false;
            }
            final int body = at + file.bodyAt(v);
            final long seq = memory.getLongAcquire(body + Layout.TABLE_BODY_SEQ); // read 2; pairs with: write 2
            if (seq < 0) {
                return false;
            }
            if (seq == v) {
                final int keyLength = memory.getIntAcquire(at + Layout.TABLE_CELL_KEY_LENGTH); // read 3
                final boolean same = key.is(memory, at + Layout.TABLE_CELL_KEY, keyLength);
                final int size = memory.getIntAcquire(body + Layout.TABLE_BODY_LENGTH);
                if (same && size >= 0 && size <= file.header.valueBytes) {
                    take(file, cell, memory, body + Layout.TABLE_BODY_VALUE, size);
                }
                VarHandle.acquireFence(); // read 4; pairs with: the fence of write 2
                if (memory.getLongOpaque(body + Layout.TABLE_BODY_SEQ) == seq) {
                    return accept(file, cell, v, keyLength, same, size);
                }
            }
            since = again(file, since);
        }
    }

    /** Checks what was read, which is not torn; returns whether the cell is live and has the key. */
    private boolean accept(TableFile file, long cell, long v, int keyLength, boolean same, int size) {
        if (keyLength < 0 || keyLength > file.header.keyBytes) {
            throw file.corrupt(cell, "the length of its key is out of range: " + keyLength);
        }
        if (!same) {
            return false;
        }
        checkLength(file, cell, size);
        version = v;
        length = size;
        if (target != null && size > room) {
            throw new MessageTooLargeException(size, Math.max(0, room), "The value has " + size + " bytes; the buffer"
                + " has room for " + Math.max(0, room) + ".");
        }
        return size != REMOVED;
    }

    private static void checkLength(TableFile file, long cell, int size) {
        if (size < REMOVED || size > file.header.valueBytes) {
            throw file.corrupt(cell, "the length of its value is out of range: " + size);
        }
    }

    /** Copies the value into the target, or calls the handler. */
    private void take(TableFile file, long cell, Memory memory, int value, int size) {
        if (target != null) {
            if (size <= room) {
                Copy.to(memory, value, target, offset, size);
            }
        } else if (handler != null) {
            handle(file.readableCell(cell), value, size);
        }
    }

    private void handle(Memory memory, int value, int size) {
        view.window(memory, value, size);
        failure = null;
        try {
            result = handler.onValue(view);
        } catch (RuntimeException e) { // kept for result(): the value may be torn
            failure = e;
        } finally {
            view.invalidate();
        }
    }

    /**
     * Called before a read begins again; {@code since} is when it first did, or 0. Returns that time; throws if it is
     * more than 1 ms ago.
     */
    private static long again(TableFile file, long since) {
        final long now = System.nanoTime();
        if (since != 0 && now - since > Layout.TABLE_READ_LIMIT) {
            file.countBusy();
            throw new BusyException("A value of " + file.path + " changed again and again while it was read for 1 ms."
                + " Read it again, or write it less often.");
        }
        Thread.onSpinWait();
        return since == 0 ? now : since;
    }

    /**
     * Reads a cell, whatever key it has; returns whether it is live. Copies the key into {@link #key}, and the value
     * into {@code into}, which has room for the longest.
     */
    boolean readAny(TableFile file, long cell, Memory into) {
        final Memory memory = file.cell(cell);
        final int at = file.cellAt(cell);
        long since = 0;
        while (true) {
            final long v = memory.getLongAcquire(at + Layout.TABLE_CELL_VERSION); // read 1; pairs with: write 5
            if (v <= 0) {
                return false;
            }
            final int body = at + file.bodyAt(v);
            final long seq = memory.getLongAcquire(body + Layout.TABLE_BODY_SEQ); // read 2; pairs with: write 2
            if (seq < 0) {
                return false;
            }
            if (seq == v) {
                final int keyLength = memory.getIntAcquire(at + Layout.TABLE_CELL_KEY_LENGTH); // read 3
                final int size = memory.getIntOpaque(body + Layout.TABLE_BODY_LENGTH);
                final boolean valid = file.header.validKey(keyLength);
                if (valid && size >= 0 && size <= file.header.valueBytes) {
                    key.set(memory, at + Layout.TABLE_CELL_KEY, keyLength);
                    into.putBytes(0, memory, body + Layout.TABLE_BODY_VALUE, size);
                }
                VarHandle.acquireFence(); // read 4; pairs with: the fence of write 2
                if (memory.getLongOpaque(body + Layout.TABLE_BODY_SEQ) == seq) {
                    checkLength(file, cell, size);
                    if (!valid) {
                        throw file.corrupt(cell, "the length of its key is out of range: " + keyLength);
                    }
                    version = v;
                    length = size;
                    return size != REMOVED;
                }
            }
            since = again(file, since);
        }
    }
}
