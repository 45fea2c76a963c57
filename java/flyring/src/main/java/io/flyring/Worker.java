// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;

/**
 * Takes the jobs of a queue, of which each goes to one worker, whichever is free; made by
 * {@link Channel#worker(String)}. A job whose worker dies, is evicted, or gives it back is handed out again, and says
 * so ({@link Job#repeat()}). Taking neither allocates nor locks. One that nothing refers to any more is closed by the
 * garbage collector, with a warning. Not thread-safe, but for {@link #drain()}. Concurrent use is detected on a
 * best-effort basis and throws {@link TwoThreadsException}. spec/queue.md.
 */
public final class Worker extends WorkerCore implements AutoCloseable {
    private static final int DEFAULT_LIMIT = 1;

    private final String name;
    /** Whether the handler ended the last controlled poll. */
    private boolean stopped;

    Worker(Channel channel, String name, int slot, Seat seat, long epoch, Intake intake, Hand hand, Returns returns,
        Adoption adoption) {
        super(channel, slot, seat, epoch, intake, hand, returns, adoption);
        this.name = name;
    }

    /**
     * Takes one job, if there is one.
     *
     * @return the worker's one job object, valid until its done or release; null if there is no job.
     * @throws ViewAliveException while the job of the last take is neither done nor released.
     * @throws ClosedException after close.
     * @throws SlotLostException if the worker was evicted.
     * @throws CorruptRingException if a ring breaks the rules. That ring is not read again; the other rings go on.
     * @throws ChannelReplacedException if another channel has taken this one's name. The worker keeps working.
     * @throws TwoThreadsException if another thread, or a handler of this worker, is at work.
     */
    public Job take() {
        check();
        busy = true;
        try {
            if (next(1)) {
                job.open();
                idlePolls = 0;
                return job;
            }
        } finally {
            busy = false;
        }
        nothingThere();
        return null;
    }

    /**
     * Takes one job, and waits while there is none: it spins for a short time, then sleeps until a producer wakes it. A
     * virtual thread that sleeps here keeps its carrier thread.
     *
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the worker's one job object; null if none came in time, or the worker drains.
     * @throws InvalidArgumentException if the time-out is below 0.
     * @throws CancelledException if the thread is interrupted; detected within 100 ms. The thread stays interrupted.
     * @throws ClosedException if another thread closes the worker or the channel; detected within 100 ms.
     * @throws ChannelReplacedException if the channel is replaced; detected within 100 ms. The worker keeps working.
     * @throws FlyringException as {@link #take()} does.
     */
    public Job take(Duration timeout) {
        return take(Waiting.nanos(timeout));
    }

    /**
     * The same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the worker's one job object; null if none came in time, or the worker drains.
     * @throws FlyringException as {@link #take(Duration)} does.
     */
    public Job take(long timeout) {
        if (timeout < 0) {
            throw negative(timeout);
        }
        Job taken = take();
        if (taken != null || timeout == 0 || draining) {
            return taken;
        }
        waiting.begin(timeout);
        try {
            while (taken == null && !draining && waiting.untilReady()) {
                taken = take();
            }
        } finally {
            endWait();
        }
        return taken;
    }

    /**
     * Hands out one job, if there is one.
     *
     * @param handler gets the job.
     * @return jobs handed out, 0 or 1.
     * @see #poll(JobHandler, int)
     */
    public int poll(JobHandler handler) {
        return poll(handler, DEFAULT_LIMIT);
    }

    /**
     * Hands out jobs in place, beginning with the ring after the one that was served last. They are taken at once, as
     * many as lie behind one another, so each waits for those before it. A job whose handler returns is done; one whose
     * handler throws is released, and the exception reaches the caller. What was taken and not handed out comes with
     * the next call.
     *
     * @param handler gets the jobs, one after another.
     * @param limit how many jobs at most.
     * @return jobs handed out, 0 to {@code limit}.
     * @throws FlyringException as {@link #take()} does.
     */
    public int poll(JobHandler handler, int limit) {
        check();
        int handed = 0;
        busy = true;
        try {
            while (handed < limit && (owned() && hand.prepareNext(job) || next(limit - handed))) { // take 4
                try {
                    job.open();
                    handler.onJob(job);
                } catch (Throwable e) {
                    afterThrow(e);
                    throw e;
                }
                handed++;
                if (!endsWell()) {
                    break;
                }
            }
        } finally {
            busy = false;
            job.opened = false; // after an Error in front of its end, too: it comes again then
        }
        return counted(handed, limit);
    }

    /**
     * Hands out jobs, and waits while there is none, as {@link #take(Duration)} does.
     *
     * @param handler gets the jobs, one after another.
     * @param limit how many jobs at most.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return jobs handed out, 0 to {@code limit}; 0: none came in time, or the worker drains.
     * @throws FlyringException as {@link #take(Duration)} does.
     */
    public int poll(JobHandler handler, int limit, Duration timeout) {
        return poll(handler, limit, Waiting.nanos(timeout));
    }

    /**
     * The same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param handler gets the jobs, one after another.
     * @param limit how many jobs at most.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return jobs handed out, 0 to {@code limit}; 0: none came in time, or the worker drains.
     * @throws FlyringException as {@link #poll(JobHandler, int, Duration)} does.
     */
    public int poll(JobHandler handler, int limit, long timeout) {
        if (timeout < 0) {
            throw negative(timeout);
        }
        int handed = poll(handler, limit);
        if (handed > 0 || timeout == 0 || limit <= 0 || draining) {
            return handed;
        }
        waiting.begin(timeout);
        try {
            while (handed == 0 && !draining && waiting.untilReady()) {
                handed = poll(handler, limit);
            }
        } finally {
            endWait();
        }
        return handed;
    }

