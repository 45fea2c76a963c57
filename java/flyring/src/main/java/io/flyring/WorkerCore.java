// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;

/**
 * What a worker does with its slot, its gates and the job in its hand (queue.md 3 to 8). {@link Worker} puts the verbs
 * on top.
 */
abstract class WorkerCore {
    static final long GONE = -1;

    final Channel channel;
    final int slot;
    final Seat seat;
    private final Memory control;
    private final int epochAt;
    /** Where the slot's epoch lies, if it can be read by address; else 0. */
    private final long epochAddress;
    final long epoch;
    private final Intake intake;
    final Hand hand;
    private final Returns returns;
    final Adoption adoption;
    final Job job = new Job(this);
    final Wait waiting;
    private final Senders senders;

    /** The epoch that the slot must have; {@link #GONE} once this object is closed or has lost its slot. */
    long expectedEpoch;
    volatile boolean draining;
    boolean busy;
    boolean lost;
    /** What ended this object in the middle of a take; null: nothing has. */
    Throwable failure;
    int idlePolls;
    /** In whose hand the job is. */
    private Thread thread;

    /** What a wait checks. */
    final class Wait extends JobWait {
        Wait() {
            super(channel, slot);
        }

        @Override
        Lock lock() {
            return seat.lock();
        }

        @Override
        boolean isReady() {
            return !owned() || draining || hand.holds() || isJobThere();
        }

        @Override
        boolean isJobThere() {
            return intake.isJobThere();
        }

        @Override
        void adopt() {
            intake.adoptIfDue(WorkerCore.this);
        }

        @Override
        void setBusy(boolean now) {
            busy = now;
        }

        @Override
        void lookSoon() {
            idlePolls = Layout.POLLS_TO_LOOK;
        }
    }

    WorkerCore(Channel channel, int slot, Seat seat, long epoch, Intake intake, Hand hand, Returns returns,
        Adoption adoption) {
        this.channel = channel;
        this.slot = slot;
        this.seat = seat;
        this.control = channel.control();
        this.epochAt = channel.header().subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_EPOCH;
        this.epoch = epoch;
        this.expectedEpoch = epoch;
        this.intake = intake;
        this.hand = hand;
        this.returns = returns;
        this.adoption = adoption;
        this.epochAddress = control.readableAt() == 0 ? 0 : control.readableAt() + epochAt;
        this.senders = new Senders(channel);
        this.waiting = new Wait();
    }

    /** Whether the slot is still this object's. */
    boolean owned() {
        if (epochAddress != 0) {
            final long now = Raw.getLongOpaque(Raw.base(epochAddress));
            Reference.reachabilityFence(control);
            return now == expectedEpoch;
        }
        return control.getLongOpaque(epochAt) == expectedEpoch;
    }

    /** Whether it may take over what others left behind: it has nothing in hand. In the monitor of its lock. */
    boolean mayAdopt() {
        return owned() && !hand.holds() && !draining;
    }

    /** Whatever ended the wait: a wake of one worker must not be lost with it. */
    final void endWait() {
        waiting.end();
        waiting.passOn();
    }

    final int counted(int handed, int limit) {
        if (handed > 0) {
            idlePolls = 0;
        } else if (limit > 0) {
            nothingThere();
        }
        return handed;
    }

    /** A handler has returned: its job is done, unless it did that itself. False: the poll ends. */
    final boolean endsWell() {
        if (job.isOpen()) {
            finish();
            return true;
        }
        return goesOn();
    }

    /** The handler may have finished its job itself, or have found that it is another's. False: it could not. */
    final boolean goesOn() {
        if (!owned()) {
            throw gone();
        }
        return !hand.stayed();
    }

    /** A handler has thrown: the job is released, or stays in hand; the exception goes first. */
    final void afterThrow(Throwable error) {
        if (job.isOpen()) {
            try {
                release();
            } catch (Throwable e) {
                error.addSuppressed(e);
            }
        }
    }

    /** The next job to hand out: what is left of a batch, or of a new take; false: there is none. */
    final boolean next(int limit) {
        try {
            while (true) {
                if (!hand.holds() && (draining || !takeJobs(limit))) {
                    return false;
                }
                if (!owned()) { // take 4; pairs with: evict
                    throw gone();
                }
                if (hand.prepare(job)) {
                    return true;
                }
            }
        } catch (CorruptRingException e) {
            VarHandle.acquireFence(); // pairs with: evict
            throw owned() ? e : gone(); // an evicted worker may see a later lap
        } catch (Error e) {
            fail(e);
            throw e;
        }
    }

