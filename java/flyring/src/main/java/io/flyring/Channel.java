// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.WeakHashMap;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;

/**
 * One attached channel: a memory-mapped file that holds one ring of messages for each publisher. Subscribers read the
 * rings. A channel is given by a name or a path. An argument with a {@code /} in it is a path. A name stands for
 * {@code <folder>/<name>.ring}; the folder is the environment variable FLYRING_DIR or
 * {@code /dev/shm/flyring-<user id>}. The channel is thread-safe. The objects it makes, such as publishers and
 * subscribers, are not. Spec channel.md 3 and 5.
 */
public final class Channel extends ChannelProperties implements AutoCloseable {
    private static final long NAP_NANOS = 2_000_000;

    private final Memory control;
    private final Identity identity;
    private final Slots slots;
    private final Joining joining;
    /** The slots that this channel's publishers, subscribers, workers, servers and clients own. */
    private final List<Seat> seats = new ArrayList<>();
    private final Set<LossySubscriber> lossySubscribers = Collections.newSetFromMap(new WeakHashMap<>());
    /** The mapped trailers of all rings; null until a slot is taken or evicted. */
    private volatile List<Memory> trailers;
    /** What stats() has mapped for reading only; null before the first call. */
    private Seen seen;
    private volatile boolean closed;
    /** Whether all is given back. */
    private boolean ended;

    private Channel(String path, ChannelFile file, Header header, Identity identity, boolean wakes) {
        super(path, file, header);
        this.identity = identity;
        this.control = file.map(header.controlOffset, header.ringsOffset - header.controlOffset,
            file.readOnly());
        this.slots = new Slots(header, control, identity, path, wakes);
        this.joining = new Joining(this, file);
        Memory.whenForgotten(this, file::close);
    }

    /**
     * Creates a channel and attaches to it. The name appears only when the file is complete.
     *
     * @param name name or path.
     * @param options kind and dimensions.
     * @return the channel.
     * @throws ChannelExistsException if a file of that name exists.
     * @throws InvalidArgumentException if the name or an option is outside its range.
     * @throws NoSpaceException if the file system does not have enough free space.
     * @throws UnsuitableFileSystemException if the file system cannot carry a channel.
     * @throws AccessDeniedException if the process may not write to the folder.
     * @throws IoException if a system call fails otherwise.
     */
    public static Channel create(String name, ChannelOptions options) {
        return make(name, options, false);
    }

    /**
     * Creates a channel and gives it the name, even if another channel has that name now. Processes that have the old
     * channel attached keep it.
     *
     * @param name name or path.
     * @param options kind and dimensions.
     * @return the new channel.
     * @throws FlyringException as {@link #create} does, except {@link ChannelExistsException}.
     */
    public static Channel replace(String name, ChannelOptions options) {
        return make(name, options, true);
    }

    /**
     * Attaches to a channel after validating its whole header.
     *
     * @param name name or path.
     * @return the channel.
     * @throws NoSuchChannelException if the file does not exist.
     * @throws NotAChannelException if the file does not start with the magic number.
     * @throws VersionTooNewException if the file needs a newer Flyring.
     * @throws TruncatedException if the file is shorter than its header says.
     * @throws CorruptHeaderException if a header field violates the specification.
     * @throws UnsuitableFileSystemException if the file system cannot carry a channel.
     * @throws AccessDeniedException if the process may not open the file.
     * @throws IoException if a system call fails otherwise.
     */
    public static Channel open(String name) {
        return open(name, new OpenOptions());
    }

    /**
     * Attaches to a channel that has what the options ask for, such as a schema.
     *
     * @param name name or path.
     * @param options how to attach, and what the channel must have.
     * @return the channel.
     * @throws ChannelDiffersException if the channel does not have the requested schema.
     * @throws FlyringException as {@link #open(String)} does.
     */
    public static Channel open(String name, OpenOptions options) {
        if (options == null) {
            throw new InvalidArgumentException("options", "The options are null. Call open(name) for the defaults.");
        }
        String path = Place.path(name);
        Place.checkFolder(name, false);
        ChannelFile file = ChannelFile.open(path, options.readOnly);
        Channel channel = null;
        try {
            Header header = Header.parse(file.read(0, Layout.HEADER_LENGTH), file.size(), path);
            file.checkFileSystem(options.anyFileSystem);
            options.check(header, path);
            if (!options.readOnly) {
                Lock.selfTest(file, header, path);
            }
            channel = new Channel(path, file, header, options.identity, options.wake);
            return channel;
        } finally {
            if (channel == null) {
                file.close();
            }
        }
    }

