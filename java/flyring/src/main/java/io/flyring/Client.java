// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.agrona.collections.Int2ObjectHashMap;

/**
 * Calls the server of a service; made by {@link Channel#client(String)}. One thread uses it. A virtual thread that
 * sleeps here keeps its carrier thread. spec/service.md.
 */
public final class Client implements AutoCloseable {
    private static final long GONE = -1;
    private static final long LOW = 0xffff_ffffL;
    private static final int LOOKS = 256;

    private final Channel channel;
    private final Header header;
    private final String name;
    private final int number;
    private final Seat seat;
    private final long epoch;
    private final ServiceWriter writer;
    private final RingReader reader;
    private final Memory trailer;
    private final Memory control;
    private final int epochAt;
    private final int serverAt;
    private final int defaultType;
    private final Int2ObjectHashMap<Call> calls = new Int2ObjectHashMap<>();
    private final MessageHandler onReply = this::onReply;
    private final ServiceWait waiting;
    private volatile long expectedEpoch;
    private boolean busy;
    private boolean lost;
    private long known;
    private String serverName = "";
    private int serverPid;
    private int sequence;
    private int outstanding;
    private int ended;
    private long late;
    private long expired;
    private boolean waitsForRoom;
    private boolean waitsForServer;
    private int cancels;

    Client(Channel channel, String name, int number, Seat seat, long epoch, ServiceWriter writer, RingReader reader,
        Memory trailer) {
        this.channel = channel;
        this.header = channel.header();
        this.name = name;
        this.number = number;
        this.seat = seat;
        this.epoch = epoch;
        this.expectedEpoch = epoch;
        this.writer = writer;
        this.reader = reader;
        this.trailer = trailer;
        this.control = channel.control();
        this.epochAt = header.subscriberSlot(1 + number) + Layout.SUBSCRIBER_SLOT_EPOCH;
        this.serverAt = header.subscriberSlot(0);
        this.defaultType = header.schemaLength > 0 ? Layout.TYPE_RAW : 1;
        int ring = header.clients() + number;
        this.waiting = new ServiceWait(channel, ring, ring + 1, "an answer") {
            @Override
            boolean isReady() {
                return !owned() || ended > 0 || reader.isReady()
                    || waitsForServer && lives(serverEpoch())
                    || known != 0 && serverEpoch() != known || waitsForRoom && writer.gatesAllow(writer.room.needed());
            }

            @Override
            long cap(long waited) {
                return waitsForRoom ? ROOM_CAP_NANOS : DATA_CAP_NANOS;
            }

            @Override
            void look() {
                channel.checkReplaced();
                askGone();
            }

            @Override
            void lookSoon() {
                // the next poll looks anyway
            }

            @Override
            void setBusy(boolean now) {
                busy = now;
            }
        };
    }

    boolean owned() {
        return control.getLongOpaque(epochAt) == expectedEpoch;
    }

    private long serverEpoch() {
        return control.getLongAcquire(serverAt + Layout.SUBSCRIBER_SLOT_EPOCH); // pairs with: take server 4, evict
    }

    /** Whether a server lives at an epoch (6). */
    private boolean lives(long e) {
        return e > 0 && control.getLongAcquire(Layout.CONTROL_SERVING) == e // pairs with: take server 7
            && channel.slots().live(seat.lock(), 0);
    }

    private void check() {
        if (!owned()) {
            throw gone();
        }
        if (busy) {
            throw new TwoThreadsException("This client is in use by another thread. Give each thread its own.");
        }
    }

    private FlyringException gone() {
        if (expectedEpoch == GONE && !lost) {
            return new ClosedException("The client is closed. Make a new one.");
        }
        FlyringException error = new SlotLostException(1 + number, "The client was evicted. Close it and make a new"
            + " one.");
        if (!lost) {
            lost = true;
            expectedEpoch = GONE;
            endAll(error);
            seat.close();
        }
        return error;
    }

    private void endAll(FlyringException error) {
        List<Call> all = new ArrayList<>(calls.values());
        calls.clear();
        outstanding = 0;
        all.forEach(call -> call.end(null, error));
    }

    private void putOutstanding() {
        trailer.putIntOpaque(Layout.TRAILER_GATE + Layout.GATE_OUTSTANDING, outstanding);
    }

    /**
     * Calls the server, and waits for its answer.
     *
     * @param request the bytes.
     * @return the answer, with bytes of its own.
     * @throws FlyringException as {@link #call(byte[], int, Duration)} does.
     */
    public Message call(byte[] request) {
        return call(request, defaultType, Publisher.FOREVER);
    }

