// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;
import java.util.function.ToLongFunction;
import org.agrona.MutableDirectBuffer;

/**
 * What a table shares with its writers and entries: the attached file, the slot for single changes, the slots of
 * writers, and the waits (5.1, 7, 8). A single change is one that a {@link Table} makes without a {@link TableWriter}.
 * Thread-safe. Numbers in parentheses are sections of spec/table.md; 'write 5' is step 5 of its operation write.
 */
final class TableState {
    private static final long LOOK_NANOS = 1_000_000;
    private static final long RETRY_NANOS = 1_000_000;

    final OpenOptions options;
    final Identity identity;
    /** The id of this boot; kept, because reading it is a system call. */
    final byte[] boot;
    /** The monitor that guards single changes, the choice of the current file, and a close. */
    private final Object changing = new Object();
    /** The slot for single changes; null before the first one. It is busy only while a thread holds the monitor. */
    private volatile TableSlot slot;
    private final List<TableWriter.Seat> seats = new CopyOnWriteArrayList<>();
    private final Set<TableWait> waits = ConcurrentHashMap.newKeySet();
    /** Guards the users of files; held for a moment only. */
    private final Object using = new Object();
    private volatile TableFile file;
    private volatile boolean closed;
    /** Whether all is given back. */
    private boolean ended;
    private volatile long lastLook = System.nanoTime() - LOOK_NANOS;

    TableState(TableFile file, OpenOptions options) {
        this.file = file;
        this.options = options;
        this.identity = options.identity;
        this.boot = identity.boot();
    }

    /** The current file, without any check. */
    TableFile file() {
        return file;
    }

    boolean isClosed() {
        return closed;
    }

    void checkOpen() {
        if (closed) {
            throw new ClosedException("The table " + file.path + " is closed. Open it again.");
        }
    }

    void checkWritable() {
        checkOpen();
        if (file.file.readOnly()) {
            throw new AccessDeniedException(file.path, "read-only", file.path + " was opened for reading only. Open"
                + " it for writing.");
        }
    }

    /** The file to read: the larger one after a grow, but still the old one if another table has the name. */
    TableFile current() {
        final TableFile now = file;
        if (now.successor() != 0) {
            final long time = System.nanoTime();
            if (time - lastLook >= LOOK_NANOS) {
                lastLook = time;
                try {
                    look(now);
                } catch (ClosedException e) {
                    throw e;
                } catch (FlyringException later) {
                    return now; // the larger file cannot be attached now; a later read looks again
                }
                return file;
            }
        }
        return now;
    }

    /**
     * Looks which table has the name (7). If it is this one with a larger file, goes on with that. Returns the id if it
     * is another table, else null.
     */
    UUID look(TableFile seen) {
        final TableHeader there = seen.replacement();
        if (there == null) {
            return null;
        }
        if (!there.isGrown(seen.header)) {
            return there.id;
        }
        for (TableWriter.Seat seat : seats) {
            if (seat.isInHandler()) {
                return null; // not now: a close may hold the monitor and wait for this thread's handler
            }
        }
        synchronized (changing) {
            checkOpen();
            if (file == seen) {
                try {
                    adopt(TableFile.open(seen.path, options));
                } catch (NoSuchChannelException changesAgain) {
                    return null; // the next look finds out
                }
            }
        }
        return null;
    }

    static ChannelReplacedException replaced(TableFile file, UUID there) {
        return new ChannelReplacedException(file.path, there, "Another table has the name " + file.path
            + " now, with the id " + there + ". Close this one and open it again to go on there.");
    }

    /** Goes on with the larger file, also with its slot. */
    private void adopt(TableFile grown) {
        if (slot != null) {
            slot.close();
            slot = null;
        }
        follow(grown);
    }

    /** The file to read; throws if its content cannot be trusted before a recovery. */
    TableFile readable() {
        checkOpen();
        while (true) {
            final TableFile now = current();
            if (now.isWhole(boot)) {
                return now;
            }
            checkOpen(); // after a close or a grow the memory reads as zeros, so boot_id looks wrong
            if (now == file) {
                throw new NeedsRecoveryException(now.path, now.header.checked);
            }
        }
    }

