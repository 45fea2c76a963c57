// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/** What a server has of one client: its ring of requests, those in hand, and the ring of replies (service.md 5). */
final class Lane {
    private static final long LOW = 0xffff_ffffL;

    private final int client;
    private final Header header;
    private final Memory data;
    private final Memory trailer;
    private final Memory control;
    private final Waker room;
    private final ServiceWriter writer;
    private final int epochAt;
    private final int mask;
    private final Channel channel;
    final List<Request> inHand = new ArrayList<>();
    private final ArrayDeque<Pending> waiting = new ArrayDeque<>();
    private long cursor;
    private long count;
    private long storedGate;
    private long repeatEnd;
    private boolean broken;
    private Request reused;

    /** A reply without room. */
    private record Pending(Request request, int status, int flags, int type, byte[] bytes) {
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
        this.epochAt = header.subscriberSlot(1 + client) + Layout.SUBSCRIBER_SLOT_EPOCH;
        this.mask = header.capacity - 1;
    }

    int client() {
        return client;
    }

    int waiting() {
        return waiting.size();
    }

    ServiceWriter writer() {
        return writer;
    }

    private long published() {
        return trailer.getLongAcquire(Layout.TRAILER_PUBLISHED); // pairs with: publish 7
    }

    /** Resume (4), under the control lock. */
    void resume() {
        long gate = trailer.getLongAcquire(Layout.TRAILER_GATE); // pairs with: the last server's
        long claimed = trailer.getLongOpaque(Layout.TRAILER_CLAIMED);
        long published = published();
        if (!Recovery.isPosition(published, header.alignment) || !Recovery.isPosition(gate, header.alignment)
            || gate < published - header.capacity || gate > claimed) {
            broken = true; // damaged, at the first poll
            return;
        }
        long taken = trailer.getLongAcquire(Layout.TRAILER_GATE + Layout.GATE_TAKEN_END); // pairs with: poll 6
        boolean good = Recovery.isPosition(taken, header.alignment) && taken >= gate && taken <= claimed;
        repeatEnd = good ? taken : gate;
        cursor = header.atLeastOnce() ? gate : repeatEnd;
        Memory whole = channel.file().map(header.ringOffset(client), header.ringStride, true);
        try {
            count = new MessageCount(whole, header).of(cursor);
        } finally {
            channel.file().release(whole);
        }
        storedGate = gate;
        if (cursor != gate) {
            storeGate(cursor, count);
        }
    }

    private void storeGate(long position, long messages) {
        storedGate = position;
        trailer.putLongOpaque(Layout.TRAILER_GATE + Layout.GATE_COUNT, messages);
        trailer.putLongRelease(Layout.TRAILER_GATE, position); // pairs with: recompute 2
        int bit = WaitingWords.bit(client);
        if (room.isAwaited(bit)) {
            room.wakeNow(bit);
        }
    }

    /** Poll 8: the gate, where it is not there already. */
    private void moveGate() {
        boolean held = header.atLeastOnce() && !inHand.isEmpty();
        long gate = held ? inHand.get(0).position : cursor;
        if (gate != storedGate) {
            storeGate(gate, held ? inHand.get(0).count : count);
        }
    }

    boolean isReady() {
        return broken || inHand.size() < header.maxOutstanding && data.getIntAcquire((int) cursor & mask) > 0;
    }

    private void advance(long size, boolean message) {
        cursor += size;
        if (message && count >= 0) {
            count++;
        }
    }

    /** Hands out up to {@code limit} requests. */
    int poll(Server server, RequestHandler handler, int limit) {
        if (broken) {
            damaged(server);
            return 0;
        }
        int handed = 0;
        long other = 0;
        try {
            while (handed < limit && other < header.capacity) {
                int index = (int) cursor & mask;
                int length = data.getIntAcquire(index); // pairs with: publish 6
                if (length <= 0) {
                    break;
                }
                long size = (long) length + header.alignment - 1 & -header.alignment;
                int type = data.getInt(index + Layout.RECORD_TYPE);
                boolean message = type > 0;
                if (length < Layout.RECORD_HEADER_LENGTH || index + size > header.capacity
                    || message && length < Layout.RECORD_HEADER_LENGTH + Layout.REQUEST_LENGTH
                    || !message && type != Layout.TYPE_PADDING && type != Layout.TYPE_OWNER) {
                    broken = true;
                    break;
                }
                if (message && data.getShort(index + Layout.RECORD_PAYLOAD + Layout.REQUEST_OPERATION)
                    == Layout.REQUEST_OPERATION_CALL) {
                    if (inHand.size() >= header.maxOutstanding) { // 3
                        break;
                    }
                    if (take(server, handler, index, length, type, size)) {
                        handed++;
                    } else {
                        other += size;
                    }
                } else {
                    if (message) {
                        synchronized (server.monitor()) {
                            apply(index + Layout.RECORD_PAYLOAD);
                        }
                    }
                    other += size;
                    advance(size, message);
                }
                if (cursor - storedGate >= header.capacity / Layout.GATE_STORE_DIVISOR) {
                    synchronized (server.monitor()) {
                        moveGate();
                    }
                }
            }
        } finally {
            if (server.owned() && !broken) {
                synchronized (server.monitor()) {
                    moveGate();
                }
            }
        }
        if (broken) {
            damaged(server);
        }
        return handed;
    }

