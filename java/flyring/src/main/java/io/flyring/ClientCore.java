// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import org.agrona.DirectBuffer;

/**
 * Publishes a client's requests, takes replies, and ends calls (service.md 6 and 7). {@link ClientVerbs} adds verbs.
 */
abstract class ClientCore {
    static final long GONE = -1;
    static final long LOW = 0xffff_ffffL;
    /** The purposes of a wait. */
    static final int FOR_REPLY = 0;
    static final int FOR_SERVER = 1;
    static final int FOR_ROOM = 2;
    private static final long NEVER = Long.MAX_VALUE;
    private static final int MOST_CREDIT = 65535;

    final Channel channel;
    final Header header;
    final int number;
    final Seat seat;
    final long epoch;
    final ServiceWriter writer;
    final RingReader reader;
    final CallTable calls = new CallTable();
    final ServiceWait waiting;
    final boolean atLeastOnce;
    private final Memory trailer;
    private final Memory control;
    private final int epochAt;
    private final int serverAt;
    /** The view that shows a reply's payload in place. */
    private final Message inPlace;
    private final ArrayDeque<Call> events = new ArrayDeque<>();
    private final MessageHandler onReply = this::onReply;
    private volatile long expectedEpoch;
    /** Whether a verb is running. */
    boolean busy;
    /** The thread that runs callbacks now; null if none does. */
    Thread callbackThread;
    boolean lost;
    CorruptRingException corrupt;
    /** The epoch of the server that is known to live; 0 if none is. */
    long known;
    boolean askGone;
    /** The number of ended calls and of items since a poll began. */
    int happened;
    long late;
    private Throwable failure;
    private String serverName = "";
    private int serverPid;
    private long expired;
    private int waitsFor;
    private int emptyDrains;
    /** When polls last asked whether the server has gone. */
    private long askedAt = System.nanoTime();
    private int cancelsDue;
    private int streams;
    private int deadlines;
    private long nextDeadline = NEVER;
    /** Epoch and serving as last seen when no server lived. */
    private long lookedEpoch = -1;
    private long lookedServing = -1;

    ClientCore(Channel channel, int number, Seat seat, long epoch, ServiceWriter writer, RingReader reader,
        Memory trailer) {
        this.channel = channel;
        this.header = channel.header();
        this.number = number;
        this.seat = seat;
        this.epoch = epoch;
        this.expectedEpoch = epoch;
        this.writer = writer;
        this.reader = reader;
        this.trailer = trailer;
        this.atLeastOnce = header.atLeastOnce();
        this.control = channel.control();
        this.epochAt = header.subscriberSlot(1 + number) + Layout.SUBSCRIBER_SLOT_EPOCH;
        this.serverAt = header.subscriberSlot(0);
        this.inPlace = reader.anotherView();
        this.waiting = new Wait(channel, header.clients() + number);
    }

    /** Sleeps on the words of data for replies and for a server, on those of room for room. */
    private final class Wait extends ServiceWait {
        private final WaitingWords room;

        Wait(Channel channel, int ring) {
            super(channel, ring, ring + 1, "an answer");
            room = channel.slots().room();
        }

        @Override
        WaitingWords words() {
            return waitsFor == FOR_ROOM ? room : super.words();
        }

        @Override
        int mask() {
            return waitsFor == FOR_ROOM ? WaitingWords.bit(number) : super.mask();
        }

        @Override
        boolean isReady() {
            return ClientCore.this.isReady();
        }

        @Override
        boolean othersWake() {
            return waitsFor == FOR_ROOM ? writer.gate(0) < 0 || channel.slots().subscriberWakes(0)
                : super.othersWake();
        }

        @Override
        long cap(long waited) {
            long longest = waitsFor == FOR_ROOM ? roomCap(waited) : DATA_CAP_NANOS;
            return deadlines == 0 ? longest : Math.max(0, Math.min(longest, nextDeadline - now()));
        }

        @Override
        void look() {
            // not needed: the verb that waits looks when it tries again
        }

        @Override
        void lookAlone() {
            askGone = known != 0 && !serverIsThere();
            channel.checkReplaced();
        }

        @Override
        void setBusy(boolean now) {
            // not needed: the object is busy as long as its verb runs
        }
    }

    final boolean owned() {
        return control.getLongOpaque(epochAt) == expectedEpoch;
    }

    final boolean isOpen() {
        return expectedEpoch != GONE;
    }

    final long now() {
        return channel.identity().monotonicNow();
    }

    final long serverEpoch() {
        return control.getLongAcquire(serverAt + Layout.SUBSCRIBER_SLOT_EPOCH); // pairs with: take server 4, evict
    }