    /**
     * Attaches to a channel; waits until a channel of this name exists.
     *
     * @param name name or path.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the channel.
     * @throws FlyringException as {@link #waitFor(String, Duration, OpenOptions)} does.
     */
    public static Channel waitFor(String name, Duration timeout) {
        return waitFor(name, timeout, new OpenOptions());
    }

    /**
     * Attaches to a channel that has what the options ask for; waits until a channel of this name exists.
     *
     * @param name name or path.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @param options how to attach, and what the channel must have.
     * @return the channel.
     * @throws TimedOutException if no channel of this name appeared in time.
     * @throws InvalidArgumentException if the time-out is below 0.
     * @throws CancelledException if the thread is interrupted. The thread stays interrupted.
     * @throws FlyringException as {@link #open(String, OpenOptions)} does.
     */
    public static Channel waitFor(String name, Duration timeout, OpenOptions options) {
        long nanos = Waiting.nanos(timeout);
        if (nanos < 0) {
            throw Waiting.negative(nanos);
        }
        long deadline = Waiting.deadline(System.nanoTime(), nanos);
        while (true) {
            try {
                return open(name, options);
            } catch (NoSuchChannelException e) {
                if (System.nanoTime() >= deadline) {
                    TimedOutException error = new TimedOutException("the channel " + e.path(), "There is no channel "
                        + e.path() + " yet. Start the process that creates it, or check the name and FLYRING_DIR.");
                    error.initCause(e);
                    throw error;
                }
                nap(deadline, "a channel");
            }
        }
    }

    /** Sleeps for 2 ms, or until the deadline: no futex announces a new channel or a free slot. */
    private static void nap(long deadline, String what) {
        LockSupport.parkNanos(Math.min(NAP_NANOS, deadline - System.nanoTime()));
        Waiting.checkInterrupted(what);
    }

    /**
     * Attaches to a channel, or creates it if it does not exist.
     *
     * @param name name or path.
     * @param options the kind and dimensions that the channel must have.
     * @return the channel.
     * @throws ChannelDiffersException if the existing channel differs from the options; the exception names the first
     *     field that differs.
     * @throws FlyringException as {@link #open(String)} and {@link #create} do.
     */
    public static Channel openOrCreate(String name, ChannelOptions options) {
        Header.of(required(options), new UUID(0, 0), 0); // throws for the same options as create
        OpenOptions existing = new OpenOptions().anyFileSystem(options.anyFileSystem).identity(options.identity)
            .wake(options.wake);
        while (true) {
            Channel channel;
            try {
                channel = open(name, existing);
            } catch (NoSuchChannelException e) {
                try {
                    return create(name, options);
                } catch (ChannelExistsException createdMeanwhile) {
                    continue;
                }
            }
            boolean same = false;
            try {
                options.compare(channel.header, channel.path);
                same = true;
                return channel;
            } finally {
                if (!same) {
                    channel.close();
                }
            }
        }
    }

    /**
     * Removes a channel's name. Processes that have the channel attached keep working.
     *
     * @param name name or path.
     * @throws NoSuchChannelException if the file does not exist.
     * @throws NotAChannelException if the file does not start with the magic number; it is not removed.
     * @throws AccessDeniedException if the process may not read or remove the file.
     */
    public static void unlink(String name) {
        String path = Place.path(name);
        Place.checkFolder(name, false);
        try (ChannelFile file = ChannelFile.open(path, false)) {
            if (!Arrays.equals(file.read(0, Header.MAGIC.length), Header.MAGIC)) {
                throw new NotAChannelException(path, path + " is not a Flyring channel, so it was not removed.");
            }
            Successor successor = Successor.tell(file, path, Layout.SUCCESSOR_UNLINKED);
            try {
                Files.deleteIfExists(Path.of(path));
            } finally {
                successor.wake();
            }
        } catch (java.nio.file.AccessDeniedException e) {
            throw new AccessDeniedException(path, "permission denied", path + " may not be removed: permission denied."
                + " Check owner and mode of its folder.");
        } catch (IOException e) {
            throw ChannelFile.io("unlink", e, path);
        }
    }

