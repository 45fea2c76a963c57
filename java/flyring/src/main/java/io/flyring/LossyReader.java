// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;

/**
 * One lossy subscriber's way through one ring: reads, copies, and only then asks whether the publisher was there
 * meanwhile (spec 6.10). A poll jumps at most once, and looks at no more than a ring of what is not a message, so that
 * no publisher, however hostile, can keep it.
 */
final class LossyReader {
    private static final int FIRST_COPY = 4096;

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
    private final Start start;
    /** Whether the cursor and the messages before it are known, and belong together. */
    private boolean begun;
    private long cursor;
    private long before;
    private long lostMessages;
    private long lostBytes;
    /** Bytes to the next record from the one that was peeked at. */
    private long peeked;
    private boolean broken;
    /** What {@link #consistent} has read: a position, and the messages before it. */
    private long seen;
    private long count;

    LossyReader(Header header, int ring, Memory memory, Slots slots, Start start) {
        this.ring = ring;
        this.slots = slots;
        this.memory = memory;
        this.capacity = header.capacity;
        this.mask = capacity - 1;
        this.alignMask = header.alignment - 1;
        this.longest = capacity / Layout.MAX_MESSAGE_DIVISOR;
        this.message = new Message(ring, Memory.EMPTY);
        this.inPlace = new Message(ring, memory);
        this.start = start;
        makeCopy(FIRST_COPY);
        try {
            begin();
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
    private boolean begin() {
        begun = start == Start.OLDEST && beginAtBoundary() || beginNow();
        return begun;
    }

    private boolean beginAtBoundary() {
        long oldest = Long.MAX_VALUE;
        for (int eighth = 0; eighth < Layout.BOUNDARIES; eighth++) {
            int at = capacity + Layout.TRAILER_BOUNDARY + eighth * Layout.TRAILER_BOUNDARY_STRIDE;
            long boundary = memory.getLongAcquire(at); // pairs with: publish 8
            long messages = memory.getLongOpaque(at + Layout.TRAILER_BOUNDARY_COUNT);
            VarHandle.acquireFence(); // pairs with: publish 8, whose fence is behind the -1
            if (boundary < 0 || memory.getLongOpaque(at) != boundary || boundary >= oldest) {
                continue;
            }
            if (!Recovery.isPosition(boundary, (int) alignMask + 1)
                || boundary > memory.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED)) {
                throw corrupt(boundary, "a boundary that is no position");
            }
            if (!lapped(boundary)) {
                oldest = boundary;
                before = messages;
            }
        }
        if (oldest == Long.MAX_VALUE) {
            return false;
        }
        goTo(oldest);
        return true;
    }

    private boolean beginNow() {
        boolean consistent = consistent();
        before = count;
        goTo(seen);
        return consistent;
    }

    private void goTo(long position) {
        cursor = position;
        message.from(slots.sender(ring, position, message.sender()));
        inPlace.from(message.sender());
    }

    /** Reads published and its message count; false while the publisher is between the stores, or died there. */
    private boolean consistent() {
        for (int i = 0; i < Layout.LOSSY_TRIES; i++) {
            long done = memory.getLongAcquire(capacity + Layout.TRAILER_MESSAGES_DONE); // pairs with: publish 7
            seen = memory.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED); // pairs with: publish 7
            count = memory.getLongOpaque(capacity + Layout.TRAILER_MESSAGES_BEGUN);
            if (!Recovery.isPosition(seen, (int) alignMask + 1)) {
                throw corrupt(seen, "published is no position");
            }
            if (done == count) {
                return true;
            }
            Thread.onSpinWait();
        }
        return false;
    }

    /** Whether what was read at a position may be of a later lap. Behind the reads, in program order. */
    private boolean lapped(long position) {
        VarHandle.acquireFence(); // pairs with: publish 3, whose fence is behind claimed
        // pairs with: publish 3 and 9; acquire, because of the load of published that may follow
        long claimed = memory.getLongAcquire(capacity + Layout.TRAILER_CLAIMED);
        return claimed > position + capacity - Layout.RECORD_HEADER_LENGTH;
    }

