// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import java.util.UUID;
import java.util.function.Consumer;

/**
 * A map in a memory-mapped file: the latest value of each key. Any number of processes read it, without a lock and
 * without a store. One process at a time writes: only the process that holds the writer's slot can change the table. A
 * name stands for {@code <folder>/<name>.table}; an argument that contains a {@code /} is a path, as for a
 * {@link Channel}. Instances are thread-safe. See spec/table.md.
 */
public final class Table extends TableReads implements AutoCloseable {
    private final TableState state;

    Table(TableFile file, OpenOptions options) {
        this.state = new TableState(file, options);
    }

    /**
     * Creates a table. The name appears only when the file is complete.
     *
     * @param name name or path.
     * @param options keys, values and capacity.
     * @return the table.
     * @throws ChannelExistsException if a file of that name exists.
     * @throws FlyringException as {@link Channel#create} does.
     */
    public static Table create(String name, TableOptions options) {
        return make(name, options, false);
    }

    /**
     * Creates a table and gives it the name, even if another table has that name now. Processes that have the old table
     * open keep it; their changes and waits throw {@link ChannelReplacedException}.
     *
     * @param name name or path.
     * @param options keys, values and capacity.
     * @return the new table.
     * @throws FlyringException as {@link Channel#replace} does.
     */
    public static Table replace(String name, TableOptions options) {
        return make(name, options, true);
    }

    /** Creates the file and opens the table; with {@code replace}, also if another table has the name. */
    private static Table make(String name, TableOptions options, boolean replace) {
        String path = Place.tablePath(name);
        required(options).check();
        Place.checkFolder(name, true);
        return new Table(TableCreation.make(path, options, replace), existing(options));
    }

    /** Returns the options; throws if they are null. */
    private static TableOptions required(TableOptions options) {
        if (options == null) {
            throw new InvalidArgumentException("options", "The options are null. A table needs the type of its keys:"
                + " TableOptions.text(), integer() or bytes().");
        }
        return options;
    }

    /** The options for opening that correspond to these options for creating. */
    private static OpenOptions existing(TableOptions options) {
        return new OpenOptions().anyFileSystem(options.anyFileSystem).identity(options.identity).wake(options.wake)
            .recoveryProgress(options.recoveryProgress);
    }

    /**
     * Opens a table after validating its whole header.
     *
     * @param name name or path.
     * @return the table.
     * @throws FlyringException as {@link Channel#open(String)} does.
     */
    public static Table open(String name) {
        return open(name, new OpenOptions());
    }

    /**
     * Opens a table that has what the options ask for.
     *
     * @param name name or path.
     * @param options how to open, and what the table must have.
     * @return the table.
     * @throws FlyringException as {@link Channel#open(String)} does.
     */
    public static Table open(String name, OpenOptions options) {
        if (options == null) {
            throw new InvalidArgumentException("options", "The options are null. Call open(name) for the defaults.");
        }
        String path = Place.tablePath(name);
        Place.checkFolder(name, false);
        return new Table(TableFile.open(path, options), options);
    }

    /**
     * Opens a table, or creates it if there is none.
     *
     * @param name name or path.
     * @param options keys, values and capacity that the table must have; it may have more capacity.
     * @return the table.
     * @throws ChannelDiffersException if the existing table differs; names the first field that does.
     */
    public static Table openOrCreate(String name, TableOptions options) {
        required(options).check();
        while (true) {
            Table table;
            try {
                table = open(name, existing(options));
            } catch (NoSuchChannelException e) {
                try {
                    return create(name, options);
                } catch (ChannelExistsException createdMeanwhile) {
                    continue;
                }
            }
            boolean same = false;
            try {
                options.compare(table.state.file().header, table.path());
                same = true;
                return table;
            } finally {
                if (!same) {
                    table.close();
                }
            }
        }
    }

    /**
     * Opens a table; waits until a table of this name exists.
     *
     * @param name name or path.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the table.
     * @throws TimedOutException if no table of this name appeared in time.
     */
    public static Table waitFor(String name, Duration timeout) {
        return waitFor(name, timeout, new OpenOptions());
    }