    /**
     * The path that a name stands for.
     *
     * @param name name or path.
     * @return the path, whether a file exists there or not.
     * @throws InvalidArgumentException if the name has a character that is not allowed, or is too long.
     */
    public static String pathOf(String name) {
        return Place.path(name);
    }

    private static Channel make(String name, ChannelOptions options, boolean replace) {
        String path = Place.path(name);
        Identity identity = required(options).identity;
        Header header = Header.of(options, identity.newChannelId(), identity.creation());
        Place.checkFolder(name, true);
        ChannelFile file = Creation.make(path, header, options, replace);
        Channel channel = null;
        try {
            channel = new Channel(path, file, header, identity, options.wake);
            return channel;
        } finally {
            if (channel == null) {
                file.close();
            }
        }
    }

    private static ChannelOptions required(ChannelOptions options) {
        if (options == null) {
            throw new InvalidArgumentException("options", "The options are null. A channel needs its kind:"
                + " ChannelOptions.broadcast(), inbox() or queue().");
        }
        return options;
    }

    /**
     * Takes a publisher slot without a name.
     *
     * @return the publisher.
     * @see #publisher(String)
     */
    public Publisher publisher() {
        return publisher("");
    }

    /**
     * Takes a publisher slot and its ring. First repairs what a dead owner left unfinished in the ring.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; the same name gets the same ring again.
     * @return the publisher.
     * @throws NoFreeSlotException if live processes own all slots, or the slot of that name.
     * @throws InvalidArgumentException if the name is too long or has other characters, or the channel's publisher is
     *     foreign.
     * @throws CorruptRingException if the ring violates the specification.
     * @throws AccessDeniedException if the channel is attached read-only.
     * @throws ClosedException after close.
     */
    public Publisher publisher(String name) {
        return publisher(name, 0);
    }

    /**
     * Takes a publisher slot and its ring, and limits how far a subscriber may lag behind. When the publisher would
     * have to wait for a subscriber beyond the limit, it evicts that subscriber ({@link #evict}): dead or alive, kept
     * or not.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; the same name gets the same ring again.
     * @param maxLag the largest lag in bytes, from half the capacity to the capacity; 0 for no limit.
     * @return the publisher.
     * @throws InvalidArgumentException if {@code maxLag} is outside its range, or above 0 on a queue or on a channel
     *     with a foreign end, or the name is not valid.
     * @throws FlyringException as {@link #publisher(String)} does.
     */
    public synchronized Publisher publisher(String name, int maxLag) {
        checkWritable();
        if (header.isService()) {
            throw new InvalidArgumentException("kind", path + " is a service: it has a server and clients, not"
                + " publishers. Call server() or client().");
        }
        slots.checkOurs(Foreign.PUBLISHER, "publisher");
        if (maxLag != 0) {
            slots.checkNotForeign("a lag limit");
        }
        byte[] bytes = Slots.name(name);
        if (maxLag != 0 && header.isQueue()) {
            throw new InvalidArgumentException("max_lag", path + " is a queue: jobs wait for workers, and no worker is"
                + " evicted for lag. Leave max_lag out.");
        }
        if (maxLag != 0 && (maxLag < header.capacity / Layout.MIN_LAG_DIVISOR || maxLag > header.capacity)) {
            throw new InvalidArgumentException("max_lag", "The lag limit is " + maxLag + " bytes; it must be 0 or "
                + header.capacity / Layout.MIN_LAG_DIVISOR + " to " + header.capacity + ".");
        }
        trailers(); // map them now: the publish path maps nothing
        Waker waker = new Waker(slots.data(), slots.jobs(), slots.wakes());
        Lock lock = file.newLock();
        Seat seat = null;
        Memory ring = Memory.EMPTY;
        boolean done = false;
        try {
            int slot = slots.takePublisher(lock, bytes);
            slots.adoptBoot();
            ring = file.map(header.ringOffset(slot), header.ringStride, false);
            long count = Recovery.recover(ring, slot, header);
            long start = ring.getLongAcquire(header.capacity + Layout.TRAILER_PUBLISHED); // our own store
            long epoch = slots.enterPublisher(slot, bytes, start);
            slots.wakeReaders();
            lock.unlockControl(header);
            seat = new Seat(this, lock, slot, true, name, epoch, false);
            seat.uses(ring);
            Publisher publisher = new Publisher(this, name, slot, seat, ring, waker, epoch, count, maxLag);
            ring.prefault();
            seats.add(seat);
            seat.ownedBy(publisher);
            done = true;
            return publisher;
        } finally {
            if (!done) {
                seats.remove(seat);
                file.release(ring);
                lock.close();
            }
        }
    }

