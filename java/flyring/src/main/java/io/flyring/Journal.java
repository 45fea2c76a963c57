// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.agrona.DirectBuffer;

/**
 * Messages on disk, in the order in which one writer appended them. Readers read them from any place, also while the
 * journal grows; a named consumer goes on where it stopped. It may be larger than memory. A name stands for the folder
 * {@code <folder>/<name>.journal}, an argument with a {@code /} is a path, as for a {@link Channel}. Thread-safe. Spec
 * journal.md.
 */
public final class Journal implements AutoCloseable {
    private static final long RETRY_NANOS = 1_000_000;

    private final JournalFile file;
    private final OpenOptions options;
    /** The open writers, readers and consumers; those that are unreachable close themselves. */
    private final Set<AutoCloseable> open = Collections.newSetFromMap(new WeakHashMap<>());
    /** The lock of pushes: their slot, which stays resumed as long as no other process takes it. */
    private final ReentrantLock pushing = new ReentrantLock();
    /** The monitor of those that take the writer's slot, which may take a recovery's time. */
    private final Object taking = new Object();
    private JournalSeat pushSeat;
    private JournalAppender pushAppender;
    private volatile boolean closed;
    /** Whether all is given back. */
    private volatile boolean ended;

    Journal(JournalFile file, OpenOptions options) {
        this.file = file;
        this.options = options;
        Memory.whenForgotten(this, file::close);
    }

    /**
     * Creates a journal. It exists only when its control file is complete.
     *
     * @param name name or path.
     * @param options its dimensions and policies.
     * @return the journal.
     * @throws ChannelExistsException if a journal of that name exists.
     * @throws NotAChannelException if there is a folder of that name with other files.
     * @throws FlyringException as {@link Channel#create} does.
     */
    public static Journal create(String name, JournalOptions options) {
        final String path = Place.journalPath(name);
        checkedOptions(options).check();
        Place.checkFolder(name, true);
        return new Journal(JournalCreation.make(path, options), existing(options));
    }

    private static JournalOptions checkedOptions(JournalOptions options) {
        if (options == null) {
            throw new InvalidArgumentException("options", "There are no options. Use new JournalOptions() for the"
                + " defaults.");
        }
        return options;
    }

    private static OpenOptions existing(JournalOptions options) {
        return new OpenOptions().anyFileSystem(options.anyFileSystem).identity(options.identity).wake(options.wake)
            .recoveryProgress(options.recoveryProgress);
    }

    /**
     * Opens a journal after validating its whole header.
     *
     * @param name name or path.
     * @return the journal.
     * @throws FlyringException as {@link Channel#open(String)} does.
     */
    public static Journal open(String name) {
        return open(name, new OpenOptions());
    }

    /**
     * Opens a journal that has what the options ask for.
     *
     * @param name name or path.
     * @param options how to open, and what the journal must have.
     * @return the journal.
     */
    public static Journal open(String name, OpenOptions options) {
        if (options == null) {
            throw new InvalidArgumentException("options", "There are no options. Leave them out for the defaults.");
        }
        final String path = Place.journalPath(name);
        Place.checkFolder(name, false);
        return new Journal(JournalFile.open(path, options), options);
    }

    /**
     * Opens a journal, or creates it if there is none.
     *
     * @param name name or path.
     * @param options what the journal must have; only options that were given are compared.
     * @return the journal.
     * @throws ChannelDiffersException if the existing journal differs; names the first field that does.
     */
    public static Journal openOrCreate(String name, JournalOptions options) {
        checkedOptions(options).check();
        while (true) {
            final Journal journal;
            try {
                journal = open(name, existing(options));
            } catch (NoSuchChannelException e) {
                try {
                    return create(name, options);
                } catch (ChannelExistsException createdMeanwhile) {
                    continue;
                }
            }
            boolean same = false;
            try {
                options.compare(journal.file);
                same = true;
                return journal;
            } finally {
                if (!same) {
                    journal.close();
                }
            }
        }
    }