    private long serving() {
        return control.getLongAcquire(Layout.CONTROL_SERVING); // pairs with: take server 2 and 7
    }

    private boolean isLocked() {
        return channel.slots().live(seat.lock(), 0);
    }

    /** Whether a server lives at an epoch (service.md 6). */
    final boolean lives(long e) {
        return e > 0 && isLocked() && serving() == e;
    }

    final ServerInfo liveServer() {
        final long e = serverEpoch();
        Slots.Fields fields = lives(e) ? channel.slots().fields(serverAt) : null;
        return fields != null && fields.epoch() == e ? new ServerInfo(fields.name(), e) : null;
    }

    private boolean serverIsThere() {
        return serverEpoch() == known && isLocked() && serving() == known;
    }

    private boolean isReady() {
        if (!owned() || askGone || reader.isReady()) {
            return true;
        }
        final long e = serverEpoch();
        if (waitsFor == FOR_SERVER) {
            return e != lookedEpoch || serving() != lookedServing;
        }
        return known != 0 && e != known || waitsFor == FOR_ROOM && writer.gatesAllow(writer.room.needed())
            || deadlines != 0 && now() >= nextDeadline;
    }

    /** Waits for one turn; false if the deadline has passed. */
    final boolean turn(int what) {
        waitsFor = what;
        final boolean again;
        try {
            again = waiting.turn();
        } finally {
            waitsFor = FOR_REPLY;
        }
        if (!owned()) {
            throw unusable();
        }
        return again;
    }

    private void putOutstanding() {
        trailer.putIntOpaque(Layout.TRAILER_GATE + Layout.GATE_OUTSTANDING, calls.size());
    }

    final void countExpired() {
        expired++;
        trailer.putLongOpaque(Layout.TRAILER_GATE + Layout.GATE_EXPIRED, expired);
    }

    // --- call 2 and 3

    /** Finds a live server: call 2. False if the caller must wait for one. */
    final boolean findServer() {
        final long e = serverEpoch();
        if (e == known && e != 0) {
            return true;
        }
        askGone();
        lookedEpoch = e;
        lookedServing = serving();
        if (!lives(e)) {
            return false;
        }
        Slots.Fields fields = channel.slots().fields(serverAt);
        serverName = fields.name();
        serverPid = fields.pid();
        known = e;
        return true;
    }

    /** Publishes the request: call 3. False if there is no room. */
    final boolean publish(Call call, DirectBuffer source, byte[] bytes, int offset, int length, int type) {
        call.sequence = calls.next();
        final long position = offer(call.sequence & LOW
            | (long) Layout.REQUEST_OPERATION_CALL << 32 | (long) call.credit << 48, call.deadline, source, bytes,
            offset, length, type);
        if (position == ServiceWriter.NO_ROOM) {
            return false;
        }
        call.position = position;
        calls.add(call);
        if (call.credit > 0) {
            streams++;
        }
        if (call.deadline != 0) {
            deadlines++;
            nextDeadline = Math.min(nextDeadline, call.deadline);
        }
        putOutstanding();
        return true;
    }

    private long offer(long first, long deadline, DirectBuffer source, byte[] bytes, int offset, int length,
        int type) {
        if (!owned()) {
            throw unusable();
        }
        try {
            return writer.offer(Layout.REQUEST_LENGTH, first, deadline, epoch & LOW | known << 32, source, bytes,
                offset, length, type);
        } catch (Throwable e) {
            if (writer.failed()) {
                fail(e);
            }
            throw e;
        }
    }

    private boolean sent(Call call, int operation, int credit) {
        return offer(call.sequence & LOW | (long) operation << 32 | (long) credit << 48, 0, null, null, 0, 0,
            Layout.TYPE_RAW) != ServiceWriter.NO_ROOM;
    }

    /** Sends cancels and credit that are due, as far as there is room (service.md 7). */
    final void sendDue() {
        if (cancelsDue == 0 && streams == 0) {
            return;
        }
        for (Call call = calls.first(); call != null; call = call.behind) {
            if (call.cancelDue) {
                if (!sent(call, Layout.REQUEST_OPERATION_CANCEL, 0)) {
                    return;
                }
                call.cancelDue = false;
                cancelsDue--;
            } else if (call.creditDue()) {
                final int credit = Math.min(call.consumed, MOST_CREDIT);
                if (!sent(call, Layout.REQUEST_OPERATION_CREDIT, credit)) {
                    return;
                }
                call.consumed -= credit;
            }
        }
    }

    final void cancelNow(Call call) {
        finish(call, null, new CancelledException("an answer", "The call was cancelled. Its handler may run all the"
            + " same."), false);
        call.cancelDue = true;
        cancelsDue++;
        sendDue();
    }

    // --- drain, and the other parts of a poll