    /**
     * Takes a subscriber slot without a name, and reads all rings.
     *
     * @return the subscriber.
     * @see #subscriber(String, boolean, int...)
     */
    public Subscriber subscriber() {
        return subscriber("", false, (int[]) null);
    }

    /**
     * Takes a subscriber slot without a name.
     *
     * @param rings the rings to read; null: all.
     * @return the subscriber.
     * @see #subscriber(String, boolean, int...)
     */
    public Subscriber subscriber(int... rings) {
        return subscriber("", false, rings);
    }

    /**
     * Takes a subscriber slot and reads all rings; if the slot is kept already, reads the rings of that slot.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty.
     * @param kept true keeps the slot after a close or a death.
     * @return the subscriber.
     * @see #subscriber(String, boolean, int...)
     */
    public Subscriber subscriber(String name, boolean kept) {
        return subscriber(name, kept, (int[]) null);
    }

    /**
     * Takes a subscriber slot and joins the rings: the subscriber sees what is published from now on. If the slot is
     * kept already, the subscriber resumes where the slot's last owner stopped. The one slot of an inbox is always
     * kept; any name gets it, and becomes its label.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; the name of a kept slot gets that slot again.
     * @param kept true keeps the slot after a close or a death, so that publishers wait for its next owner; needs a
     *     name, except in an inbox.
     * @param rings the rings to read, at least one; null: all, or those of the kept slot.
     * @return the subscriber.
     * @throws NoFreeSlotException if live processes own all slots, or the slot of that name.
     * @throws InvalidArgumentException if the name is not valid, or is missing for a kept slot; if a ring does not
     *     exist, or {@code rings} is empty; if the channel is a queue or a service, or its subscriber is foreign.
     * @throws ChannelDiffersException if the kept slot has other rings than requested; nothing was changed.
     * @throws CorruptRingException if a ring violates the specification of the specification; nothing was changed.
     * @throws AccessDeniedException if the channel is attached read-only.
     * @throws ClosedException after close.
     */
    public synchronized Subscriber subscriber(String name, boolean kept, int... rings) {
        checkWritable();
        if (header.isService()) {
            throw new InvalidArgumentException("kind", path + " is a service: it has a server and clients, not"
                + " subscribers. Call server() or client(), or lossySubscriber() to look on.");
        }
        if (header.isQueue()) {
            throw new InvalidArgumentException("kind", path + " is a queue: it has workers, not subscribers. Call"
                + " worker(), or lossySubscriber() to look on.");
        }
        slots.checkOurs(Foreign.SUBSCRIBER, "subscriber");
        byte[] bytes = Slots.name(name);
        if (kept && bytes.length == 0 && header.kind != Kind.INBOX) {
            throw new InvalidArgumentException("name", "A kept subscriber needs a name, by which it gets its slot"
                + " again.");
        }
        int[] chosen = joining.chosen(rings);
        trailers();
        Waker waker = new Waker(slots.room(), slots.wakes());
        Lock lock = file.newLock();
        Seat seat = null;
        Joining.Plan plan = null;
        boolean done = false;
        int slot = -1;
        try {
            slot = slots.takeSubscriber(lock, bytes);
            slots.adoptBoot();
            plan = joining.plan(slot, rings == null ? null : chosen, waker);
            long epoch = slots.enterSubscriber(slot, bytes);
            joining.attach(plan, slot, epoch, kept);
            slots.room().wakeAll();
            boolean nowKept = slots.kept(slot);
            lock.unlockControl(header);
            seat = new Seat(this, lock, slot, false, name, epoch, nowKept);
            for (RingReader reader : plan.readers()) {
                reader.mappings().forEach(seat::uses);
                reader.prefault();
            }
            Subscriber subscriber = new Subscriber(this, name, slot, seat, plan.readers(), epoch, nowKept);
            seats.add(seat);
            seat.ownedBy(subscriber);
            done = true;
            return subscriber;
        } finally {
            if (!done) {
                seats.remove(seat);
                joining.undo(plan, slot);
                lock.close();
            }
        }
    }