    /** Steps 4 to 7; false: it was not handed out. */
    private boolean take(Server server, RequestHandler handler, int index, int length, int type, long size) {
        final int at = index + Layout.RECORD_PAYLOAD;
        final boolean least = header.atLeastOnce();
        final Request request = reused != null ? reused : new Request(server, this, data);
        reused = null;
        request.set(data.address() + at + Layout.REQUEST_LENGTH,
            length - Layout.RECORD_HEADER_LENGTH - Layout.REQUEST_LENGTH, type, cursor, count);
        request.sequence = data.getInt(at + Layout.REQUEST_SEQUENCE);
        request.clientEpoch = data.getInt(at + Layout.REQUEST_CLIENT_EPOCH);
        request.deadline = data.getLong(at + Layout.REQUEST_DEADLINE);
        request.repeat = least && cursor < repeatEnd;
        int status = Layout.REPLY_STATUS_OK;
        if (!least && data.getInt(at + Layout.REQUEST_SERVER_EPOCH) != (int) server.epoch()) { // 4
            status = Layout.REPLY_STATUS_NOT_RUN;
            server.notRun++;
        } else if (request.deadline > 0 && server.now() >= request.deadline) { // 5
            status = Layout.REPLY_STATUS_EXPIRED;
            server.expired++;
        }
        server.checkOwned(); // 6
        if (status == Layout.REPLY_STATUS_OK && cursor >= repeatEnd) {
            trailer.putLongRelease(Layout.TRAILER_GATE + Layout.GATE_TAKEN_END, cursor + size); // pairs with: gone 4
            VarHandle.storeStoreFence();
        }
        synchronized (server.monitor()) {
            inHand.add(request);
            advance(size, true);
            if (status != Layout.REPLY_STATUS_OK) {
                request.answered = true;
                reply(server, request, status, Layout.TYPE_RAW, null, null, 0, 0);
            }
        }
        if (status == Layout.REPLY_STATUS_OK) {
            server.handle(handler, request); // 7
        }
        synchronized (server.monitor()) {
            if (!request.kept && !inHand.contains(request)) {
                reused = request;
            }
        }
        return status == Layout.REPLY_STATUS_OK;
    }

    /** 7: cancel; credit of a stream is skipped, and so is what is unknown. */
    private void apply(int at) {
        if (data.getShort(at + Layout.REQUEST_OPERATION) == Layout.REQUEST_OPERATION_CANCEL) {
            int sequence = data.getInt(at + Layout.REQUEST_SEQUENCE);
            int epoch = data.getInt(at + Layout.REQUEST_CLIENT_EPOCH);
            for (int i = 0; i < inHand.size(); i++) {
                Request request = inHand.get(i);
                if (request.sequence == sequence && request.clientEpoch == epoch) {
                    request.cancelled = true;
                }
            }
        }
    }

    /** Whether the client that asked is still there. */
    private boolean gone(Request request) {
        return (int) control.getLongAcquire(epochAt) != request.clientEpoch // pairs with: take client 5
            || writer.gate(1 + client) < 0;
    }

    /** Reply 2 to 4, under the server's lock. */
    void reply(Server server, Request request, int status, int type, org.agrona.DirectBuffer source, byte[] bytes,
        int offset, int length) {
        final int flags = request.repeat ? Layout.REPLY_FLAG_REPEAT : 0;
        if (gone(request)) {
            server.clientGone++;
        } else if (!waiting.isEmpty() || !publish(request, status, flags, type, source, bytes, offset, length)) {
            byte[] copy = new byte[length];
            if (source != null) {
                source.getBytes(offset, copy);
            } else if (length > 0) {
                System.arraycopy(bytes, offset, copy, 0, length);
            }
            waiting.add(new Pending(request, status, flags, type, copy));
            return;
        }
        done(server, request);
    }

    private void done(Server server, Request request) {
        inHand.remove(request);
        if (header.atLeastOnce() && !server.isPolling()) {
            moveGate(); // 4
        }
    }

    private boolean publish(Request request, int status, int flags, int type, org.agrona.DirectBuffer source,
        byte[] bytes, int offset, int length) {
        try {
            return writer.offer(Layout.REPLY_LENGTH, request.clientEpoch & LOW | (long) request.sequence << 32,
                status & LOW | (long) flags << 32, 0, source, bytes, offset, length, type) != ServiceWriter.NO_ROOM;
        } catch (ChannelReplacedException e) { // which ends a wait, not a call: the next try goes on
            return false;
        }
    }

    /** What waits is tried once more, in its order; under the server's lock. */
    void retry(Server server) {
        while (!waiting.isEmpty()) {
            Pending next = waiting.peek();
            if (gone(next.request)) {
                server.clientGone++;
            } else if (!publish(next.request, next.status, next.flags, next.type, null, next.bytes, 0,
                next.bytes.length)) {
                return;
            }
            waiting.remove();
            done(server, next.request);
        }
    }

    /** Whether the client of what is in hand has gone: its requests say so (7). */
    void checkClient(Lock lock) {
        if (!inHand.isEmpty()) {
            boolean lives = channel.slots().live(lock, 1 + client);
            for (Request request : inHand) {
                request.cancelled |= !lives || (int) control.getLongAcquire(epochAt) != request.clientEpoch;
            }
        }
    }

    /** 10: client k is evicted for what it wrote. The control lock is tried once. */
    private void damaged(Server server) {
        final Lock lock = server.seat().lock();
        synchronized (lock) {
            if (!server.owned() || !lock.tryLockControl(header)) {
                return;
            }
            try {
                channel.slots().evict(1 + client, channel.trailers());
            } finally {
                lock.unlockControl(header);
            }
        }
        final long published = published();
        if (Recovery.isPosition(published, header.alignment)) {
            count = Layout.COUNT_UNKNOWN;
            trailer.putLongRelease(Layout.TRAILER_GATE + Layout.GATE_TAKEN_END, published);
            cursor = published;
            repeatEnd = published;
            storeGate(published, count);
            broken = false;
            server.damaged++;
        }
    }
}
