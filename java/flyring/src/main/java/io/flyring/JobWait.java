// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;

/** The wait of a worker for a job. A worker that was woken wakes one more if another job is there (queue.md 10). */
abstract class JobWait extends Waiting {
    private static final long CAP_NANOS = 100_000_000;

    private final Channel channel;
    private final int slot;
    /** Whether the worker slept since it last passed a wake-up on: its wake-up may have been the only one. */
    private boolean slept;

    JobWait(Channel channel, int slot) {
        super(channel.slots().jobs(), true, Layout.JOBS_BIT, "a job");
        this.channel = channel;
        this.slot = slot;
    }

    abstract Lock lock();

    /** Whether a job lies on any ring. */
    abstract boolean isJobThere();

    /** Takes over jobs of dead or evicted workers, if a look for them is due (queue.md 5). */
    abstract void adopt();

    @Override
    final boolean othersWake() {
        for (int ring = 0; ring < channel.header().producers(); ring++) {
            if (!channel.slots().publisherWakes(ring)) {
                return false;
            }
        }
        return channel.slots().workersWake(lock(), slot); // workers release jobs
    }

    @Override
    final long cap(long waited) {
        return CAP_NANOS;
    }

    @Override
    final void look() {
        channel.checkReplaced();
        adopt();
    }

    @Override
    final void slept() {
        slept = true;
    }

    boolean hasSlept() {
        return slept;
    }

    /**
     * Sets the bit again before a woken worker takes a job, so that the next publish wakes another: steps 2 and 3 of
     * sleep in channel.md 6.16.
     */
    void sayAsleep() {
        final WaitingWords words = words();
        words.control().setBits(words.asleep(), Layout.JOBS_BIT);
        if (Sys.membarrier(Linux.MEMBARRIER_GLOBAL_EXPEDITED) != 0) {
            VarHandle.fullFence(); // pairs with: the fence of a waker that is not registered
        }
    }

    /** After {@link #sayAsleep} and the take: wakes one more worker if another job is there. */
    void wakeOneMore() {
        slept = false;
        if (channel.slots().wakes() && isJobThere()) {
            words().wakeOne();
        }
    }

    /** Passes the wake-up on, if the worker was woken and has taken nothing. */
    @Override
    final void passOn() {
        if (slept) {
            sayAsleep();
            wakeOneMore();
        }
    }
}