    /**
     * Calls the server, and waits for it to come, for room, and for its answer.
     *
     * @param request the bytes.
     * @param type 1 or more.
     * @param timeout how long to wait at most: the request's deadline.
     * @return the answer, with bytes of its own.
     * @throws BusyException if as many calls as may be are under way.
     * @throws ExpiredException if the time-out came first.
     * @throws ServerGoneException if the server died, closed, or was evicted.
     * @throws ServiceErrorException if the handler threw, failed, or did not answer.
     * @throws MessageTooLargeException if the request is too long.
     * @throws ChannelReplacedException if the channel was replaced: that ends the wait.
     * @throws CancelledException if the thread was interrupted; it still is.
     */
    public Message call(byte[] request, int type, Duration timeout) {
        return start(request, type, timeout).result();
    }

    /**
     * Calls the server, and does not wait for its answer.
     *
     * @param request the bytes.
     * @param type 1 or more.
     * @param timeout how long its answer may take.
     * @return the call, under way; or ended as expired, if neither a server nor room came in time.
     * @throws FlyringException as {@link #call(byte[], int, Duration)} does for what is refused.
     */
    public Call start(byte[] request, int type, Duration timeout) {
        check();
        long nanos = Waiting.nanos(timeout);
        if (type < 1) {
            throw new InvalidArgumentException("type", "The type " + type + " is not in 1 to 2147483647.");
        }
        if (nanos < 0) {
            throw Waiting.negative(nanos);
        }
        MessageTooLargeException tooLarge = writer.tooLarge(Layout.REQUEST_LENGTH, request.length);
        if (tooLarge != null) {
            throw tooLarge;
        }
        if (outstanding >= header.maxOutstanding) {
            drain();
            if (outstanding >= header.maxOutstanding) {
                throw new BusyException(outstanding, outstanding + " calls of this client are under way already.");
            }
        }
        Call call = new Call(this);
        call.deadline = nanos == Waiting.FOREVER ? 0 : Math.max(1, channel.identity().monotonicNow() + nanos);
        if (!publish(call, request, type)) {
            waiting.begin(nanos);
            try {
                boolean published = false;
                while (!published && waiting.turn()) {
                    published = publish(call, request, type);
                }
                if (!published) {
                    expire(call, false);
                }
            } finally {
                waitsForRoom = false;
                waitsForServer = false;
                waiting.end();
            }
        }
        return call;
    }

    /** Call 2 and 3; false: there is no server, or no room. */
    private boolean publish(Call call, byte[] request, int type) {
        if (!owned()) {
            throw gone();
        }
        waitsForRoom = false;
        waitsForServer = false;
        final long e = serverEpoch();
        if (e != known) {
            askGone();
            if (!lives(e)) {
                waitsForServer = true;
                return false;
            }
            known = e;
            Slots.Fields fields = channel.slots().fields(serverAt);
            serverName = fields.name();
            serverPid = fields.pid();
        }
        do {
            sequence++;
        } while (sequence == 0 || calls.containsKey(sequence));
        call.position = writer.offer(Layout.REQUEST_LENGTH, sequence & LOW, call.deadline,
            epoch & LOW | known << 32, null, request, 0, request.length, type);
        if (call.position == ServiceWriter.NO_ROOM) {
            waitsForRoom = true;
            drain();
            return false;
        }
        call.sequence = sequence;
        calls.put(sequence, call);
        outstanding++;
        putOutstanding();
        return true;
    }

    private void drain() {
        final long start = reader.cursor();
        try {
            while (reader.cursor() - start < header.capacity) {
                long before = reader.cursor();
                int n = reader.poll(onReply, 1);
                if (n == RingReader.LOST) {
                    throw gone();
                }
                if (n == 0 && reader.cursor() == before) {
                    break;
                }
            }
        } catch (CorruptRingException e) {
            endAll(e);
            throw e;
        }
        if (cancels > 0) {
            sendCancels();
        }
    }

    /** Drain 2 and 3. */
    private void onReply(Message reply) {
        final PayloadBuffer buffer = reply.buffer();
        final int length = reply.length() - Layout.REPLY_LENGTH;
        Call call = length < 0 || buffer.getInt(Layout.REPLY_CLIENT_EPOCH) != (int) epoch ? null
            : calls.get(buffer.getInt(Layout.REPLY_SEQUENCE));
        if (call == null) {
            late++;
            return;
        }
        final int status = buffer.getInt(Layout.REPLY_STATUS);
        final int flags = buffer.getInt(Layout.REPLY_FLAGS);
        if (status == Layout.REPLY_STATUS_OK && (flags & Layout.REPLY_FLAG_MORE) != 0) {
            late++; // nothing of this client takes a stream
            return;
        }
        calls.remove(call.sequence);
        outstanding--;
        putOutstanding();
        cancels -= call.cancelUnsent ? 1 : 0;
        if (call.done()) {
            late++;
            return;
        }
        ended++;
        call.repeat = (flags & Layout.REPLY_FLAG_REPEAT) != 0;
        if (status == Layout.REPLY_STATUS_OK) {
            call.end(reply.copy(Layout.REPLY_LENGTH), null);
        } else if (status == Layout.REPLY_STATUS_EXPIRED) {
            expire(call, call.repeat);
        } else if (status == Layout.REPLY_STATUS_NOT_RUN) {
            call.end(null, serverGone(false));
        } else {
            byte[] text = new byte[length];
            buffer.getBytes(Layout.REPLY_LENGTH, text);
            call.end(null, new ServiceErrorException(new String(text, StandardCharsets.UTF_8)));
        }
    }