    /** Step 5: on to what is published next. */
    private void jump() {
        if (!consistent()) {
            return; // the next poll tries again
        }
        if (seen <= cursor) {
            throw corrupt(cursor, "claimed is a lap ahead, published is only " + seen);
        }
        lostBytes += seen - cursor;
        lostMessages += count - before;
        before = count;
        goTo(seen);
    }

    /** Steps 1 to 3, but for the type: length of the record at the cursor; 0: there is none for this poll. */
    private int next() {
        int index = (int) cursor & mask;
        int length = memory.getIntAcquire(index); // pairs with: publish 6
        if (length >= Layout.RECORD_HEADER_LENGTH && index + size(length) <= capacity) {
            return length;
        }
        noRecord(length);
        return 0;
    }

    /** The end of steps 2 and 3, where no record can be of such a length: on behind a lap, or damage, or empty. */
    private void noRecord(int length) {
        if (lapped(cursor)) { // also when it looks empty
            jump();
        } else if (length > 0) {
            throw corrupt(cursor, "a record of " + length + " bytes");
        }
    }

    private long size(int length) {
        return length + alignMask & ~alignMask;
    }

    private boolean ready() {
        return !broken && (begun || begin());
    }

    /** Hands out up to {@code limit} messages; returns how many. */
    int poll(MessageHandler handler, int limit) {
        if (!ready()) {
            return 0;
        }
        final long from = cursor;
        int handed = 0;
        try {
            while (handed < limit) {
                int length = next();
                if (length == 0) {
                    break;
                }
                int index = (int) cursor & mask;
                int type = memory.getInt(index + Layout.RECORD_TYPE);
                if (type <= 0) {
                    if (!skip(index, length, type) || cursor - from >= capacity) {
                        break;
                    }
                    continue;
                }
                if (size(length) > longest) {
                    noRecord(length);
                    break;
                }
                int payload = length - Layout.RECORD_HEADER_LENGTH;
                if (payload > copy.capacity()) {
                    makeCopy(Math.max(payload, Math.min(2 * copy.capacity(), longest)));
                }
                copy.putBytes(0, memory, index + Layout.RECORD_PAYLOAD, payload);
                if (lapped(cursor)) {
                    jump();
                    break;
                }
                message.set(copy.address(), payload, type, cursor);
                cursor += size(length);
                before++;
                handed++;
                handler.onMessage(message);
            }
        } finally {
            message.invalidate();
        }
        return handed;
    }

    /** Step 4 for what is no message; false after a jump. */
    private boolean skip(int index, int length, int type) {
        int payload = length - Layout.RECORD_HEADER_LENGTH;
        if (type == Layout.TYPE_OWNER) {
            copy.putBytes(0, memory, index + Layout.RECORD_PAYLOAD, Math.min(payload, Sender.LONGEST));
        }
        if (lapped(cursor)) {
            jump();
            return false;
        }
        if (type == Layout.TYPE_OWNER) {
            message.from(Sender.after(message.sender(), copy, 0, payload));
            inPlace.from(message.sender());
        } else if (type != Layout.TYPE_PADDING) {
            throw corrupt(cursor, "a record of type " + type);
        }
        cursor += size(length);
        return true;
    }

    /** The next message in place, or null. */
    Message peek() {
        if (!ready()) {
            return null;
        }
        for (long from = cursor; cursor - from < capacity;) {
            int length = next();
            if (length == 0) {
                return null;
            }
            int index = (int) cursor & mask;
            int type = memory.getInt(index + Layout.RECORD_TYPE);
            if (type > 0) {
                if (size(length) > longest) {
                    noRecord(length);
                    return null;
                }
                peeked = size(length);
                int payload = length - Layout.RECORD_HEADER_LENGTH;
                inPlace.set(memory.address() + index + Layout.RECORD_PAYLOAD, payload, type, cursor);
                return inPlace;
            }
            if (!skip(index, length, type)) {
                return null;
            }
        }
        return null;
    }

    /** Whether what was peeked at was whole until now; goes on behind it, or with what is published next. */
    boolean valid() {
        if (lapped(cursor)) {
            jump();
            return false;
        }
        cursor += peeked;
        before++;
        return true;
    }

    /** What was peeked at is out of bounds from now on. */
    void invalidate() {
        inPlace.invalidate();
    }

    /** The second half of 6.14's ended. */
    boolean drained() {
        return begun && memory.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED) == cursor; // pairs with: publish 7
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