    /**
     * The same as {@link #subscriber(String, boolean)}; waits until a slot is free.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty.
     * @param kept true keeps the slot after a close or a death.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the subscriber.
     * @throws FlyringException as {@link #subscriber(String, boolean, Duration, int...)} does.
     */
    public Subscriber subscriber(String name, boolean kept, Duration timeout) {
        return subscriber(name, kept, timeout, (int[]) null);
    }

    /**
     * The same as {@link #subscriber(String, boolean, int...)}; waits until a slot is free.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; the name of a kept slot gets that slot again.
     * @param kept true keeps the slot after a close or a death.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @param rings the rings to read, at least one; null: all, or those of the kept slot.
     * @return the subscriber.
     * @throws NoFreeSlotException if no slot was free in time.
     * @throws InvalidArgumentException if the time-out is below 0.
     * @throws CancelledException if the thread is interrupted; detected within 100 ms. The thread stays interrupted.
     * @throws FlyringException as {@link #subscriber(String, boolean, int...)} does.
     */
    public Subscriber subscriber(String name, boolean kept, Duration timeout, int... rings) {
        return untilSlotIsFree(timeout, () -> subscriber(name, kept, rings));
    }

    private <T> T untilSlotIsFree(Duration timeout, Supplier<T> take) {
        checkWritable();
        long nanos = Waiting.nanos(timeout);
        if (nanos < 0) {
            throw Waiting.negative(nanos);
        }
        long deadline = Waiting.deadline(System.nanoTime(), nanos);
        while (true) {
            try {
                return take.get();
            } catch (NoFreeSlotException e) {
                if (System.nanoTime() >= deadline) {
                    throw e;
                }
                nap(deadline, "a slot");
            }
        }
    }

    /**
     * Takes a worker's slot of a queue, without a name.
     *
     * @return the worker.
     * @see #worker(String)
     */
    public Worker worker() {
        return worker("");
    }

    /**
     * Takes a worker's slot of a queue; each job goes to one of the attached workers. If the slot's last owner died
     * with jobs in hand, the new owner gets these first.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; only a label.
     * @return the worker.
     * @throws NoFreeSlotException if live processes own all slots.
     * @throws InvalidArgumentException if the channel is not a queue, or the name has other characters.
     * @throws AccessDeniedException if the channel is attached read-only.
     * @throws ClosedException after close.
     */
    public Worker worker(String name) {
        return WorkerSlots.take(this, name);
    }

    /**
     * The same as {@link #worker(String)}; waits until a slot is free.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; only a label.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the worker.
     * @throws NoFreeSlotException if no slot was free in time.
     * @throws InvalidArgumentException if the time-out is below 0.
     * @throws CancelledException if the thread is interrupted; detected within 100 ms. The thread stays interrupted.
     * @throws FlyringException as {@link #worker(String)} does.
     */
    public Worker worker(String name, Duration timeout) {
        return untilSlotIsFree(timeout, () -> worker(name));
    }

    /**
     * Takes the server's place in a service, without a name.
     *
     * @return the server.
     * @see #server(String)
     */
    public Server server() {
        return server("");
    }

    /**
     * Takes the server's place in a service; a service has one server at a time.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; only a label.
     * @return the server.
     * @throws NoFreeSlotException if another server lives; the exception names it.
     * @throws InvalidArgumentException if the channel is not a service, or the name has other characters.
     * @throws CorruptRingException if the content of a ring of replies violates the specification.
     * @throws AccessDeniedException if the channel is attached read-only.
     * @throws ClosedException after close.
     */
    public Server server(String name) {
        return ServiceSlots.server(this, name);
    }

    /**
     * The same as {@link #server(String)}; waits until the place is free.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; only a label.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the server.
     * @throws FlyringException as {@link #server(String)} does.
     */
    public Server server(String name, Duration timeout) {
        return untilSlotIsFree(timeout, () -> server(name));
    }

