// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BiConsumer;
import java.util.function.Consumer;
import org.agrona.DirectBuffer;

/**
 * The latest value of each key, in a memory-mapped file that several processes share. One process at a time writes; any
 * number of processes read, without a lock and without a store. A name stands for {@code <folder>/<name>.table}, an
 * argument with a {@code /} is a path, as for a {@link Channel}. Thread-safe. Spec table.md.
 */
public final class Table extends TableReads implements AutoCloseable {
    private static final long LOOK_NANOS = 1_000_000;
    private static final long RETRY_NANOS = 1_000_000;

    private final OpenOptions options;
    private final Identity identity;
    /** The monitor of changes, and of what follows here. */
    private final Object changing = new Object();
    /** The slot of single changes; null before the first one. */
    private TableSlot slot;
    private final List<TableWriter.Seat> seats = new ArrayList<>();
    private final Set<TableWait> waits = ConcurrentHashMap.newKeySet();
    private volatile TableFile file;
    private volatile boolean closed;
    private volatile long lastLook = System.nanoTime() - LOOK_NANOS;
    private volatile BiConsumer<Long, Long> progress = (done, total) -> { };

    private Table(TableFile file, OpenOptions options) {
        this.file = file;
        this.options = options;
        this.identity = options.identity;
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
     */
    public static Table replace(String name, TableOptions options) {
        return make(name, options, true);
    }

    private static Table make(String name, TableOptions options, boolean replace) {
        String path = Place.tablePath(name);
        required(options).check();
        Place.checkFolder(name, true);
        return new Table(TableCreation.make(path, options, replace), existing(options));
    }

    private static TableOptions required(TableOptions options) {
        if (options == null) {
            throw new InvalidArgumentException("options", "There are no options. A table needs the type of its keys:"
                + " TableOptions.text(), integer() or bytes().");
        }
        return options;
    }

    private static OpenOptions existing(TableOptions options) {
        return new OpenOptions().anyFileSystem(options.anyFileSystem).identity(options.identity).wake(options.wake);
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
     */
    public static Table open(String name, OpenOptions options) {
        if (options == null) {
            throw new InvalidArgumentException("options", "There are no options. Leave them out for the defaults.");
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
                options.compare(table.file.header, table.file.path);
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
        long deadline = deadline(timeout);
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
                nap(deadline, "a table");
            }
        }
    }

    private static long deadline(Duration timeout) {
        long nanos = Waiting.nanos(timeout);
        if (nanos < 0) {
            throw Waiting.negative(nanos);
        }
        return Waiting.deadline(System.nanoTime(), nanos);
    }

    /** Sleeps for 1 ms, or until the deadline. */
    private static void nap(long deadline, String what) {
        LockSupport.parkNanos(Math.min(RETRY_NANOS, deadline - System.nanoTime()));
        Waiting.checkInterrupted(what);
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

    /**
     * Sets what is told how far the recovery of a table of another boot is: the cells that were checked, and all cells.
     *
     * @param action runs in the thread whose change recovers the table.
     */
    public void onRecovery(BiConsumer<Long, Long> action) {
        progress = Objects.requireNonNull(action, "action");
    }

    boolean isClosed() {
        return closed;
    }

    void checkOpen() {
        if (closed) {
            throw new ClosedException("The table " + file.path + " is closed. Open it again.");
        }
    }

    private void checkWritable() {
        checkOpen();
        if (file.file.readOnly()) {
            throw new AccessDeniedException(file.path, "read-only", file.path + " is open read-only. Open it with"
                + " Table.open to write.");
        }
    }

    /** The file to read; follows a table that has grown. Throws if another table has the name (channel.md 6.13). */
    TableFile current() {
        TableFile now = file;
        return now.replacedOrUnlinked() ? look(now, false) : now;
    }

    /** The same for a change, which must not go into a file that lost its name a moment ago. */
    private TableFile currentToChange() {
        TableFile now = file;
        return now.replacedOrUnlinked() ? look(now, true) : now;
    }

    private TableFile look(TableFile seen, boolean now) {
        long time = System.nanoTime();
        if (!now && time - lastLook < LOOK_NANOS || !seen.file.removed()) {
            return seen;
        }
        lastLook = time;
        UUID there = seen.idAtPath();
        if (there == null) {
            return seen;
        }
        if (!there.equals(seen.header.id)) {
            throw new ChannelReplacedException(seen.path, there, "Another table has the name " + seen.path
                + " now, with the id " + there + ". Close this one and open it again to go on there.");
        }
        synchronized (changing) {
            checkOpen();
            if (file == seen) {
                adopt(TableFile.open(seen.path, options));
            }
            return file;
        }
    }

    /** Goes on with a grown file. The old one is unmapped once no thread reads it any more. */
    private void adopt(TableFile grown) {
        if (slot != null) {
            slot.close();
            slot = null;
        }
        file = grown;
    }

    TableSlot newSlot(TableFile of) {
        return new TableSlot(of, identity, options.wake, (done, total) -> progress.accept(done, total));
    }

    @Override
    TableLook keyed(long key) {
        checkOpen();
        TableLook look = TableLook.own();
        look.key.set(file.header, key, file.path);
        return look;
    }

    @Override
    TableLook keyed(CharSequence key) {
        checkOpen();
        TableLook look = TableLook.own();
        look.key.set(file.header, key, file.path);
        return look;
    }

    @Override
    TableLook keyed(DirectBuffer key) {
        checkOpen();
        TableLook look = TableLook.own();
        look.key.set(file.header, key, file.path);
        return look;
    }

    /** The file for a reader, who may believe what is there. */
    TableFile readable() {
        checkOpen();
        TableFile now = current();
        try {
            now.checkWhole(identity);
        } catch (NeedsRecoveryException e) {
            checkOpen(); // a close takes the memory away, so the boot's id looks like another one
            throw e;
        }
        return now;
    }

    @Override
    long find(TableLook look) {
        while (true) {
            TableFile now = readable();
            long cell = look.find(now);
            if (cell >= 0 || now == file && !closed) {
                return cell;
            } // a close, or a thread that followed a grown table, may have taken the memory away
        }
    }

    @Override
    Entry entry(TableLook look) {
        Entry entry = new Entry(this, look.key);
        return entry.version() == 0 ? null : entry;
    }

    @Override
    long change(TableLook look, Change change, long timeout) {
        try {
            change.check(file.header, file.path);
            return withSlot(timeout, own -> change.make(own.change(), look, TableLook.ABSENT));
        } finally {
            change.clear();
        }
    }

    /** What is done under the slot. */
    interface Action {
        long run(TableSlot slot);
    }

    /** Takes the slot for one action, and gives it back. */
    private long withSlot(long timeout, Action action) {
        checkWritable();
        long deadline = 0;
        while (true) {
            synchronized (changing) {
                checkOpen();
                TableFile now = currentToChange();
                slot = slot == null ? newSlot(now) : slot;
                slot.checkIdle();
                if (slot.tryTake(null)) {
                    TableSlot taken = slot;
                    try {
                        if (currentToChange() == now) { // else it grew while this process waited
                            return taken.run(action);
                        }
                    } finally {
                        taken.release();
                    }
                    continue;
                }
            }
            deadline = deadline == 0 ? Waiting.deadline(System.nanoTime(), timeout) : deadline;
            if (System.nanoTime() >= deadline) {
                throw TableSlot.noFreeSlot(file);
            }
            nap(deadline, "the writer's slot");
        }
    }

    /**
     * Takes the writer's slot without a name, if it is free.
     *
     * @return the writer.
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
        checkWritable();
        byte[] bytes = Slots.name(name);
        long deadline = deadline(timeout);
        while (true) {
            synchronized (changing) {
                checkOpen();
                TableFile now = currentToChange();
                TableWriter.Seat seat = new TableWriter.Seat(this, newSlot(now), bytes);
                if (seat.take()) {
                    if (currentToChange() == now) {
                        seats.add(seat);
                        return new TableWriter(this, seat, name);
                    }
                    seat.close();
                    continue;
                }
                seat.close();
            }
            if (System.nanoTime() >= deadline) {
                throw TableSlot.noFreeSlot(file);
            }
            nap(deadline, "the writer's slot");
        }
    }

    void left(TableWriter.Seat seat) {
        synchronized (changing) {
            seats.remove(seat);
        }
    }

    /**
     * Removes all keys, one after another.
     *
     * @return how many there were.
     */
    public long clear() {
        return clear(Duration.ofNanos(Waiting.FOREVER));
    }

    /**
     * Removes all keys, one after another; waits for the slot for a limited time.
     *
     * @param timeout the longest time to wait for the slot.
     * @return how many there were.
     */
    public long clear(Duration timeout) {
        return withSlot(remaining(timeout), own -> own.change().clear(new TableLook()));
    }

    private long remaining(Duration timeout) {
        checkOpen();
        long nanos = Waiting.nanos(timeout);
        if (nanos < 0) {
            throw Waiting.negative(nanos);
        }
        return nanos;
    }

    /**
     * Calls an action for each key. A key that is there all the time is met once, whole; one that is put or removed
     * meanwhile is met or not. To see one instant, hold the {@link #writer}.
     *
     * @param action gets the key and a copy of its value, valid until it returns.
     */
    public void forEach(Consumer<TableItem> action) {
        TableFile now = readable();
        TableItem item = new TableItem(now.header);
        long fresh = now.fresh();
        for (long cell = 0; cell < fresh; cell++) {
            if (now.usable(cell) && item.read(now, cell)) {
                action.accept(item);
            }
            checkOpen();
        }
    }

    /**
     * How many keys there are.
     *
     * @return the number.
     */
    public long size() {
        long size = readable().word(Layout.TABLE_CONTROL_SIZE);
        checkOpen();
        return Math.max(0, size);
    }

    /**
     * The number of the last completed change.
     *
     * @return the number; it only grows.
     */
    public long version() {
        long version = readable().changed();
        checkOpen();
        return version;
    }

    /**
     * Waits until any key has changed.
     *
     * @param version what {@link #version()} returned.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the table's version.
     * @throws TimedOutException if nothing changed in time.
     */
    public long waitChanged(long version, Duration timeout) {
        return waiting(timeout, wait -> {
            TableFile now = readable();
            wait.forAny(now, version);
            long changed = now.changed();
            checkOpen();
            return changed == version ? TableLook.ABSENT : changed;
        });
    }

    @Override
    long waitChanged(TableLook look, long version, Duration timeout) {
        TableLook own = new TableLook();
        own.key.set(look.key);
        return waiting(timeout, wait -> changed(own, version, wait));
    }

    /** The key's version if it is not {@code version}, else -1: then {@code wait} waits for another one. */
    long changed(TableLook look, long version, TableWait wait) {
        TableFile now = readable();
        long before = now.changed();
        long cell = look.find(now);
        if (cell >= 0 && look.version == version) {
            wait.forCell(now, cell, version);
        } else {
            wait.forAny(now, before);
        }
        long found = cell < 0 ? 0 : look.version;
        checkOpen(); // else the key is absent only because a close took the memory away
        return found == version ? TableLook.ABSENT : found;
    }

    /** What a wait looks for: a result, or -1. */
    interface Wanted {
        long look(TableWait wait);
    }

    long waiting(Duration timeout, Wanted wanted) {
        long nanos = remaining(timeout);
        TableFile now = readable();
        TableWait wait = new TableWait(this, !now.file.readOnly(), now);
        waits.add(wait);
        wait.begin(nanos);
        try {
            while (true) {
                long found = wanted.look(wait);
                if (found != TableLook.ABSENT) {
                    return found;
                }
                if (!wait.turn()) {
                    throw new TimedOutException("a change of a table", "Nothing changed in " + file.path
                        + " in time. Wait longer, or look whether its writer runs.");
                }
            }
        } finally {
            wait.end();
            waits.remove(wait);
        }
    }

    /**
     * Writes a whole copy of the table: beside, synced, then renamed.
     *
     * @param name name or path of the copy; a table that is there is replaced.
     * @return how many keys it has.
     */
    public long snapshot(String name) {
        return TableCreation.snapshot(readable(), Place.tablePath(name), identity);
    }

    /**
     * Puts a larger file in the place of this one. Keys keep their versions; other processes follow.
     *
     * @param capacity how many keys fit then.
     * @param timeout the longest time to wait for the slot; {@link Publisher#FOREVER} for no limit.
     * @throws InvalidArgumentException if the capacity is not larger than now.
     */
    public void grow(long capacity, Duration timeout) {
        withSlot(remaining(timeout), own -> {
            TableSlot[] grown = new TableSlot[1];
            try {
                TableFile larger = TableCreation.grow(own.file(), capacity, identity, to -> {
                    grown[0] = newSlot(to);
                    grown[0].tryTake(null);
                });
                file = larger;
            } finally {
                if (grown[0] != null) {
                    grown[0].close();
                }
            }
            own.close();
            slot = null;
            return 0;
        });
    }

    /** The same under a held slot; the new file's slot is held from before it has its name. */
    void growUnder(TableWriter.Seat seat, long capacity) {
        synchronized (changing) {
            synchronized (seat) { // no thread changes the table meanwhile
                checkOpen();
                seat.checkOpen();
                seat.checkIdle();
                TableSlot[] grown = new TableSlot[1];
                boolean done = false;
                try {
                    TableFile larger = TableCreation.grow(seat.slot().file(), capacity, identity, to -> {
                        grown[0] = newSlot(to);
                        grown[0].tryTake(seat.name());
                    });
                    adopt(larger);
                    seat.moveTo(grown[0]);
                    done = true;
                } finally {
                    if (!done && grown[0] != null) {
                        grown[0].close();
                    }
                }
            }
        }
    }

    /** Writes to the disk what was changed. */
    public void sync() {
        checkWritable();
        current().file.sync();
    }

    /**
     * A snapshot of what the table holds. Takes no lock and writes nothing.
     *
     * @return the snapshot.
     */
    public TableStats stats() {
        checkOpen();
        return TableStats.of(current());
    }

    /**
     * The table's file.
     *
     * @return its path.
     */
    public String path() {
        return file.path;
    }

    /**
     * The table's id.
     *
     * @return a UUID; a grown table keeps it.
     */
    public UUID id() {
        return file.header.id;
    }

    /**
     * What the keys are.
     *
     * @return bytes, text or integer.
     */
    public KeyType keyType() {
        return file.header.keyType;
    }

    /**
     * The length of the longest key.
     *
     * @return bytes.
     */
    public int keyBytes() {
        return file.header.keyBytes;
    }

    /**
     * The length of the longest value.
     *
     * @return bytes.
     */
    public int valueBytes() {
        return file.header.valueBytes;
    }

    /**
     * How many keys fit.
     *
     * @return the number.
     */
    public long capacity() {
        return file.header.capacity;
    }

    /**
     * Whether values carry a checksum.
     *
     * @return true if the table survives a loss of power.
     */
    public boolean checked() {
        return file.header.checked;
    }

    /**
     * The schema of the values.
     *
     * @return its text; empty if the table has none.
     */
    public String schema() {
        checkOpen();
        return file.schema();
    }

    /**
     * The schema's id.
     *
     * @return the id; 0 without a schema.
     */
    public int schemaId() {
        return file.header.schemaId;
    }

    /**
     * The template id of the message that each value is.
     *
     * @return the id; 0 without a schema.
     */
    public int valueTemplate() {
        return file.header.valueTemplate;
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
     * Closes the table and its writers.
     *
     * @param sync true writes to the disk what was changed, so that the next boot needs no recovery.
     */
    public void close(boolean sync) {
        synchronized (changing) {
            if (closed) {
                return;
            }
            if (slot != null) {
                slot.checkIdle();
            }
            seats.forEach(TableWriter.Seat::checkIdle);
            List.copyOf(seats).forEach(TableWriter.Seat::close);
            try {
                if (sync) {
                    synced();
                }
            } finally {
                closed = true;
                if (slot != null) {
                    slot.close();
                }
                waits.forEach(TableWait::wake);
                file.file.close();
            }
        }
    }

    private void synced() {
        checkWritable();
        TableFile now = file;
        TableSlot own = slot != null ? slot : newSlot(now);
        slot = own;
        try {
            now.checkWhole(identity);
        } catch (NeedsRecoveryException e) {
            return; // nothing was changed by this process
        }
        if (!own.tryTake(null)) { // another process writes: it can make the table clean
            now.file.sync();
            return;
        }
        try {
            now.file.sync();
            now.control.putIntOpaque(Layout.TABLE_CONTROL_CLEAN, 1);
            own.syncControl();
        } finally {
            own.release();
        }
    }

}
