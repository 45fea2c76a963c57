// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The wait of a publisher, subscriber or other object until room or a message is there. It spins for a short time, and
 * then sleeps in rounds (channel.md 6.16). Meanwhile another thread may close the object: that thread takes the wait
 * over, and the waiting thread continues when the close is done. Allocates nothing.
 */
abstract class Waiting {
    /** A time-out or deadline that never expires. */
    static final long FOREVER = Long.MAX_VALUE;

    static final long DEFAULT_SPIN_NANOS = 20_000; // about what a wake-up costs
    static final long SHORT_CAP_NANOS = 1_000_000;

    private static final long NANOS_PER_SECOND = 1_000_000_000L;
    /** The number of looks between two reads of the clock. */
    private static final int LOOKS = 16;
    /** A wait that spins longer than this checks this often what else ends it. */
    static final long LOOK_NANOS = 4_000_000;

    private static final int IDLE = 0;
    /** The thread looks and sleeps: the wait may be taken over. */
    private static final int WAITING = 1;
    /** The thread tries again what it waits for, which takes a short time. */
    private static final int TRYING = 2;
    private static final int TAKEN_OVER = 3;
    /** The thread marks its object as busy or as idle, before and after it looks and sleeps. */
    private static final int MARKING = 4;

    private static final int REHEARSALS_A_NAP = 32;
    /** Rehearsals still to come in this JVM. The races between threads that count are harmless. */
    private static int rehearsals = 32 * REHEARSALS_A_NAP;

    private final WaitingWords words;
    /** Whether sleepers can set their bits: the file is mapped writable. */
    private final boolean writable;
    private final int mask;
    private final String what;
    /** For the kernel: a struct timespec. */
    private final Memory time = Memory.of(ByteBuffer.allocateDirect(Linux.TIMESPEC_SIZE));
    private final AtomicInteger state = new AtomicInteger();
    private long spin = DEFAULT_SPIN_NANOS;
    /** How often it pauses between two looks. */
    int pauses = 1;
    private long start;
    private long deadline;
    private long spinEnd;
    /** How long the next round sleeps, in ns, without a wake-up by the other side; 0: it does not. */
    private long rest;
    private Thread thread;

    /**
     * Creates the wait of one object.
     *
     * @param mask the bits of the rings that it waits for.
     * @param what what it waits for, for people.
     */
    Waiting(WaitingWords words, boolean writable, int mask, String what) {
        this.words = words;
        this.writable = writable;
        this.mask = mask;
        this.what = what;
    }

    /** Whether the wait ends: what it waits for is there, or an error is. */
    abstract boolean isReady();

    /** Whether all owners on the other side wake sleepers. */
    abstract boolean othersWake();

    /** The longest time of one round, in ns, after {@code waited} ns. */
    abstract long cap(long waited);

    /** How many naps may follow a sleep that its cap ended (6.16). */
    int naps() {
        return 0;
    }

    /** After a round that found nothing: throws if something else ends the wait. */
    abstract void look();

    /** Does the same for a wait set, which calls none of the object's methods between two rounds. */
    void lookAlone() {
        look();
    }

    /** Makes the object's next method that finds nothing do the same check. */
    abstract void lookSoon();

    /** Called before each sleep: from here on a wake-up may go to this sleeper alone. */
    void slept() {
    }

    /** Called when a wait set with this object returns to its caller. */
    void passOn() {
    }

    /** Called when a wait begins; throws if the object may not wait. */
    void checkBegin(long timeout) {
    }

    /** How long a wait that begins now sleeps first, in ns, without a wake-up by the other side; 0: not at all. */
    long rest(long now, long timeout) {
        return 0;
    }

    WaitingWords words() {
        return words;
    }

    final boolean writable() {
        return writable;
    }

    int mask() {
        return mask;
    }

    /** Marks the object as in use, so that other threads are refused, or as idle. */
    abstract void setBusy(boolean busy);

    /** A time-out in ns, at most {@link #FOREVER}. */
    static long nanos(Duration timeout) {
        return nanos(timeout, "timeout");
    }

    private static long nanos(Duration time, String argument) {
        if (time == null) {
            throw new InvalidArgumentException(argument, "There is no time. Give one, or leave it out.");
        }
        return time.getSeconds() >= FOREVER / NANOS_PER_SECOND ? FOREVER
            : time.getSeconds() < -1 ? -1 : time.toNanos();
    }