    /**
     * Takes a client's place in a service, without a name.
     *
     * @return the client.
     * @see #client(String)
     */
    public Client client() {
        return client("");
    }

    /**
     * Takes a client's place in a service.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; only a label.
     * @return the client.
     * @throws NoFreeSlotException if live processes own all places.
     * @throws InvalidArgumentException if the channel is not a service, or the name has other characters.
     * @throws CorruptRingException if a ring's content violates the specification.
     * @throws AccessDeniedException if the channel is attached read-only.
     * @throws ClosedException after close.
     */
    public Client client(String name) {
        return ServiceSlots.client(this, name);
    }

    /**
     * The same as {@link #client(String)}; waits until a place is free.
     *
     * @param name up to 64 of the characters A-Z a-z 0-9 . _ -, or empty; only a label.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the client.
     * @throws FlyringException as {@link #client(String)} does.
     */
    public Client client(String name, Duration timeout) {
        return untilSlotIsFree(timeout, () -> client(name));
    }

    /**
     * Reads all rings without a slot, starting with what is published from now on.
     *
     * @return the subscriber.
     * @see #lossySubscriber(Start, WhenLapped, int...)
     */
    public LossySubscriber lossySubscriber() {
        return lossySubscriber(Start.NOW, WhenLapped.OLDEST, (int[]) null);
    }

    /**
     * Reads all rings without a slot.
     *
     * @param start where to start in each ring.
     * @return the subscriber.
     * @see #lossySubscriber(Start, WhenLapped, int...)
     */
    public LossySubscriber lossySubscriber(Start start) {
        return lossySubscriber(start, WhenLapped.OLDEST, (int[]) null);
    }

    /**
     * Reads rings without a slot, starting with what is published from now on.
     *
     * @param rings the rings to read; null: all.
     * @return the subscriber.
     * @see #lossySubscriber(Start, WhenLapped, int...)
     */
    public LossySubscriber lossySubscriber(int... rings) {
        return lossySubscriber(Start.NOW, WhenLapped.OLDEST, rings);
    }

    /**
     * Reads rings without a slot.
     *
     * @param start where to start in each ring.
     * @param rings the rings to read; null: all.
     * @return the subscriber.
     * @see #lossySubscriber(Start, WhenLapped, int...)
     */
    public LossySubscriber lossySubscriber(Start start, int... rings) {
        return lossySubscriber(start, WhenLapped.OLDEST, rings);
    }

    /**
     * Reads rings without a slot. A lossy subscriber causes no back-pressure; it counts what was overwritten before it
     * was read. It writes nothing to the rings, so it also works on a channel that is attached read-only.
     *
     * @param start where to start in each ring.
     * @param whenLapped where to continue in a ring after its publisher has overtaken this reader.
     * @param rings the rings to read, at least one; null: all.
     * @return the subscriber.
     * @throws InvalidArgumentException if a ring does not exist, or {@code rings} is empty, or the channel's publisher
     *     is foreign.
     * @throws ClosedException after close.
     */
    public synchronized LossySubscriber lossySubscriber(Start start, WhenLapped whenLapped, int... rings) {
        checkOpen();
        slots.checkOurs(Foreign.PUBLISHER, "lossy subscriber");
        int[] chosen = joining.chosen(rings);
        LossyReader[] readers = new LossyReader[chosen.length];
        List<Memory> mapped = new ArrayList<>();
        boolean done = false;
        try {
            LossySubscriber subscriber = lossySubscriber(start, whenLapped, chosen, readers, mapped);
            done = true;
            return subscriber;
        } finally {
            if (!done) {
                mapped.forEach(file::release);
            }
        }
    }

    private LossySubscriber lossySubscriber(Start start, WhenLapped whenLapped, int[] chosen, LossyReader[] readers,
        List<Memory> mapped) {
        for (int i = 0; i < chosen.length; i++) {
            Memory ring = file.map(header.ringOffset(chosen[i]), header.ringStride, true);
            mapped.add(ring);
            ring.prefault();
            readers[i] = new LossyReader(header, chosen[i], ring, slots, start, whenLapped);
        }
        LossySubscriber subscriber = new LossySubscriber(this, readers, mapped);
        lossySubscribers.add(subscriber);
        return subscriber;
    }

