// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * How a publisher or subscriber waits until room or a message is there: it looks, spins for a short time, and then
 * sleeps in rounds (spec 6.16). Meanwhile another thread may close it: it takes the wait over, and the thread that
 * waited goes on when that is done. Nothing is allocated.
 */
abstract class Waiting {
    /** A time-out, or a deadline, that never comes. */
    static final long FOREVER = Long.MAX_VALUE;

    static final long DEFAULT_SPIN_NANOS = 20_000; // about what a wake-up costs
    static final long SHORT_CAP_NANOS = 1_000_000;

    private static final long NANOS_PER_SECOND = 1_000_000_000L;
    /** Between two at the clock. */
    private static final int LOOKS = 16;
    /** However long it spins, it looks that often at what else ends a wait. */
    static final long LOOK_NANOS = 4_000_000;

    private static final int IDLE = 0;
    /** It looks and sleeps: it may be taken over. */
    private static final int WAITING = 1;
    /** It tries again what it waits for, and is done with that soon. */
    private static final int TRYING = 2;
    private static final int TAKEN_OVER = 3;
    /** It will look and sleep. */
    private static final int ENTERING = 4;

    private static final int REHEARSALS_A_NAP = 32;
    /** Still to come, in this JVM. Threads that count at once lose count, which does not matter. */
    private static int rehearsals = 32 * REHEARSALS_A_NAP;

    private final WaitingWords words;
    /** Whether sleepers can say that they sleep. */
    private final boolean writable;
    private final int mask;
    private final String what;
    /** For the kernel: a struct timespec. */
    private final Memory time = Memory.of(ByteBuffer.allocateDirect(Linux.TIMESPEC_SIZE));
    private final AtomicInteger state = new AtomicInteger();
    private long spin = DEFAULT_SPIN_NANOS;
    private long start;
    private long deadline;
    private long spinEnd;
    private Thread thread;

    /**
     * For one object.
     *
     * @param mask the bit of each ring that it waits for.
     * @param what what it waits for, for people.
     */
    Waiting(WaitingWords words, boolean writable, int mask, String what) {
        this.words = words;
        this.writable = writable;
        this.mask = mask;
        this.what = what;
    }

    /** Whether there is something to do but sleep. */
    abstract boolean isReady();

    /** Whether everybody on the other side wakes those who sleep. */
    abstract boolean othersWake();

    /** How long one round may take, ns, after a wait of so many. */
    abstract long cap(long waited);

    /** How often in a row a sleep that such a time ended may go on at once, without a look at what others do. */
    int naps() {
        return 0;
    }

    /** After a round that found nothing: throws what else ends a wait. */
    abstract void look();

    /** The same for an object whose own methods are not called between two rounds. */
    void lookAlone() {
        look();
    }

    /** The object's next method that finds nothing looks, too. */
    abstract void lookSoon();

    /** It sleeps now: somebody may wake it, and nobody else. */
    void slept() {
    }

    /** A wait set that this object slept in returns to its caller. */
    void passOn() {
    }

    /** A wait of so many ns begins: throws what forbids that. */
    void checkBegin(long timeout) {
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

    /** In ns; as long as can be said in them if it is longer. */
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

    /** When a wait that begins now is over; 0 ns and more. */
    static long deadline(long now, long timeout) {
        return timeout >= FOREVER - now ? FOREVER : now + timeout;
    }

    /** A time to look before one sleeps, in ns. */
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

    /** A verb that may wait begins, or goes on behind a wait: who closes the object waits for its end. */
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

    /** A wait begins. */
    final void begin(long timeout) {
        checkBegin(timeout);
        start = System.nanoTime();
        deadline = deadline(start, timeout);
        spinEnd = Math.min(deadline, deadline(start, spin));
        thread = Thread.currentThread();
    }

    /** A wait is over. */
    final void end() {
        final int now = state.get();
        if (now == WAITING || now == ENTERING) { // an Error, of a stack without room, came before the end of a turn
            setBusy(false);
        }
        state.set(IDLE);
    }

    /**
     * One turn of a wait whose thread tries again after each: waits until it is time for that. It is followed by
     * another turn, or by {@link #end()}.
     *
     * @return false: the deadline has passed. Throws what else ends the wait.
     */
    final boolean turn() {
        enter();
        try {
            return round();
        } finally {
            leave();
        }
    }

    /** The same, until there is something to try. */
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

    /** In this order, here and in {@link #leave}: whatever is thrown in between, {@link #end} sets it right. */
    private void enter() {
        state.set(ENTERING);
        setBusy(true);
        state.set(WAITING);
    }

    private void leave() {
        setBusy(false);
        while (!state.compareAndSet(WAITING, TRYING)) { // who closes it is done soon
            Thread.yield();
        }
    }

    /** Spins as long as it may, then sleeps once, and looks; false: the deadline has passed. */
    private boolean round() {
        long now = System.nanoTime();
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
     * For who closes the object in another thread: whether its thread waits, and does nothing more until {@link #goOn}.
     */
    final boolean takeOver() {
        final long since = System.nanoTime();
        while (!state.compareAndSet(WAITING, TAKEN_OVER)) {
            // A handler may take its time, and so may the source of what is published.
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

    /** The thread that waited goes on. */
    final void goOn() {
        state.set(WAITING);
    }

    static void checkInterrupted(String what) {
        if (Thread.currentThread().isInterrupted()) {
            throw new CancelledException(what, "The thread was interrupted while it waited for " + what
                + ". It still is: Thread.interrupted() clears that.");
        }
    }

    /** Between some looks and the next ones, while it spins. */
    void betweenLooks() {
    }

    private boolean spinUntil(long end) {
        do {
            for (int i = 0; i < LOOKS; i++) {
                if (isTakenOver() || isReady()) {
                    return true;
                }
                Thread.onSpinWait();
            }
            betweenLooks();
        } while (System.nanoTime() < end);
        return false;
    }

    /** A point of CLOCK_MONOTONIC as the kernel wants it. */
    static void putTime(Memory timespec, long until) {
        timespec.putLong(0, until / NANOS_PER_SECOND);
        timespec.putLong(Linux.TIMESPEC_NANOS, until % NANOS_PER_SECOND);
    }

    /** One round: sleep 1 to 6, and naps. */
    private void sleepOnce(long cap) {
        final WaitingWords pair = words();
        final int bits = mask();
        final Memory control = pair.control();
        final int sequence = control.getIntAcquire(pair.sequence()); // sleep 1; pairs with: wake 2
        boolean reached = false; // the wakers
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
     * Naps of no time. A JVM compiles what ran some hundreds of times, which is a minute of naps; until then each
     * costs three times as much. Later this is one look at a number.
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
     * Whether the sleep was ended by its cap and by nothing else: then it may go on, with the sequence that it began
     * with. A reader to whom nothing comes does little else than this.
     */
    private boolean mayNap(WaitingWords pair, int bits, long until) {
        final Memory control = pair.control();
        return (control.getIntAcquire(pair.asleep()) & bits) == bits // nap: the bits, then the look
            && !isTakenOver() && !isReady() && until != deadline && System.nanoTime() >= until
            && control.getIntOpaque(Layout.CONTROL_SUCCESSOR) == 0 && !Thread.currentThread().isInterrupted();
    }

    /** Sleep 6; returns until when it would sleep if nobody woke it. */
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
