// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;

/**
 * Reads one ring for one lossy subscriber: reads, copies, and only then tests whether the publisher has lapped it
 * meanwhile (channel.md 6.10). A poll jumps at most eight times, and passes at most one ring's length of other records
 * than messages, so that no hostile publisher can hold it.
 */
final class LossyReader {
    private static final int FIRST_COPY = 4096;
    private static final int MOST_JUMPS = 8;
    private static final int EMPTY = 0;
    private static final int JUMPED = -1;
    private static final long COUNTS_AGREED = -1;

    final int ring;
    private final Slots slots;
    private final Memory memory;
    private final int capacity;
    private final int mask;
    private final long alignMask;
    /** The longest record of a message; without this bound a hostile ring could make a reader allocate any amount. */
    private final int longest;
    /** Shows private copies; {@code inPlace} shows the message that was peeked at. */
    private final Message message;
    private final Message inPlace;
    private Memory copy;
    private final Start startAt;
    private final WhenLapped whenLapped;
    /** The farthest a jump may end behind claimed: three quarters of the ring. */
    private final long reach;
    /** Whether cursor and messagesBefore are known and consistent. */
    private boolean started;
    private long cursor;
    /** The number of messages before the cursor. */
    private long messagesBefore;
    private long lostMessages;
    private long lostBytes;
    /** The size of the record that was peeked at. */
    private long peekedSize;
    private boolean broken;
    private boolean stopped;
    private boolean aborted;
    /** What {@link #consistentCount} has read: a position, and the number of messages before it. */
    private long published;
    private long count;
    /** The value of messages_begun when it last differed from messages_done for all tries. */
    private long begunInVain = COUNTS_AGREED;

    LossyReader(Header header, int ring, Memory memory, Slots slots, Start start, WhenLapped whenLapped) {
        this.ring = ring;
        this.slots = slots;
        this.memory = memory;
        this.capacity = header.capacity;
        this.mask = capacity - 1;
        this.alignMask = header.alignment - 1;
        this.longest = capacity / Layout.MAX_MESSAGE_DIVISOR;
        this.message = new Message(ring, Memory.EMPTY);
        this.inPlace = new Message(ring, memory);
        this.startAt = start;
        this.whenLapped = whenLapped;
        this.reach = capacity / 4 * 3L;
        makeCopy(FIRST_COPY);
        try {
            start();
        } catch (CorruptRingException e) {
            broken = false; // the first poll throws it, so that the other rings can be read
        }
    }

    private void makeCopy(int length) {
        ByteBuffer bytes = ByteBuffer.allocateDirect(length);
        copy = Memory.of(bytes);
        message.over(Memory.of(bytes.asReadOnlyBuffer()));
    }

    /** Sets the first cursor; false while the publisher is between two stores: the next poll tries again. */
    private boolean start() {
        started = startAt == Start.OLDEST && startAtOldest() || startAtNow();
        return started;
    }

    private boolean startAtOldest() {
        if (!oldestBoundary(-1, capacity - Layout.RECORD_HEADER_LENGTH)) {
            return false;
        }
        messagesBefore = count;
        moveTo(published);
        return true;
    }

