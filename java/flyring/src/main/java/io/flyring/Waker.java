// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;

/**
 * Wakes sleepers: for a publisher after a message, for a subscriber after a gate store (channel.md 6.16). If no process
 * sleeps, this costs one load.
 */
final class Waker {
    /** What is watched instead of asleep: 0 if nothing is ever woken, all bits if a fence must come before the look. */
    private static final Memory CONSTANTS = Memory.of(ByteBuffer.allocateDirect(2 * Integer.BYTES));
    private static final int NEVER = 0;
    private static final int ALWAYS = Integer.BYTES;

    static {
        CONSTANTS.putInt(ALWAYS, WaitingWords.ALL_RINGS);
    }

    private final WaitingWords words;
    /** For a producer of a queue, or a release: the words on which workers sleep, to wake one; else null. */
    private final WaitingWords jobs;
    private final boolean registered;
    private final Memory watched;
    private final int watchedIndex;

    /** Registers the process once (6.16, register). */
    private static final class Registration {
        /** False if the sleepers' membarrier does not reach this process. */
        static final boolean DONE = Sys.membarrier(Linux.MEMBARRIER_REGISTER_GLOBAL_EXPEDITED) == 0;
    }

    /** Registers the process once; false if the sleepers' membarrier does not reach it. */
    static boolean register() {
        return Registration.DONE;
    }

    /**
     * Registers the process, so create it before a slot is taken. With {@code wakes} false, registers and wakes
     * nothing.
     */
    Waker(WaitingWords words, boolean wakes) {
        this(words, null, wakes, wakes && Registration.DONE);
    }

    /** The same for an object that also wakes workers; {@code jobs} is null if there are none. */
    Waker(WaitingWords words, WaitingWords jobs, boolean wakes) {
        this(words, jobs, wakes, wakes && Registration.DONE);
    }

    /** The same with a given result of the system call, for tests. */
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

    /** The address that the hot path loads from, where Raw is available; the caller must keep this object reachable. */
    long watchedAt() {
        return watched.address() + watchedIndex;
    }

    /** The second address: the asleep word of workers; without workers the first address again. */
    long jobsWatchedAt() {
        return registered && jobs != null ? jobs.control().address() + jobs.asleep() : watchedAt();
    }

    /** The bits to test at both addresses after a message of a ring. */
    int watchedBits(int ringBit) {
        return jobs == null ? ringBit : ringBit | Layout.JOBS_BIT;
    }

    /** Whether a sleeper may wait for one of these rings. Called after the store of what it waits for. */
    boolean isAwaited(int bits) {
        final int second = registered && jobs != null ? jobs.control().getIntOpaque(jobs.asleep()) : 0;
        return ((watched.getIntOpaque(watchedIndex) | second) & bits) != 0;
    }

    /** Wakes after isAwaited returned true. A separate method, so that the hot path stays small. */
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

    /** Of a queue: wakes one worker and all readers of the ring. The test before may have seen the bit of either. */
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
