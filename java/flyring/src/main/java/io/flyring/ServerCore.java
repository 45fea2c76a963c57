// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import org.agrona.DirectBuffer;

/**
 * The state of a server for all clients, and the handling of requests and replies (service.md 5 and 7). One thread
 * polls. A lock guards what other threads may use through kept requests; the lock is only taken while there are kept
 * requests.
 */
abstract class ServerCore {
    private static final long GONE = -1;
    private static final long LOOK_NANOS = 100_000_000;
    private static final VarHandle KEPT = handle("kept", int.class);
    private static final VarHandle IN_HAND = handle("inHand", int.class);
    private static final VarHandle WAITING = handle("waitingReplies", int.class);
    private static final VarHandle STREAMS = handle("streams", int.class);
    private static final VarHandle ITEM_WAITS = handle("itemWaits", boolean.class);

    final Channel channel;
    final ServiceWait waiting;
    final Lane[] lanes;
    private final Seat seat;
    private final long epoch;
    private final Memory control;
    private final int epochAt;
    private final ReentrantLock lock = new ReentrantLock();
    private final int defaultType;
    /** The number of requests in hand, of all clients. */
    @SuppressWarnings("unused")
    private int inHand;
    @SuppressWarnings("unused")
    private int waitingReplies;
    /** The number of streams that have begun. */
    @SuppressWarnings("unused")
    private int streams;
    /** Whether an item of a stream found no room since the last {@link #lookAfterHand}. See {@link #isHeldBack}. */
    @SuppressWarnings("unused")
    private boolean itemWaits;
    /** The number of kept requests. {@code unkept} (guarded by the lock) counts those that are no longer in hand. */
    @SuppressWarnings("unused")
    private int kept;
    int unkept;
    int damagedLanes;
    /** The streams that one poll continues. */
    private final List<Request> scratch = new ArrayList<>();
    private long lookedAt = System.nanoTime() - LOOK_NANOS;
    private volatile long expectedEpoch;
    volatile boolean stopped;
    boolean busy;
    /** Whether the next poll must look after what is in hand; makes the server ready in a wait set. */
    private boolean lookDue;
    private volatile boolean lost;
    private Throwable failure;
    volatile long clientGone;
    volatile long expired;
    volatile long notRun;
    volatile long damaged;

    ServerCore(Channel channel, Seat seat, long epoch, Lane[] lanes) {
        this.channel = channel;
        this.seat = seat;
        this.epoch = epoch;
        this.expectedEpoch = epoch;
        this.lanes = lanes;
        this.control = channel.control();
        this.epochAt = channel.header().subscriberSlot(0) + Layout.SUBSCRIBER_SLOT_EPOCH;
        this.defaultType = channel.header().schemaLength > 0 ? Layout.TYPE_RAW : 1;
        for (Lane lane : lanes) {
            if (lane.isDamaged()) {
                damagedLanes++;
                damaged++;
            }
        }
        this.waiting = new Wait(channel, lanes.length);
    }

