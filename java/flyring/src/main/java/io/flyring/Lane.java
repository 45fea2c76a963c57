// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;

/**
 * A server's state for one client: the ring of requests, the requests in hand, and the ring of replies (service.md 5,
 * 10). Methods whose comment says "locked" need the server's lock if there are kept requests. A comment that is only a
 * number or letter names that step of the procedure in the method's comment.
 */
final class Lane {
    private static final long LOW = 0xffff_ffffL;
    /** What happened to the record at the cursor. */
    private static final int NOTHING = 0;
    private static final int HANDED_OUT = 1;
    private static final int STAYS = 2;
    private static final int MOST_CREDIT = 0xffff;

    final ServiceWriter writer;
    private final int client;
    private final Channel channel;
    private final Header header;
    /** The data of the client's ring k, read-only; the trailer is writable. */
    private final Memory data;
    private final Memory trailer;
    private final Memory control;
    private final Waker room;
    private final int epochAt;
    private final int closedAt;
    private final int mask;
    private final boolean least;
    private final ArrayDeque<Pending> waiting = new ArrayDeque<>();
    private final List<Request> free = new ArrayList<>();
    /** The requests in hand, linked in the order of their positions. */
    private Request first;
    private Request last;
    private int hand;
    private int streams;
    /** Whether a call lies at the cursor, but max_outstanding requests are in hand. */
    private boolean full;
    private boolean damaged;
    /** Whether the client was evicted for the damage. */
    private boolean evicted;
    private long cursor;
    /** The number of messages before the cursor. */
    private long count;
    private long storedGate;
    /** Up to here an earlier server may have handed requests out (service.md 4). */
    private long repeatEnd;
    private Sender sender;

    /** A reply that waits for room. */
    private record Pending(Request request, int status, int type, byte[] bytes) {
    }

    Lane(Channel channel, int client, Memory data, Memory trailer, Waker room, ServiceWriter writer) {
        this.channel = channel;
        this.header = channel.header();
        this.client = client;
        this.data = data;
        this.trailer = trailer;
        this.control = channel.control();
        this.room = room;
        this.writer = writer;
        this.least = header.atLeastOnce();
        this.epochAt = header.subscriberSlot(1 + client) + Layout.SUBSCRIBER_SLOT_EPOCH;
        this.closedAt = header.publisherSlot(client) + Layout.PUBLISHER_SLOT_CLOSED;
        this.mask = header.capacity - 1;
        this.sender = Sender.unknown(client);
    }

    int client() {
        return client;
    }

    Sender sender() {
        return sender;
    }

    boolean isDamaged() {
        return damaged;
    }

    boolean isFull() {
        return full;
    }

    boolean hasWaiting() {
        return !waiting.isEmpty();
    }

    int hand() {
        return hand;
    }

    void prefault() {
        data.prefault();
    }

    private long published() {
        return trailer.getLongAcquire(Layout.TRAILER_PUBLISHED); // pairs with: publish 7
    }

    /** Resumes where the last server stopped, under the control lock: resume (service.md 4). */
    void resume() {
        long gate = trailer.getLongAcquire(Layout.TRAILER_GATE); // pairs with: the gate stores of the last server
        long published = published();
        long claimed = trailer.getLongOpaque(Layout.TRAILER_CLAIMED);
        if (!Recovery.isPosition(published, header.alignment) || !Recovery.isPosition(claimed, header.alignment)
            || !Recovery.isPosition(gate, header.alignment)
            || gate < published - header.capacity || gate > claimed) { // a
            damaged = true;
            return;
        }
        long taken = trailer.getLongAcquire(Layout.TRAILER_GATE + Layout.GATE_TAKEN_END); // pairs with: poll 6
        boolean good = Recovery.isPosition(taken, header.alignment) && taken >= gate && taken <= claimed;
        repeatEnd = good ? taken : gate; // b
        cursor = least ? gate : repeatEnd;
        count = new MessageCount(data, header).of(cursor);
        storedGate = gate;
        storeGate(); // c
        sender = channel.slots().sender(client, cursor, sender);
    }

    // --- poll

    /** Whether there is a record that a poll may take. */
    boolean isReady() {
        return !damaged && data.getIntAcquire((int) cursor & mask) > 0 // pairs with: publish 6
            && (!full || hand < header.maxOutstanding);
    }

