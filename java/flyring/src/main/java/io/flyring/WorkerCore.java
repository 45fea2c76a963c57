// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;

/**
 * A worker's handling of its slot, its gates and the job in its hand (queue.md 3 to 8). {@link Worker} adds the verbs.
 */
abstract class WorkerCore {
    static final long GONE = -1;

    final Channel channel;
    final int slot;
    final Seat seat;
    private final Memory control;
    private final int epochAt;
    /** The address of the slot's epoch, if it can be read by address; else 0. */
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
    /** The error that ended this object in the middle of a take; null if there was none. */
    Throwable failure;
    int idlePolls;
    /** The thread that has the job in hand. */
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

    /** Whether the slot still has the expected epoch. */
    boolean owned() {
        if (epochAddress != 0) {
            final long now = Raw.getLongOpaque(Raw.base(epochAddress));
            Reference.reachabilityFence(control);
            return now == expectedEpoch;
        }
        return control.getLongOpaque(epochAt) == expectedEpoch;
    }

    /** Whether the worker may adopt jobs: it has nothing in hand. Called in the monitor of its lock. */
    boolean mayAdopt() {
        return owned() && !hand.holds() && !draining;
    }

    /** Ends a wait and passes a wake-up on, whatever ended the wait: a wake of one worker must not be lost. */
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

    /** Finishes the job after its handler returned, unless the handler did so itself. False if the poll ends. */
    final boolean endsWell() {
        if (job.isOpen()) {
            finish();
            return true;
        }
        return goesOn();
    }

    /** Called if the handler finished or released its job itself. False if it could not release it: the poll ends. */
    final boolean goesOn() {
        if (!owned()) {
            throw gone();
        }
        return !hand.stayed();
    }

    /** Releases the job after its handler threw; an error of the release is added to the handler's exception. */
    final void afterThrow(Throwable error) {
        if (job.isOpen()) {
            try {
                release();
            } catch (Throwable e) {
                error.addSuppressed(e);
            }
        }
    }

    /** Prepares the next job: of the batch in hand, or of a new take; false if there is none. */
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

    /** Takes jobs into the hand. The epoch was compared just before, by the call's check or at the last done. */
    private boolean takeJobs(int limit) {
        if (!waiting.hasSlept()) {
            return intake.take(this, limit);
        }
        waiting.sayAsleep(); // before the take
        if (!intake.take(this, limit)) {
            return false;
        }
        waiting.wakeOneMore(); // after the take
        return true;
    }

    /** Finishes the job in hand: done 5. */
    void finish() {
        job.end();
        VarHandle.acquireFence(); // done 5: after the last read of the job; pairs with: evict
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

    /** Releases the job in hand (queue.md 8); returns whether others may take it now. */
    boolean release() {
        job.endHandle();
        try {
            synchronized (seat.lock()) { // keeps it open meanwhile
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
        if (thread != Thread.currentThread()) { // comparing costs less than storing a reference
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
        hand.drop(); // the job belongs to another worker, or will
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
            seat.close(); // the gates stay for the job's adopter
        }
        return new SlotLostException(slot, "Worker slot " + slot + " was taken away from this worker, and its job goes"
            + " to another. Close it and make a new one.");
    }

    /**
     * Ends the object after an error that may have left the gate and this object inconsistent: others adopt its jobs.
     */
    private void fail(Throwable error) {
        expectedEpoch = GONE;
        failure = error;
        hand.drop();
        job.end();
        try {
            seat.abandon();
        } catch (Throwable e) { // close will try again
            error.addSuppressed(e);
        }
    }

    /** The publisher of the job at a position of a ring. */
    Sender sender(int ring, long position) {
        return senders.of(ring, position);
    }

    Seat seat() {
        return seat;
    }

    Waiting waiting() {
        return waiting;
    }

    /** Whether the calling thread has this worker's job in hand. */
    boolean isAtWorkHere() {
        return thread == Thread.currentThread() && job.isOpen() && owned();
    }

    void checkClosable() {
        if (busy && expectedEpoch != GONE) {
            throw new ViewAliveException("This worker is at work, in its handler or in another thread. Close it"
                + " after the poll.");
        }
    }

    /**
     * Releases what is in hand and makes the object unusable. Releases the mappings of the gates first: so another
     * thread that is finishing a job has stored its gate by then, or changes nothing in the file.
     */
    void end() {
        synchronized (seat.lock()) { // another thread may be releasing, or waiting in a wait that was taken over
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
                } catch (FlyringException e) { // another worker adopts the job, or reports the damaged ring
                    hand.drop();
                }
            }
        }
    }
}