    /**
     * Opens a table that has what the options ask for; waits until a table of this name exists.
     *
     * @param name name or path.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @param options how to open, and what the table must have.
     * @return the table.
     * @throws TimedOutException if no table of this name appeared in time.
     */
    public static Table waitFor(String name, Duration timeout, OpenOptions options) {
        long deadline = Waiting.deadline(System.nanoTime(), TableState.checked(timeout));
        while (true) {
            try {
                return open(name, options);
            } catch (NoSuchChannelException e) {
                if (System.nanoTime() >= deadline) {
                    TimedOutException error = new TimedOutException("the table " + e.path(), "There is no table "
                        + e.path() + " yet. Start the process that creates it, or check the name and FLYRING_DIR.");
                    error.initCause(e);
                    throw error;
                }
                TableState.nap(deadline, "a table");
            }
        }
    }

    /**
     * Removes a table's name. Processes that have the table open keep working.
     *
     * @param name name or path.
     * @throws NotAChannelException if the file does not start with a table's magic number; it is not removed.
     */
    public static void unlink(String name) {
        String path = Place.tablePath(name);
        Place.checkFolder(name, false);
        TableCreation.unlink(path);
    }

    @Override
    TableState state() {
        return state;
    }

    @Override
    long change(TableLook look, Change change, long timeout) {
        TableHeader header = state.file().header;
        try {
            change.check(header, path());
            return state.withSlot(timeout, own -> change.make(own.change(), look, TableLook.ABSENT));
        } finally {
            change.clear();
        }
    }

    /**
     * Takes the writer's slot, if it is free; the writer has no name.
     *
     * @return the writer.
     * @throws NoFreeSlotException if the slot is not free.
     * @see #writer(String, Duration)
     */
    public TableWriter writer() {
        return writer("", Duration.ZERO);
    }

    /**
     * Takes the writer's slot, if it is free.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; a label for people.
     * @return the writer.
     * @throws NoFreeSlotException if the slot is not free.
     * @see #writer(String, Duration)
     */
    public TableWriter writer(String name) {
        return writer(name, Duration.ZERO);
    }

    /**
     * Takes the writer's slot and holds it: no other process can change the table until the writer is closed.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; a label for people.
     * @param timeout the longest time to wait for the slot; {@link Publisher#FOREVER} for no limit.
     * @return the writer.
     * @throws NoFreeSlotException if the slot was not free in time.
     * @throws InvalidArgumentException if the name is not valid, or the time-out below 0.
     */
    public TableWriter writer(String name, Duration timeout) {
        state.checkWritable();
        return new TableWriter(state, state.seat(Slots.name(name), timeout), name);
    }

    /**
     * Removes all keys, one after another. Waits for the writer's slot without a time limit.
     *
     * @return how many keys were removed.
     */
    public long clear() {
        return clear(Duration.ofNanos(Waiting.FOREVER));
    }

    /**
     * Removes all keys, one after another; waits for the writer's slot for a limited time.
     *
     * @param timeout the longest time to wait for the slot.
     * @return how many keys were removed.
     * @throws NoFreeSlotException if the slot was not free in time.
     */
    public long clear(Duration timeout) {
        return state.clear(timeout);
    }

    /**
     * Calls an action for each key. A key that is there during the whole call is passed to the action exactly once,
     * with a value that is not torn. A key that is put or removed during the call may be passed or not. To get the
     * values of one moment, hold the {@link #writer} during the call.
     *
     * @param action gets the key and a copy of its value, valid until it returns.
     */
    public void forEach(Consumer<TableItem> action) {
        state.reading(true, now -> {
            TableItem item = new TableItem(now.header);
            long fresh = now.fresh();
            for (long cell = 0; cell < fresh; cell++) {
                if (now.usable(cell) && item.read(now, cell)) {
                    action.accept(item);
                }
                state.checkOpen();
            }
            return null;
        });
    }

    /**
     * How many keys there are.
     *
     * @return the number.
     */
    public long size() {
        return Math.max(0, state.word(now -> now.word(Layout.TABLE_CONTROL_SIZE)));
    }

    /**
     * The number of the last completed change.
     *
     * @return the number; it only grows.
     */
    public long version() {
        return state.word(TableFile::changed);
    }