    /** Hands out up to {@code limit} requests; returns the number. */
    int poll(ServerCore server, RequestHandler handler, int limit) {
        if (damaged || data.getIntAcquire((int) cursor & mask) <= 0) { // pairs with: publish 6
            return 0;
        }
        final long eighth = header.capacity / Layout.GATE_STORE_DIVISOR;
        int handed = 0;
        long other = 0;
        try {
            while (handed < limit && other < header.capacity) {
                final long at = cursor;
                final int length = data.getIntAcquire((int) at & mask); // pairs with: publish 6
                if (length <= 0) {
                    break;
                }
                final int took = take(server, handler, at, length);
                if (took == STAYS) {
                    break;
                }
                if (took == HANDED_OUT) {
                    handed++;
                } else {
                    other += cursor - at;
                }
                if (cursor - storedGate >= eighth) {
                    storeGate(server);
                }
            }
        } finally {
            if (!damaged && server.owned()) {
                storeGate(server);
            }
        }
        return handed;
    }

    private void storeGate(ServerCore server) {
        final boolean locked = server.lockIfKept();
        try {
            storeGate();
        } finally {
            server.unlock(locked);
        }
    }

    /** Handles the record at the cursor: poll 1 to 8. */
    private int take(ServerCore server, RequestHandler handler, long at, int length) {
        final int index = (int) at & mask;
        final long size = (long) length + header.alignment - 1 & -header.alignment;
        final int type = data.getInt(index + Layout.RECORD_TYPE);
        final boolean message = type > 0;
        if (length < Layout.RECORD_HEADER_LENGTH + (message ? Layout.REQUEST_LENGTH : 0)
            || index + size > header.capacity
            || !message && type != Layout.TYPE_PADDING && type != Layout.TYPE_OWNER) {
            setDamaged(server);
            return STAYS;
        }
        final int payload = index + Layout.RECORD_PAYLOAD;
        if (!message) {
            if (type == Layout.TYPE_OWNER) {
                sender = Sender.after(sender, data, payload, length - Layout.RECORD_HEADER_LENGTH);
            }
            cursor = at + size;
            return NOTHING;
        }
        if (data.getShort(payload + Layout.REQUEST_OPERATION) != Layout.REQUEST_OPERATION_CALL) { // 2
            moveCursor(at + size);
            apply(server, payload);
            return NOTHING;
        }
        final Request request = takeInHand(server, payload, at, at + size);
        if (request == null) {
            return cursor == at ? STAYS : NOTHING;
        }
        request.show(data.address() + payload + Layout.REQUEST_LENGTH,
            length - Layout.RECORD_HEADER_LENGTH - Layout.REQUEST_LENGTH, type);
        if (at >= repeatEnd) { // 6
            trailer.putLongRelease(Layout.TRAILER_GATE + Layout.GATE_TAKEN_END, at + size); // pairs with: gone 4
            VarHandle.storeStoreFence(); // before the handler begins
        }
        try {
            server.handOut(handler, request); // 7
        } finally {
            request.inHandler = false;
            recycle(request);
        }
        return HANDED_OUT;
    }

    private void moveCursor(long end) {
        cursor = end;
        if (count != Layout.COUNT_UNKNOWN) {
            count++;
        }
    }

    /** Takes a request in hand: poll 3 to 6. Null if it stays on the ring, or was answered already. */
    private Request takeInHand(ServerCore server, int payload, long at, long end) {
        final boolean locked = server.lockIfKept();
        try {
            full = hand >= header.maxOutstanding; // 3
            if (full) {
                return null;
            }
            final Request request = free.isEmpty() ? new Request(server, this, data) : free.remove(free.size() - 1);
            request.begin(data.getInt(payload + Layout.REQUEST_SEQUENCE),
                data.getInt(payload + Layout.REQUEST_CLIENT_EPOCH), data.getLong(payload + Layout.REQUEST_DEADLINE),
                least ? 0 : data.getShort(payload + Layout.REQUEST_CREDIT) & MOST_CREDIT, at, count,
                least && at < repeatEnd);
            request.before = last;
            if (last != null) {
                last.behind = request;
            } else {
                first = request;
            }
            last = request;
            hand++;
            server.countInHand(1);
            moveCursor(end); // before the handler: if that throws, the request is not handed out again
            if (!least && data.getInt(payload + Layout.REQUEST_SERVER_EPOCH) != (int) server.epoch()) { // 4
                server.notRun++;
                finish(server, request, Layout.REPLY_STATUS_NOT_RUN, Layout.TYPE_RAW, null, null, 0, 0);
                return null;
            }
            if (request.deadline > 0 && server.now() >= request.deadline) { // 5
                server.expired++;
                finish(server, request, Layout.REPLY_STATUS_EXPIRED, Layout.TYPE_RAW, null, null, 0, 0);
                return null;
            }
            server.checkOwned(); // 6
            request.inHandler = true;
            return request;
        } finally {
            server.unlock(locked);
        }
    }

