// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;

/**
 * Who wakes those who sleep: a publisher behind a message, a subscriber behind a gate (spec 6.16). Nothing but a load
 * where nobody sleeps.
 */
final class Waker {
    /** What is watched where nobody is woken, and where a fence comes before the look at those who sleep. */
    private static final Memory CONSTANTS = Memory.of(ByteBuffer.allocateDirect(2 * Integer.BYTES));
    private static final int NEVER = 0;
    private static final int ALWAYS = Integer.BYTES;

    static {
        CONSTANTS.putInt(ALWAYS, WaitingWords.ALL_RINGS);
    }

    private final WaitingWords words;
    /** Of a queue's producer, and of who releases: where workers sleep, of whom it wakes one; else null. */
    private final WaitingWords jobs;
    private final boolean registered;
    private final Memory watched;
    private final int watchedIndex;

    /** Register, once a process. */
    private static final class Registration {
        /** False: the sleepers' membarrier does not reach this process. */
        static final boolean DONE = Sys.membarrier(Linux.MEMBARRIER_REGISTER_GLOBAL_EXPEDITED) == 0;
    }

    /** Registers the process, so make it before a slot is taken. Not {@code wakes}: it opted out, and wakes nobody. */
    Waker(WaitingWords words, boolean wakes) {
        this(words, null, wakes, wakes && Registration.DONE);
    }

    /** The same for who wakes workers, too, if there are any: {@code jobs} may be null. */
    Waker(WaitingWords words, WaitingWords jobs, boolean wakes) {
        this(words, jobs, wakes, wakes && Registration.DONE);
    }

    /** The same where the system call's answer is known: for tests. */
    Waker(WaitingWords words, boolean wakes, boolean registered) {
        this(words, null, wakes, registered);
    }

    private Waker(WaitingWords words, WaitingWords jobs, boolean wakes, boolean registered) {
        this.words = words;
        this.jobs = jobs;
        this.registered = registered;
        this.watched = registered ? words.control() : CONSTANTS;
        this.watchedIndex = registered ? words.asleep() : wakes ? ALWAYS : NEVER;
    }

    /** Where the hot path looks: by address, if that can be done at all, as long as it keeps this object reachable. */
    long watchedAt() {
        return watched.address() + watchedIndex;
    }

    /** The second place to look at: where workers say that they sleep; where there are none, the first one again. */
    long jobsWatchedAt() {
        return registered && jobs != null ? jobs.control().address() + jobs.asleep() : watchedAt();
    }

    /** The bits of both places that say that somebody may be woken behind a message of a ring. */
    int watchedBits(int ringBit) {
        return jobs == null ? ringBit : ringBit | Layout.JOBS_BIT;
    }

    /** Whether somebody waits for one of these rings, or may. Behind the store of what they wait for. */
    boolean isAwaited(int bits) {
        final int second = registered && jobs != null ? jobs.control().getIntOpaque(jobs.asleep()) : 0;
        return ((watched.getIntOpaque(watchedIndex) | second) & bits) != 0;
    }

    /** What follows. A method of its own, that the hot path stays small. */
    void wakeNow(int bits) {
        if (jobs != null) {
            wakeBoth(bits);
            return;
        }
        if (!registered) {
            VarHandle.fullFence(); // pairs with: sleep 3
            if ((words.control().getIntOpaque(words.asleep()) & bits) == 0) {
                return;
            }
        }
        words.wake(bits);
    }

    /** Of a queue: one worker, and all observers of the ring. The look that led here may have seen another's bit. */
    private void wakeBoth(int bits) {
        if (!registered) {
            VarHandle.fullFence(); // pairs with: sleep 3
        }
        jobs.wakeOne();
        if ((words.control().getIntOpaque(words.asleep()) & bits) != 0) {
            words.wake(bits);
        }
    }
}