    /**
     * Takes a subscriber slot away from its owner, alive or dead, kept or not, so that the slot causes no more
     * back-pressure. The owner's next poll throws {@link SlotLostException}. A kept slot stays kept; its next owner
     * joins at what is published then. The slot is free again once its owner has noticed, closed or died.
     *
     * @param slot the subscriber slot, from 0.
     * @return how many messages the owner had not read; -1 if that is not known. For a worker of a queue: 1 if it had a
     *     job in hand, which goes to another worker, else 0.
     * @throws InvalidArgumentException if the slot does not exist, or is the shared slot 0 of a queue, or the channel
     *     has a foreign end.
     * @throws AccessDeniedException if the channel is attached read-only.
     * @throws ClosedException after close.
     */
    public long evict(int slot) {
        checkWritable();
        slots.checkNotForeign("evict");
        if (slot < 0 || slot >= header.subscribers) {
            throw new InvalidArgumentException("slot", "There is no subscriber slot " + slot + "; the channel " + path
                + " has " + header.subscribers + ", from 0.");
        }
        if (slot < header.firstSubscriber()) {
            throw new InvalidArgumentException("slot", "Slot " + slot + " of " + path + " is shared by all workers"
                + " and has no owner. Name one of 1 to " + (header.subscribers - 1) + ".");
        }
        List<Memory> gates = trailers();
        if (header.isService() && slot == 0) {
            return underControlLock(() -> ServiceSlots.evictServer(this));
        }
        if (header.isQueue()) {
            return underControlLock(() -> WorkerSlots.evict(this, slot));
        }
        return underControlLock(() -> {
            long unread = joining.unread(slot);
            slots.evict(slot, gates);
            return unread;
        });
    }

    /**
     * A snapshot of the channel: the owners of its slots, their positions, and which slots cause back-pressure. Takes
     * no lock and writes nothing, so it also works on a channel that is attached read-only.
     *
     * @return the snapshot. Its fields are read one after another, not atomically.
     * @throws ClosedException after close.
     */
    public Stats stats() {
        checkOpen();
        return new Look(this).stats();
    }

    /**
     * The channel's counters.
     *
     * @return the counters section; a new object each time.
     * @throws ClosedException after close.
     */
    public Counters counters() {
        checkOpen();
        return new Counters(this);
    }

    /**
     * The trailers of all rings. Maps them at the first call, when a slot is taken or evicted: the publish path maps
     * nothing.
     */
    List<Memory> trailers() {
        List<Memory> all = trailers;
        return all != null ? all : mapTrailers();
    }

    private synchronized List<Memory> mapTrailers() {
        if (trailers == null) {
            List<Memory> all = new ArrayList<>();
            for (int ring = 0; ring < header.publishers; ring++) {
                all.add(mapTrailer(ring));
            }
            trailers = all;
        }
        return trailers;
    }

    private record Seen(List<Memory> trailers, List<Memory> rings) {
    }

    /** The trailers of all rings for reading only; works on a read-only channel, too. */
    List<Memory> readableTrailers() {
        List<Memory> all = trailers;
        return all != null ? all : mapSeen().trailers;
    }

    /** All rings, with their trailers, for reading only. */
    List<Memory> readableRings() {
        Seen all = mapSeen();
        synchronized (this) {
            if (all.rings.isEmpty()) {
                for (int ring = 0; ring < header.publishers; ring++) {
                    all.rings.add(file.map(header.ringOffset(ring), header.ringStride, true));
                }
            }
        }
        return all.rings;
    }

    private synchronized Seen mapSeen() {
        if (seen == null) {
            Seen all = new Seen(new ArrayList<>(), new ArrayList<>());
            for (int ring = 0; ring < header.publishers; ring++) {
                all.trailers.add(file.map(header.ringOffset(ring) + header.capacity, header.trailerLength(), true));
            }
            seen = all;
        }
        return seen;
    }

    Memory mapTrailer(int ring) {
        return file.map(header.ringOffset(ring) + header.capacity, header.trailerLength(), false);
    }

    /** Throws if another channel has this one's name now (channel.md 6.13). */
    void checkReplaced() {
        if (file.removed()) {
            Header there = headerAtPath();
            if (there != null && !there.id.equals(header.id)) {
                throw new ChannelReplacedException(path, there.id, "Another channel has the name " + path
                    + " now, with the id " + there.id + ". Close this one and open it again to go on there.");
            }
        }
    }