    /** Reads something of a file. */
    interface Reading<R> {
        R of(TableFile file);
    }

    /**
     * Reads more than one key or word, or uses the descriptor: the file is not let go meanwhile. {@code whole}: throws
     * if the file's content cannot be trusted before a recovery.
     */
    <R> R reading(boolean whole, Reading<R> read) {
        TableFile now;
        while (true) {
            checkOpen();
            now = whole ? readable() : current();
            synchronized (using) {
                if (now == file && !closed) {
                    now.users++;
                    break;
                }
            }
        }
        try {
            return read.of(now);
        } finally {
            leave(now);
        }
    }

    private void use(TableFile used) {
        synchronized (using) {
            used.users++;
        }
    }

    private void leave(TableFile used) {
        synchronized (using) {
            used.users--;
            letGo(used);
        }
    }

    /** Loads one word; again if a close or a grow came meanwhile, because then it may be zero. */
    long word(ToLongFunction<TableFile> load) {
        while (true) {
            final TableFile now = readable();
            final long value = load.applyAsLong(now);
            VarHandle.acquireFence();
            checkOpen();
            if (now == file) {
                return value;
            }
        }
    }

    /**
     * Goes on with the larger file. The old one is let go: its descriptor is closed, and zeros take the place of its
     * memory, as at a close. A thread that still reads one key there finds it, or finds zeros: then {@link #find} looks
     * which file is the current one. Whatever reads more than that is a user of the file, which is let go after its
     * last one. The callers hold {@link #changing}, so that no change is under way.
     */
    private void follow(TableFile larger) {
        synchronized (using) {
            final TableFile before = file;
            file = larger;
            waits.forEach(TableWait::wake);
            letGo(before);
        }
    }

    private void letGo(TableFile left) {
        if (left.users == 0 && left != file) {
            try {
                left.file.close();
            } catch (FlyringException stays) {
                return; // it stays mapped until it is unreachable
            }
        }
    }

    /** Finds the look's key, for a reader. */
    long find(TableLook look) {
        while (true) {
            final TableFile now = readable();
            final long cell = look.find(now);
            if (cell >= 0 || now == file && !closed) {
                return cell;
            } // a close or a grow came meanwhile, so the key may only look absent
        }
    }

    /** {@link TableLook#copy}, if it can be used. */
    int copy(long key, MutableDirectBuffer target, int offset) {
        if (offset < 0 || file.header.keyType != KeyType.INTEGER || !(target instanceof PayloadBuffer ours)) {
            return TableLook.UNKNOWN;
        }
        final TableFile now = readable();
        final int size = TableLook.copy(now, key, ours, offset);
        return size >= 0 || now == file && !closed ? size : TableLook.UNKNOWN; // as in find
    }

    private TableSlot newSlot(TableFile of) {
        return new TableSlot(of, identity, boot, options.wake, options.recoveryProgress);
    }

    /** What is done while the slot is held. */
    interface Action {
        long run(TableSlot slot);
    }

    /** Throws if this table object has a writer open: a wait for the slot would wait for that writer's close. */
    private void checkNoWriter() {
        for (TableWriter.Seat seat : seats) { // at most one, and a close may remove it
            throw new BusyException("The table " + file.path + " has a writer open that was made from this very object:"
                + " " + seat.label() + ". Use that writer, or close it first.");
        }
    }

    /** Throws if the calling thread is in a handler of a change of this table. */
    void checkNoHandler() {
        final TableSlot own = slot;
        if (own != null && own.isBusy() && Thread.holdsLock(changing)) {
            throw TableSlot.viewAlive(file);
        }
        for (TableWriter.Seat seat : seats) {
            if (seat.isInHandler()) {
                throw TableSlot.viewAlive(file);
            }
        }
    }