    /** Applies a cancel or credit to its request in hand: apply (service.md 7). */
    private void apply(ServerCore server, int payload) {
        final int operation = data.getShort(payload + Layout.REQUEST_OPERATION);
        final Request request;
        final boolean locked = server.lockIfKept();
        try {
            request = find(data.getInt(payload + Layout.REQUEST_SEQUENCE),
                data.getInt(payload + Layout.REQUEST_CLIENT_EPOCH));
            if (request == null) {
                return;
            }
            if (operation == Layout.REQUEST_OPERATION_CANCEL) {
                request.cancelled = true;
            } else if (operation == Layout.REQUEST_OPERATION_CREDIT && !least) {
                request.credit = Math.min(MOST_CREDIT, request.credit
                    + (data.getShort(payload + Layout.REQUEST_CREDIT) & MOST_CREDIT));
            }
        } finally {
            server.unlock(locked);
        }
        if (request.items != null) {
            server.goOn(request, false);
        }
    }

    private Request find(int sequence, int clientEpoch) {
        Request request = first;
        while (request != null && (request.clientEpoch != clientEpoch || request.sequence != sequence)) {
            request = request.behind;
        }
        return request;
    }

    /** Stores the gate, if it has moved: poll 8. Locked. */
    void storeGate() {
        final boolean held = least && first != null;
        final long position = held ? first.position : cursor;
        if (position != storedGate && !damaged) {
            store(position, held ? first.count : count);
        }
    }

    private void store(long position, long messages) {
        storedGate = position;
        trailer.putLongOpaque(Layout.TRAILER_GATE + Layout.GATE_COUNT, messages);
        trailer.putLongRelease(Layout.TRAILER_GATE, position); // pairs with: recompute 2
        int bit = WaitingWords.bit(client);
        if (room.isAwaited(bit)) {
            room.wakeNow(bit);
        }
    }

    // --- replies; all methods locked

    /** Whether the request's client is still there: reply 2. Not by its gate, whose line it writes at each call. */
    boolean isThere(Request request) {
        return (int) control.getLongAcquire(epochAt) == request.clientEpoch // pairs with: take client 5, evict
            && control.getIntOpaque(closedAt) == 0;
    }

    /** Sends a final reply, or lets it wait for room: reply 1 to 4. */
    void finish(ServerCore server, Request request, int status, int type, DirectBuffer source, byte[] bytes,
        int offset, int length) {
        server.checkOwned(); // 1
        if (!isThere(request)) { // 2
            server.clientGone++;
        } else if (!waiting.isEmpty() || !send(server, request, status, 0, type, source, bytes, offset, length)) { // 3
            byte[] copy = new byte[length];
            if (source != null) {
                source.getBytes(offset, copy);
            } else if (length > 0) {
                System.arraycopy(bytes, offset, copy, 0, length);
            }
            waiting.add(new Pending(request, status, type, copy));
            server.countWaiting(1);
            request.answered = true;
            return;
        }
        request.answered = true;
        remove(server, request); // 4
    }

