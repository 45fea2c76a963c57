// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;

/**
 * Answers the requests of a service; there is one at a time; made by {@link Channel#server(String)}. One thread polls;
 * requests that are kept are answered from any thread, and {@link #stop()} may be called by any. One that nothing
 * refers to any more is closed by the garbage collector, with a warning. spec/service.md.
 */
public final class Server extends ServerCore implements AutoCloseable {
    private static final int DEFAULT_LIMIT = 256;

    private final String name;
    private int next;
    private int idlePolls;

    Server(Channel channel, String name, Seat seat, long epoch, Lane[] lanes) {
        super(channel, seat, epoch, lanes);
        this.name = name;
    }

    /**
     * Hands out requests that are there.
     *
     * @param handler gets them, one after another.
     * @return how many were handed out.
     * @throws FlyringException as {@link #poll(RequestHandler, int)} does.
     */
    public int poll(RequestHandler handler) {
        return poll(handler, DEFAULT_LIMIT);
    }

    /**
     * Hands out requests that are there, at most so many.
     *
     * @param handler gets them, one after another; what it throws ends its call with {@link ServiceErrorException}, but
     *     for an Error, which comes out of this, too.
     * @param limit how many at most.
     * @return how many were handed out.
     * @throws ClosedException after close.
     * @throws SlotLostException if the server was evicted.
     * @throws TwoThreadsException if another thread, or a handler, is at work in it.
     * @throws ChannelReplacedException if another channel has taken this one's name. The server keeps working.
     */
    public int poll(RequestHandler handler, int limit) {
        if (busy) {
            throw !isOpen() ? gone() : new TwoThreadsException("The server of " + channel.path() + " is in use by"
                + " another thread, or by its own handler.");
        }
        if (!owned()) {
            giveUpIfGone();
            throw gone();
        }
        int handed = 0;
        busy = true;
        try {
            beginPoll();
            int at = next;
            for (int i = 0; i < lanes.length && handed < limit; i++) {
                final int some = lanes[at].poll(this, handler, limit - handed);
                at = at + 1 == lanes.length ? 0 : at + 1;
                if (some > 0) {
                    handed += some;
                    next = at;
                }
            }
        } finally {
            busy = false;
            if (!owned()) {
                giveUpIfGone();
            }
        }
        if (handed > 0) {
            idlePolls = 0;
        } else if (++idlePolls >= Layout.POLLS_TO_LOOK) {
            idlePolls = 0;
            channel.checkReplaced();
        }
        return handed;
    }

    /**
     * The same, and waits while there is none. A virtual thread that sleeps here keeps its carrier thread.
     *
     * @param handler gets them, one after another.
     * @param limit how many at most.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return how many were handed out; 0: none came in time, or {@link #stop()} was called.
     * @throws InvalidArgumentException if the time-out is below 0.
     * @throws CancelledException if the thread is interrupted; detected within 100 ms. The thread stays interrupted.
     * @throws FlyringException as {@link #poll(RequestHandler, int)} does.
     */
    public int poll(RequestHandler handler, int limit, Duration timeout) {
        return poll(handler, limit, Waiting.nanos(timeout));
    }

    /**
     * The same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param handler gets them, one after another.
     * @param limit how many at most.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return how many were handed out; 0: none came in time, or {@link #stop()} was called.
     * @throws FlyringException as {@link #poll(RequestHandler, int, Duration)} does.
     */
    public int poll(RequestHandler handler, int limit, long timeout) {
        if (timeout < 0) {
            throw Waiting.negative(timeout);
        }
        int handed = poll(handler, limit);
        if (handed > 0 || timeout == 0 || limit <= 0 || stopped) {
            return handed;
        }
        waiting.begin(timeout);
        try {
            while (handed == 0 && !stopped && waiting.untilReady()) {
                if (!stopped) {
                    handed = poll(handler, limit);
                }
            }
        } finally {
            waiting.end();
        }
        return handed;
    }

    /**
     * Polls until {@link #stop()}, or until another thread closes the server.
     *
     * @param handler gets the requests.
     * @throws FlyringException as {@link #poll(RequestHandler, int, Duration)} does.
     */
    public void serve(RequestHandler handler) {
        while (!stopped) {
            try {
                poll(handler, DEFAULT_LIMIT, Waiting.FOREVER);
            } catch (ClosedException e) {
                if (isOpen()) {
                    throw e;
                }
                return;
            }
        }
        stopped = false;
    }

    /** Ends the serve that is under way, or the next one; from any thread. */
    public void stop() {
        stopped = true;
        if (isOpen()) {
            channel.slots().data().wakeAll();
        }
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
     * Requests in hand.
     *
     * @return how many have no final reply yet.
     */
    public int inHand() {
        return inHandNow();
    }

    /**
     * Replies that wait for room.
     *
     * @return how many.
     */
    public int repliesWaiting() {
        return waitingNow();
    }

    /**
     * Replies to clients that have gone.
     *
     * @return how many since the start.
     */
    public long clientGone() {
        return clientGone;
    }

    /**
     * Requests that came too late.
     *
     * @return how many since the start.
     */
    public long expired() {
        return expired;
    }

    /**
     * Requests to an earlier server.
     *
     * @return how many since the start.
     */
    public long notRun() {
        return notRun;
    }

    /**
     * Clients evicted for what they wrote.
     *
     * @return how many since the start.
     */
    public long damaged() {
        return damaged;
    }

    /**
     * Its subscriber slot.
     *
     * @return 0.
     */
    public int slot() {
        return 0;
    }

    /**
     * Its name.
     *
     * @return the name, empty if it has none.
     */
    public String name() {
        return name;
    }

    /**
     * The largest answer.
     *
     * @return bytes.
     */
    public int maxMessageLength() {
        return longest();
    }

    /**
     * Gives the place back: calls in hand end as {@link ServerGoneException}; at least once they go to the next server.
     * A thread that waits in this server gets {@link ClosedException}. Closing twice is fine.
     *
     * @throws ViewAliveException from inside a handler, or while another thread polls.
     */
    @Override
    public void close() {
        boolean waited = waiting.takeOver();
        try {
            if (!waited) {
                checkClosable();
            }
            end();
            seatClose();
        } finally {
            channel.tellSleepers(waited);
            if (waited) {
                waiting.goOn();
            }
        }
    }
}
