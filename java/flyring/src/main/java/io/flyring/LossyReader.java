// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;

/**
 * One lossy subscriber's way through one ring: reads, copies, and only then asks whether the publisher was there
 * meanwhile (spec 6.10). A poll jumps at most eight times, and looks at no more than a ring of what is not a message,
 * so that no publisher, however hostile, can keep it.
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
    /** The longest record of a message; with a longer one a hostile ring could make a reader need any memory. */
    private final int longest;
    /** Shows private copies; the other shows what was peeked at, in place. */
    private final Message message;
    private final Message inPlace;
    private Memory copy;
    private final Start startAt;
    private final WhenLapped whenLapped;
    /** How far behind claimed a jump may lead: three quarters of the ring. */
    private final long reach;
    /** Whether the cursor and the messages before it are known, and belong together. */
    private boolean started;
    private long cursor;
    /** Messages before the cursor. */
    private long messagesBefore;
    private long lostMessages;
    private long lostBytes;
    /** Bytes to the next record from the one that was peeked at. */
    private long peekedSize;
    private boolean broken;
    private boolean stopped;
    private boolean aborted;
    /** What {@link #consistentCount} has read: published, and the messages before it. */
    private long published;
    private long count;
    /** What messages_begun was when it was last found to differ from messages_done for long. */
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
            broken = false; // the first poll says so; the other rings go on
        }
    }

    private void makeCopy(int length) {
        ByteBuffer bytes = ByteBuffer.allocateDirect(length);
        copy = Memory.of(bytes);
        message.over(Memory.of(bytes.asReadOnlyBuffer()));
    }

    /** False: that cannot be told as long as the publisher is between two stores; the next poll tries again. */
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
     * The smallest boundary above a position and at most so far behind claimed, into {@link #published} and
     * {@link #count}; false if there is none. All eight are checked.
     */
    private boolean oldestBoundary(long above, long mostBehind) {
        long oldest = Long.MAX_VALUE;
        for (int eighth = 0; eighth < Layout.BOUNDARIES; eighth++) {
            int at = capacity + Layout.TRAILER_BOUNDARY + eighth * Layout.TRAILER_BOUNDARY_STRIDE;
            long boundary = memory.getLongAcquire(at); // pairs with: publish 8
            long messages = memory.getLongOpaque(at + Layout.TRAILER_BOUNDARY_COUNT);
            VarHandle.acquireFence(); // pairs with: publish 8, whose fence is behind the -1
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

    /** Reads published and its message count; false while the publisher is between the stores, or died there. */
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

    /** Whether what was read at a position may be of a later lap. Behind the reads, in program order. */
    private boolean lapped(long position) {
        VarHandle.acquireFence(); // pairs with: publish 3, whose fence is behind claimed
        // pairs with: publish 3 and 9; acquire, because of the load of published that may follow
        long claimed = memory.getLongAcquire(capacity + Layout.TRAILER_CLAIMED);
        return claimed > position + capacity - Layout.RECORD_HEADER_LENGTH;
    }

    /** Step 5: on to what is still there, or is published next; false: the next poll tries again. */
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

    /** Steps 1 to 3, but for the type: length of the record at the cursor; or {@link #EMPTY}, or {@link #JUMPED}. */
    private int lengthAtCursor() {
        int index = (int) cursor & mask;
        int length = memory.getIntAcquire(index); // pairs with: publish 6
        if (length >= Layout.RECORD_HEADER_LENGTH && index + size(length) <= capacity) {
            return length;
        }
        return jumpOrRefuse(length);
    }

    /** The end of steps 2 and 3, where no record can be of such a length: on behind a lap, or damage, or empty. */
    private int jumpOrRefuse(int length) {
        if (lapped(cursor)) { // also when it looks empty
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
     * Whether a poll may find something. For a reader that must jump or start first: unless a poll has found that the
     * counts differ, and they still are what they were. A publisher that died between two of its stores leaves them so.
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

    /** Hands out up to {@code limit} messages; returns how many. */
    int poll(MessageHandler handler, int limit) {
        return poll(handler, null, limit);
    }

    /** The same with a handler that says how to go on; see {@link #stopped()} and {@link #aborted()}. */
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

    /** Whether the last controlled poll was ended by its handler. */
    boolean stopped() {
        return stopped;
    }

    /** Whether it ended in front of a message that its handler did not want. */
    boolean aborted() {
        return aborted;
    }

    /** Step 4 for what is no message: its bytes; or {@link #JUMPED}, or {@link #EMPTY}. */
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

    /** Whether what was peeked at was whole until now; goes on behind it, or with what is published next. */
    boolean valid() {
        if (lapped(cursor)) {
            jump();
            return false;
        }
        cursor += peekedSize;
        messagesBefore++;
        return true;
    }

    /** What was peeked at is out of bounds from now on. */
    void invalidate() {
        inPlace.invalidate();
    }

    /** The second half of 6.14's ended. */
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
