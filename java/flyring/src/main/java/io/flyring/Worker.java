// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;

/**
 * Takes the jobs of a queue; made by {@link Channel#worker(String)}. Each job goes to one free worker. If that worker
 * dies, is evicted, or releases the job, the job is handed out again, marked as a repeat ({@link Job#repeat()}). Taking
 * a job does not allocate or lock. The garbage collector closes a worker that is unreachable, with a warning. Not
 * thread-safe, except for {@link #drain()}. Concurrent use is detected on a best-effort basis and throws
 * {@link TwoThreadsException}. Spec queue.md.
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
     * Takes one job, if one is available.
     *
     * @return the worker's one job object, valid until it is done or released; null if there is no job.
     * @throws ViewAliveException if the job of the last take is neither done nor released.
     * @throws ClosedException after close.
     * @throws SlotLostException if the worker was evicted.
     * @throws CorruptRingException if a ring breaks the rules. That ring is not read again; the other rings go on.
     * @throws ChannelReplacedException if another channel has taken this one's name. The worker keeps working.
     * @throws TwoThreadsException if another thread uses the worker, or the call comes from a handler of this worker.
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
     * virtual thread that sleeps here pins its carrier thread.
     *
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the worker's one job object; null if no job came in time, or the worker drains.
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
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the worker's one job object; null if no job came in time, or the worker drains.
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
     * Hands out one job, if one is available.
     *
     * @param handler receives the job.
     * @return the number of jobs handed out, 0 or 1.
     * @see #poll(JobHandler, int)
     */
    public int poll(JobHandler handler) {
        return poll(handler, DEFAULT_LIMIT);
    }

    /**
     * Hands out jobs in place, starting with the ring after the one that was served last. Takes up to {@code limit}
     * neighbouring jobs at once, so each of them waits for those before it. When the handler returns, its job is done.
     * When the handler throws, its job is released, and the exception reaches the caller. The next call hands out the
     * jobs that were taken and not handed out.
     *
     * @param handler receives the jobs, one after another.
     * @param limit the largest number of jobs.
     * @return the number of jobs handed out, 0 to {@code limit}.
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
            job.opened = false; // also after an Error before the job's end: the job is handed out again then
        }
        return counted(handed, limit);
    }

    /**
     * Hands out jobs, and waits while there is none, as {@link #take(Duration)} does.
     *
     * @param handler receives the jobs, one after another.
     * @param limit the largest number of jobs.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the number of jobs handed out, 0 to {@code limit}; 0 if no job came in time, or the worker drains.
     * @throws FlyringException as {@link #take(Duration)} does.
     */
    public int poll(JobHandler handler, int limit, Duration timeout) {
        return poll(handler, limit, Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param handler receives the jobs, one after another.
     * @param limit the largest number of jobs.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the number of jobs handed out, 0 to {@code limit}; 0 if no job came in time, or the worker drains.
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
     * Hands out one job, if one is available, to a handler that returns an {@link Action}.
     *
     * @param handler receives the job.
     * @return the number of jobs handed out, 0 or 1; an aborted job does not count.
     * @see #controlledPoll(ControlledJobHandler, int)
     */
    public int controlledPoll(ControlledJobHandler handler) {
        return controlledPoll(handler, DEFAULT_LIMIT);
    }

    /**
     * Hands out jobs as {@link #poll(JobHandler, int)} does, to a handler. The {@link Action} that it returns says
     * whether the job is done or released, and whether the poll continues.
     *
     * @param handler receives the jobs, one after another.
     * @param limit the largest number of jobs.
     * @return the number of jobs handed out, 0 to {@code limit}; an aborted job does not count.
     * @throws InvalidArgumentException if the handler returns null; the job is done then.
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
                Refusal.ofNull(action); // after the job is done
            }
        } finally {
            busy = false;
            job.opened = false;
        }
        return stopped ? handed : counted(handed, limit);
    }

    /**
     * Hands out jobs to a handler that returns an {@link Action}, and waits while there is none, as
     * {@link #take(Duration)} does.
     *
     * @param handler receives the jobs, one after another.
     * @param limit the largest number of jobs.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the number of jobs handed out, 0 to {@code limit}; 0 if no job came in time, or the first job was
     *     aborted.
     * @throws FlyringException as {@link #controlledPoll(ControlledJobHandler, int)} and {@link #take(Duration)} do.
     */
    public int controlledPoll(ControlledJobHandler handler, int limit, Duration timeout) {
        return controlledPoll(handler, limit, Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param handler receives the jobs, one after another.
     * @param limit the largest number of jobs.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the number of jobs handed out, 0 to {@code limit}; 0 if no job came in time, or the first job was
     *     aborted.
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
     * Makes the worker hand out the jobs that it has taken already, and no more. After that take returns null and poll
     * returns 0, both at once. May be called from any thread.
     *
     * @throws ClosedException after close.
     */
    public void drain() {
        if (expectedEpoch == GONE && !lost) {
            throw new ClosedException("The worker in slot " + slot + " is closed. There is nothing to drain.");
        }
        draining = true;
        channel.slots().jobs().wakeAll(); // wakes a thread that waits in this object
    }

    /**
     * Whether all producers have closed and every job is done.
     *
     * @return true if no producer is left and all jobs are done; false before the first producer has attached.
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
     * @return the slot's index, from 1: slot 0 is shared by all workers.
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
     * Gives the slot back and releases the jobs in hand to other workers: the unfinished job, and those taken with it.
     * A thread that waits for a job gets {@link ClosedException}. A second close does nothing.
     *
     * @throws ViewAliveException if called from a handler of this worker, or while another thread polls.
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
