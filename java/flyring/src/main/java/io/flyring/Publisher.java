// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.Objects;
import org.agrona.DirectBuffer;

/**
 * The one writer of one ring; made by {@link Channel#publisher(String)}. Publishing neither allocates nor locks nor
 * calls the system, unless a subscriber holds it back for 1 ms or more. To be used by one thread at a time
 * ({@link TwoThreadsException} as well as a cheap flag can tell). Spec 5.2, 6.1 to 6.3.
 *
 * <p>Every method that publishes throws {@link ClosedException} after close, {@link SlotLostException} if the slot has
 * another owner, {@link MessageTooLargeException} above {@link #maxMessageLength()}, {@link InvalidArgumentException}
 * for a type below 1, {@link ViewAliveException} while a claim is open, and {@link ChannelReplacedException} while a
 * subscriber holds it back and another channel has this one's name; in these cases nothing was published.
 */
public final class Publisher extends TypedClaims implements AutoCloseable {
    /** What publishing returns when a subscriber has not read far enough yet. */
    public static final long BACK_PRESSURED = Layout.BACK_PRESSURED;

    private static final int DEFAULT_TYPE = 1;
    private static final long UNSIGNED = 0xffff_ffffL;
    private static final long GONE = -1;

    private final Channel channel;
    private final String name;
    private final int slot;
    private final Lock lock;
    private final Memory ring;
    /** Where the ring lies, its trailer, and the epoch, if all can be reached by address; else all are 0. */
    private final long ringAt;
    private final long trailerAt;
    private final long epochAddress;
    private final Memory control;
    private final int epochAt;
    private final long epoch;
    private final int capacity;
    private final int mask;
    private final int alignMask;
    private final long headerAndRounding;
    private final long roundDown;
    private final int eighthShift;
    private final int window;
    private final int halfWindow;
    /** Nothing is cleared ahead after a longer record. */
    private final int longestAhead;
    private final int maxLength;
    private final Room room;
    private final Claim claim;
    private final PayloadBuffer payload;

    /** The epoch that the slot must have; {@link #GONE} once this object is closed or has lost its slot. */
    private long expectedEpoch;
    private boolean lost;
    private boolean ownerPending;
    private long tail;
    private long limit;
    /** Up to here the places of lengths hold 0, or a committed record. */
    private long cleared;
    /** Up to here a record needs publish 5 to 7 only, and perhaps 8 and 9. */
    private long fastEnd;
    /** From here on publish 8 or 9 is due. */
    private long nextCare;
    private long nextBoundary;
    private long count;

