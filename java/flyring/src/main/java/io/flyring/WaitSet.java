// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A set of objects of one or several channels and journals that one thread waits for: subscribers, publishers,
 * workers, servers, clients, and readers of journals. A wait ends when a member has something to read, or room to
 * publish. The thread that waits is also the one that uses the members; any thread may call {@link #wake()}. A wait
 * spins for 20 microseconds, then sleeps; it allocates nothing. A virtual thread that sleeps here pins its carrier
 * thread. Not thread-safe, except for {@link #wake()}. Spec channel.md 6.16.
 */
public final class WaitSet {
    /** Whether the kernel has futex_waitv, which waits on several words at once. */
    private static final boolean KNOWS_MANY = Sys.canFutexWaitMany();
    /** How often a spin looks at the members between two readings of the clock. */
    private static final int LOOKS = 16;
    /** The longest sleep, 100 ms: an interrupt is detected within this time. */
    private static final long MOST_NANOS = 100_000_000;

    private final List<Entry> entries = new ArrayList<>();
    private final List<Pair> pairs = new ArrayList<>();
    private final List<AutoCloseable> ready = new ArrayList<>();
    private final List<AutoCloseable> shown = Collections.unmodifiableList(ready);
    private final AtomicBoolean woken = new AtomicBoolean();
    /** The word that {@link #wake()} changes; belongs to this object and to no channel. */
    private final Memory own = Memory.of(ByteBuffer.allocateDirect(Integer.BYTES));
    private final Memory time = Memory.of(ByteBuffer.allocateDirect(Linux.TIMESPEC_SIZE));
    /** One struct futex_waitv for each pair, and a last one for {@link #own}. */
    private Memory words = Memory.EMPTY;
    private boolean busy;
    private long spin = Waiting.DEFAULT_SPIN_NANOS;

    /** A member of the set. */
    private record Entry(AutoCloseable object, Waiting waiting) {
    }

    /** A pair of waiting words, and the bits of all members that sleep on it. */
    private static final class Pair {
        private final WaitingWords words;
        private final boolean writable;
        private int mask;

        Pair(WaitingWords words, boolean writable) {
            this.words = words;
            this.writable = writable;
        }
    }

    /** Creates an empty set. */
    public WaitSet() {
        build();
    }

    /**
     * Adds a subscriber. It is ready when there is something to poll, or when its next method throws because it is
     * closed, has lost its slot, or its channel was replaced.
     *
     * @param subscriber a subscriber that is not in the set yet.
     * @return this.
     * @throws InvalidArgumentException if it is in the set already.
     * @throws TwoThreadsException if a thread waits on this set.
     */
    public WaitSet add(Subscriber subscriber) {
        return add(subscriber, subscriber.waiting());
    }

    /**
     * Adds a lossy subscriber. It is ready when there is something to poll, or when its next method throws because it
     * is closed or its channel was replaced.
     *
     * @param subscriber a subscriber that is not in the set yet.
     * @return this.
     * @throws InvalidArgumentException if it is in the set already.
     * @throws TwoThreadsException if a thread waits on this set.
     */
    public WaitSet add(LossySubscriber subscriber) {
        return add(subscriber, subscriber.waiting());
    }

    /**
     * Adds a publisher. It is ready when there is room for the message that last found none. It is also ready when its
     * next method throws because it is closed, has lost its slot, or its channel was replaced.
     *
     * @param publisher a publisher that is not in the set yet.
     * @return this.
     * @throws InvalidArgumentException if it is in the set already.
     * @throws TwoThreadsException if a thread waits on this set.
     */
    public WaitSet add(Publisher publisher) {
        return add(publisher, publisher.waiting());
    }

    /**
     * Adds a worker. It is ready when there is a job to take, or when its next method throws because it is closed, has
     * lost its slot, or its channel was replaced.
     *
     * @param worker a worker that is not in the set yet.
     * @return this.
     * @throws InvalidArgumentException if it is in the set already.
     * @throws TwoThreadsException if a thread waits on this set.
     */
    public WaitSet add(Worker worker) {
        return add(worker, worker.waiting());
    }

    /**
     * Adds a server. It is ready when there is something to poll, or when its requests in hand need a poll. It is also
     * ready when its next method throws because it is closed, has lost its slot, or its channel was replaced.
     *
     * @param server a server that is not in the set yet.
     * @return this.
     * @throws InvalidArgumentException if it is in the set already.
     * @throws TwoThreadsException if a thread waits on this set.
     */
    public WaitSet add(Server server) {
        return add(server, server.waiting());
    }

    /**
     * Adds a client. It is ready when a reply has arrived, a call has expired, or the server has gone. It is also ready
     * when its next method throws because it is closed, has lost its slot, or its channel was replaced.
     *
     * @param client a client that is not in the set yet.
     * @return this.
     * @throws InvalidArgumentException if it is in the set already.
     * @throws TwoThreadsException if a thread waits on this set.
     */
    public WaitSet add(Client client) {
        return add(client, client.waiting());
    }

    /**
     * Adds a reader of a journal. It is ready when there is something to poll, or when its next method throws.
     *
     * @param reader a reader that is not in the set yet.
     * @return this.
     */
    public WaitSet add(JournalReader reader) {
        return add(reader, reader.waiting());
    }

    /**
     * Adds a consumer of a journal. It is ready when there is something to poll, or when its next method throws.
     *
     * @param consumer a consumer that is not in the set yet.
     * @return this.
     */
    public WaitSet add(JournalConsumer consumer) {
        return add(consumer, consumer.waiting());
    }

    private WaitSet add(AutoCloseable object, Waiting waiting) {
        checkIdle();
        if (indexOf(object) >= 0) {
            throw new InvalidArgumentException("member", "It is in the wait set already.");
        }
        entries.add(new Entry(object, waiting));
        build();
        return this;
    }

    /**
     * Removes a member. Closing a member does not remove it.
     *
     * @param member the member to remove.
     * @throws InvalidArgumentException if it is not in the set.
     * @throws TwoThreadsException if a thread waits on this set.
     */
    public void remove(AutoCloseable member) {
        checkIdle();
        int index = indexOf(member);
        if (index < 0) {
            throw new InvalidArgumentException("member", "It is not in the wait set.");
        }
        entries.remove(index);
        build();
    }

    /**
     * Sets how long a wait spins before it sleeps. The default, 20 microseconds, is about the cost of a wake-up.
     *
     * @param time the time to spin; 0 sleeps at once.
     * @throws InvalidArgumentException if it is below 0.
     */
    public void setSpin(Duration time) {
        spin = Waiting.spin(time);
    }

    /**
     * The number of members.
     *
     * @return their number.
     */
    public int size() {
        return entries.size();
    }

    private int indexOf(AutoCloseable member) {
        for (int i = 0; i < entries.size(); i++) {
            if (entries.get(i).object == member) {
                return i;
            }
        }
        return -1;
    }

    private void checkIdle() {
        if (busy) {
            throw new TwoThreadsException("This wait set is in use by another thread. Give each thread its own.");
        }
    }

    private void build() {
        pairs.clear();
        for (Entry entry : entries) {
            pairOf(entry.waiting).mask |= entry.waiting.mask();
        }
        words = Memory.of(ByteBuffer.allocateDirect((pairs.size() + 1) * Linux.FUTEX_WAITV_SIZE));
        for (int i = 0; i <= pairs.size(); i++) {
            int at = i * Linux.FUTEX_WAITV_SIZE;
            long address = i == pairs.size() ? own.address()
                : pairs.get(i).words.control().address() + pairs.get(i).words.sequence();
            words.putLong(at + Linux.FUTEX_WAITV_ADDRESS, address);
            words.putInt(at + Linux.FUTEX_WAITV_FLAGS, Linux.FUTEX_32);
        }
    }

    private Pair pairOf(Waiting waiting) {
        for (Pair pair : pairs) {
            if (pair.words.equals(waiting.words())) {
                return pair;
            }
        }
        Pair pair = new Pair(waiting.words(), waiting.writable());
        pairs.add(pair);
        return pair;
    }

    /**
     * Whether waits nap: they sleep for at most a millisecond at a time instead of until a peer wakes them. This is the
     * case with more than 127 pairs of words to sleep on (one for each channel and direction), or where futex_waitv is
     * missing (before Linux 5.16, and in some sandboxes).
     *
     * @return true if waits nap.
     */
    public boolean naps() {
        return !KNOWS_MANY || pairs.size() >= Linux.FUTEX_WAITV_MOST;
    }

    /**
     * Ends the wait that is under way, or else the next one. May be called from any thread.
     */
    public void wake() {
        woken.set(true);
        own.addRelease(0, 1);
        Sys.futexWake(own.address(), WaitingWords.ALL_RINGS);
        Reference.reachabilityFence(own);
    }

    /**
     * Waits until a member is ready, without a time limit.
     *
     * @return the members that are ready; empty after {@link #wake()}. Valid until the next wait.
     * @throws FlyringException as {@link #await(Duration)} does.
     */
    public List<AutoCloseable> await() {
        return await(Waiting.FOREVER);
    }

    /**
     * Waits until a member is ready.
     *
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the members that are ready; empty at the time-out or after {@link #wake()}. Valid until the next wait.
     * @throws InvalidArgumentException if the time-out is below 0.
     * @throws CancelledException if the thread is interrupted; detected within 100 ms. The thread stays interrupted.
     * @throws TwoThreadsException if another thread is waiting on this set.
     */
    public List<AutoCloseable> await(Duration timeout) {
        return await(Waiting.nanos(timeout));
    }

    /**
     * Waits as {@link #await(Duration)} does, with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the members that are ready; empty at the time-out or after {@link #wake()}. Valid until the next wait.
     * @throws FlyringException as {@link #await(Duration)} does.
     */
    public List<AutoCloseable> await(long timeout) {
        checkIdle();
        if (timeout < 0) {
            throw Waiting.negative(timeout);
        }
        busy = true;
        try {
            if (!collect() && timeout > 0) {
                try {
                    sleepUntilReady(timeout);
                } finally {
                    passOn();
                }
            }
            woken.set(false);
            return shown;
        } finally {
            busy = false;
        }
    }

    /** Collects the ready members; returns whether the wait ends: a member is ready, or wake was called. */
    private boolean collect() {
        ready.clear();
        for (int i = 0; i < entries.size(); i++) {
            if (entries.get(i).waiting.isReady()) {
                ready.add(entries.get(i).object);
            }
        }
        return !ready.isEmpty() || woken.get();
    }

    private void sleepUntilReady(long timeout) {
        final long start = System.nanoTime();
        final long deadline = Waiting.deadline(start, timeout);
        final long spun = Math.min(deadline, Waiting.deadline(start, spin));
        final int looks = spin > 0 ? LOOKS : 1;
        long nextLook = start + Waiting.LOOK_NANOS;
        long now;
        do {
            for (int i = 0; i < looks; i++) {
                if (collect()) {
                    return;
                }
                Thread.onSpinWait();
            }
            now = System.nanoTime();
            if (now >= nextLook) {
                Waiting.checkInterrupted("members of a wait set");
                if (look()) {
                    return;
                }
                nextLook = now + Waiting.LOOK_NANOS;
            }
        } while (now < spun);
        for (; now < deadline; now = System.nanoTime()) {
            Waiting.checkInterrupted("members of a wait set");
            sleepOnce(deadline, now - start);
            if (collect()) {
                return;
            }
            if (look()) {
                return;
            }
        }
        Waiting.checkInterrupted("members of a wait set");
    }

    /** Lets each worker pass on a wake-up that it does not use: a job must not wait while another worker sleeps. */
    private void passOn() {
        for (int i = 0; i < entries.size(); i++) {
            entries.get(i).waiting.passOn();
        }
    }

    /** Adds members to the ready ones if their next method will throw; returns whether there are any. */
    private boolean look() {
        for (int i = 0; i < entries.size(); i++) {
            final Waiting each = entries.get(i).waiting;
            try {
                each.lookAlone();
            } catch (FlyringException e) {
                each.lookSoon();
                ready.add(entries.get(i).object);
            }
        }
        return !ready.isEmpty();
    }

    /** Sleeps once on all pairs: sleep 1 to 6 (channel.md 6.16). */
    private void sleepOnce(long deadline, long waited) {
        final int last = pairs.size();
        final int ownBefore = own.getIntAcquire(0);
        words.putLong(last * Linux.FUTEX_WAITV_SIZE, ownBefore & 0xffff_ffffL);
        boolean some = false;
        for (int i = 0; i < last; i++) {
            final Pair pair = pairs.get(i);
            final Memory control = pair.words.control();
            final int sequence = control.getIntAcquire(pair.words.sequence()); // sleep 1; pairs with: wake 2
            words.putLong(i * Linux.FUTEX_WAITV_SIZE, sequence & 0xffff_ffffL);
            if (pair.writable) {
                control.setBits(pair.words.asleep(), pair.mask); // sleep 2
                some = true;
            }
        }
        final boolean reached = some && Sys.membarrier(Linux.MEMBARRIER_GLOBAL_EXPEDITED) == 0; // sleep 3
        if (some && !reached) {
            VarHandle.fullFence(); // pairs with: the fence of a waker that is not registered
        }
        if (collect()) { // sleep 4
            return;
        }
        long cap = naps() ? Waiting.SHORT_CAP_NANOS : Waiting.FOREVER; // sleep 5
        for (int i = 0; i < entries.size(); i++) {
            final Waiting each = entries.get(i).waiting;
            cap = Math.min(cap, each.writable() && reached && each.othersWake() ? each.cap(waited)
                : Waiting.SHORT_CAP_NANOS);
        }
        Waiting.putTime(time, Math.min(deadline, Waiting.deadline(System.nanoTime(), Math.min(cap, MOST_NANOS))));
        for (int i = 0; i < entries.size(); i++) {
            entries.get(i).waiting.slept();
        }
        if (naps()) { // sleep 6
            Sys.futexWait(own.address(), ownBefore, time.address(), WaitingWords.ALL_RINGS);
        } else {
            Sys.futexWaitMany(words.address(), last + 1, time.address());
        }
        Reference.reachabilityFence(this);
    }
}