    /** The header of the channel that is at this one's path now; null if no channel is there. */
    private Header headerAtPath() {
        try (ChannelFile now = ChannelFile.open(path, true)) {
            return Header.parse(now.read(0, Layout.HEADER_LENGTH), now.size(), path);
        } catch (FlyringException noChannel) {
            return null;
        }
    }

    synchronized void took(Seat seat) {
        seats.add(seat);
    }

    /**
     * The worker in a slot, if it belongs to this channel object and the calling thread has its job in hand; else null.
     */
    synchronized Worker atWorkHere(int slot) {
        for (Seat seat : seats) {
            Worker worker = seat.worker();
            if (worker != null && worker.slot() == slot && worker.isAtWorkHere()) {
                return worker;
            }
        }
        return null;
    }

    synchronized void released(Seat seat) {
        seats.remove(seat);
    }

    synchronized void release(LossySubscriber subscriber) {
        lossySubscribers.remove(subscriber);
    }

    void checkOpen() {
        if (closed) {
            throw new ClosedException("The channel " + path + " is closed. Open it again.");
        }
    }

    void checkWritable() {
        checkOpen();
        if (file.readOnly()) {
            throw new AccessDeniedException(path, "read-only", path + " is attached read-only. Open it with"
                + " Channel.open to write.");
        }
    }

    /** Runs an action under the control lock, through a separate open file description. */
    <T> T underControlLock(Supplier<T> action) {
        checkWritable();
        try (Lock lock = file.newLock()) {
            lock.lockControl(header);
            try {
                return action.get();
            } finally {
                lock.unlockControl(header);
            }
        }
    }

    Memory control() {
        return control;
    }

    Joining joining() {
        return joining;
    }

    Slots slots() {
        return slots;
    }

    Identity identity() {
        return identity;
    }

    /**
     * Closes the channel and every object made from it. Their methods then throw {@link ClosedException}, also those
     * that wait in another thread. The memory is unmapped once the garbage collector finds it unreachable. A second
     * close does nothing.
     *
     * @throws ViewAliveException if called from a handler of one of its subscribers; nothing was closed.
     * @throws TwoThreadsException while another thread publishes through one of its publishers; nothing was closed.
     */
    @Override
    public synchronized void close() {
        if (ended) {
            return;
        }
        List<Seat> all = List.copyOf(seats);
        List<LossySubscriber> lossy = List.copyOf(lossySubscribers);
        List<Waiting> stopped = new ArrayList<>();
        RuntimeException failure = null;
        try {
            stop(all, lossy, stopped); // may throw, so it comes before anything is closed
            closed = true;
            all.forEach(Seat::endOwner);
            lossy.forEach(LossySubscriber::end);
            for (Seat seat : all) {
                try {
                    seat.close();
                } catch (RuntimeException e) {
                    failure = e;
                }
            }
            tellSleepers(true); // wakes the threads that wait in objects that are closed now
            file.close();
            ended = true; // last: after an Error before this, the next close goes on
        } finally {
            stopped.forEach(Waiting::goOn);
        }
        all.forEach(Seat::tellOwner);
        if (failure != null) {
            throw failure;
        }
    }

    private static void stop(List<Seat> seats, List<LossySubscriber> lossy, List<Waiting> stopped) {
        for (Seat seat : seats) {
            Waiting waiting = seat.stop();
            if (waiting != null) {
                stopped.add(waiting);
            }
        }
        for (LossySubscriber each : lossy) {
            if (each.waiting().takeOver()) {
                stopped.add(each.waiting());
            } else {
                each.checkClosable();
            }
        }
    }

    /** After a close: wakes all sleepers of this channel, so that a thread that waits in the closed object returns. */
    void tellSleepers(boolean waited) {
        if (waited && !file.readOnly()) {
            slots.wakeReaders();
            slots.room().wakeAll();
        } else { // the channel is read-only; or no thread waits in the object, but a wait set may
            slots.data().wakeSleepers(WaitingWords.ALL_RINGS);
            slots.room().wakeSleepers(WaitingWords.ALL_RINGS);
            if (slots.jobs() != null) {
                slots.jobs().wakeSleepers(WaitingWords.ALL_RINGS);
            }
        }
    }
}