    /**
     * Waits until the table's version differs from {@code version}.
     *
     * @param version the version that the caller saw last, from {@link #version()}.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the table's new version.
     * @throws TimedOutException if nothing changed in time.
     * @throws ChannelReplacedException if another table has the name.
     */
    public long waitChanged(long version, Duration timeout) {
        return state.waiting(timeout, wait -> state.changed(version, wait));
    }

    /**
     * Writes a full copy of the table to a temporary file in the copy's folder, syncs it, and renames it. If the table
     * changes meanwhile, no value is torn, but the values may be of different moments; {@link TableWriter#snapshot}
     * copies the table of one moment.
     *
     * @param name name or path of the copy; a table that is there is replaced.
     * @return how many keys the copy has.
     * @throws InvalidArgumentException if it is the name or path of this table.
     * @throws NoSpaceException if there is no room for the copy.
     */
    public long snapshot(String name) {
        return state.reading(true, now -> TableCreation.snapshot(now, name, state.identity));
    }

    /**
     * Copies the table into a larger file, which gets the table's name. Keys keep their versions. Processes that have
     * the table open go on with the larger file.
     *
     * @param capacity the new capacity, in keys.
     * @param timeout the longest time to wait for the writer's slot; {@link Publisher#FOREVER} for no limit.
     * @throws InvalidArgumentException if the capacity is below the present one, or above 2^30.
     * @throws NoFreeSlotException if the slot was not free in time.
     * @throws NoSpaceException if there is no room for the larger file beside the old one.
     */
    public void grow(long capacity, Duration timeout) {
        state.grow(capacity, timeout);
    }

    /** Writes all changes to the disk. */
    public void sync() {
        state.checkWritable();
        state.reading(false, now -> {
            now.file.sync();
            return null;
        });
    }

    /**
     * Statistics of the table. Takes no lock and writes nothing, and works for a table that needs recovery, too.
     *
     * @return the statistics.
     */
    public TableStats stats() {
        return state.reading(false, now -> TableStats.of(now, state.boot));
    }

    /**
     * The table's file.
     *
     * @return its path.
     */
    public String path() {
        return state.file().path;
    }

    /**
     * The table's id.
     *
     * @return a UUID; a grown table keeps it.
     */
    public UUID id() {
        return state.file().header.id;
    }

    /**
     * The type of the keys.
     *
     * @return bytes, text or integer.
     */
    public KeyType keyType() {
        return state.file().header.keyType;
    }

    /**
     * The length of the longest key.
     *
     * @return bytes.
     */
    public int keyBytes() {
        return state.file().header.keyBytes;
    }

    /**
     * The length of the longest value.
     *
     * @return bytes.
     */
    public int valueBytes() {
        return state.file().header.valueBytes;
    }

    /**
     * How many keys fit.
     *
     * @return the number.
     */
    public long capacity() {
        return state.file().header.capacity;
    }

    /**
     * Whether values carry a checksum.
     *
     * @return true if they do; only then can the table be recovered after a loss of power.
     */
    public boolean checked() {
        return state.file().header.checked;
    }

    /**
     * The schema of the values.
     *
     * @return its text; empty if the table has none.
     */
    public String schema() {
        state.checkOpen();
        return state.reading(false, TableFile::schema);
    }

    /**
     * The schema's id.
     *
     * @return the id; 0 without a schema.
     */
    public int schemaId() {
        return state.file().header.schemaId;
    }

    /**
     * The template id of the message that each value is.
     *
     * @return the id; 0 without a schema.
     */
    public int valueTemplate() {
        return state.file().header.valueTemplate;
    }

    /**
     * Closes the table and its writers. A second close does nothing.
     *
     * @throws ViewAliveException if called from a handler that updates a value; nothing was closed.
     */
    @Override
    public void close() {
        close(false);
    }

    /**
     * Closes the table and its writers, with or without a sync.
     *
     * @param sync true: writes all changes to the disk and marks the table clean, so that it needs no recovery after a
     *     reboot. If another process holds the writer's slot, this call does not mark the table clean; a synced close
     *     by that process does.
     */
    public void close(boolean sync) {
        state.close(sync);
    }
}