    /** Waits for the slot, runs an action, and gives the slot back. */
    long withSlot(long timeout, Action action) {
        checkWritable();
        checkNoHandler();
        long deadline = 0;
        while (true) {
            synchronized (changing) {
                checkOpen();
                checkNoWriter();
                final TableFile now = file;
                slot = slot == null ? newSlot(now) : slot;
                final TableSlot taken = slot;
                taken.checkIdle();
                if (taken.tryLock()) {
                    try {
                        if (mayTake(now)) {
                            taken.enter(null);
                            return taken.run(action);
                        }
                    } finally {
                        taken.release();
                    }
                    continue; // the table has grown
                }
            }
            deadline = deadline == 0 ? Waiting.deadline(System.nanoTime(), timeout) : deadline;
            waitForSlot(deadline);
        }
    }

    private void waitForSlot(long deadline) {
        if (System.nanoTime() >= deadline) {
            throw TableSlot.noFreeSlot(file);
        }
        nap(deadline, "the writer's slot");
    }

    /** Sleeps for 1 ms, or until the deadline. */
    static void nap(long deadline, String what) {
        LockSupport.parkNanos(Math.min(RETRY_NANOS, deadline - System.nanoTime()));
        Waiting.checkInterrupted(what);
    }

    /**
     * Whether a file, whose slot is locked, is still the table's file (5.1, take 1). False if the table has grown;
     * throws if another table has the name.
     */
    private boolean mayTake(TableFile now) {
        if (now.successor() == 0) {
            return true;
        }
        final UUID other = look(now);
        if (other != null) {
            throw replaced(now, other);
        }
        if (file != now) {
            return false;
        }
        if (now.successor() == Layout.SUCCESSOR_REPLACED && !now.file.removed()) {
            // A grow stored it and was killed before its rename. A replace stores it once more after its rename.
            now.successor(0);
        }
        return true;
    }

    /** Takes the slot for a writer; waits for it until the time-out. */
    TableWriter.Seat seat(byte[] name, Duration timeout) {
        final long deadline = Waiting.deadline(System.nanoTime(), checked(timeout));
        while (true) {
            checkNoHandler();
            synchronized (changing) {
                checkOpen();
                final TableFile now = file;
                final TableWriter.Seat seat = new TableWriter.Seat(this, newSlot(now), name);
                boolean taken = false;
                try {
                    if (seat.slot().tryLock()) {
                        if (!mayTake(now)) {
                            continue; // the table has grown
                        }
                        seat.slot().enter(name);
                        seats.add(seat);
                        use(now);
                        taken = true;
                        return seat;
                    }
                } finally {
                    if (!taken) {
                        seat.slot().close();
                    }
                }
            }
            waitForSlot(deadline);
        }
    }

    /** Forgets the seat of a closed writer. */
    void left(TableWriter.Seat seat) {
        if (seats.remove(seat)) {
            leave(seat.slot().file());
        }
    }

    /** A time-out in ns; throws if it is below 0. */
    static long checked(Duration timeout) {
        final long nanos = Waiting.nanos(timeout);
        if (nanos < 0) {
            throw Waiting.negative(nanos);
        }
        return nanos;
    }

    long clear(Duration timeout) {
        checkOpen();
        return withSlot(checked(timeout), own -> own.change().clear(new TableLook()));
    }

    /** Looks for what a wait waits for: returns the result, or -1 if it is not there yet. */
    interface Wanted {
        long look(TableWait wait);
    }