    private static VarHandle handle(String name, Class<?> type) {
        try {
            return MethodHandles.lookup().findVarHandle(ServerCore.class, name, type);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /** The wait for requests of all clients; while a reply or an item waits for room, the cap is that of room. */
    private final class Wait extends ServiceWait {
        Wait(Channel channel, int clients) {
            super(channel, 0, clients, "a request");
        }

        @Override
        boolean isReady() {
            if (!owned() || stopped || lookDue) {
                return true;
            }
            for (Lane lane : lanes) {
                if (lane.isReady()) {
                    return true;
                }
            }
            return false;
        }

        @Override
        long cap(long waited) {
            return isHeldBack() ? roomCap(waited) : DATA_CAP_NANOS;
        }

        @Override
        void look() {
            lookDue = needsLook(); // the next poll looks after what is in hand, and for clients that died
            lookedAt = System.nanoTime() - LOOK_NANOS;
            channel.checkReplaced();
        }

        @Override
        void setBusy(boolean now) {
            busy = now;
        }
    }

    private boolean needsLook() {
        return (int) IN_HAND.getOpaque(this) != 0 || damagedLanes != 0;
    }

    final Seat seat() {
        return seat;
    }

    final Waiting waiting() {
        return waiting;
    }

    final int defaultType() {
        return defaultType;
    }

    /**
     * The epoch of the server's place: each new server gets the next number.
     *
     * @return the epoch, from 1.
     */
    public long epoch() {
        return epoch;
    }

    final boolean isOpen() {
        return expectedEpoch != GONE;
    }

    final boolean owned() {
        return control.getLongOpaque(epochAt) == expectedEpoch;
    }

    final void checkOwned() {
        if (!owned()) {
            throw gone();
        }
    }

    /** The error for a server that is closed or has lost its slot. */
    final FlyringException gone() {
        if (lost || isOpen()) {
            return new SlotLostException(0, "The server of " + channel.path() + " was evicted. Close it and make a new"
                + " one.");
        }
        ClosedException error = new ClosedException(failure == null ? "The server of " + channel.path() + " is closed."
            + " Make a new one." : "The server of " + channel.path() + " was ended by an error in the middle of a"
            + " reply: " + failure + ". Make a new one.");
        error.initCause(failure);
        return error;
    }

    /** The time on the clock of deadlines, in ns (channel.md 10). */
    final long now() {
        return channel.identity().monotonicNow();
    }

    // --- the lock

    /** Takes the lock for the polling thread, if there are kept requests. Returns whether it was taken. */
    final boolean lockIfKept() {
        if ((int) KEPT.getAcquire(this) == 0) {
            return false;
        }
        lock.lock();
        return true;
    }

    final void unlock(boolean locked) {
        if (locked) {
            final int gone = unkept;
            if (gone != 0) {
                unkept = 0;
                KEPT.getAndAdd(this, -gone); // last: from here on the polling thread may skip the lock
            }
            lock.unlock();
        }
    }

    /** Takes the lock for a request: always if the request is kept. Returns whether it was taken. */
    private boolean lockFor(Request request) {
        if (!request.kept) {
            return lockIfKept();
        }
        lock.lock();
        return true;
    }

    final void countInHand(int change) {
        IN_HAND.setOpaque(this, (int) IN_HAND.getOpaque(this) + change);
    }

    final void countWaiting(int change) {
        WAITING.setOpaque(this, (int) WAITING.getOpaque(this) + change);
    }

    final void countStreams(int change) {
        STREAMS.setOpaque(this, (int) STREAMS.getOpaque(this) + change);
    }

    private boolean hasStreams() {
        return (int) STREAMS.getOpaque(this) != 0;
    }

    /** Whether a reply or an item waits for room. itemWaits may still be set by a stream that has ended. */
    private boolean isHeldBack() {
        return waitingNow() != 0 || hasStreams() && (boolean) ITEM_WAITS.getOpaque(this);
    }

    final int inHandNow() {
        return (int) IN_HAND.getOpaque(this);
    }

    final int waitingNow() {
        return (int) WAITING.getOpaque(this);
    }

    // --- a poll

    /** Tries replies that wait again, and continues streams. Each 100 ms checks whether clients have died. */
    private void lookAfterHand() {
        final long time = System.nanoTime();
        final boolean looks = time - lookedAt >= LOOK_NANOS;
        scratch.clear();
        final boolean locked = lockIfKept();
        try {
            ITEM_WAITS.setOpaque(this, false);
            for (Lane lane : lanes) {
                if (looks) {
                    lane.checkClient(seat.lock());
                }
                if (lane.hasWaiting()) {
                    lane.retry(this);
                }
                if (hasStreams()) {
                    lane.addStreams(scratch);
                }
            }
        } finally {
            unlock(locked);
        }
        if (looks) {
            lookedAt = time;
        }
        for (int i = 0; i < scratch.size(); i++) {
            goOn(scratch.get(i), scratch.get(i).kept);
        }
        scratch.clear();
        if (damagedLanes != 0) {
            for (Lane lane : lanes) {
                if (lane.isDamaged()) {
                    lane.mend(this);
                }
            }
        }
    }

    /** Begins a poll, before the rings are read. */
    final void beginPoll() {
        lookDue = false;
        if (needsLook()) {
            lookAfterHand();
        }
    }

    /** Hands a request to the handler, and replies for it if it throws or does not answer: poll 7. */
    final void handOut(RequestHandler handler, Request request) {
        try {
            handler.onRequest(request);
            if (!request.answered && !request.kept && request.items == null) {
                checkOwned();
                failUnanswered(request, "no answer");
            }
        } catch (Error e) {
            try {
                failUnanswered(request, e.toString());
            } catch (FlyringException lostMeanwhile) {
                e.addSuppressed(lostMeanwhile);
            }
            throw e;
        } catch (Exception e) {
            checkOwned();
            failUnanswered(request, e.getMessage() == null ? e.toString() : e.getMessage());
        } finally {
            request.invalidate();
        }
    }

    private void failUnanswered(Request request, String text) {
        final boolean locked = lockFor(request);
        try {
            if (!request.answered) {
                finishWithText(request, text);
            }
        } finally {
            unlock(locked);
        }
    }

    private void finishWithText(Request request, String text) {
        byte[] bytes = Request.text(text, longest());
        request.lane.finish(this, request, Layout.REPLY_STATUS_ERROR, Layout.TYPE_RAW, null, bytes, 0, bytes.length);
    }

    final int longest() {
        return lanes[0].writer.maxLength - Layout.REPLY_LENGTH;
    }

    // --- operations of Request; for kept requests from any thread

    final void reply(Request request, DirectBuffer source, byte[] bytes, int offset, int length, int type) {
        final boolean locked = lockFor(request);
        try {
            checkUnanswered(request);
            if (type < 1) {
                throw new InvalidArgumentException("type", "The type " + type + " is not in 1 to 2147483647.");
            }
            MessageTooLargeException tooLarge = request.lane.writer.tooLarge(Layout.REPLY_LENGTH, length);
            if (tooLarge != null) {
                throw tooLarge;
            }
            request.lane.finish(this, request, Layout.REPLY_STATUS_OK, type, source, bytes, offset, length);
            settle(request);
        } finally {
            unlock(locked);
        }
    }

    final void fail(Request request, String text) {
        final boolean locked = lockFor(request);
        try {
            checkUnanswered(request);
            finishWithText(request, text);
            settle(request);
        } finally {
            unlock(locked);
        }
    }

    final void keep(Request request) {
        if (request.answered) {
            throw new InvalidArgumentException("keep", "This request was answered; there is nothing to keep it for.");
        }
        KEPT.getAndAdd(this, 1);
    }

    /** Fails a kept request that was dropped without an answer. */
    final void drop(Request request) {
        final boolean locked = lockFor(request);
        try {
            if (isOpen() && !request.answered && request.items == null) {
                finishWithText(request, "no answer");
                settle(request);
            }
        } catch (SlotLostException lostMeanwhile) {
            return; // the call ends as server gone, or goes to the next server
        } finally {
            unlock(locked);
        }
    }

    final void stream(Request request, Iterator<byte[]> items, int type) {
        final boolean locked = lockFor(request);
        try {
            checkUnanswered(request);
            if (type < 1) {
                throw new InvalidArgumentException("type", "The type " + type + " is not in 1 to 2147483647.");
            }
            if (items == null || !request.isStream()) {
                throw new InvalidArgumentException("stream", items == null ? "There are no items." : "The caller of"
                    + " this request takes one answer, no stream; see isStream.");
            }
            checkOwned();
            request.items = items;
            request.itemType = type;
            request.lane.beginStream(this);
        } finally {
            unlock(locked);
        }
        goOn(request, request.kept);
        if (request.kept) {
            lock.lock();
            try {
                settle(request);
            } finally {
                unlock(true);
            }
        }
    }

    private void checkUnanswered(Request request) {
        if (!isOpen()) {
            throw gone();
        }
        if (request.answered || request.items != null) {
            throw new InvalidArgumentException("reply", "This request was answered before. Answer each once.");
        }
    }

    /** After a verb of a kept request: stores the gate if due, and wakes the polling thread. Called with the lock. */
    private void settle(Request request) {
        if (request.kept && owned()) {
            if (channel.header().atLeastOnce()) {
                request.lane.storeGate();
            }
            // The polling thread may be asleep: because max_outstanding requests were in hand, or with a cap that is
            // too long now that something waits for room.
            if (request.lane.isFull() || isHeldBack()) {
                channel.slots().data().wakeAll();
            }
        }
    }

    // --- streams

    /** Sends as much of a stream as possible. */
    final void goOn(Request request, boolean kept) {
        while (true) {
            final Iterator<byte[]> items;
            boolean locked = kept ? lockAlways() : lockIfKept();
            try {
                if (!isOpen() || !streamStep(request)) {
                    return;
                }
                items = request.items;
            } finally {
                unlock(locked);
            }
            byte[] item = null;
            String text = null;
            Error error = null;
            try { // without the lock
                if (items.hasNext()) {
                    item = items.next();
                    text = item == null ? "an item of the stream is null" : null;
                }
            } catch (Error e) {
                error = e;
                text = e.toString();
            } catch (RuntimeException e) {
                text = e.getMessage() == null ? e.toString() : e.getMessage();
            }
            locked = kept ? lockAlways() : lockIfKept();
            try {
                request.pulling = false;
                request.item = item;
                request.exhausted = item == null;
                if (text != null && isOpen() && !request.answered) {
                    finishWithText(request, text);
                }
            } finally {
                unlock(locked);
            }
            if (error != null) {
                throw error;
            }
        }
    }

    private boolean lockAlways() {
        lock.lock();
        return true;
    }

    /** Sends the item that was made, or the end. True if the caller must make the next item, without the lock. */
    private boolean streamStep(Request request) {
        if (request.answered || request.pulling) {
            return false;
        }
        checkOwned();
        final Lane lane = request.lane;
        if (request.item != null && request.credit > 0 && !request.cancelled && !lane.hasWaiting()) {
            if (!lane.isThere(request)) {
                clientGone++;
                request.cancelled = true;
            } else if (request.item.length > longest()) {
                finishWithText(request, lane.writer.tooLarge(Layout.REPLY_LENGTH, request.item.length).getMessage());
                settle(request);
                return false;
            } else if (lane.send(this, request, Layout.REPLY_STATUS_OK, Layout.REPLY_FLAG_MORE, request.itemType, null,
                request.item, 0, request.item.length)) {
                request.credit--;
                request.item = null;
            } else {
                ITEM_WAITS.setOpaque(this, true);
            }
        }
        if (request.item == null && !request.exhausted && !request.cancelled) {
            request.pulling = true;
            return true;
        }
        if (request.item == null || request.cancelled) {
            lane.finish(this, request, Layout.REPLY_STATUS_OK, Layout.TYPE_RAW, null, null, 0, 0);
            settle(request);
        } else if (request.deadline > 0 && now() >= request.deadline) {
            lane.finish(this, request, Layout.REPLY_STATUS_EXPIRED, Layout.TYPE_RAW, null, null, 0, 0);
            settle(request);
        }
        return false;
    }

    // --- ends

    /** Ends the server after an Error in the middle of a publication: the slots' next owner recovers the ring. */
    final void setFailed(Throwable error) {
        failure = error;
        expectedEpoch = GONE;
    }

    /** After a poll, by its thread: gives the slots up if the server lost its place or failed. */
    final void giveUpIfGone() {
        if (failure != null) {
            seat.abandon();
        } else if (isOpen() && !owned()) {
            lock.lock();
            try {
                lost = true;
                expectedEpoch = GONE;
            } finally {
                lock.unlock();
            }
            seatClose();
        }
    }

    final void checkClosable() {
        if (busy && isOpen()) {
            throw new ViewAliveException("The server of " + channel.path() + " is at work, in its handler or in another"
                + " thread. Close it after the poll, or call stop.");
        }
    }

    /** Ends the server: tries replies that wait once more, and does not answer requests in hand (service.md 4). */
    final void end() {
        lock.lock();
        try {
            if (isOpen()) {
                if (owned()) {
                    for (Lane lane : lanes) {
                        lane.retry(this);
                    }
                }
                expectedEpoch = GONE;
            } else if (failure != null) {
                seat.fail(); // the next owner recovers the ring
            }
            lost = false;
        } catch (FlyringException e) {
            expectedEpoch = GONE; // the calls in hand end as server gone
        } finally {
            lock.unlock();
        }
    }

    /** Gives the seat back. Called without the lock: a channel's close takes its monitor first, then this lock. */
    final void seatClose() {
        seat.close();
    }
}