    /**
     * Reads the smallest boundary that is above a position and at most {@code mostBehind} behind claimed, into
     * {@link #published} and {@link #count}. False if there is none. Checks all eight boundaries.
     */
    private boolean oldestBoundary(long above, long mostBehind) {
        long oldest = Long.MAX_VALUE;
        for (int eighth = 0; eighth < Layout.BOUNDARIES; eighth++) {
            int at = capacity + Layout.TRAILER_BOUNDARY + eighth * Layout.TRAILER_BOUNDARY_STRIDE;
            long boundary = memory.getLongAcquire(at); // pairs with: publish 8
            long messages = memory.getLongOpaque(at + Layout.TRAILER_BOUNDARY_COUNT);
            VarHandle.acquireFence(); // pairs with: publish 8, the fence after the -1
            if (boundary == Layout.NOT_GATING || memory.getLongOpaque(at) != boundary) {
                continue;
            }
            if (!Recovery.isPosition(boundary, (int) alignMask + 1)
                || boundary > memory.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED)) {
                throw corrupt(boundary, "a boundary that is no position");
            }
            if (boundary > above && boundary < oldest
                && memory.getLongAcquire(capacity + Layout.TRAILER_CLAIMED) <= boundary + mostBehind) {
                oldest = boundary;
                published = boundary;
                count = messages;
            }
        }
        return oldest != Long.MAX_VALUE;
    }

    private boolean startAtNow() {
        boolean consistent = consistentCount();
        messagesBefore = count;
        moveTo(published);
        return consistent;
    }

    private void moveTo(long position) {
        cursor = position;
        message.from(slots.sender(ring, position, message.sender()));
        inPlace.from(message.sender());
    }

    /** Reads a consistent published and count; false while the publisher is between the stores, or died there. */
    private boolean consistentCount() {
        for (int i = 0; i < Layout.LOSSY_TRIES; i++) {
            long done = memory.getLongAcquire(capacity + Layout.TRAILER_MESSAGES_DONE); // pairs with: publish 7
            published = memory.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED); // pairs with: publish 7
            count = memory.getLongOpaque(capacity + Layout.TRAILER_MESSAGES_BEGUN);
            if (!Recovery.isPosition(published, (int) alignMask + 1)) {
                throw corrupt(published, "published is no position");
            }
            if (done == count) {
                return true;
            }
            Thread.onSpinWait();
        }
        begunInVain = count;
        return false;
    }

    /** Whether the bytes read at a position may be of a later lap. Called after the reads. */
    private boolean lapped(long position) {
        VarHandle.acquireFence(); // pairs with: publish 3, the fence after claimed
        // pairs with: publish 3 and 9; acquire, because of the load of published that may follow
        long claimed = memory.getLongAcquire(capacity + Layout.TRAILER_CLAIMED);
        return claimed > position + capacity - Layout.RECORD_HEADER_LENGTH;
    }

    /** Jumps to the oldest or newest position and counts the loss: step 5. False: the next poll tries again. */
    private boolean jump() {
        if ((whenLapped == WhenLapped.NEWEST || !oldestBoundary(cursor, reach)) && !consistentCount()) {
            return false;
        }
        if (published <= cursor) {
            throw corrupt(cursor, "claimed is a lap ahead, published is only " + published);
        }
        lostBytes += published - cursor;
        lostMessages += count - messagesBefore;
        messagesBefore = count;
        moveTo(published);
        return true;
    }

    /** Steps 1 to 3, except the type: the length of the record at the cursor, or {@link #EMPTY} or {@link #JUMPED}. */
    private int lengthAtCursor() {
        int index = (int) cursor & mask;
        int length = memory.getIntAcquire(index); // pairs with: publish 6
        if (length >= Layout.RECORD_HEADER_LENGTH && index + size(length) <= capacity) {
            return length;
        }
        return jumpOrRefuse(length);
    }

    /** The end of steps 2 and 3 for a length that no record has: jumps if lapped, throws if damaged, or else empty. */
    private int jumpOrRefuse(int length) {
        if (lapped(cursor)) { // also when the ring looks empty
            return jump() ? JUMPED : EMPTY;
        }
        if (length > 0) {
            throw corrupt(cursor, "a record of " + length + " bytes");
        }
        return EMPTY;
    }

    private long size(int length) {
        return length + alignMask & ~alignMask;
    }

    /**
     * Whether a poll may find something. A reader that must jump or start first is ready unless the counts differ as in
     * its last try: a publisher that died between two stores leaves them so.
     */
    boolean isReady() {
        if (broken) {
            return false;
        }
        if (started && !lapped(cursor)) {
            return memory.getIntAcquire((int) cursor & mask) > 0; // lossy 1; pairs with: publish 6
        }
        long done = memory.getLongAcquire(capacity + Layout.TRAILER_MESSAGES_DONE); // pairs with: publish 7
        long begun = memory.getLongOpaque(capacity + Layout.TRAILER_MESSAGES_BEGUN);
        return begun == done || begun != begunInVain;
    }

    private boolean mayRead() {
        return !broken && (started || start());
    }

    /** Hands out up to {@code limit} messages; returns the number. */
    int poll(MessageHandler handler, int limit) {
        return poll(handler, null, limit);
    }

    /** The same for a handler that returns an action; see {@link #stopped()} and {@link #aborted()}. */
    int controlledPoll(ControlledMessageHandler handler, int limit) {
        return poll(null, handler, limit);
    }

    private int poll(MessageHandler handler, ControlledMessageHandler controlled, int limit) {
        stopped = false;
        aborted = false;
        if (!mayRead()) {
            return 0;
        }
        long skipped = 0;
        int jumps = 0;
        int handed = 0;
        try {
            while (handed < limit && jumps < MOST_JUMPS && !stopped) {
                int length = lengthAtCursor();
                if (length == EMPTY) {
                    break;
                }
                if (length == JUMPED) {
                    jumps++;
                    continue;
                }
                int index = (int) cursor & mask;
                int type = memory.getInt(index + Layout.RECORD_TYPE);
                if (type <= 0) {
                    int outcome = skip(index, length, type);
                    skipped += outcome > 0 ? outcome : 0;
                    if (outcome == EMPTY || skipped >= capacity) {
                        break;
                    }
                    jumps += outcome == JUMPED ? 1 : 0;
                    continue;
                }
                if (size(length) > longest) {
                    if (jumpOrRefuse(length) == EMPTY) {
                        break;
                    }
                    jumps++;
                    continue;
                }
                int payload = length - Layout.RECORD_HEADER_LENGTH;
                if (payload > copy.capacity()) {
                    makeCopy(Math.max(payload, Math.min(2 * copy.capacity(), longest)));
                }
                copy.putBytes(0, memory, index + Layout.RECORD_PAYLOAD, payload);
                if (lapped(cursor)) {
                    if (!jump()) {
                        break;
                    }
                    jumps++;
                    continue;
                }
                message.set(copy.address(), payload, type, cursor);
                cursor += size(length);
                messagesBefore++;
                handed++;
                if (controlled == null) {
                    handler.onMessage(message);
                } else {
                    final Action action = Refusal.ofNull(controlled.onMessage(message));
                    stopped = action == Action.BREAK || action == Action.ABORT;
                    aborted = action == Action.ABORT;
                    if (aborted) {
                        cursor -= size(length);
                        messagesBefore--;
                        handed--;
                    }
                }
            }
        } finally {
            message.invalidate();
        }
        return handed;
    }

    /** Whether the handler ended the last controlled poll. */
    boolean stopped() {
        return stopped;
    }

    /** Whether the handler aborted a message in the last controlled poll. */
    boolean aborted() {
        return aborted;
    }

    /** Step 4 for a record that is not a message: returns its size, or {@link #JUMPED} or {@link #EMPTY}. */
    private int skip(int index, int length, int type) {
        int payload = length - Layout.RECORD_HEADER_LENGTH;
        if (type == Layout.TYPE_OWNER) {
            copy.putBytes(0, memory, index + Layout.RECORD_PAYLOAD, Math.min(payload, Sender.LONGEST));
        }
        if (lapped(cursor)) {
            return jump() ? JUMPED : EMPTY;
        }
        if (type == Layout.TYPE_OWNER) {
            message.from(Sender.after(message.sender(), copy, 0, payload));
            inPlace.from(message.sender());
        } else if (type != Layout.TYPE_PADDING) {
            throw corrupt(cursor, "a record of type " + type);
        }
        cursor += size(length);
        return (int) size(length);
    }

    /** The next message in place, or null. */
    Message peek() {
        if (!mayRead()) {
            return null;
        }
        long skipped = 0;
        for (int jumps = 0; jumps < MOST_JUMPS && skipped < capacity;) {
            int length = lengthAtCursor();
            int outcome = length;
            if (length > 0) {
                int index = (int) cursor & mask;
                int type = memory.getInt(index + Layout.RECORD_TYPE);
                if (type > 0 && size(length) <= longest) {
                    peekedSize = size(length);
                    int payload = length - Layout.RECORD_HEADER_LENGTH;
                    inPlace.set(memory.address() + index + Layout.RECORD_PAYLOAD, payload, type, cursor);
                    return inPlace;
                }
                outcome = type > 0 ? jumpOrRefuse(length) : skip(index, length, type);
            }
            if (outcome == EMPTY) {
                return null;
            }
            jumps += outcome == JUMPED ? 1 : 0;
            skipped += outcome == JUMPED ? 0 : outcome;
        }
        return null;
    }

    /** Whether the message that was peeked at was whole until now; moves the cursor behind it, or jumps. */
    boolean valid() {
        if (lapped(cursor)) {
            jump();
            return false;
        }
        cursor += peekedSize;
        messagesBefore++;
        return true;
    }

    /** Makes the message that was peeked at out of bounds. */
    void invalidate() {
        inPlace.invalidate();
    }

    /** Whether everything that was published was consumed: the second half of ended (6.14). */
    boolean drained() {
        return started && memory.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED) == cursor; // pairs with: publish 7
    }

    private CorruptRingException corrupt(long position, String reason) {
        broken = true;
        return Recovery.corrupt(ring, position, reason);
    }

    long cursor() {
        return cursor;
    }

    long lostMessages() {
        return lostMessages;
    }

    long lostBytes() {
        return lostBytes;
    }
}