    /**
     * Opens a journal; waits until a journal of this name exists.
     *
     * @param name name or path.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the journal.
     * @throws TimedOutException if no journal of this name appeared in time.
     */
    public static Journal waitFor(String name, Duration timeout) {
        return waitFor(name, timeout, new OpenOptions());
    }

    /**
     * Opens a journal that has what the options ask for; waits until a journal of this name exists.
     *
     * @param name name or path.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @param options how to open, and what the journal must have.
     * @return the journal.
     * @throws TimedOutException if no journal of this name appeared in time.
     */
    public static Journal waitFor(String name, Duration timeout, OpenOptions options) {
        final long deadline = Waiting.deadline(System.nanoTime(), TableState.checked(timeout));
        while (true) {
            try {
                return open(name, options);
            } catch (NoSuchChannelException e) {
                if (System.nanoTime() >= deadline) {
                    final TimedOutException error = new TimedOutException("the journal " + e.path(),
                        "There is no journal " + e.path() + " yet. Start the process that creates it, or check the name"
                        + " and FLYRING_DIR.");
                    error.initCause(e);
                    throw error;
                }
                TableState.nap(deadline, "a journal");
            }
        }
    }

    /**
     * Removes a journal and its segments. A reader reads to the end of the segment that it has open, and finds nothing
     * more.
     *
     * @param name name or path.
     * @throws NotAChannelException if the control file does not start with a journal's magic number.
     * @throws NoFreeSlotException if a process has the writer's slot; nothing was removed.
     */
    public static void unlink(String name) {
        final String path = Place.journalPath(name);
        Place.checkFolder(name, false);
        JournalCreation.unlink(path);
    }

    // ---- what it makes ----

    /**
     * Takes the writer's slot without a name, if it is free, with a helper.
     *
     * @return the writer.
     * @see #writer(String, boolean, int, Duration)
     */
    public JournalWriter writer() {
        return writer("", Duration.ZERO);
    }

    /**
     * Takes the writer's slot, if it is free, with a helper.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; a label for people.
     * @return the writer.
     * @see #writer(String, boolean, int, Duration)
     */
    public JournalWriter writer(String name) {
        return writer(name, Duration.ZERO);
    }

    /**
     * Takes the writer's slot, with a helper.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; a label for people.
     * @param timeout the longest time to wait for the slot; {@link Publisher#FOREVER} for no limit.
     * @return the writer.
     * @see #writer(String, boolean, int, Duration)
     */
    public JournalWriter writer(String name, Duration timeout) {
        return writer(name, true, 1, timeout);
    }

    /**
     * Takes the writer's slot and holds it. What a dead writer left is mended first. After a loss of power the journal
     * is recovered, which {@link JournalWriter#recovery} tells about.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; a label for people.
     * @param helper whether to start a thread that makes segments, syncs and trims, if no other process does.
     * @param ahead how many segments the helper keeps ready, 1 to 16.
     * @param timeout the longest time to wait for the slot; {@link Publisher#FOREVER} for no limit.
     * @return the writer.
     * @throws NoFreeSlotException if the slot was not free in time.
     * @throws InvalidArgumentException if the name is not valid, or the time-out below 0.
     * @throws CorruptJournalException if the journal cannot be made whole.
     * @throws NoSpaceException if a recovery finds no room for a segment.
     */
    public JournalWriter writer(String name, boolean helper, int ahead, Duration timeout) {
        checkOpen();
        final byte[] bytes = Slots.name(name);
        if (ahead < 1 || ahead > JournalAppender.MAX_AHEAD) {
            throw new InvalidArgumentException("ahead", "The number of segments ahead is " + ahead
                + "; it must be 1 to " + JournalAppender.MAX_AHEAD + ".");
        }
        final long deadline = Waiting.deadline(System.nanoTime(), TableState.checked(timeout));
        checkWritable();
        while (true) {
            final JournalWriter writer = tryWriter(name, bytes, helper, ahead);
            if (writer != null) {
                return writer;
            }
            waitForSlot(deadline);
        }
    }