    /**
     * Makes one step of a poll (service.md 6). Drains, ends calls whose deadline has passed, tests whether the server
     * is gone if that is due, and sends the cancels and credits that are due.
     */
    final void step() {
        if (!owned()) {
            throw unusable();
        }
        if (drain()) {
            emptyDrains = 0;
        } else if (calls.size() != 0) {
            final long time = System.nanoTime();
            if (time - askedAt >= ServiceWait.DATA_CAP_NANOS) {
                askedAt = time;
                askGone = true;
            }
        }
        if (++emptyDrains > Layout.POLLS_TO_LOOK) {
            askGone = true;
        }
        if (deadlines != 0) {
            expireOwn();
        }
        if (askGone || known != 0 && serverEpoch() != known) {
            askGone();
        }
        if (cancelsDue != 0) {
            sendDue();
        }
    }

    /** Takes all replies (drain); returns whether there were any. */
    final boolean drain() {
        final long start = reader.cursor();
        long at = start;
        try {
            do {
                final int taken = reader.poll(onReply, 1);
                if (taken == RingReader.LOST) {
                    throw unusable();
                }
                if (reader.cursor() == at) {
                    return at != start;
                }
                at = reader.cursor();
            } while (at - start < header.capacity);
        } catch (CorruptRingException e) {
            setCorrupt(e);
            throw e;
        }
        return true;
    }

    /** Handles one reply: drain 2 and 3. */
    private void onReply(Message reply) {
        final PayloadBuffer buffer = reply.buffer();
        final int length = reply.length() - Layout.REPLY_LENGTH;
        final Call call = length < 0 || buffer.getInt(Layout.REPLY_CLIENT_EPOCH) != (int) epoch ? null
            : calls.find(buffer.getInt(Layout.REPLY_SEQUENCE));
        if (call == null) {
            late++;
            return;
        }
        final int status = buffer.getInt(Layout.REPLY_STATUS);
        final int flags = buffer.getInt(Layout.REPLY_FLAGS);
        if ((flags & Layout.REPLY_FLAG_MORE) != 0) {
            if (call.done || call.items() >= call.credit) { // more items than credit: a hostile server
                late++;
            } else {
                call.addItem(reply.copy(Layout.REPLY_LENGTH));
                tell(call);
            }
            return;
        }
        remove(call);
        putOutstanding();
        if (call.done) {
            late++;
            return;
        }
        final boolean repeat = (flags & Layout.REPLY_FLAG_REPEAT) != 0;
        if (status == Layout.REPLY_STATUS_OK) {
            call.repeat = repeat;
            answer(call, reply, length);
        } else if (status == Layout.REPLY_STATUS_EXPIRED) {
            finish(call, null, expiry(repeat), true);
        } else if (status == Layout.REPLY_STATUS_NOT_RUN) {
            finish(call, null, serverGone(false), true);
        } else {
            byte[] text = new byte[Math.min(length, Layout.REPLY_MAX_TEXT)];
            buffer.getBytes(Layout.REPLY_LENGTH, text);
            finish(call, null, new ServiceErrorException(new String(text, StandardCharsets.UTF_8)), true);
        }
    }

    private void answer(Call call, Message reply, int length) {
        if (call.inPlace != null) {
            finish(call, null, null, true); // before the handler: what it throws reaches the caller
            inPlace.set(reply.buffer().addressOffset() + Layout.REPLY_LENGTH, length, reply.type(), reply.position());
            try {
                call.inPlace.onMessage(inPlace);
            } finally {
                inPlace.invalidate();
            }
            return;
        }
        Message message = null;
        Throwable error = null;
        try {
            message = call.credit > 0 ? null : reply.copy(Layout.REPLY_LENGTH);
        } catch (Error e) { // such as OutOfMemoryError: the call ends with it
            error = e;
        }
        finish(call, message, error, true);
    }

    private void remove(Call call) {
        if (call.credit > 0) {
            streams--;
        }
        if (call.cancelDue) {
            call.cancelDue = false;
            cancelsDue--;
        }
        calls.remove(call);
    }

    /** Ends a call for its caller; the call may stay outstanding until its final reply. */
    private void finish(Call call, Message message, Throwable error, boolean tells) {
        if (call.deadline != 0 && --deadlines == 0) {
            nextDeadline = NEVER;
        }
        call.end(message, error);
        if (tells) {
            tell(call);
        } else if (call.isHeard()) {
            events.add(call);
        }
    }

    private void tell(Call call) {
        if (!call.ofCall) {
            happened++;
            if (call.isHeard()) {
                events.add(call);
            }
        }
    }

    private ExpiredException expiry(boolean mayHaveRun) {
        countExpired();
        return expiredError(mayHaveRun);
    }

