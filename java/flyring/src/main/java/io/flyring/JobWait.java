// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;

/** How a worker waits for a job, and wakes one more when it was woken (queue.md 10). */
abstract class JobWait extends Waiting {
    private static final long CAP_NANOS = 100_000_000;

    private final Channel channel;
    private final int slot;
    /** Whether it slept since it last passed a wake on: the wake that ended this was perhaps the only one. */
    private boolean slept;

    JobWait(Channel channel, int slot) {
        super(channel.slots().jobs(), true, Layout.JOBS_BIT, "a job");
        this.channel = channel;
        this.slot = slot;
    }

    abstract Lock lock();

    /** Whether a job lies on any ring. */
    abstract boolean isJobThere();

    /** Looks for jobs that others left behind. */
    abstract void adopt();

    @Override
    final boolean othersWake() {
        for (int ring = 0; ring < channel.header().producers(); ring++) {
            if (!channel.slots().publisherWakes(ring)) {
                return false;
            }
        }
        return channel.slots().workersWake(lock(), slot); // who releases
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

    /** Sleep 2 and 3 again, of one that was woken, before it takes a job: so the next publish wakes another. */
    void sayAsleep() {
        final WaitingWords words = words();
        words.control().setBits(words.asleep(), Layout.JOBS_BIT);
        if (Sys.membarrier(Linux.MEMBARRIER_GLOBAL_EXPEDITED) != 0) {
            VarHandle.fullFence(); // pairs with: the fence of a waker that is not registered
        }
    }

    /** Behind that, and behind the take: wakes one more if another job is there. */
    void wakeOneMore() {
        slept = false;
        if (channel.slots().wakes() && isJobThere()) {
            words().wakeOne();
        }
    }

    /** Of one that was woken and takes nothing, for whatever reason. */
    @Override
    final void passOn() {
        if (slept) {
            sayAsleep();
            wakeOneMore();
        }
    }
}