    private JournalWriter tryWriter(String name, byte[] bytes, boolean helper, int ahead) {
        synchronized (taking) {
            checkOpen();
            final JournalSeat seat = new JournalSeat(file);
            JournalWriter.Hold hold = null;
            boolean done = false;
            try {
                if (!seat.tryLock(Layout.JOURNAL_CONTROL_SLOT)) {
                    return null;
                }
                final JournalAppender appender = new JournalAppender(file);
                final JournalRecovery recovery =
                    new JournalTaking(file, seat, appender, options.recoveryProgress).enter(bytes);
                hold = new JournalWriter.Hold(seat, appender);
                if (helper) {
                    hold.help(new JournalHelper(file, appender.handover, ahead));
                }
                final JournalWriter writer = new JournalWriter(this, appender, hold, name, recovery);
                synchronized (open) {
                    open.add(writer);
                }
                done = true;
                return writer;
            } finally {
                if (!done && hold != null) {
                    hold.run(); // as the close of a writer
                } else if (!done) {
                    seat.close();
                }
            }
        }
    }

    private void waitForSlot(long deadline) {
        checkOpen();
        if (System.nanoTime() >= deadline) {
            throw JournalTaking.noFreeSlot(file);
        }
        java.util.concurrent.locks.LockSupport.parkNanos(Math.min(RETRY_NANOS, deadline - System.nanoTime()));
        Waiting.checkInterrupted("the writer's slot");
    }

    /**
     * A reader from the oldest message on.
     *
     * @return the reader.
     * @see #reader(JournalStart, boolean, boolean)
     */
    public JournalReader reader() {
        return reader(JournalStart.OLDEST);
    }

    /**
     * A reader from a place on.
     *
     * @param start where to begin.
     * @return the reader.
     * @see #reader(JournalStart, boolean, boolean)
     */
    public JournalReader reader(JournalStart start) {
        return reader(start, false, false);
    }

    /**
     * A reader from a place on. Read permission is enough.
     *
     * @param start where to begin.
     * @param durable whether to read only what is durable.
     * @param skipDamaged whether to go on behind messages that are damaged, and count them as lost.
     * @return the reader.
     * @throws InvalidArgumentException if there is no such place.
     */
    public JournalReader reader(JournalStart start, boolean durable, boolean skipDamaged) {
        checkOpen();
        final JournalStart from = required(start);
        file.checkLinked();
        final JournalCursor cursor = new JournalCursor(file, durable, skipDamaged);
        boolean done = false;
        try {
            cursor.begin(from);
            final JournalReader reader = add(new JournalReader(file, cursor));
            done = true;
            return reader;
        } finally {
            if (!done) {
                cursor.close();
            }
        }
    }

    static JournalStart required(JournalStart start) {
        if (start == null) {
            throw JournalStart.invalid("There is no start. Leave it out for the oldest message.");
        }
        return start;
    }

    /**
     * Opens the consumer of a name, from the oldest message on if the name is new.
     *
     * @param name 1 to 64 of the characters A-Z a-z 0-9 . _ -
     * @return the consumer.
     * @see #consumer(String, JournalStart, boolean)
     */
    public JournalConsumer consumer(String name) {
        return consumer(name, JournalStart.OLDEST);
    }

    /**
     * Opens the consumer of a name.
     *
     * @param name 1 to 64 of the characters A-Z a-z 0-9 . _ -
     * @param start where to begin if the name is new.
     * @return the consumer.
     * @see #consumer(String, JournalStart, boolean)
     */
    public JournalConsumer consumer(String name, JournalStart start) {
        return consumer(name, start, false);
    }

