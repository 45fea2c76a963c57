// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;

/**
 * Answers the requests of a service; made by {@link Channel#server(String)}. A service has one server at a time. One
 * thread polls. Any thread may answer kept requests ({@link Request#keep()}) or call {@link #stop()}. The garbage
 * collector closes a server that is unreachable, with a warning. Spec service.md.
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
     * Hands out up to 256 available requests.
     *
     * @param handler receives the requests, one after another.
     * @return the number of requests handed out.
     * @throws FlyringException as {@link #poll(RequestHandler, int)} does.
     */
    public int poll(RequestHandler handler) {
        return poll(handler, DEFAULT_LIMIT);
    }

    /**
     * Hands out available requests, up to a limit.
     *
     * @param handler receives the requests, one after another. If it throws, its call ends with
     *     {@link ServiceErrorException}; this method rethrows an {@link Error} only.
     * @param limit the largest number of requests; with 0 it only sends replies that waited for room.
     * @return the number of requests handed out.
     * @throws ClosedException after close.
     * @throws SlotLostException if the server was evicted.
     * @throws TwoThreadsException if another thread polls, or the call comes from a handler of this server.
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
     * Does the same, but waits while there is no request. A virtual thread that sleeps here pins its carrier thread.
     *
     * @param handler receives the requests, one after another.
     * @param limit the largest number of requests.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the number of requests handed out; 0 if none came in time, or {@link #stop()} was called.
     * @throws InvalidArgumentException if the time-out is below 0.
     * @throws CancelledException if the thread is interrupted; detected within 100 ms. The thread stays interrupted.
     * @throws FlyringException as {@link #poll(RequestHandler, int)} does.
     */
    public int poll(RequestHandler handler, int limit, Duration timeout) {
        return poll(handler, limit, Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param handler receives the requests, one after another.
     * @param limit the largest number of requests.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the number of requests handed out; 0 if none came in time, or {@link #stop()} was called.
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
     * @param handler receives the requests.
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

    /** Ends the {@link #serve} that is under way, or else the next one. May be called from any thread. */
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
     * The number of requests in hand.
     *
     * @return how many requests have no final reply yet.
     */
    public int inHand() {
        return inHandNow();
    }

    /**
     * The number of replies that wait for room in a client's ring.
     *
     * @return how many replies wait.
     */
    public int repliesWaiting() {
        return waitingNow();
    }

    /**
     * The number of replies that were dropped because their client has gone.
     *
     * @return the number since the start.
     */
    public long clientGone() {
        return clientGone;
    }

    /**
     * The number of requests that arrived after their deadline.
     *
     * @return the number since the start.
     */
    public long expired() {
        return expired;
    }

    /**
     * The number of requests that were addressed to an earlier server, and so were not run.
     *
     * @return the number since the start.
     */
    public long notRun() {
        return notRun;
    }

    /**
     * The number of clients that were evicted because they wrote invalid data.
     *
     * @return the number since the start.
     */
    public long damaged() {
        return damaged;
    }

    /**
     * The server's subscriber slot.
     *
     * @return 0.
     */
    public int slot() {
        return 0;
    }

    /**
     * The server's name.
     *
     * @return the name, empty if it has none.
     */
    public String name() {
        return name;
    }

    /**
     * The length of the largest answer.
     *
     * @return payload bytes.
     */
    public int maxMessageLength() {
        return longest();
    }

    /**
     * Gives the place back. Calls in hand end with {@link ServerGoneException}; with at-least-once delivery they go to
     * the next server. A thread that waits in this server gets {@link ClosedException}. A second close does nothing.
     *
     * @throws ViewAliveException if called from a handler, or while another thread polls.
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
