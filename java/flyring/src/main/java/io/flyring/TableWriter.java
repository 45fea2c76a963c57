// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Cleaner;
import java.nio.charset.StandardCharsets;
import org.agrona.DirectBuffer;

/**
 * The one writer of a table. It holds the writer's slot until it is closed, so that no other process changes the table
 * meanwhile. It is for a process that changes the table all the time, such as a price feed. Thread-safe.
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

    /**
     * The slot that a writer holds. It does not refer to the writer, so that a cleaner can give back the slot of a
     * writer that became unreachable without a close.
     */
    static final class Seat {
        private static final long LOOK_NANOS = 1_000_000;

        private final TableState table;
        private final byte[] name;
        private TableSlot slot;
        private boolean closed;
        /** Whether all is given back. */
        private boolean ended;
        /** {@link #checkReplaced} has thrown: the caller knows that another table has the name. */
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

        /** Gives up the slot of the old file, and goes on with that of the larger one. */
        synchronized void moveTo(TableSlot other) {
            slot.close();
            slot = other;
        }

        /** Throws if the calling thread is in a handler of a change that this writer makes. */
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

        /**
         * Throws the first time that another table has the name. After that, the writer's changes go into the old file
         * (table.md 7).
         */
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
            // A larger file of this table is no other table: only this writer can make one.
            if (there != null && !there.isGrown(slot.file().header)) {
                replaced = true;
                throw TableState.replaced(slot.file(), there.id);
            }
        }

        /** Runs an action, if a change may begin. */
        synchronized long run(TableState.Action action) {
            checkReady();
            return slot.run(action);
        }

        /** Makes a change, which tries {@code cell} before a search if {@code in} is still the table's file. */
        synchronized long change(TableLook look, Change change, TableFile in, long cell) {
            checkOpen();
            TableFile file = slot.file();
            change.check(file.header, file.path);
            table.checkOpen();
            slot.checkIdle();
            checkReplaced();
            return slot.change(look, change, file == in ? cell : TableLook.ABSENT);
        }

        synchronized void checkOpen() {
            if (closed) {
                throw new ClosedException("The writer of " + slot.file().path + " is closed. Call Table.writer()"
                    + " for a new one.");
            }
        }

        /**
         * Gives the slot back. If a change was interrupted, the next owner of the slot completes it. After an Error in
         * its middle, the next close goes on: each step may be done twice.
         */
        void close() {
            synchronized (this) {
                if (!ended) {
                    slot.checkIdle();
                    closed = true;
                    try {
                        slot.closed();
                    } finally {
                        slot.close();
                    }
                    ended = true;
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

    /**
     * Changes a key that lay in a cell of the file {@code in}. The cell is ignored if the table has a larger file by
     * now.
     */
    long change(TableLook look, Change change, TableFile in, long cell) {
        try {
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
     * @return the key's new version; if the key was removed, it is put again.
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
     * Writes a full copy of the table as it is now to a temporary file in the copy's folder, syncs it, and renames it.
     *
     * @param path name or path of the copy; a table that is there is replaced.
     * @return how many keys it has.
     */
    public long snapshot(String path) {
        return seat.run(own -> TableCreation.snapshot(own.file(), path, table.identity));
    }

    /**
     * Replaces the table's file by a larger one. Keys keep their versions. Processes that have the table open go on
     * with the larger file.
     *
     * @param capacity the new capacity, in keys.
     * @throws InvalidArgumentException if the capacity is below the present one, or above 2^30.
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