    Publisher(Channel channel, String name, int slot, Lock lock, Memory ring, long epoch, long count, int maxLag) {
        Header header = channel.header();
        this.channel = channel;
        this.name = name;
        this.slot = slot;
        this.lock = lock;
        this.ring = ring;
        this.control = channel.control();
        this.epochAt = header.publisherSlot(slot) + Layout.PUBLISHER_SLOT_EPOCH;
        this.claim = new Claim(this, ring);
        this.payload = claim.buffer();
        boolean byAddress = ring.writableAt() != 0 && control.readableAt() != 0;
        this.ringAt = byAddress ? ring.writableAt() : 0;
        this.epochAddress = byAddress ? control.readableAt() + epochAt : 0;
        this.epoch = epoch;
        this.expectedEpoch = epoch;
        this.capacity = header.capacity;
        this.mask = capacity - 1;
        this.alignMask = header.alignment - 1;
        this.roundDown = -header.alignment;
        this.headerAndRounding = Layout.RECORD_HEADER_LENGTH + alignMask;
        this.eighthShift = Integer.numberOfTrailingZeros(capacity / Layout.BOUNDARIES);
        this.tail = ring.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED); // ours: written under our lock
        this.cleared = tail;
        this.nextBoundary = (tail >> eighthShift) + 1 << eighthShift;
        this.window = header.window();
        this.halfWindow = window / 2;
        this.longestAhead = window / Layout.CLEAR_AHEAD_RECORDS;
        this.trailerAt = byAddress ? ringAt + capacity : 0;
        this.maxLength = capacity / Layout.MAX_MESSAGE_DIVISOR - Layout.RECORD_HEADER_LENGTH;
        this.count = count;
        this.ownerPending = header.foreign != Foreign.SUBSCRIBER; // which knows no owner records
        this.room = new Room(channel, slot, ring, lock, maxLag);
    }

    /**
     * Publishes a copy of some bytes as a message of type 1.
     *
     * @param source where the message is.
     * @param offset its first byte.
     * @param length its bytes, 0 to {@link #maxMessageLength()}.
     * @return the ring's new end position in bytes, or {@link #BACK_PRESSURED}.
     */
    public long offer(DirectBuffer source, int offset, int length) {
        return offer(source, offset, length, DEFAULT_TYPE);
    }

    /**
     * Publishes a copy of some bytes.
     *
     * @param source where the message is.
     * @param offset its first byte.
     * @param length its bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @return the ring's new end position in bytes, or {@link #BACK_PRESSURED}.
     */
    public long offer(DirectBuffer source, int offset, int length, int type) {
        source.boundsCheck(offset, length);
        if (!ready(length, type)) {
            return BACK_PRESSURED;
        }
        payload.busy();
        int index = (int) tail & mask;
        try {
            Copy.from(source, offset, ring, index + Layout.RECORD_PAYLOAD, length);
        } catch (Throwable e) {
            commit(index, length, Layout.TYPE_PADDING);
            throw e;
        }
        return commit(index, length, type);
    }

    /**
     * Publishes a copy of an array as a message of type 1.
     *
     * @param message the message.
     * @return the ring's new end position in bytes, or {@link #BACK_PRESSURED}.
     */
    public long offer(byte[] message) {
        return offer(message, 0, message.length, DEFAULT_TYPE);
    }

    /**
     * Publishes a copy of a stretch of an array.
     *
     * @param source where the message is.
     * @param offset its first byte.
     * @param length its bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @return the ring's new end position in bytes, or {@link #BACK_PRESSURED}.
     */
    public long offer(byte[] source, int offset, int length, int type) {
        Objects.checkFromIndexSize(offset, length, source.length);
        if (!ready(length, type)) {
            return BACK_PRESSURED;
        }
        payload.busy();
        int index = (int) tail & mask;
        ring.putBytes(index + Layout.RECORD_PAYLOAD, source, offset, length);
        return commit(index, length, type);
    }

    /**
     * Publishes a copy of what remains in a buffer; the buffer's position stays where it is.
     *
     * @param message the message, from position to limit.
     * @param type the message's type, at least 1.
     * @return the ring's new end position in bytes, or {@link #BACK_PRESSURED}.
     */
    public long offer(ByteBuffer message, int type) {
        int length = message.remaining();
        if (!ready(length, type)) {
            return BACK_PRESSURED;
        }
        payload.busy();
        int index = (int) tail & mask;
        ring.putBytes(index + Layout.RECORD_PAYLOAD, message, message.position(), length);
        return commit(index, length, type);
    }

    /**
     * Publishes copies of several buffers, each a message of type 1.
     *
     * @param messages the messages, each from 0 to its capacity.
     * @return how many were taken, from the first on: all, or fewer when a subscriber holds the publisher back.
     */
    public int offerBatch(DirectBuffer... messages) {
        return offerBatch(messages, 0, messages.length, DEFAULT_TYPE);
    }

    /**
     * Publishes copies of several buffers, each a message. Lengths are checked first: {@link MessageTooLargeException}
     * means that none was taken. Spec 6.3.
     *
     * @param messages the messages, each from 0 to its capacity.
     * @param from index of the first one to publish.
     * @param number how many to publish.
     * @param type the messages' type, at least 1.
     * @return how many were taken, from the first on: all, or fewer when a subscriber holds the publisher back.
     */
    public int offerBatch(DirectBuffer[] messages, int from, int number, int type) {
        Objects.checkFromIndexSize(from, number, messages.length);
        check(0, type);
        for (int i = from; i < from + number; i++) {
            checkLength(messages[i].capacity());
        }
        int taken = 0;
        while (taken < number) {
            int part = offerPart(messages, from + taken, number - taken, type);
            if (part == 0) {
                break;
            }
            taken += part;
        }
        return taken;
    }

    private int offerPart(DirectBuffer[] messages, int from, int number, int type) {
        if (!hasRoom(messages[from].capacity(), type)) {
            return 0;
        }
        payload.busy();
        int first = (int) recordSize(messages[from].capacity());
        int index = (int) tail & mask;
        int most = Math.min(capacity - index, capacity / Layout.MAX_MESSAGE_DIVISOR);
        int total = first;
        int taken = 1;
        while (taken < number) {
            int more = total + (int) recordSize(messages[from + taken].capacity());
            if (more > most) {
                break;
            }
            total = more;
            taken++;
        }
        if (tail + total + Layout.RECORD_HEADER_LENGTH > limit) { // the first message has its room already
            limit = Math.max(limit, room.recompute(tail, tail + total + Layout.RECORD_HEADER_LENGTH));
            for (; taken > 1 && tail + total + Layout.RECORD_HEADER_LENGTH > limit; taken--) {
                total -= (int) recordSize(messages[from + taken - 1].capacity());
            }
        }
        announce(total);
        boolean copied = false;
        try {
            int at = index + first;
            for (int i = 1; i < taken; i++) {
                DirectBuffer message = messages[from + i];
                ring.putInt(at, message.capacity() + Layout.RECORD_HEADER_LENGTH);
                ring.putInt(at + Layout.RECORD_TYPE, type);
                Copy.from(message, 0, ring, at + Layout.RECORD_PAYLOAD, message.capacity());
                at += (int) recordSize(message.capacity());
            }
            Copy.from(messages[from], 0, ring, index + Layout.RECORD_PAYLOAD, messages[from].capacity());
            copied = true;
        } finally {
            int length = copied ? messages[from].capacity() + Layout.RECORD_HEADER_LENGTH : total;
            putType(index, copied ? type : Layout.TYPE_PADDING);
            publish(index, length, tail + total, copied ? count + taken : count);
            payload.invalidate();
            takeCare(total);
        }
        return taken;
    }

    /**
     * Claims space in the ring for a message of type 1, to be filled in place.
     *
     * @param length bytes of the message, 0 to {@link #maxMessageLength()}.
     * @return the publisher's one claim, valid until its commit or abort; null if back-pressured.
     */
    public Claim claim(int length) {
        return claim(length, DEFAULT_TYPE);
    }

    /**
     * Claims space in the ring, to be filled in place. Nothing else can be published before its commit or abort.
     *
     * @param length bytes of the message, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @return the publisher's one claim, valid until its commit or abort; null if back-pressured.
     */
    public Claim claim(int length, int type) {
        final Claim open = claim;
        final PayloadBuffer window = open.buffer(); // through the claim: the caller's comparison with null goes, then
        if (endOf(length) > fastEnd || type < 1 || window.state() != Window.CLOSED
            || Raw.getLongOpaque(Raw.base(epochAddress)) != expectedEpoch) {
            return claimWithCare(length, type);
        }
        final long at = ringAt + ((int) tail & mask);
        Raw.putInt(Raw.base(at) + Layout.RECORD_TYPE, type);
        Reference.reachabilityFence(ring);
        window.move(at + Layout.RECORD_PAYLOAD, length);
        return open;
    }

    /**
     * A hint, for the begin of a handler that will answer through this publisher: fetches the cache line in which the
     * next message will begin, which a waiting reader has taken, so that it is here when that message is written.
     * Readers see nothing of it. Does nothing while a claim is open, after close, or where it cannot help. Spec 6.1.
     */
    public void prefetch() {
        if (tail < fastEnd && payload.state() == Window.CLOSED
            && Raw.getLongOpaque(Raw.base(epochAddress)) == expectedEpoch) {
            putType((int) tail & mask, DEFAULT_TYPE);
        }
    }

    private Claim claimWithCare(int length, int type) {
        if (!clearNext(length, type) && !prepare(length, type, true)) {
            return null;
        }
        int index = (int) tail & mask;
        putType(index, type);
        payload.move(ring.address() + Layout.RECORD_PAYLOAD + index, length);
        return claim;
    }

    boolean claimed() {
        return payload.state() >= 0;
    }

    /** Publishes the open claim; returns the new end position. */
    long commitClaim() {
        final PayloadBuffer window = payload;
        final int length = window.state();
        final long trailer = trailerAt;
        if (length < 0 || trailer == 0 || Raw.getLongOpaque(Raw.base(epochAddress)) != expectedEpoch) {
            return commitWithCare(length);
        }
        final long end = endOf(length);
        final long record = window.address() - Layout.RECORD_PAYLOAD;
        store(Raw.base(record), Raw.base(trailer), length + Layout.RECORD_HEADER_LENGTH, end, count + 1);
        window.invalidate(); // before the call that is seldom made: HotSpot stores what is needed behind it each time
        if (end >= nextCare) {
            takeCare(recordSize(length));
        }
        return end;
    }

    private long commitWithCare(int length) {
        if (length < 0 || epochNow() != expectedEpoch) {
            throw cannotFinish();
        }
        publish((int) tail & mask, length + Layout.RECORD_HEADER_LENGTH, endOf(length), count + 1);
        payload.invalidate();
        takeCare(recordSize(length));
        return tail;
    }

    /** Makes the open claim padding; returns the new end position. */
    long abortClaim() {
        final int length = payload.state();
        if (length < 0 || epochNow() != expectedEpoch) {
            throw cannotFinish();
        }
        return commit((int) tail & mask, length, Layout.TYPE_PADDING);
    }

    private FlyringException cannotFinish() {
        if (busy()) {
            return Refusal.twoThreads();
        }
        if (claimed()) {
            payload.invalidate();
            return gone();
        }
        return expectedEpoch == GONE ? gone() : Refusal.claimNotOpen();
    }

    private long epochNow() {
        if (ringAt != 0) {
            long now = Raw.getLongOpaque(Raw.base(epochAddress));
            Reference.reachabilityFence(control);
            return now;
        }
        return control.getLongOpaque(epochAt);
    }

    /** Publish 1 to 4: whether a record for so many bytes can be written at the tail now. */
    private boolean ready(int length, int type) {
        return recordSize(length) <= fastEnd - tail && type >= 1 && payload.state() == Window.CLOSED
            && Raw.getLongOpaque(Raw.base(epochAddress)) == expectedEpoch
            || clearNext(length, type) || prepare(length, type, true);
    }

    /** Publish 1 and 2: the same for a batch, which claims for all of its records at once. */
    private boolean hasRoom(int length, int type) {
        return recordSize(length) <= fastEnd - tail && type >= 1 && payload.state() == Window.CLOSED
            && epochNow() == expectedEpoch || prepare(length, type, false);
    }

    /** Publish 3 and 4 for a long record that needs neither padding nor a new limit; false: for any other. */
    private boolean clearNext(int length, int type) {
        final long size = recordSize(length);
        final long end = tail + size;
        if (end > limit - Layout.RECORD_HEADER_LENGTH || ((tail ^ end - 1) & -capacity) != 0 || size <= longestAhead
            || end <= cleared || length > maxLength || ownerPending || ringAt == 0 || type < 1
            || payload.state() != Window.CLOSED || Raw.getLongOpaque(Raw.base(epochAddress)) != expectedEpoch) {
            return false;
        }
        Raw.putLongOpaque(Raw.base(ringAt + capacity) + Layout.TRAILER_CLAIMED, end); // pairs with: lossy 2 to 4
        VarHandle.releaseFence(); // claimed before any byte changes; pairs with: lossy's acquire fence
        Raw.putIntOpaque(Raw.base(ringAt + (end & mask)), 0); // before publish 6 of this record
        Reference.reachabilityFence(ring);
        cleared = end;
        fastEnd = end;
        nextCare = nextBoundary;
        return true;
    }

    /** Refuses what must be refused. */
    private void check(int length, int type) {
        if (epochNow() != expectedEpoch || payload.state() != Window.CLOSED || type < 1 || length < 0
            || length > maxLength) {
            throw refusal(length, type);
        }
    }

    /**
     * {@link #ready}, where it takes more than a comparison: refusals, the owner record, padding to the ring's end, a
     * new limit. All in one method because HotSpot inlines none of more than 325 bytecodes, however often it is called:
     * a publisher that is often held back keeps its quick way small.
     */
    private boolean prepare(int length, int type, boolean claims) {
        check(length, type);
        payload.busy();
        try {
            while (true) {
                byte[] owner = ownerPending ? Slots.name(name) : null;
                int size = (int) recordSize(owner == null ? length : Layout.OWNER_RECORD_NAME + owner.length);
                int index = (int) tail & mask;
                if (index + size > capacity) {
                    int rest = capacity - index;
                    long needed = tail + rest + Layout.RECORD_HEADER_LENGTH;
                    if (needed > limit) {
                        limit = Math.max(limit, room.recompute(tail, needed));
                        if (needed > limit) {
                            return false;
                        }
                    }
                    announce(rest);
                    putType(index, Layout.TYPE_PADDING);
                    publish(index, rest, tail + rest, count);
                    takeCare(rest);
                    index = 0;
                }
                long needed = tail + size + Layout.RECORD_HEADER_LENGTH;
                if (needed > limit) {
                    limit = Math.max(limit, room.recompute(tail, needed));
                    if (needed > limit) {
                        return false;
                    }
                }
                announce(owner == null && !claims ? 0 : size);
                if (owner == null) {
                    return true;
                }
                int payload = index + Layout.RECORD_PAYLOAD;
                ring.putLong(payload + Layout.OWNER_RECORD_EPOCH, epoch);
                ring.putInt(payload + Layout.OWNER_RECORD_NAME_LENGTH, owner.length);
                ring.putBytes(payload + Layout.OWNER_RECORD_NAME, owner, 0, owner.length);
                putType(index, Layout.TYPE_OWNER);
                publish(index, Layout.OWNER_RECORD_NAME + owner.length + Layout.RECORD_HEADER_LENGTH, tail + size,
                    count);
                ownerPending = false;
                takeCare(size);
            }
        } finally {
            payload.invalidate();
        }
    }

    private FlyringException refusal(int length, int type) {
        if (epochNow() != expectedEpoch) {
            return gone();
        }
        if (payload.state() != Window.CLOSED) {
            return busy() ? Refusal.twoThreads() : Refusal.claimOpen();
        }
        return type < 1 ? Refusal.type(type) : Refusal.length(length, maxLength, capacity);
    }

    private void checkLength(int length) {
        if (length < 0 || length > maxLength) {
            throw Refusal.length(length, maxLength, capacity);
        }
    }

    private FlyringException gone() {
        if (expectedEpoch == GONE && !lost) {
            return Refusal.closed(slot);
        }
        lost = true;
        expectedEpoch = GONE;
        return Refusal.lost(slot);
    }

    /** Where a record that begins at the tail ends; of a negative length: further than any ring goes. */
    private long endOf(int length) {
        return tail + (length & UNSIGNED) + headerAndRounding & roundDown;
    }

    /** Of a negative length: more than any ring holds. */
    private long recordSize(int length) {
        return (length & UNSIGNED) + headerAndRounding & roundDown;
    }

    /** Publish 3 and 4, if they are due. */
    private void announce(int size) {
        if (tail + size > cleared) {
            clear(tail + size, tail + size + (size <= longestAhead ? window : 0));
            plan();
        }
    }

    /** The stores of publish 3 and 4, or 9: up to {@code to}, or as far as is allowed. Not inlined, like prepare. */
    private void clear(long from, long to) {
        final int unit = alignMask + 1;
        final long lapEnd = (tail | mask) + 1;
        final long end = Math.min(Math.min(to, lapEnd), limit - Layout.RECORD_HEADER_LENGTH & roundDown);
        if (end <= cleared) {
            return;
        }
        ring.putLongOpaque(capacity + Layout.TRAILER_CLAIMED, end); // pairs with: lossy 2 to 4
        VarHandle.releaseFence(); // claimed before any byte changes; pairs with: lossy's acquire fence
        final long first = Math.max(from, cleared + unit);
        cleared = end;
        if (ringAt == 0) {
            RingStores.clear(ring, mask, unit, first, end);
        } else if (first <= end) {
            RingStores.clear(ringAt, mask, unit, first, end);
            Reference.reachabilityFence(ring);
        }
    }

    private void plan() {
        fastEnd = ownerPending || ringAt == 0 ? 0 : cleared;
        nextCare = Math.min(nextBoundary, cleared - halfWindow + 1);
    }

    /** Publish 8 and 9, if they are due after a record of so many bytes; the object is busy meanwhile. */
    private void takeCare(long size) {
        final boolean idle = payload.state() == Window.CLOSED;
        payload.busy();
        if (tail >= nextBoundary) {
            RingStores.boundary(ring, capacity, eighthShift, tail, count);
            nextBoundary = (tail >> eighthShift) + 1 << eighthShift;
        }
        if (cleared - tail < halfWindow && size <= longestAhead) {
            clear(tail, tail + window);
        }
        plan();
        if (idle) {
            payload.invalidate();
        }
    }

    /** Publish 5 (type) to 9 of one record; the object is idle then. The ring's new end position. */
    private long commit(int index, int length, int type) {
        putType(index, type);
        final long size = recordSize(length);
        final long end = tail + size;
        publish(index, length + Layout.RECORD_HEADER_LENGTH, end, type > 0 ? count + 1 : count);
        payload.invalidate();
        if (end >= nextCare) {
            takeCare(size);
        }
        return end;
    }

    private void putType(int index, int type) {
        if (ringAt != 0) {
            Raw.putInt(Raw.base(ringAt + index) + Layout.RECORD_TYPE, type);
            Reference.reachabilityFence(ring);
        } else {
            ring.putInt(index + Layout.RECORD_TYPE, type);
        }
    }

    /** Publish 6 and 7. */
    private void publish(int index, int length, long end, long total) {
        if (trailerAt != 0) {
            store(Raw.base(ringAt + index), Raw.base(trailerAt), length, end, total);
        } else {
            RingStores.publish(ring, capacity, index, length, end, total);
            tail = end;
            count = total;
        }
    }

    private void store(long record, long trailer, int length, long end, long total) {
        Raw.putIntRelease(record, length); // pairs with: poll 1
        Raw.putLongOpaque(trailer + Layout.TRAILER_MESSAGES_BEGUN, total); // pairs with: consistent count
        Raw.putLongRelease(trailer + Layout.TRAILER_PUBLISHED, end); // pairs with: join 2, 4; consistent count
        Raw.putLongRelease(trailer + Layout.TRAILER_MESSAGES_DONE, total); // pairs with: consistent count
        Reference.reachabilityFence(ring);
        tail = end;
        count = total;
    }

    /**
     * Who holds this publisher back: the subscriber with the smallest position. Costs system calls.
     *
     * @return the holder, or null if no reliable subscriber reads this ring.
     * @throws ClosedException after close.
     */
    public Holder heldBy() {
        if (expectedEpoch == GONE) {
            throw gone();
        }
        return room.holder();
    }

    /**
     * End of what was published.
     *
     * @return position in the ring, in bytes.
     */
    public long position() {
        return tail;
    }

    /**
     * The ring, which is also the publisher slot.
     *
     * @return its index, from 0.
     */
    public int ring() {
        return slot;
    }

    /**
     * The publisher's name.
     *
     * @return the name, empty if it has none.
     */
    public String name() {
        return name;
    }

    /**
     * Which owner of the slot this is.
     *
     * @return the epoch, from 1.
     */
    public long epoch() {
        return epoch;
    }

    /**
     * The largest message.
     *
     * @return bytes, a quarter of the capacity less 8.
     */
    public int maxMessageLength() {
        return maxLength;
    }

    boolean busy() {
        return payload.state() == Window.BUSY;
    }

    /**
     * Aborts an open claim, marks the ring as closed and gives the slot back; its name stays, so that it gets the same
     * ring again. Closing twice is fine.
     *
     * @throws TwoThreadsException if another thread is publishing.
     */
    @Override
    public void close() {
        if (busy()) {
            throw Refusal.twoThreads();
        }
        if (expectedEpoch != GONE && control.getLongOpaque(epochAt) == expectedEpoch) {
            if (claimed()) {
                abortClaim();
            }
            channel.slots().closePublisher(slot);
        }
        payload.invalidate();
        lost = false;
        expectedEpoch = GONE;
        channel.release(this, lock, slot);
    }
}