    /**
     * Hands out one job, if there is one, to a handler that says how to go on.
     *
     * @param handler gets the job.
     * @return jobs handed out, 0 or 1; an aborted one does not count.
     * @see #controlledPoll(ControlledJobHandler, int)
     */
    public int controlledPoll(ControlledJobHandler handler) {
        return controlledPoll(handler, DEFAULT_LIMIT);
    }

    /**
     * Hands out jobs as {@link #poll(JobHandler, int)} does, to a handler that says what becomes of each and whether
     * the poll goes on.
     *
     * @param handler gets the jobs, one after another.
     * @param limit how many jobs at most.
     * @return jobs handed out, 0 to {@code limit}; an aborted one does not count.
     * @throws InvalidArgumentException if the handler returns null; the job is done.
     * @throws FlyringException as {@link #take()} does.
     */
    public int controlledPoll(ControlledJobHandler handler, int limit) {
        check();
        int handed = 0;
        stopped = false;
        busy = true;
        try {
            while (handed < limit && !stopped && next(limit - handed)) {
                final Action action;
                try {
                    job.open();
                    action = handler.onJob(job);
                } catch (Throwable e) {
                    afterThrow(e);
                    throw e;
                }
                stopped = action == null || action == Action.BREAK || action == Action.ABORT;
                if (action == Action.ABORT && job.isOpen()) {
                    release();
                } else {
                    handed++;
                    stopped |= !endsWell();
                }
                Refusal.ofNull(action); // the job is done
            }
        } finally {
            busy = false;
            job.opened = false;
        }
        return stopped ? handed : counted(handed, limit);
    }

    /**
     * Hands out jobs to a handler that says how to go on, and waits while there is none, as {@link #take(Duration)}
     * does.
     *
     * @param handler gets the jobs, one after another.
     * @param limit how many jobs at most.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return jobs handed out, 0 to {@code limit}; 0: none came in time, or the first one was aborted.
     * @throws FlyringException as {@link #controlledPoll(ControlledJobHandler, int)} and {@link #take(Duration)} do.
     */
    public int controlledPoll(ControlledJobHandler handler, int limit, Duration timeout) {
        return controlledPoll(handler, limit, Waiting.nanos(timeout));
    }

    /**
     * The same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param handler gets the jobs, one after another.
     * @param limit how many jobs at most.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return jobs handed out, 0 to {@code limit}; 0: none came in time, or the first one was aborted.
     * @throws FlyringException as {@link #controlledPoll(ControlledJobHandler, int, Duration)} does.
     */
    public int controlledPoll(ControlledJobHandler handler, int limit, long timeout) {
        if (timeout < 0) {
            throw negative(timeout);
        }
        int handed = controlledPoll(handler, limit);
        if (handed > 0 || stopped || timeout == 0 || limit <= 0 || draining) {
            return handed;
        }
        waiting.begin(timeout);
        try {
            while (handed == 0 && !stopped && !draining && waiting.untilReady()) {
                handed = controlledPoll(handler, limit);
            }
        } finally {
            endWait();
        }
        return handed;
    }

    /**
     * From now on the worker hands out what it has taken already, and then nothing more: take returns null and poll 0,
     * at once. From any thread.
     *
     * @throws ClosedException after close.
     */
    public void drain() {
        if (expectedEpoch == GONE && !lost) {
            throw new ClosedException("The worker in slot " + slot + " is closed. There is nothing to drain.");
        }
        draining = true;
        channel.slots().jobs().wakeAll(); // the thread that waits in this object, if one does
    }

    /**
     * Whether all producers have closed and every job is done.
     *
     * @return false before the first producer came.
     * @throws ClosedException after close.
     * @throws SlotLostException if the worker was evicted.
     */
    public boolean ended() {
        if (!owned()) {
            throw refusal();
        }
        return adoption.ended();
    }

    /**
     * Sets how long a wait spins before it sleeps. The default, 20 microseconds, is about the cost of a wake-up.
     *
     * @param time the time to spin; 0 sleeps at once.
     * @throws InvalidArgumentException if it is below 0.
     */
    public void setSpin(Duration time) {
        waiting.spinFor(time);
    }

    /**
     * The worker's slot.
     *
     * @return its index, from 1: slot 0 is shared by all.
     */
    public int slot() {
        return slot;
    }

    /**
     * The worker's name.
     *
     * @return the name, empty if it has none.
     */
    public String name() {
        return name;
    }

    /**
     * The slot's epoch under this owner: each new owner gets the next number.
     *
     * @return the epoch, from 1.
     */
    public long epoch() {
        return epoch;
    }

    /**
     * Gives the slot back, and what is in hand to other workers: the unfinished job, and what was taken with it. A
     * thread that waits for a job gets {@link ClosedException}. Closing twice is fine.
     *
     * @throws ViewAliveException from inside a handler of this worker, or while another thread polls.
     */
    @Override
    public void close() {
        boolean waited = waiting.takeOver();
        try {
            if (!waited) {
                checkClosable();
            }
            end();
            if (failure != null) {
                seat.abandon();
            } else {
                seat.close();
            }
        } finally {
            channel.tellSleepers(waited);
            if (waited) {
                waiting.goOn();
            }
        }
    }
}
