// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Cleaner;
import java.nio.charset.StandardCharsets;
import org.agrona.DirectBuffer;

/**
 * The one writer of a table: holds the slot until it is closed, so that no other process changes the table meanwhile.
 * For feeds. Thread-safe.
 */
public final class TableWriter extends TableVerbs implements AutoCloseable {
    private final TableState table;
    private final Seat seat;
    private final String name;
    private final Cleaner.Cleanable cleaner;

    TableWriter(TableState table, Seat seat, String name) {
        this.table = table;
        this.seat = seat;
        this.name = name;
        this.cleaner = Memory.whenForgotten(this, seat::close);
    }

    /** The slot that a writer holds; outlives the writer, so that one that became unreachable can be closed. */
    static final class Seat {
        private static final long LOOK_NANOS = 1_000_000;

        private final TableState table;
        private final byte[] name;
        private TableSlot slot;
        private boolean closed;
        /** It was told that another table has the name. */
        private boolean replaced;
        private long lastLook = System.nanoTime() - LOOK_NANOS;

        Seat(TableState table, TableSlot slot, byte[] name) {
            this.table = table;
            this.slot = slot;
            this.name = name;
        }

        byte[] name() {
            return name;
        }

        synchronized TableSlot slot() {
            return slot;
        }

        /** The writer's name, for people. */
        String label() {
            return name.length == 0 ? "one without a name" : "'" + new String(name, StandardCharsets.UTF_8) + "'";
        }

        /** Whether the calling thread is in a handler of a change that this writer makes. */
        boolean isInHandler() {
            return slot.isBusy() && Thread.holdsLock(this);
        }

        synchronized void moveTo(TableSlot other) {
            slot.close();
            slot = other;
        }

        synchronized void checkIdle() {
            slot.checkIdle();
        }

        /** Throws unless a change may begin. */
        synchronized void checkReady() {
            table.checkOpen();
            checkOpen();
            slot.checkIdle();
            checkReplaced();
            slot.change().checkOwned();
        }

        /** Throws once if another table has the name; the writer may go on in its own file (table.md 7). */
        private void checkReplaced() {
            if (slot.file().successor() == 0 || replaced) {
                return;
            }
            final long now = System.nanoTime();
            if (now - lastLook < LOOK_NANOS) {
                return;
            }
            lastLook = now;
            final TableHeader there = slot.file().replacement();
            if (there != null && !there.isGrown(slot.file().header)) { // only this writer can let it grow
                replaced = true;
                throw TableState.replaced(slot.file(), there.id);
            }
        }

        synchronized long run(TableState.Action action) {
            checkReady();
            return slot.run(action);
        }

        synchronized long change(TableLook look, Change change, TableFile in, long cell) {
            table.checkOpen();
            checkOpen();
            slot.checkIdle();
            checkReplaced();
            return slot.change(look, change, slot.file() == in ? cell : TableLook.ABSENT);
        }

        synchronized void checkOpen() {
            if (closed) {
                throw new ClosedException("The writer of " + slot.file().path + " is closed. Take another one.");
            }
        }

        /** Gives the slot back: after a change that was cut off, the next owner mends what it left. */
        void close() {
            synchronized (this) {
                if (closed) {
                    return;
                }
                slot.checkIdle();
                closed = true;
                try {
                    if (slot.isOwned()) {
                        slot.closed();
                    }
                } finally {
                    slot.close();
                }
            }
            table.left(this);
        }
    }

    @Override
    TableState state() {
        return table;
    }

    @Override
    void checkOpen() {
        seat.checkOpen();
        table.checkOpen();
    }

    @Override
    void checkChange() {
        checkOpen();
        if (seat.isInHandler()) {
            throw TableSlot.viewAlive(table.file());
        }
    }

    @Override
    long change(TableLook look, Change change, long timeout) {
        return change(look, change, null, TableLook.ABSENT);
    }

    /** Makes a change of a key that lay in a cell of a file, if that is still the file. */
    long change(TableLook look, Change change, TableFile in, long cell) {
        seat.checkOpen();
        TableFile file = seat.slot().file();
        try {
            change.check(file.header, file.path);
            return seat.change(look, change, in, cell);
        } finally {
            change.clear();
        }
    }

    /**
     * Sets the value of a key by its entry, without a search.
     *
     * @param entry the key's entry, of the same table object.
     * @param value a buffer with the value.
     * @param offset where the value begins in it.
     * @param length the value's length, in bytes.
     * @return the key's new version.
     */
    public long put(Entry entry, DirectBuffer value, int offset, int length) {
        return entry.change(table, this, What.PUT, value, offset, length, null);
    }

    /**
     * Changes the value of a key by its entry, without a search.
     *
     * @param entry the key's entry, of the same table object.
     * @param handler gets a copy of the value and changes it; may not change the same table.
     * @return the key's new version; 0 if the key is not there.
     */
    public long update(Entry entry, ValueUpdate handler) {
        return entry.change(table, this, What.UPDATE, null, 0, 0, handler);
    }

    /**
     * Removes all keys, one after another.
     *
     * @return how many there were.
     */
    public long clear() {
        return seat.run(own -> own.change().clear(new TableLook()));
    }

    /**
     * Writes a whole copy of the table as it is now: beside, synced, then renamed.
     *
     * @param path name or path of the copy; a table that is there is replaced.
     * @return how many keys it has.
     */
    public long snapshot(String path) {
        return seat.run(own -> TableCreation.snapshot(own.file(), path, table.identity));
    }

    /**
     * Puts a larger file in the place of the table's. Keys keep their versions; other processes follow.
     *
     * @param capacity how many keys fit then.
     * @throws InvalidArgumentException if the capacity is below that of now.
     */
    public void grow(long capacity) {
        table.growUnder(seat, capacity);
    }

    /**
     * How often the slot was taken, this time included.
     *
     * @return the number, from 1.
     */
    public long epoch() {
        return seat.slot().change().epoch();
    }

    /**
     * The writer's name.
     *
     * @return the name, empty if it has none.
     */
    public String name() {
        return name;
    }

    /** Gives the slot back. A second close does nothing. */
    @Override
    public void close() {
        seat.close();
        cleaner.clean();
    }
}
