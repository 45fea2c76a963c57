// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import org.agrona.DirectBuffer;

/**
 * Answers the requests of a service; there is one at a time; made by {@link Channel#server(String)}. One thread polls;
 * requests that are kept are answered from any thread. spec/service.md.
 */
public final class Server implements AutoCloseable {
    private static final long GONE = -1;
    private static final int DEFAULT_LIMIT = 256;
    private static final int DEFAULT_TYPE = 1;
    private static final long LOOK_NANOS = 100_000_000;

    private final Channel channel;
    private final String name;
    private final Seat seat;
    private final long epoch;
    private final Lane[] lanes;
    private final Memory control;
    private final int epochAt;
    private final Object monitor = new Object();
    private final int defaultType;
    private final ServiceWait waiting;
    private volatile long expectedEpoch;
    private volatile boolean stopped;
    private volatile boolean polling;
    private boolean busy;
    private boolean lost;
    private int next;
    private int idlePolls;
    private long lookedAt = System.nanoTime();
    long clientGone;
    long expired;
    long notRun;
    long damaged;

    Server(Channel channel, String name, Seat seat, long epoch, Lane[] lanes) {
        this.channel = channel;
        this.name = name;
        this.seat = seat;
        this.epoch = epoch;
        this.expectedEpoch = epoch;
        this.lanes = lanes;
        this.control = channel.control();
        this.epochAt = channel.header().subscriberSlot(0) + Layout.SUBSCRIBER_SLOT_EPOCH;
        this.defaultType = channel.header().schemaLength > 0 ? Layout.TYPE_RAW : DEFAULT_TYPE;
        this.waiting = new ServiceWait(channel, 0, lanes.length, "a request") {
            @Override
            boolean isReady() {
                return !owned() || stopped || isRequestThere();
            }

            @Override
            long cap(long waited) {
                return repliesWaiting() > 0 ? ROOM_CAP_NANOS : DATA_CAP_NANOS;
            }

            @Override
            void look() {
                channel.checkReplaced();
                turn0();
            }

            @Override
            void lookSoon() {
                idlePolls = Layout.POLLS_TO_LOOK;
            }

            @Override
            void setBusy(boolean now) {
                busy = now;
            }
        };
    }

    private boolean isRequestThere() {
        for (Lane lane : lanes) {
            if (lane.isReady()) {
                return true;
            }
        }
        return false;
    }

    /** What each poll does first, and each cap of a sleep: replies that wait, and clients that have gone. */
    private void turn0() {
        synchronized (monitor) {
            if (!owned()) {
                return;
            }
            for (Lane lane : lanes) {
                if (lane.waiting() > 0) {
                    lane.retry(this);
                }
            }
        }
    }

    private void lookAtClients() {
        final long now = System.nanoTime();
        if (now - lookedAt >= LOOK_NANOS) {
            lookedAt = now;
            synchronized (monitor) {
                for (Lane lane : lanes) {
                    lane.checkClient(seat.lock());
                }
            }
        }
    }

    boolean owned() {
        return control.getLongOpaque(epochAt) == expectedEpoch;
    }

    void checkOwned() {
        if (!owned()) {
            throw gone();
        }
    }

    Object monitor() {
        return monitor;
    }

    boolean isPolling() {
        return polling;
    }

    /** The clock of deadlines (channel.md 10). */
    long now() {
        return channel.identity().monotonicNow();
    }

    int defaultType() {
        return defaultType;
    }

    Seat seat() {
        return seat;
    }

    Waiting waiting() {
        return waiting;
    }