    static InvalidArgumentException negative(long timeout) {
        return new InvalidArgumentException("timeout", "The time-out is " + timeout + " ns; it is 0 or more.");
    }

    /** The deadline of a wait that begins now; the time-out is 0 or more. */
    static long deadline(long now, long timeout) {
        return timeout >= FOREVER - now ? FOREVER : now + timeout;
    }

    /** A spin time in ns. */
    static long spin(Duration time) {
        long nanos = nanos(time, "spin");
        if (nanos < 0) {
            throw new InvalidArgumentException("spin", "The time to spin is " + nanos + " ns; it is 0 or more.");
        }
        return nanos;
    }

    final void spinFor(Duration time) {
        spin = spin(time);
    }

    /** Whether a wait looks more than once before it sleeps. */
    final boolean spins() {
        return spin > 0;
    }

    /**
     * Begins a verb that may wait, or continues it after a wait: a close by another thread waits for the verb's end.
     */
    final void enterVerb() {
        final Thread current = Thread.currentThread();
        if (thread != current) {
            thread = current;
        }
        state.setRelease(TRYING);
    }

    final void leaveVerb() {
        state.setRelease(IDLE);
    }

    /** Begins a wait. */
    final void begin(long timeout) {
        checkBegin(timeout);
        start = System.nanoTime();
        deadline = deadline(start, timeout);
        spinEnd = Math.min(deadline, deadline(start, spin));
        rest = rest(start, timeout);
        if (deadline(start, rest) <= spinEnd) {
            rest = 0;
        }
        thread = Thread.currentThread();
    }

    /** Ends a wait. */
    final void end() {
        final int now = state.get();
        if (now == WAITING || now == MARKING) { // a StackOverflowError came before the end of a turn
            setBusy(false);
        }
        state.set(IDLE);
    }

    /**
     * Waits for one turn, after which the caller tries again. Another turn or {@link #end()} must follow. Throws if
     * something else ends the wait.
     *
     * @return false if the deadline has passed.
     */
    final boolean turn() {
        enter();
        try {
            return round();
        } finally {
            leave();
        }
    }

    /** Does the same, until there is something to try. */
    final boolean untilReady() {
        enter();
        try {
            while (round()) {
                if (isTakenOver() || isReady()) {
                    return true;
                }
            }
            return false;
        } finally {
            leave();
        }
    }

    /** The order here and in {@link #leave} matters: if something is thrown in between, {@link #end} can clean up. */
    private void enter() {
        state.set(MARKING);
        setBusy(true);
        state.set(WAITING);
    }

    /** Marks the object as idle when no close can be under way: a close may open the object's claim to abort it. */
    private void leave() {
        while (!state.compareAndSet(WAITING, MARKING)) { // a close is under way and ends soon
            Thread.yield();
        }
        setBusy(false);
        state.set(TRYING);
    }

    /** Rests; or spins while the spin time lasts, then sleeps once. Then looks; false if the deadline has passed. */
    private boolean round() {
        long now = System.nanoTime();
        if (rest > 0) {
            checkInterrupted(what);
            rest(now);
            if (!isTakenOver() && !isReady()) {
                checkInterrupted(what);
                look();
            }
            return true;
        }
        if (now < spinEnd) {
            final long end = Math.min(spinEnd, now + LOOK_NANOS);
            if (spinUntil(end)) {
                return true;
            }
            if (end < spinEnd) {
                checkInterrupted(what);
                look();
                return true;
            }
            now = System.nanoTime();
        }
        if (now >= deadline) {
            return false;
        }
        checkInterrupted(what);
        sleepOnce(cap(now - start));
        if (!isTakenOver() && !isReady()) {
            checkInterrupted(what);
            look();
        }
        return true;
    }

    private boolean isTakenOver() {
        return state.get() != WAITING;
    }

    /**
     * For a close by another thread: takes the wait over, so that the waiting thread does nothing more until
     * {@link #goOn}. False if no thread waits, or a handler takes longer than a second.
     */
    final boolean takeOver() {
        final long since = System.nanoTime();
        while (!state.compareAndSet(WAITING, TAKEN_OVER)) {
            // A handler may take long, and so may a source that is published.
            final int now = state.get();
            if (now == IDLE || now == TAKEN_OVER || thread == Thread.currentThread()
                || System.nanoTime() - since > NANOS_PER_SECOND) {
                return false;
            }
            Thread.yield();
        }
        return true;
    }