    static ExpiredException expiredError(boolean mayHaveRun) {
        return new ExpiredException(mayHaveRun, "The time-out of the call came before its answer" + (mayHaveRun
            ? "; its handler may have run." : ", and no handler was given it."));
    }

    private ServerGoneException serverGone(boolean mayHaveRun) {
        return new ServerGoneException(mayHaveRun, serverName, serverPid, "The server " + serverName + " (process "
            + serverPid + ") has gone" + (mayHaveRun ? "; the request may have run." : "; the request was not run."));
    }

    final void expire(Call call) {
        finish(call, null, expiry(true), true);
    }

    private void expireOwn() {
        final long time = now();
        if (time < nextDeadline) {
            return;
        }
        nextDeadline = NEVER;
        for (Call call = calls.first(); call != null; call = call.behind) {
            if (call.done || call.deadline == 0) {
                continue;
            }
            if (call.deadline <= time) {
                expire(call);
            } else {
                nextDeadline = Math.min(nextDeadline, call.deadline);
            }
        }
    }

    /** Asks whether the known server has gone, and ends its calls if so: gone? (service.md 6). */
    private void askGone() {
        askGone = false;
        emptyDrains = 0;
        if (known == 0) {
            return;
        }
        final long e = serverEpoch();
        final boolean held = isLocked(); // 1
        if (e == known && held && serving() == known) { // 2: after the test of the lock
            return;
        }
        drain(); // 3: the server may have replied before it died
        if (!atLeastOnce) { // 4
            final Memory requests = channel.trailers().get(number);
            // pairs with: poll 6; after the test of the lock
            long taken = requests.getLongAcquire(Layout.TRAILER_GATE + Layout.GATE_TAKEN_END);
            final long gate = writer.gate(0);
            if (taken < gate || taken > writer.end) {
                taken = gate; // outside of gate to claimed it counts as the gate (service.md 2)
            }
            for (Call call = calls.first(); call != null;) {
                final Call behind = call.behind;
                if (!call.done) {
                    finish(call, null, serverGone(held || call.position < taken), true);
                }
                remove(call);
                call = behind;
            }
            putOutstanding();
        }
        known = 0; // 5
    }

    /** Runs the listeners and futures of calls that ended or got an item. They may start calls. */
    final void runPending() {
        if (events.isEmpty() || callbackThread != null) {
            return;
        }
        callbackThread = Thread.currentThread();
        try {
            for (Call call = events.poll(); call != null; call = events.poll()) {
                call.tell();
            }
        } finally {
            callbackThread = null;
        }
    }

    // --- ends

    /** Ends all calls with an error; may run in another thread that closes the client. */
    private void endAll(Throwable error) {
        for (Call call = calls.first(); call != null;) {
            final Call behind = call.behind;
            if (!call.done) {
                finish(call, null, error, true);
            }
            remove(call);
            call = behind;
        }
    }

    private void setCorrupt(CorruptRingException error) {
        if (!owned()) {
            throw unusable();
        }
        corrupt = error;
        reader.stopGating();
        endAll(error);
        putOutstanding();
        runPending();
    }

    /** Ends the client after an Error in the middle of a publication: the slots' next owner recovers the ring. */
    private void fail(Throwable error) {
        failure = error;
        expectedEpoch = GONE;
        endAll(closed());
        seat.abandon();
    }

    private ClosedException closed() {
        ClosedException error = new ClosedException(failure == null ? "Client " + number + " of " + channel.path()
            + " is closed. What it has asked is run all the same. Make a new one."
            : "Client " + number + " of " + channel.path() + " was ended by an error in the middle of a request: "
            + failure + ". Make a new one.");
        error.initCause(failure);
        return error;
    }

    private SlotLostException slotLost() {
        return new SlotLostException(1 + number, "Client " + number + " of " + channel.path() + " was evicted. Close"
            + " it and make a new one.");
    }

    /** The error for a client that is closed or has lost its slot; in the latter case gives the slots up. */
    final FlyringException unusable() {
        if (!isOpen()) {
            return lost ? slotLost() : closed();
        }
        SlotLostException error = slotLost();
        lost = true;
        expectedEpoch = GONE;
        endAll(error);
        seat.close();
        runPending();
        return error;
    }

    final Seat seat() {
        return seat;
    }

    final Waiting waiting() {
        return waiting;
    }

    final void checkClosable() {
        if (busy && isOpen()) {
            throw new ViewAliveException("Client " + number + " of " + channel.path() + " is at work, in a callback or"
                + " in another thread. Close it after that.");
        }
    }

    final void end() {
        if (isOpen()) {
            expectedEpoch = GONE;
            endAll(closed());
        }
        lost = false;
    }
}
