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
 * for a type below 1 and {@link ViewAliveException} while a claim is open; in these cases nothing was published.
 */
public final class Publisher implements AutoCloseable {
    /** What publishing returns when a subscriber has not read far enough yet. */
    public static final long BACK_PRESSURED = Layout.BACK_PRESSURED;

    private static final int DEFAULT_TYPE = 1;
    private static final int IDLE = 0;
    private static final int BUSY = 1;
    private static final int CLAIMED = 2;
    private static final long GONE = -1;

    private final Channel channel;
    private final String name;
    private final int slot;
    private final Lock lock;
    private final Memory ring;
    /** Where the ring lies, if it can be written by address; else 0. */
    private final long ringAt;
    private final Memory control;
    private final int epochAt;
    /** Where the epoch lies, if it can be read by address; else 0. */
    private final long epochAddress;
    private final long epoch;
    private final int capacity;
    private final int mask;
    private final int alignMask;
    private final int eighthShift;
    private final int window;
    private final int maxLength;
    private final Room room;
    private final Claim claim = new Claim(this);

    /** The epoch that the slot must have; {@link #GONE} once this object is closed or has lost its slot. */
    private long expectedEpoch;
    private int state = IDLE;
    private boolean lost;
    private boolean ownerPending = true;
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
    private int claimIndex;
    private int claimSize;