    /** The epoch was compared in front of this: by the check of the call, or when the job before was done. */
    private boolean takeJobs(int limit) {
        if (!waiting.hasSlept()) {
            return intake.take(this, limit);
        }
        waiting.sayAsleep(); // before the take
        if (!intake.take(this, limit)) {
            return false;
        }
        waiting.wakeOneMore(); // behind it
        return true;
    }

    /** Done 5, of the job in hand. */
    void finish() {
        job.end();
        VarHandle.acquireFence(); // done 5: behind the last look at the job; pairs with: evict
        if (!owned()) {
            throw gone();
        }
        try {
            hand.finish();
        } catch (Error e) {
            fail(e);
            throw e;
        }
    }

    /** 8, of the job in hand: whether others may have it now. */
    boolean release() {
        job.endHandle();
        try {
            synchronized (seat.lock()) { // so that nobody closes it meanwhile
                if (owned() && returns.release(job, hand)) {
                    hand.finish();
                    returns.wake();
                    return true;
                }
            }
            if (!owned()) {
                throw gone();
            }
            return false;
        } finally {
            job.end();
        }
    }

    final void nothingThere() {
        if (++idlePolls >= Layout.POLLS_TO_LOOK) {
            idlePolls = 0;
            channel.checkReplaced();
        }
    }

    final void check() {
        if (!owned() || busy || job.isOpen()) {
            throw refusal();
        }
        if (thread != Thread.currentThread()) { // a store of a reference costs more
            thread = Thread.currentThread();
        }
    }

    final FlyringException negative(long timeout) {
        return busy || expectedEpoch == GONE || job.isOpen() ? refusal() : Waiting.negative(timeout);
    }

    final FlyringException refusal() {
        if (expectedEpoch == GONE && !lost) {
            return gone();
        }
        if (busy) {
            return new TwoThreadsException("This worker is in use by another thread, or by its own handler. Give each"
                + " thread its own.");
        }
        return job.isOpen() ? new ViewAliveException("The job of this worker's last take is still in hand."
            + " Call its done or release first.") : gone();
    }

    final FlyringException gone() {
        job.end();
        hand.drop(); // it is another's, or will be
        if (expectedEpoch == GONE && !lost) {
            ClosedException error = new ClosedException("The worker in slot " + slot + (failure == null ? " is closed."
                : " was ended by an error in the middle of a take: " + failure + ". Another worker gets its job.")
                + " Make a new one.");
            error.initCause(failure);
            return error;
        }
        if (!lost) {
            lost = true;
            expectedEpoch = GONE;
            seat.close(); // its gates stay for who adopts its job
        }
        return new SlotLostException(slot, "Worker slot " + slot + " was taken away from this worker, and its job goes"
            + " to another. Close it and make a new one.");
    }

    /** Something was thrown where the gate and what this object knows of it may differ: others adopt what is there. */
    private void fail(Throwable error) {
        expectedEpoch = GONE;
        failure = error;
        hand.drop();
        job.end();
        try {
            seat.abandon();
        } catch (Throwable e) { // close will do it
            error.addSuppressed(e);
        }
    }

    /** Who published a job that lies at a position of a ring. */
    Sender sender(int ring, long position) {
        return senders.of(ring, position);
    }

    Seat seat() {
        return seat;
    }

    Waiting waiting() {
        return waiting;
    }

    /** Whether this very thread has a job of it in hand. */
    boolean isAtWorkHere() {
        return thread == Thread.currentThread() && job.isOpen() && owned();
    }

    void checkClosable() {
        if (busy && expectedEpoch != GONE) {
            throw new ViewAliveException("This worker is at work: its handler has a job in place. Close it after the"
                + " poll.");
        }
    }

    /**
     * Gives back what is in hand; nothing of this object works from now on. Another thread that finishes a job just now
     * has stored its gate, or changes nothing of the file: the mapping of the gates goes first.
     */
    void end() {
        synchronized (seat.lock()) { // a release, and a wait that was taken over, may be at work
            final boolean mine = owned();
            expectedEpoch = GONE;
            lost = false;
            job.end();
            hand.drop();
            if (mine) {
                for (JobRing ring : intake.rings()) {
                    channel.file().release(ring.trailer());
                }
                try {
                    adoption.giveBack(intake.rings(), new Hand(channel, slot), returns);
                } catch (FlyringException e) { // another worker gets it, or says that the ring is damaged
                    hand.drop();
                }
            }
        }
    }
}