    /** Publishes a reply; false if there is no room. */
    boolean send(ServerCore server, Request request, int status, int flags, int type, DirectBuffer source,
        byte[] bytes, int offset, int length) {
        final boolean repeat = request.repeat || status == Layout.REPLY_STATUS_EXPIRED && request.items != null;
        final int all = flags | (repeat ? Layout.REPLY_FLAG_REPEAT : 0);
        try {
            return writer.offer(Layout.REPLY_LENGTH, request.clientEpoch & LOW | (long) request.sequence << 32,
                status & LOW | (long) all << 32, 0, source, bytes, offset, length, type) != ServiceWriter.NO_ROOM;
        } catch (Throwable e) {
            if (writer.failed()) {
                server.setFailed(e);
            }
            throw e;
        }
    }

    /** Tries the replies that wait for room again, in their order. */
    void retry(ServerCore server) {
        boolean any = false;
        while (!waiting.isEmpty()) {
            final Pending next = waiting.peek();
            if (!isThere(next.request)) {
                server.clientGone++;
            } else if (!send(server, next.request, next.status, 0, next.type, null, next.bytes, 0,
                next.bytes.length)) {
                break;
            }
            waiting.remove();
            server.countWaiting(-1);
            remove(server, next.request);
            any = true;
        }
        if (any) {
            storeGate();
        }
    }

    /** Removes a request from those in hand: reply 4. */
    private void remove(ServerCore server, Request request) {
        if (request.before != null) {
            request.before.behind = request.behind;
        } else {
            first = request.behind;
        }
        if (request.behind != null) {
            request.behind.before = request.before;
        } else {
            last = request.before;
        }
        request.inHand = false;
        hand--;
        server.countInHand(-1);
        if (request.items != null) {
            streams--;
            server.countStreams(-1);
        }
        if (request.kept) {
            server.unkept++;
        }
        recycle(request);
    }

    /** Makes a request object available again, once neither a handler nor another thread uses it. */
    private void recycle(Request request) {
        if (!request.kept && !request.inHand && !request.inHandler) {
            request.items = null;
            free.add(request);
        }
    }

    void beginStream(ServerCore server) {
        streams++;
        server.countStreams(1);
    }

    /** Adds the streams that have begun and not ended to a list. */
    void addStreams(List<Request> to) {
        for (Request one = streams > 0 ? first : null; one != null; one = one.behind) {
            if (one.items != null && !one.answered) {
                to.add(one);
            }
        }
    }

    /** Marks the requests in hand as cancelled if their client has gone (service.md 7). */
    void checkClient(Lock lock) {
        if (hand > 0) {
            final boolean lives = channel.slots().live(lock, 1 + client);
            final int epoch = (int) control.getLongAcquire(epochAt);
            for (Request one = first; one != null; one = one.behind) {
                one.cancelled |= !lives || one.clientEpoch != epoch;
            }
        }
    }

    // --- damaged

    private void setDamaged(ServerCore server) {
        VarHandle.acquireFence(); // as in poll 2 (channel.md 6.9)
        server.checkOwned();
        damaged = true;
        evicted = false;
        server.damagedLanes++;
        server.damaged++;
        mend(server);
    }

    /** Evicts client k for what it wrote, and skips its ring's content (service.md 10). Tries the control lock once. */
    void mend(ServerCore server) {
        server.checkOwned();
        if (!evicted && !evict(server.seat().lock())) {
            return; // the next poll tries again
        }
        final long published = published();
        if (!Recovery.isPosition(published, header.alignment)) {
            return;
        }
        final boolean locked = server.lockIfKept();
        try {
            for (Request one = first; one != null; one = one.behind) {
                one.cancelled = true;
                one.position = published; // the gate must not go back to them
                one.count = Layout.COUNT_UNKNOWN;
            }
            count = Layout.COUNT_UNKNOWN;
            cursor = published;
            repeatEnd = published;
            trailer.putLongOpaque(Layout.TRAILER_GATE + Layout.GATE_COUNT, count);
            trailer.putLongRelease(Layout.TRAILER_GATE + Layout.GATE_TAKEN_END, published);
            store(published, count);
            damaged = false;
            server.damagedLanes--;
        } finally {
            server.unlock(locked);
        }
    }

    private boolean evict(Lock lock) {
        synchronized (lock) {
            if (!lock.tryLockControl(header)) {
                return false;
            }
            try {
                channel.slots().evict(1 + client, channel.trailers());
                evicted = true;
            } finally {
                lock.unlockControl(header);
            }
        }
        return true;
    }
}