    private void expire(Call call, boolean mayHaveRun) {
        expired++;
        trailer.putLongOpaque(Layout.TRAILER_GATE + Layout.GATE_EXPIRED, expired);
        call.end(null, new ExpiredException(mayHaveRun, "The time-out of the call came before its answer"
            + (mayHaveRun ? "; its handler may have run." : ", and no handler was given it.")));
    }

    private ServerGoneException serverGone(boolean mayHaveRun) {
        return new ServerGoneException(mayHaveRun, serverName, serverPid, "The server " + serverName + " (process "
            + serverPid + ") has gone" + (mayHaveRun ? "; the request may have run." : "; the request was not run."));
    }

    /** Gone? (6). */
    private void askGone() {
        if (known == 0) {
            return;
        }
        final long e = serverEpoch();
        final boolean held = channel.slots().live(seat.lock(), 0); // 1
        if (e == known && held) {
            return;
        }
        drain(); // 3: it may have replied, and died then
        if (!header.atLeastOnce()) { // 4
            // pairs with: poll 6; behind the test of the lock
            long taken = channel.trailers().get(number)
                .getLongAcquire(Layout.TRAILER_GATE + Layout.GATE_TAKEN_END);
            List<Call> all = new ArrayList<>(calls.values());
            calls.clear();
            cancels = 0;
            outstanding = 0;
            putOutstanding();
            for (Call call : all) {
                if (!call.done()) {
                    ended++;
                    call.end(null, serverGone(held || call.position < taken));
                }
            }
        }
        known = 0; // 5
    }

    /** Cancels that were not sent yet, as far as there is room (7). */
    void sendCancels() {
        cancels = 0;
        for (Call call : calls.values()) {
            if (call.cancelUnsent) {
                if (known != 0 && owned() && writer.offer(Layout.REQUEST_LENGTH, call.sequence & LOW
                    | (long) Layout.REQUEST_OPERATION_CANCEL << 32, 0, epoch & LOW | known << 32, null, null, 0, 0,
                    Layout.TYPE_RAW) != ServiceWriter.NO_ROOM) {
                    call.cancelUnsent = false;
                } else {
                    cancels++;
                }
            }
        }
    }

    /**
     * Takes replies, and ends calls.
     *
     * @return how many calls ended.
     */
    public int poll() {
        check();
        ended = 0;
        drain();
        expireOwn();
        if (known != 0 && serverEpoch() != known) {
            askGone();
        }
        return ended;
    }

    private void expireOwn() {
        for (Call call : calls.values()) {
            if (call.deadline > 0 && !call.done() && channel.identity().monotonicNow() >= call.deadline) {
                ended++;
                expire(call, true);
            }
        }
    }

    /** Waits until a call has ended. */
    void await(Call call) {
        for (int i = 0; i < LOOKS && !call.done(); i++) { // no clock for a short wait
            if (reader.isReady()) {
                poll();
            }
            Thread.onSpinWait();
        }
        if (call.done()) {
            return;
        }
        poll();
        while (!call.done()) {
            waiting.begin(call.deadline == 0 ? Waiting.FOREVER
                : Math.max(0, call.deadline - channel.identity().monotonicNow()));
            try {
                while (!call.done() && waiting.untilReady()) {
                    poll();
                }
            } finally {
                waiting.end();
            }
            if (!call.done()) {
                poll();
            }
        }
    }

    /** @return calls without a final reply. */
    public int outstanding() {
        return outstanding;
    }

    /** @return replies that nobody waited for any more. */
    public long late() {
        return late;
    }

    /** @return whether a server lives; tests a lock. */
    public boolean hasServer() {
        return lives(serverEpoch());
    }

    /** @return its number, from 0. */
    public int number() {
        return number;
    }

    /** @return its name. */
    public String name() {
        return name;
    }

    /** @return how often its place was taken. */
    public long epoch() {
        return epoch;
    }

    Seat seat() {
        return seat;
    }

    Waiting waiting() {
        return waiting;
    }

    void checkClosable() {
        if (busy && expectedEpoch != GONE) {
            throw new TwoThreadsException("This client is in use by another thread.");
        }
    }

    void end() {
        lost = false;
        expectedEpoch = GONE;
        endAll(new ClosedException("The client was closed. What it has asked is run all the same."));
    }

    /** Calls under way end as closed; what was asked is run all the same. */
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