    /**
     * Opens the consumer of a name: it goes on where the last one of this name stopped.
     *
     * @param name 1 to 64 of the characters A-Z a-z 0-9 . _ -
     * @param start where to begin if the name is new.
     * @param skipDamaged whether to go on behind messages that are damaged, and count them as lost.
     * @return the consumer.
     * @throws NoFreeSlotException if a process has the name open, or all names are in use.
     * @throws DamagedException if what lies before its place is damaged or missing, and it does not skip that.
     * @throws NeedsRecoveryException if the journal was written in another boot, and no writer has recovered it yet.
     */
    public JournalConsumer consumer(String name, JournalStart start, boolean skipDamaged) {
        checkOpen();
        JournalConsumer.checkName(name);
        required(start);
        checkWritable();
        return add(JournalConsumer.open(file, name, start, skipDamaged));
    }

    private <T extends JournalReads> T add(T object) {
        object.madeBy(this);
        synchronized (open) {
            if (!closed) {
                open.add(object);
                return object;
            }
        }
        closeQuietly(object);
        throw closedError();
    }

    static void closeQuietly(AutoCloseable object) {
        try {
            object.close();
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    void left(AutoCloseable object) {
        synchronized (open) {
            open.remove(object);
        }
    }

    /**
     * Appends one message of type 1, or of type 65536 in a journal with a schema; waits for the slot without a limit.
     *
     * @param message the message.
     * @return the position where its record begins.
     * @see #push(DirectBuffer, int, int, int, Duration)
     */
    public long push(byte[] message) {
        return push(message, JournalWriter.defaultType(file), Publisher.FOREVER);
    }

    /**
     * Appends one message.
     *
     * @param message the message.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait for the slot; {@link Publisher#FOREVER} for no limit.
     * @return the position where its record begins.
     * @see #push(DirectBuffer, int, int, int, Duration)
     */
    public long push(byte[] message, int type, Duration timeout) {
        final PayloadBuffer buffer = new PayloadBuffer();
        buffer.wrap(message);
        return push(buffer, 0, message.length, type, timeout);
    }

    /**
     * Appends one message: takes the writer's slot, and gives it back. If no process has a helper, it syncs when a sync
     * is due, and trims by the options when it has entered another segment.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait for the slot; {@link Publisher#FOREVER} for no limit.
     * @return the position where its record begins.
     * @throws BusyException if this journal object has a writer open: use that one.
     * @throws NoFreeSlotException if the slot was not free in time.
     * @throws IoException if that sync fails: the message is appended.
     * @throws FlyringException as an append of a {@link JournalWriter} does.
     */
    public long push(DirectBuffer source, int offset, int length, int type, Duration timeout) {
        checkOpen();
        checkMessage(length, type);
        final long nanos = TableState.checked(timeout);
        checkWritable();
        final long deadline = Waiting.deadline(System.nanoTime(), nanos);
        while (true) {
            checkNoWriter();
            if (!lockPushing(deadline)) {
                throw JournalTaking.noFreeSlot(file);
            }
            try {
                checkOpen();
                if (pushSeat == null) {
                    pushSeat = new JournalSeat(file);
                }
                if (pushSeat.tryLock(Layout.JOURNAL_CONTROL_SLOT)) {
                    try {
                        return pushNow(source, offset, length, type);
                    } finally {
                        pushSeat.closed();
                        file.data().wakeAll(); // as a close of a writer
                        if (!pushSeat.release()) {
                            pushSeat = null;
                        }
                    }
                }
            } finally {
                pushing.unlock();
            }
            waitForSlot(deadline);
        }
    }

    /** Waits until no other thread pushes; false at the time-out. */
    private boolean lockPushing(long deadline) {
        boolean locked = pushing.tryLock();
        if (!locked) {
            try {
                locked = pushing.tryLock(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                Waiting.checkInterrupted("the writer's slot");
            }
        }
        return locked;
    }

    /** Before the slot is taken. */
    private void checkMessage(int length, int type) {
        if (type < 1) {
            throw new InvalidArgumentException("type", "The type " + type + " is not in 1 to 2147483647.");
        }
        final int most = (int) (file.segmentSize / Layout.MAX_MESSAGE_DIVISOR) - JournalRecord.HEADER;
        if (length > most) {
            throw JournalAppender.tooLarge(length, most, file);
        }
    }

    private long pushNow(DirectBuffer source, int offset, int length, int type) {
        file.checkLinked();
        if (pushAppender == null || !pushAppender.isCurrent(pushSeat.epoch())) {
            if (pushAppender != null) {
                pushAppender.leave();
            }
            pushAppender = new JournalAppender(file);
            boolean done = false;
            try {
                new JournalTaking(file, pushSeat, pushAppender, options.recoveryProgress).enter(null);
                done = true;
            } finally {
                if (!done) {
                    pushAppender = null;
                }
            }
        } else { // another owner, for which nothing is to be found out
            pushSeat.enter(null, true);
            pushAppender.own(pushSeat.epoch());
            file.data().wakeAll();
        }
        return new JournalPush(file, pushAppender).append(source, offset, length, type);
    }

    /** Throws if the slot could only be free after this process has closed its writer. */
    private void checkNoWriter() {
        synchronized (open) {
            for (AutoCloseable each : open) {
                if (each instanceof JournalWriter writer) {
                    throw new BusyException("The journal " + file.path + " has a writer open that was made from this"
                        + " very object: '" + writer.name() + "'. Use that writer, or close it first.");
                }
            }
        }
    }

    /**
     * Removes a consumer's name. What it has not consumed no longer holds back a trim.
     *
     * @param name the name.
     * @throws BusyException while a process has it open.
     * @throws InvalidArgumentException if there is no such name.
     */
    public void forget(String name) {
        checkOpen();
        Slots.name(name);
        checkWritable();
        JournalConsumer.forget(file, name);
    }

    // ---- trim ----

    /**
     * Removes segments that all consumers have consumed; nothing if there is no consumer. No trim removes what is not
     * durable, or what a consumer has not consumed; only the options maxAge and maxSize do the latter.
     *
     * @return the bytes that became free.
     */
    public long trimConsumed() {
        return trimming().consumed();
    }

    /**
     * Removes segments that end at or before a position.
     *
     * @param position the position.
     * @return the bytes that became free.
     */
    public long trimPosition(long position) {
        if (position < 0) {
            checkOpen();
            throw new InvalidArgumentException("position", "The position " + position + " is negative.");
        }
        return trimming().trim(position, true);
    }

    /**
     * Removes segments whose messages are all older than a time.
     *
     * @param time ns since 1970.
     * @return the bytes that became free.
     */
    public long trimBefore(long time) {
        return trimming().before(time, true);
    }

    /**
     * Removes the oldest segments until at most so many bytes of them are left.
     *
     * @param bytes the bytes.
     * @return the bytes that became free.
     */
    public long trimSize(long bytes) {
        if (bytes < 0) {
            checkOpen();
            throw new InvalidArgumentException("size", "The size " + bytes + " is negative.");
        }
        return trimming().size(bytes, true);
    }

    private JournalTrim trimming() {
        checkWritable();
        file.checkLinked();
        file.checkRecovered();
        return new JournalTrim(file);
    }

    /**
     * Changes options of the file: of sync, maxAge, maxSize and trimConsumed those that are given.
     * They are durable when it returns.
     *
     * @param changes the new values.
     * @throws InvalidArgumentException if an option is given that cannot be changed.
     */
    public void change(JournalOptions changes) {
        checkOpen();
        checkedOptions(changes).checkOnlyChanges();
        checkWritable();
        try (JournalSeat seat = new JournalSeat(file)) {
            seat.lockControl();
            if (changes.sync != null) {
                file.word(Layout.JOURNAL_CONTROL_SYNC_EVERY, changes.sync.nanos());
            }
            if (changes.maxAge != null) {
                file.word(Layout.JOURNAL_CONTROL_MAX_AGE, changes.maxAge);
            }
            if (changes.maxSize != null) {
                file.word(Layout.JOURNAL_CONTROL_MAX_SIZE, changes.maxSize);
            }
            if (changes.trimConsumed != null) {
                file.control.putIntOpaque(Layout.JOURNAL_CONTROL_TRIM_CONSUMED, changes.trimConsumed ? 1 : 0);
            }
            file.syncControl();
        }
        file.work().wakeAll();
    }

    // ---- what it is ----

    /**
     * A snapshot of what the journal holds. Takes no lock and writes nothing.
     *
     * @return the snapshot.
     */
    public JournalStats stats() {
        checkOpen();
        return JournalStats.of(file);
    }

    /**
     * The journal's folder.
     *
     * @return its path.
     */
    public String path() {
        return file.path;
    }

    /**
     * The journal's id.
     *
     * @return a UUID.
     */
    public UUID id() {
        return file.header.id;
    }

    /**
     * The bytes of one segment.
     *
     * @return a power of two.
     */
    public long segmentSize() {
        return file.segmentSize;
    }

    /**
     * How many names of consumers the journal has room for.
     *
     * @return the number.
     */
    public int consumers() {
        return file.header.consumers;
    }

    /**
     * What the messages are.
     *
     * @return 0 the user's, 1 a recording.
     */
    public int content() {
        return file.header.content;
    }

    /**
     * When the journal was created.
     *
     * @return ns since 1970.
     */
    public long createdAt() {
        return file.header.createdAt;
    }

    /**
     * The schema of the messages.
     *
     * @return its text; empty if the journal has none.
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
     * The schema's version.
     *
     * @return the version; 0 without a schema.
     */
    public int schemaVersion() {
        return file.header.schemaVersion;
    }

    private void checkOpen() {
        if (closed) {
            throw closedError();
        }
    }

    private ClosedException closedError() {
        return new ClosedException("The journal " + file.path + " is closed. Open it again.");
    }

    private void checkWritable() {
        checkOpen();
        if (file.file.readOnly()) {
            throw new AccessDeniedException(file.path, "read-only", file.path + " is open read-only. Open it with"
                + " Journal.open to write.");
        }
    }

    /**
     * Closes the journal and its writer, readers and consumers. The writer syncs first. If another thread
     * pushes and has the slot, this waits for it; a push that still waits for the slot throws ClosedException. A second
     * close does nothing.
     *
     * @throws ViewAliveException if called from a handler of a reader or consumer, which stays open; or from the action
     *     of {@link OpenOptions#recoveryProgress}.
     * @throws TwoThreadsException if another thread appends; the writer and the journal stay open.
     * @throws FlyringException if the writer's last sync failed, as {@link IoException} or
     *     {@link CorruptJournalException}; everything is closed all the same.
     */
    @Override
    public void close() {
        if (!ended && (Thread.holdsLock(taking) || pushing.isHeldByCurrentThread())) {
            throw new ViewAliveException(file.path + " is being recovered by this thread. Close it after that.");
        }
        synchronized (taking) {
            if (!ended) {
                closeAll();
            }
        }
    }

    /** Closes all. After an Error in its middle, the next close goes on: each step may be done twice. */
    private void closeAll() {
        final List<AutoCloseable> all;
        synchronized (open) {
            all = new ArrayList<>(open);
        }
        all.sort(Comparator.comparing(each -> each.getClass().getName())); // in one order, whatever their hashes
        FlyringException failed = null;
        for (AutoCloseable each : all) {
            try {
                closeQuietly(each);
            } catch (ViewAliveException | TwoThreadsException e) { // it is in use, and stays open
                throw e;
            } catch (FlyringException e) { // it is closed
                failed = failed == null ? e : failed;
            }
        }
        synchronized (open) {
            closed = true;
        }
        pushing.lock();
        try {
            if (pushAppender != null) {
                pushAppender.end(null);
                pushAppender.leave();
            }
            if (pushSeat != null) {
                pushSeat.close();
            }
        } finally {
            pushing.unlock();
        }
        file.close();
        ended = true;
        if (failed != null) {
            throw failed;
        }
    }
}
