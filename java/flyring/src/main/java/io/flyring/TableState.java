// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.locks.LockSupport;

/**
 * What a table shares with its writers and entries: the attached file, the slot of single changes, held slots and waits
 * (table.md 5.1, 7, 8). Thread-safe.
 */
final class TableState {
    private static final long LOOK_NANOS = 1_000_000;
    private static final long RETRY_NANOS = 1_000_000;

    final OpenOptions options;
    final Identity identity;
    /** The id of this boot: reading it is a system call. */
    final byte[] boot;
    /** The monitor of single changes, of the file that is current, and of a close. */
    private final Object changing = new Object();
    /** The slot of single changes; null before the first one. Only the monitor's owner finds it busy. */
    private volatile TableSlot slot;
    private final List<TableWriter.Seat> seats = new CopyOnWriteArrayList<>();
    private final Set<TableWait> waits = ConcurrentHashMap.newKeySet();
    private volatile TableFile file;
    private volatile boolean closed;
    private volatile long lastLook = System.nanoTime() - LOOK_NANOS;

    TableState(TableFile file, OpenOptions options) {
        this.file = file;
        this.options = options;
        this.identity = options.identity;
        this.boot = identity.boot();
    }

    /** The current file, in whatever state. */
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
            throw new AccessDeniedException(file.path, "read-only", file.path + " is open read-only. Open it with"
                + " Table.open to write.");
        }
    }

    /** The file to read. Follows a table that has grown; reads go on if another table has the name. */
    TableFile current() {
        final TableFile now = file;
        if (now.successor() != 0) {
            final long time = System.nanoTime();
            if (time - lastLook >= LOOK_NANOS) {
                lastLook = time;
                look(now);
                return file;
            }
        }
        return now;
    }

    /** Follows a table that has grown; returns the id of another table that has the name, or null (7). */
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
                return null; // a close may hold this monitor and wait for that handler
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

    /** Goes on with a grown file. The old one is unmapped once no thread reads it any more. */
    private void adopt(TableFile grown) {
        if (slot != null) {
            slot.close();
            slot = null;
        }
        file = grown;
    }

    /** The file for a reader, who may believe what is there. */
    TableFile readable() {
        checkOpen();
        final TableFile now = current();
        if (!now.isWhole(boot)) {
            checkOpen(); // a close takes the memory away, so the boot's id looks like another one
            throw new NeedsRecoveryException(now.path, now.header.checked);
        }
        return now;
    }

    /** Finds the look's key, for a reader. */
    long find(TableLook look) {
        while (true) {
            final TableFile now = readable();
            final long cell = look.find(now);
            if (cell >= 0 || now == file && !closed) {
                return cell;
            } // a close, or a thread that followed a grown table, may have taken the memory away
        }
    }

    private TableSlot newSlot(TableFile of) {
        return new TableSlot(of, identity, boot, options.wake, options.recoveryProgress);
    }

    /** What is done under the slot. */
    interface Action {
        long run(TableSlot slot);
    }

    /** Throws if the slot could only be free after this process has closed its writer: a wait would be for itself. */
    private void checkNoWriter() {
        for (TableWriter.Seat seat : seats) { // at most one, and it may be closed meanwhile
            throw new BusyException("The table " + file.path + " has a writer open that was made from this very object:"
                + " " + seat.label() + ". Use that writer, or close it first.");
        }
    }

    /** Throws in a handler of a change of this table. */
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

    /** Takes the slot for one action, and gives it back. */
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
                    continue; // it has grown
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
     * Whether a file whose slot is locked is still the one of its name (5.1, take 1). False if it has grown; throws if
     * it was replaced.
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
            now.successor(0); // of a grow whose process was killed; a replace stores it again behind its rename
        }
        return true;
    }

    /** Takes the slot for a held writer. */
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
                            continue; // it has grown
                        }
                        seat.slot().enter(name);
                        seats.add(seat);
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

    void left(TableWriter.Seat seat) {
        seats.remove(seat);
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

    /** What a wait looks for: a result, or -1. */
    interface Wanted {
        long look(TableWait wait);
    }

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

    /** The last completed change if it is not {@code version}, else -1: then {@code wait} waits for another one. */
    long changed(long version, TableWait wait) {
        final TableFile now = readable();
        final long changed = now.changed();
        checkOpen();
        if (changed != version) {
            return changed;
        }
        wait.forAny(now, version);
        return TableLook.ABSENT;
    }

    /** The key's version if it is not {@code version}, else -1: then {@code wait} waits for another one. */
    long changed(TableLook look, long version, TableWait wait) {
        final TableFile now = readable();
        final long before = now.changed();
        final long cell = look.find(now);
        final long found = cell < 0 ? 0 : look.version;
        checkOpen(); // else the key is absent only because a close took the memory away
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

    /** Puts a larger file in the place of this one, under the slot for this one action. */
    void grow(long capacity, Duration timeout) {
        checkOpen();
        withSlot(checked(timeout), own -> {
            final TableSlot[] grown = new TableSlot[1];
            try {
                final TableFile larger = TableCreation.grow(own, capacity, identity, to -> grown[0] = take(to, null));
                own.close();
                slot = null;
                file = larger;
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

    /** The same under a held slot; the new file's slot is held from before it has its name. */
    void growUnder(TableWriter.Seat seat, long capacity) {
        checkNoHandler();
        synchronized (changing) {
            synchronized (seat) { // no thread changes the table meanwhile
                checkOpen();
                seat.checkReady();
                final TableSlot[] grown = new TableSlot[1];
                boolean done = false;
                try {
                    final TableFile larger = TableCreation.grow(seat.slot(), capacity, identity,
                        to -> grown[0] = take(to, seat.name()));
                    adopt(larger);
                    seat.moveTo(grown[0]);
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
            if (closed) {
                return;
            }
            if (slot != null) {
                slot.checkIdle();
            }
            seats.forEach(TableWriter.Seat::checkIdle);
            seats.forEach(TableWriter.Seat::close);
            try {
                if (sync) {
                    sync();
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

    /** Writes everything to the disk, and if no other process has the slot, that nothing was changed since (9). */
    private void sync() {
        checkWritable();
        final TableFile now = file;
        if (!now.isWhole(boot)) {
            return; // nothing was changed by this process
        }
        slot = slot == null ? newSlot(now) : slot;
        if (!slot.tryLock()) { // another process writes, and closes last
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