    /**
     * Hands out requests that are there.
     *
     * @param handler gets them, one after another.
     * @return how many were handed out.
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
     * @throws ChannelReplacedException if another channel has this one's name now; the server works as before.
     */
    public int poll(RequestHandler handler, int limit) {
        if (busy) {
            throw expectedEpoch == GONE ? gone() : new TwoThreadsException("This server is in use by another thread,"
                + " or by its own handler.");
        }
        checkOwned();
        busy = true;
        polling = true;
        int handed = 0;
        try {
            turn0();
            lookAtClients();
            int at = next;
            for (int i = 0; i < lanes.length && handed < limit; i++) {
                int some = lanes[at].poll(this, handler, limit - handed);
                at = at + 1 == lanes.length ? 0 : at + 1;
                if (some > 0) {
                    handed += some;
                    next = at;
                }
            }
        } finally {
            polling = false;
            busy = false;
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
     * @param timeout how long to wait at most.
     * @return how many were handed out.
     * @throws CancelledException if the thread was interrupted.
     * @throws FlyringException as {@link #poll(RequestHandler, int)} does.
     */
    public int poll(RequestHandler handler, int limit, Duration timeout) {
        long nanos = Waiting.nanos(timeout);
        if (nanos < 0) {
            throw Waiting.negative(nanos);
        }
        int handed = poll(handler, limit);
        if (handed > 0 || nanos == 0 || limit <= 0 || stopped) {
            return handed;
        }
        waiting.begin(nanos);
        try {
            while (handed == 0 && !stopped && waiting.untilReady()) {
                handed = poll(handler, limit);
            }
        } finally {
            waiting.end();
        }
        return handed;
    }

    /**
     * Polls until {@link #stop()} or close.
     *
     * @param handler gets the requests.
     */
    public void serve(RequestHandler handler) {
        try {
            while (!stopped) {
                poll(handler, DEFAULT_LIMIT, Publisher.FOREVER);
            }
            stopped = false;
        } catch (ClosedException e) {
            if (expectedEpoch != GONE || lost) {
                throw e;
            }
        }
    }

    /** Ends the serve that is under way, or the next one; from any thread. */
    public void stop() {
        stopped = true;
        channel.slots().data().wakeAll();
    }

    /** One request, in its handler. */
    void handle(RequestHandler handler, Request request) {
        Error error = null;
        String text = "no answer";
        try {
            handler.onRequest(request);
        } catch (SlotLostException e) {
            throw e;
        } catch (Error e) {
            error = e;
            text = e.toString();
            request.kept = false;
        } catch (Exception e) {
            text = e.getMessage() == null ? e.toString() : e.getMessage();
            request.kept = false;
        } finally {
            request.invalidate();
        }
        synchronized (monitor) {
            if (!request.answered && !request.kept && owned()) {
                fail(request, text);
            }
        }
        if (error != null) {
            throw error;
        }
    }

    void reply(Request request, DirectBuffer source, byte[] bytes, int offset, int length, int type) {
        synchronized (monitor) {
            check(request);
            if (type < 1) {
                throw new InvalidArgumentException("type", "The type " + type + " is not in 1 to 2147483647.");
            }
            MessageTooLargeException tooLarge = request.lane.writer().tooLarge(Layout.REPLY_LENGTH, length);
            if (tooLarge != null) {
                throw tooLarge;
            }
            request.answered = true;
            request.lane.reply(this, request, Layout.REPLY_STATUS_OK, type, source, bytes, offset, length);
        }
    }

    void fail(Request request, String text) {
        synchronized (monitor) {
            check(request);
            request.answered = true;
            byte[] bytes = Request.text(text, request.lane.writer().maxLength - Layout.REPLY_LENGTH);
            request.lane.reply(this, request, Layout.REPLY_STATUS_ERROR, Layout.TYPE_RAW, null, bytes, 0,
                bytes.length);
        }
    }

    private void check(Request request) {
        checkOwned(); // reply 1
        if (request.answered) {
            throw new InvalidArgumentException("request", "This request was answered already.");
        }
    }

    private FlyringException gone() {
        if (expectedEpoch == GONE && !lost) {
            return new ClosedException("The server is closed. Make a new one.");
        }
        if (!lost) {
            lost = true;
            expectedEpoch = GONE;
            if (!busy) {
                seat.close();
            }
        }
        return new SlotLostException(0, "The server was evicted. Close it and make a new one.");
    }

    /** @return how many requests are in hand. */
    public int inHand() {
        synchronized (monitor) {
            int sum = 0;
            for (Lane lane : lanes) {
                sum += lane.inHand.size();
            }
            return sum;
        }
    }

    /** @return how many replies wait for room. */
    public int repliesWaiting() {
        synchronized (monitor) {
            int sum = 0;
            for (Lane lane : lanes) {
                sum += lane.waiting();
            }
            return sum;
        }
    }

    /** @return replies to clients that have gone. */
    public long clientGone() {
        return clientGone;
    }

    /** @return requests that came too late. */
    public long expired() {
        return expired;
    }

    /** @return requests to an earlier server. */
    public long notRun() {
        return notRun;
    }

    /** @return clients evicted for what they wrote. */
    public long damaged() {
        return damaged;
    }

    /** @return its name. */
    public String name() {
        return name;
    }

    /** @return how often the place was taken. */
    public long epoch() {
        return epoch;
    }

    void checkClosable() {
        if (busy && expectedEpoch != GONE) {
            throw new ViewAliveException("This server is at work. Close it after the poll, or call stop.");
        }
    }

    void end() {
        synchronized (monitor) {
            if (expectedEpoch != GONE) {
                turn0();
            }
            lost = false;
            expectedEpoch = GONE;
        }
    }

    /** Gives the place back: calls in hand end as server gone; at least once they go to the next server. */
    @Override
    public void close() {
        boolean waited = waiting.takeOver();
        try {
            if (!waited) {
                checkClosable();
            }
            end();
            seat.close();
        } finally {
            channel.tellSleepers(waited);
            if (waited) {
                waiting.goOn();
            }
        }
    }
}