    boolean isWaiting() {
        return state.get() == WAITING;
    }

    /** Lets the waiting thread continue. */
    final void goOn() {
        state.set(WAITING);
    }

    static void checkInterrupted(String what) {
        if (Thread.currentThread().isInterrupted()) {
            throw new CancelledException(what, "The thread was interrupted while it waited for " + what
                + ". It still is: Thread.interrupted() clears that.");
        }
    }

    /** Called now and then while the wait spins. */
    void betweenLooks() {
    }

    private boolean spinUntil(long end) {
        do {
            for (int i = 0; i < LOOKS; i += pauses) {
                if (isTakenOver() || isReady()) {
                    return true;
                }
                Room.standBack(pauses);
            }
            betweenLooks();
        } while (System.nanoTime() < end);
        return false;
    }

    /** Writes a time of CLOCK_MONOTONIC as a struct timespec. */
    static void putTime(Memory timespec, long until) {
        timespec.putLong(0, until / NANOS_PER_SECOND);
        timespec.putLong(Linux.TIMESPEC_NANOS, until % NANOS_PER_SECOND);
    }

    /** Sleeps for the time of the rest: sleep 1, 4 and 6 (6.16). No bit is set, so the other side wakes no process. */
    private void rest(long now) {
        final long time = rest;
        rest = 0;
        final WaitingWords pair = words();
        final int sequence = pair.control().getIntAcquire(pair.sequence());
        if (!isTakenOver() && !isReady()) {
            sleep(pair, mask(), sequence, now, time);
        }
    }

    /** Sleeps once: sleep 1 to 6, and naps (6.16). */
    private void sleepOnce(long cap) {
        final WaitingWords pair = words();
        final int bits = mask();
        final Memory control = pair.control();
        final int sequence = control.getIntAcquire(pair.sequence()); // sleep 1; pairs with: wake 2
        boolean reached = false; // whether the membarrier reached the wakers
        if (writable) {
            control.setBits(pair.asleep(), bits); // sleep 2
            reached = Sys.membarrier(Linux.MEMBARRIER_GLOBAL_EXPEDITED) == 0; // sleep 3
            if (!reached) {
                VarHandle.fullFence(); // pairs with: the fence of a waker that is not registered
            }
        }
        if (isTakenOver() || isReady()) { // sleep 4
            return;
        }
        final long most = reached && othersWake() ? cap : SHORT_CAP_NANOS; // sleep 5
        slept();
        long until = sleep(pair, bits, sequence, System.nanoTime(), most);
        for (int naps = most == cap ? naps() : 0; naps > 0; naps--) {
            rehearse(pair, bits, sequence);
            if (!mayNap(pair, bits, until)) {
                return;
            }
            until = sleep(pair, bits, sequence, System.nanoTime(), most);
        }
    }

    /**
     * Runs naps of no time, so that the JVM compiles them early. The JVM compiles code that ran some hundreds of times,
     * which is a minute of naps; until then each costs three times as much. Later this is one test of a number.
     */
    private void rehearse(WaitingWords pair, int bits, int sequence) {
        if (rehearsals > 0) {
            final int end = rehearsals - REHEARSALS_A_NAP;
            while (rehearsals > end && mayNap(pair, bits, sleep(pair, bits, sequence - 1, System.nanoTime(), 0))) {
                rehearsals--;
            }
        }
    }

    /**
     * Whether only the cap ended the sleep: then a nap may follow, with the same sequence. An idle reader spends most
     * of its time here.
     */
    private boolean mayNap(WaitingWords pair, int bits, long until) {
        final Memory control = pair.control();
        return (control.getIntAcquire(pair.asleep()) & bits) == bits // nap: the bits, then the look
            && !isTakenOver() && !isReady() && until != deadline && System.nanoTime() >= until
            && control.getIntOpaque(Layout.CONTROL_SUCCESSOR) == 0 && !Thread.currentThread().isInterrupted();
    }

    /** Sleeps in the kernel: sleep 6. Returns the time at which the sleep ends without a wake-up. */
    private long sleep(WaitingWords pair, int bits, int sequence, long now, long most) {
        final Memory control = pair.control();
        final long until = Math.min(deadline, now + most);
        putTime(time, until);
        Sys.futexWait(control.address() + pair.sequence(), sequence, time.address(), bits);
        Reference.reachabilityFence(control);
        Reference.reachabilityFence(time);
        return until;
    }
}