    /** Waits until {@code wanted} finds a result; throws after the time-out. */
    long waiting(Duration timeout, Wanted wanted) {
        checkOpen();
        final long nanos = checked(timeout);
        final TableFile now = readable();
        final TableWait wait = new TableWait(this, !now.file.readOnly(), now);
        waits.add(wait);
        wait.begin(nanos);
        try {
            while (true) {
                final long found = wanted.look(wait);
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
     * Returns the number of the last completed change if it differs from {@code version}. Otherwise returns -1, and
     * {@code wait} waits for the next change.
     */
    long changed(long version, TableWait wait) {
        final long changed = word(TableFile::changed);
        if (changed != version) {
            return changed;
        }
        wait.forAny(readable(), version);
        return TableLook.ABSENT;
    }

    /**
     * Returns the key's version if it differs from {@code version}. Otherwise returns -1, and {@code wait} waits for a
     * change of the key.
     */
    long changed(TableLook look, long version, TableWait wait) {
        final TableFile now = readable();
        final long before = now.changed();
        final long cell = look.find(now);
        final long found = cell < 0 ? 0 : look.version;
        checkOpen(); // after a close or a grow the memory reads as zeros, so the key looks absent
        if (now != file) {
            return changed(look, version, wait);
        }
        if (found != version) {
            return found;
        }
        if (cell >= 0) {
            wait.forCell(now, cell, version);
        } else {
            wait.forAny(now, before);
        }
        return TableLook.ABSENT;
    }

    /** Replaces the file by a larger one; holds the slot meanwhile. */
    void grow(long capacity, Duration timeout) {
        checkOpen();
        withSlot(checked(timeout), own -> {
            TableCreation.checkGrow(own.file(), capacity);
            final TableSlot[] grown = new TableSlot[1];
            try {
                final TableFile larger = TableCreation.grow(own, capacity, identity, to -> grown[0] = take(to, null));
                adopt(larger);
                ChannelFile.syncFolder(larger.path);
            } finally {
                if (grown[0] != null) {
                    grown[0].close();
                }
            }
            return 0;
        });
    }

    /** Takes the slot of a new file, which has no name yet. */
    private TableSlot take(TableFile to, byte[] name) {
        final TableSlot taken = newSlot(to);
        boolean done = false;
        try {
            if (!taken.tryLock()) {
                throw TableSlot.noFreeSlot(to);
            }
            taken.enter(name);
            done = true;
            return taken;
        } finally {
            if (!done) {
                taken.close();
            }
        }
    }

    /** Replaces the file by a larger one for a writer, which holds the larger file's slot before that gets the name. */
    void growUnder(TableWriter.Seat seat, long capacity) {
        checkNoHandler();
        synchronized (changing) {
            synchronized (seat) { // no thread changes the table meanwhile
                checkOpen();
                seat.checkReady();
                final TableFile held = seat.slot().file();
                TableCreation.checkGrow(held, capacity);
                final TableSlot[] grown = new TableSlot[1];
                boolean done = false;
                try {
                    final TableFile larger = TableCreation.grow(seat.slot(), capacity, identity,
                        to -> grown[0] = take(to, seat.name()));
                    adopt(larger);
                    ChannelFile.syncFolder(larger.path);
                    use(larger);
                    seat.moveTo(grown[0]);
                    leave(held);
                    done = true;
                } finally {
                    if (!done && grown[0] != null) {
                        grown[0].close();
                    }
                    if (!done && seat.slot().file().successor() != 0) {
                        seat.close(); // the larger file has the name: a change of the old one would be lost
                    }
                }
            }
        }
    }

    /** Closes the table and its writers. */
    void close(boolean sync) {
        checkNoHandler();
        synchronized (changing) {
            if (ended) {
                return;
            }
            if (slot != null) {
                slot.checkIdle();
            }
            seats.forEach(TableWriter.Seat::checkIdle);
            seats.forEach(TableWriter.Seat::close);
            try {
                if (sync && !closed) {
                    sync();
                }
            } finally {
                closed = true;
                if (slot != null) {
                    slot.close();
                }
                waits.forEach(TableWait::wake);
                file.file.close();
                ended = true;
            }
        }
    }

    /** Writes all changes to the disk, and marks the table clean unless another process has the slot (9). */
    private void sync() {
        checkWritable();
        final TableFile now = file;
        if (!now.isWhole(boot)) {
            return; // it needs a recovery, so this process has changed nothing
        }
        slot = slot == null ? newSlot(now) : slot;
        if (!slot.tryLock()) { // another process has the slot, and closes last
            now.file.sync();
            return;
        }
        try {
            slot.enter(null);
            now.file.sync();
            now.control.putIntOpaque(Layout.TABLE_CONTROL_CLEAN, 1);
            slot.syncControl();
        } finally {
            slot.release();
        }
    }
}