    Publisher(Channel channel, String name, int slot, Lock lock, Memory ring, long epoch, long count) {
        Header header = channel.header();
        this.channel = channel;
        this.name = name;
        this.slot = slot;
        this.lock = lock;
        this.ring = ring;
        this.control = channel.control();
        this.epochAt = header.publisherSlot(slot) + Layout.PUBLISHER_SLOT_EPOCH;
        this.ringAt = ring.writableAt();
        this.epochAddress = control.readableAt() == 0 ? 0 : control.readableAt() + epochAt;
        this.epoch = epoch;
        this.expectedEpoch = epoch;
        this.capacity = header.capacity;
        this.mask = capacity - 1;
        this.alignMask = header.alignment - 1;
        this.eighthShift = Integer.numberOfTrailingZeros(capacity / Layout.BOUNDARIES);
        this.tail = ring.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED); // ours: written under our lock
        this.cleared = tail;
        this.nextBoundary = (tail >> eighthShift) + 1 << eighthShift;
        this.window = header.window();
        this.maxLength = capacity / Layout.MAX_MESSAGE_DIVISOR - Layout.RECORD_HEADER_LENGTH;
        this.count = count;
        this.room = new Room(channel, slot, ring);
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
        enter(length, type);
        try {
            int index = claimSpace(length);
            if (index < 0) {
                return BACK_PRESSURED;
            }
            boolean copied = false;
            try {
                Copy.from(source, offset, ring, index + Layout.RECORD_PAYLOAD, length);
                copied = true;
            } finally {
                commit(index, length, copied ? type : Layout.TYPE_PADDING);
            }
            return tail;
        } finally {
            state = IDLE;
        }
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
        enter(length, type);
        try {
            int index = claimSpace(length);
            if (index < 0) {
                return BACK_PRESSURED;
            }
            ring.putBytes(index + Layout.RECORD_PAYLOAD, source, offset, length);
            commit(index, length, type);
            return tail;
        } finally {
            state = IDLE;
        }
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
        enter(length, type);
        try {
            int index = claimSpace(length);
            if (index < 0) {
                return BACK_PRESSURED;
            }
            ring.putBytes(index + Layout.RECORD_PAYLOAD, message, message.position(), length);
            commit(index, length, type);
            return tail;
        } finally {
            state = IDLE;
        }
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
        enter(0, type);
        try {
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
        } finally {
            state = IDLE;
        }
    }

    private int offerPart(DirectBuffer[] messages, int from, int number, int type) {
        int first = recordSize(messages[from].capacity());
        if (tail + first > fastEnd && !makeRoom(first)) {
            return 0;
        }
        int index = (int) tail & mask;
        int most = Math.min(capacity - index, capacity / Layout.MAX_MESSAGE_DIVISOR);
        int total = first;
        int taken = 1;
        boolean looked = false;
        while (taken < number) {
            int more = total + recordSize(messages[from + taken].capacity());
            if (more > most) {
                break;
            }
            if (tail + more + Layout.RECORD_HEADER_LENGTH > limit) {
                if (!looked) {
                    looked = true;
                    limit = room.limit(tail);
                }
                if (tail + more + Layout.RECORD_HEADER_LENGTH > limit) {
                    break;
                }
            }
            total = more;
            taken++;
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
                at += recordSize(message.capacity());
            }
            Copy.from(messages[from], 0, ring, index + Layout.RECORD_PAYLOAD, messages[from].capacity());
            copied = true;
        } finally {
            int length = copied ? messages[from].capacity() + Layout.RECORD_HEADER_LENGTH : total;
            publish(index, length, copied ? type : Layout.TYPE_PADDING, total, copied ? taken : 0);
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
        enter(length, type);
        int after = IDLE;
        try {
            int index = claimSpace(length);
            if (index < 0) {
                return null;
            }
            claimIndex = index;
            claimSize = length;
            claim.open(ring, index + Layout.RECORD_PAYLOAD, length, type);
            after = CLAIMED;
            return claim;
        } finally {
            state = after;
        }
    }

    /** Commits (type >= 1) or aborts (padding) the open claim; returns the new end position. */
    long finishClaim(int type) {
        if (state != CLAIMED) {
            throw state == BUSY ? twoThreads() : notOpen();
        }
        if (epochNow() != expectedEpoch) {
            claim.shut();
            state = IDLE;
            throw gone();
        }
        claim.shut();
        commit(claimIndex, claimSize, type);
        state = IDLE;
        return tail;
    }

    private FlyringException notOpen() {
        return expectedEpoch == GONE ? gone() : new InvalidArgumentException("claim",
            "This claim is not open: it was committed or aborted already. Claim again.");
    }

    private long epochNow() {
        if (epochAddress != 0) {
            long now = Raw.getLongOpaque(epochAddress);
            Reference.reachabilityFence(control);
            return now;
        }
        return control.getLongOpaque(epochAt);
    }

    /** Refuses what must be refused and marks the object as busy. */
    private void enter(int length, int type) {
        if (epochNow() != expectedEpoch || state != IDLE || type < 1 || length < 0 || length > maxLength) {
            throw refusal(length, type);
        }
        state = BUSY;
    }

    private RuntimeException refusal(int length, int type) {
        if (epochNow() != expectedEpoch) {
            return gone();
        }
        if (state != IDLE) {
            return state == BUSY ? twoThreads() : new ViewAliveException(
                "A claim of this publisher is still open. Commit or abort it first.");
        }
        if (type < 1) {
            return new InvalidArgumentException("type", "The type " + type + " is not in 1 to 2147483647.");
        }
        checkLength(length);
        throw new AssertionError("nothing to refuse");
    }

    private void checkLength(int length) {
        if (length < 0) {
            throw new InvalidArgumentException("length", "The length " + length + " is negative.");
        }
        if (length > maxLength) {
            throw new MessageTooLargeException(length, maxMessageLength(), "A message of " + length
                + " bytes is longer than the " + maxMessageLength() + " that a ring of " + capacity
                + " bytes allows. Split it, or create the channel with a larger capacity.");
        }
    }

    private static TwoThreadsException twoThreads() {
        return new TwoThreadsException("This publisher is in use by another thread. Give each thread its own.");
    }

    private FlyringException gone() {
        if (expectedEpoch == GONE && !lost) {
            return new ClosedException("The publisher of ring " + slot + " is closed. Make a new one.");
        }
        lost = true;
        expectedEpoch = GONE;
        return new SlotLostException(slot, "Publisher slot " + slot
            + " has another owner now. Close this publisher and make a new one.");
    }

    private int recordSize(int length) {
        return length + Layout.RECORD_HEADER_LENGTH + alignMask & ~alignMask;
    }

    /** Publish 1 to 4; the index of the record, or -1: back-pressured. */
    private int claimSpace(int length) {
        int size = recordSize(length);
        if (tail + size > fastEnd) {
            if (!makeRoom(size)) {
                return -1;
            }
            announce(size);
        }
        return (int) tail & mask;
    }

    /** Publish 3 and 4, if they are due. */
    private void announce(int size) {
        if (tail + size > cleared) {
            clear(tail + size, tail + size + window);
        }
    }

    /** The stores of publish 3 and 4, or 9: up to {@code to}, or as far as is allowed. */
    private void clear(long first, long to) {
        final int unit = alignMask + 1;
        long lapEnd = (tail | mask) + 1;
        long end = Math.min(Math.min(to, lapEnd), limit - Layout.RECORD_HEADER_LENGTH & -unit);
        if (end > cleared) {
            ring.putLongOpaque(capacity + Layout.TRAILER_CLAIMED, end); // pairs with: lossy 2 to 4
            VarHandle.releaseFence(); // claimed before any byte changes; pairs with: lossy's acquire fence
            for (long at = Math.max(first, cleared + unit); at <= end; at += unit) {
                ring.putIntOpaque((int) at & mask, 0); // before publish 6 of the record in front
            }
            cleared = end;
            plan();
        }
    }

    private void plan() {
        fastEnd = ownerPending ? 0 : cleared;
        nextCare = Math.min(nextBoundary, cleared - window / 2 + 1);
    }

    /** Publish 8 and 9, when one of them is due. */
    private void takeCare() {
        if (tail >= nextBoundary) {
            boundary(tail, count);
            nextBoundary = (tail >> eighthShift) + 1 << eighthShift;
        }
        if (cleared - tail < window / 2) {
            clear(tail, tail + window);
        }
        plan();
    }

    private void commit(int index, int length, int type) {
        publish(index, length + Layout.RECORD_HEADER_LENGTH, type, recordSize(length), type > 0 ? 1 : 0);
    }

    /** Publish 5 (type) to 9. */
    private void publish(int index, int length, int type, int size, int messages) {
        long end = tail + size;
        long total = count + messages;
        if (ringAt != 0) {
            Raw.putInt(ringAt + index + Layout.RECORD_TYPE, type);
            Raw.putIntRelease(ringAt + index, length); // pairs with: poll 1
            long trailer = ringAt + capacity;
            Raw.putLongOpaque(trailer + Layout.TRAILER_MESSAGES_BEGUN, total); // pairs with: consistent count
            Raw.putLongRelease(trailer + Layout.TRAILER_PUBLISHED, end); // pairs with: join 2, 4; consistent count
            Raw.putLongRelease(trailer + Layout.TRAILER_MESSAGES_DONE, total); // pairs with: consistent count
            Reference.reachabilityFence(ring);
        } else {
            publishThroughBuffer(index, length, type, end, total);
        }
        tail = end;
        count = total;
        if (end >= nextCare) {
            takeCare();
        }
    }

    private void publishThroughBuffer(int index, int length, int type, long end, long total) {
        ring.putInt(index + Layout.RECORD_TYPE, type);
        ring.putIntRelease(index, length); // pairs with: poll 1
        ring.putLongOpaque(capacity + Layout.TRAILER_MESSAGES_BEGUN, total); // pairs with: consistent count
        ring.putLongRelease(capacity + Layout.TRAILER_PUBLISHED, end); // pairs with: join 2, 4; consistent count
        ring.putLongRelease(capacity + Layout.TRAILER_MESSAGES_DONE, total); // pairs with: consistent count
    }

    /** Publish 8: the first record boundary of an eighth. */
    private void boundary(long end, long total) {
        int at = capacity + Layout.TRAILER_BOUNDARY
            + ((int) (end >> eighthShift) & Layout.BOUNDARIES - 1) * Layout.TRAILER_BOUNDARY_STRIDE;
        ring.putLongOpaque(at, Layout.NOT_GATING);
        VarHandle.releaseFence(); // pairs with: start at what is still there
        ring.putLongOpaque(at + Layout.TRAILER_BOUNDARY_COUNT, total);
        ring.putLongRelease(at, end); // pairs with: start at what is still there
    }

    /** The way when a record does not simply fit: owner record, padding to the ring's end, new limit. */
    private boolean makeRoom(int size) {
        if (ownerPending) {
            byte[] bytes = Slots.name(name);
            int length = Layout.OWNER_RECORD_NAME + bytes.length;
            if (!padToEnd(recordSize(length)) || !fits(recordSize(length))) {
                return false;
            }
            int index = (int) tail & mask;
            announce(recordSize(length));
            int payload = index + Layout.RECORD_PAYLOAD;
            ring.putLong(payload + Layout.OWNER_RECORD_EPOCH, epoch);
            ring.putInt(payload + Layout.OWNER_RECORD_NAME_LENGTH, bytes.length);
            ring.putBytes(payload + Layout.OWNER_RECORD_NAME, bytes, 0, bytes.length);
            ownerPending = false;
            commit(index, length, Layout.TYPE_OWNER);
            plan();
        }
        return padToEnd(size) && fits(size);
    }

    private boolean padToEnd(int size) {
        int index = (int) tail & mask;
        int rest = capacity - index;
        if (rest >= size) {
            return true;
        }
        if (!fits(rest)) {
            return false;
        }
        announce(rest);
        publish(index, rest, Layout.TYPE_PADDING, rest, 0);
        return true;
    }

    private boolean fits(int size) {
        long needed = tail + size + Layout.RECORD_HEADER_LENGTH;
        if (needed > limit) {
            limit = room.recompute(tail, needed);
        }
        return needed <= limit;
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
     * The largest payload.
     *
     * @return bytes, a quarter of the capacity less 8.
     */
    public int maxMessageLength() {
        return maxLength;
    }

    boolean busy() {
        return state == BUSY;
    }

    /**
     * Aborts an open claim, marks the ring as closed and gives the slot back; its name stays, so that it gets the same
     * ring again. Closing twice is fine.
     *
     * @throws TwoThreadsException if another thread is publishing.
     */
    @Override
    public void close() {
        if (state == BUSY) {
            throw twoThreads();
        }
        if (expectedEpoch != GONE && control.getLongOpaque(epochAt) == expectedEpoch) {
            if (state == CLAIMED) {
                finishClaim(Layout.TYPE_PADDING);
            }
            channel.slots().closePublisher(slot);
        }
        claim.shut();
        state = IDLE;
        lost = false;
        expectedEpoch = GONE;
        channel.release(this, lock, slot);
    }
}
