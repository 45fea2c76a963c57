// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.util.List;

/** Reads one ring for one subscriber: its cursor, its gate, and the records between them (channel.md 6.4, 6.5, 6.9). */
final class RingReader {
    /** The result of {@link #poll} if the slot was taken away. */
    static final int LOST = -1;
    private static final long NOBODY = -1;

    final int ring;
    private final Memory data;
    /** The address of the ring's data, if it can be read by address; else 0. */
    private final long dataAt;
    private final Memory trailer;
    private final int gateAt;
    /** The address of the gate, if it can be written by address; else 0. */
    private final long gateAddress;
    /** Offset of the word with the published position: with a foreign publisher, that is claimed (6.15). */
    private final int publishedAt;
    private final int capacity;
    private final int mask;
    private final long alignMask;
    private final int storeEvery;
    private final long payloadsAt;
    private final Message message;
    private final Memory control;
    private final int epochAt;
    /** The address of the slot's epoch, if it can be read by address; else 0. */
    private final long epochAddress;
    /** What wakes publishers, this ring's bit, and the address of {@code asleep}, for reads by address. */
    private final Waker waker;
    private final int wakerBit;
    private final long watchedAt;
    /** The epoch that the slot must have; {@link #NOBODY} once the subscriber is closed. */
    private long epoch;
    private long cursor;
    /** The number of messages before the cursor; {@link Layout#COUNT_UNKNOWN} if not known. */
    private long count;
    /** What a message adds to the count: 1, or 0 if the count is not known. */
    private int step;
    /** The gate as this reader stored it last. */
    private long storedGate;
    private boolean broken;
    /** Whether the handler ended the last controlled poll, and whether it did so without consuming the message. */
    private boolean stopped;
    private boolean aborted;

    RingReader(Channel channel, int ring, int slot, Memory data, Memory trailer, Waker waker) {
        Header header = channel.header();
        this.ring = ring;
        this.waker = waker;
        this.wakerBit = WaitingWords.bit(ring);
        this.watchedAt = waker.watchedAt();
        this.message = new Message(ring, data);
        this.data = data;
        this.dataAt = data.readableAt();
        this.payloadsAt = data.address() + Layout.RECORD_PAYLOAD;
        this.trailer = trailer;
        this.gateAt = header.gateAt(slot);
        this.gateAddress = trailer.writableAt() == 0 ? 0 : trailer.writableAt() + gateAt;
        this.publishedAt = header.foreign == Foreign.PUBLISHER ? Layout.TRAILER_CLAIMED : Layout.TRAILER_PUBLISHED;
        this.capacity = header.capacity;
        this.mask = capacity - 1;
        this.alignMask = header.alignment - 1;
        this.storeEvery = capacity / Layout.GATE_STORE_DIVISOR;
        this.control = channel.control();
        this.epochAt = header.subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_EPOCH;
        this.epochAddress = control.readableAt() == 0 ? 0 : control.readableAt() + epochAt;
    }

    /** Sets the epoch of the slot's new owner. */
    void owner(long newEpoch) {
        epoch = newEpoch;
    }

    /** Makes a poll that is still running, in any thread, end. */
    void end() {
        epoch = NOBODY;
    }

    /** A second message object, to show other parts of the ring. */
    Message anotherView() {
        return new Message(ring, data);
    }

    /** The mappings that only this reader uses. */
    List<Memory> mappings() {
        return List.of(data, trailer);
    }

    /** Whether the slot still has the expected epoch. */
    private boolean owned() {
        if (epochAddress != 0) {
            long now = Raw.getLongOpaque(Raw.base(epochAddress));
            Reference.reachabilityFence(control);
            return now == epoch;
        }
        return control.getLongOpaque(epochAt) == epoch;
    }

    /** Makes all checks that may refuse, before the first store (5.3, 3). */
    void check(boolean resumes) {
        long published = checked(published(), "published");
        if (resumes) {
            long gate = checked(gate(), "the gate");
            // A reader may have consumed a record before its publisher has stored published; the publisher may have
            // died there.
            if (gate < published - capacity || gate > trailer.getLongOpaque(Layout.TRAILER_CLAIMED)) {
                throw Recovery.corrupt(ring, gate, "the gate is not within a lap of published, " + published);
            }
        }
    }

    /** Sets the gate to published, before the fence: join 2 (6.4). */
    void gateAtPublished() {
        trailer.putLongRelease(gateAt, checked(published(), "published")); // pairs with: recompute 2
    }

    /**
     * Sets cursor and gate to published, after the fence: join 4. Returns the messages lost since the last owner (5).
     */
    long join(MessageCount whole) {
        cursor = checked(whole.join(publishedAt), "published");
        count = whole.count();
        step = count < 0 ? 0 : 1;
        storedGate = cursor;
        trailer.putLongRelease(gateAt, cursor); // pairs with: recompute 2
        long before = trailer.getLongOpaque(gateAt + Layout.GATE_COUNT);
        return count < 0 || before < 0 ? 0 : Math.max(0, count - before);
    }

    /** Stores the count beside the gate: join 6. */
    void storeCount() {
        trailer.putLongOpaque(gateAt + Layout.GATE_COUNT, count);
    }

    private long published() {
        return trailer.getLongAcquire(publishedAt); // pairs with: publish 7, or Agrona's store of its tail
    }

    private long checked(long position, String word) {
        if (!Recovery.isPosition(position, (int) alignMask + 1)) {
            throw Recovery.corrupt(ring, position, word + " is no position");
        }
        return position;
    }

    /** Resumes at the gate (6.5). */
    void resume(MessageCount whole) {
        cursor = gate();
        storedGate = cursor;
        count = whole.of(cursor);
        step = count < 0 ? 0 : 1;
    }

    long gate() {
        return trailer.getLongAcquire(gateAt); // pairs with: this slot's last owner, retire, evict
    }

    /** Clears the gate, for a damaged ring; wakes publishers that wait for room, as in poll 6 (6.9). */
    void stopGating() {
        storedGate = Layout.NOT_GATING;
        trailer.putLongRelease(gateAt, Layout.NOT_GATING); // pairs with: recompute 2
        if (waker.isAwaited(wakerBit)) {
            waker.wakeNow(wakerBit);
        }
    }

    /** Stores the count, then the gate, and wakes publishers that wait for room: poll 4 and 6 (6.9). */
    private void storeGate(long position, long messages) {
        storedGate = position;
        if (gateAddress != 0) {
            Raw.putLongOpaque(Raw.base(gateAddress) + Layout.GATE_COUNT, messages);
            Raw.putLongRelease(Raw.base(gateAddress), position); // pairs with: recompute 2
            Reference.reachabilityFence(trailer);
        } else {
            trailer.putLongOpaque(gateAt + Layout.GATE_COUNT, messages);
            trailer.putLongRelease(gateAt, position); // pairs with: recompute 2
        }
        final boolean awaited = Raw.AVAILABLE
            ? (Raw.getIntOpaque(Raw.base(watchedAt)) & wakerBit) != 0 : waker.isAwaited(wakerBit);
        Reference.reachabilityFence(waker);
        if (awaited) {
            waker.wakeNow(wakerBit);
        }
    }

    /** Sets the sender; called after the cursor is set (6.14). */
    void learnSender(Slots slots) {
        message.from(slots.sender(ring, cursor, message.sender()));
    }

    /** Whether everything that was published was consumed: the second half of ended (6.14). */
    boolean drained() {
        return published() == cursor;
    }

    void prefault() {
        data.prefault();
    }

    long cursor() {
        return cursor;
    }

    /**
     * Hands out up to {@code limit} messages; returns how many, or {@link #LOST} if the slot was taken away meanwhile.
     * Small, so that a poll of an empty ring is inlined.
     */
    int poll(MessageHandler handler, int limit) {
        int length = lengthAt((int) cursor & mask);
        return length <= 0 || broken ? 0 : handOut(handler, limit, length);
    }

    /** Whether a poll would find something. */
    boolean isReady() {
        return !broken && lengthAt((int) cursor & mask) > 0;
    }

    private int lengthAt(int index) {
        if (dataAt != 0) {
            int length = Raw.getIntAcquire(Raw.base(dataAt + index)); // pairs with: publish 6
            Reference.reachabilityFence(data);
            return length;
        }
        return data.getIntAcquire(index); // pairs with: publish 6
    }

    /**
     * Hands out messages from the cursor on. This is one long method on purpose: HotSpot does not inline methods of
     * more than 325 bytecodes. A waiting reader finds nothing a hundred times for each message, and its loop is
     * compiled for that case. This method is compiled separately, with the handler inlined.
     *
     * @return the number of messages, or {@link #LOST} if the slot was taken away: then their bytes may have been
     *     overwritten.
     */
    private int handOut(MessageHandler handler, int limit, int firstLength) {
        final Message view = message;
        if (limit == 1) { // for request and reply: fifty instructions fewer than the loop below
            final long c = cursor;
            final int index = (int) c & mask;
            final long size = firstLength + alignMask & ~alignMask;
            if (dataAt != 0 && firstLength >= Layout.RECORD_HEADER_LENGTH && index + size <= capacity) {
                final int type = Raw.getInt(Raw.base(dataAt + index) + Layout.RECORD_TYPE);
                Reference.reachabilityFence(data);
                if (type > 0) {
                    view.set(payloadsAt + index, firstLength - Layout.RECORD_HEADER_LENGTH, type, c);
                    final long end = c + size;
                    cursor = end;
                    count += step;
                    try {
                        handler.onMessage(view);
                    } finally {
                        view.invalidate();
                        storeGate(end, count);
                    }
                    VarHandle.acquireFence(); // pairs with: evict
                    return owned() ? 1 : LOST;
                }
            }
        }
        final long start = cursor;
        long c = start;
        long stride = alignMask + 1;
        int length = firstLength;
        int handed = 0;
        final long before = count;
        try {
            do {
                int index = (int) c & mask;
                long size = length + alignMask & ~alignMask;
                if (length < Layout.RECORD_HEADER_LENGTH || index + size > capacity) {
                    throw corrupt(c, "a record of " + length + " bytes");
                }
                int type;
                if (dataAt != 0) {
                    type = Raw.getInt(Raw.base(dataAt + index) + Layout.RECORD_TYPE);
                    Reference.reachabilityFence(data);
                } else {
                    type = data.getInt(index + Layout.RECORD_TYPE);
                }
                // While records keep their size, use the size of the last one. Then the processor can fetch the next
                // records before it has this record's length, which is often still in the publisher's cache.
                long end = c + stride;
                if (size != stride) {
                    stride = size;
                    end = c + size;
                }
                if (type > 0) {
                    handed++;
                    view.set(payloadsAt + index, length - Layout.RECORD_HEADER_LENGTH, type, c);
                    cursor = end;
                    handler.onMessage(view);
                } else {
                    skip(c, index, length, type);
                    cursor = end;
                }
                c = end;
                if (c - storedGate >= storeEvery) {
                    storeGate(c, before + (long) handed * step);
                    VarHandle.acquireFence(); // pairs with: evict
                    if (!owned()) {
                        break;
                    }
                }
                if (handed == limit || type <= 0 && c - start >= capacity) {
                    break; // a hostile ring may hold nothing but padding
                }
                length = lengthAt((int) c & mask);
            } while (length > 0);
        } finally {
            view.invalidate();
            count = before + (long) handed * step;
            if (cursor != storedGate) {
                storeGate(cursor, count);
            }
        }
        VarHandle.acquireFence(); // pairs with: evict, which stores the epoch before it clears the gates
        return owned() ? handed : LOST;
    }

    /**
     * Does the same as {@link #poll(MessageHandler, int)} for a handler that returns an action. Afterwards
     * {@link #stopped()} tells whether the handler ended the poll.
     */
    int controlledPoll(ControlledMessageHandler handler, int limit) {
        stopped = false;
        aborted = false;
        if (broken) {
            return 0;
        }
        final Message view = message;
        final long start = cursor;
        int handed = 0;
        boolean owned = true;
        try {
            int length = lengthAt((int) cursor & mask);
            while (length > 0 && !stopped && owned && handed < limit) {
                final long c = cursor;
                final int index = (int) c & mask;
                final long size = length + alignMask & ~alignMask;
                if (length < Layout.RECORD_HEADER_LENGTH || index + size > capacity) {
                    throw corrupt(c, "a record of " + length + " bytes");
                }
                final int type = data.getInt(index + Layout.RECORD_TYPE);
                boolean commits = false;
                if (type > 0) {
                    view.set(payloadsAt + index, length - Layout.RECORD_HEADER_LENGTH, type, c);
                    cursor = c + size;
                    count += step;
                    handed++;
                    final Action action = Refusal.ofNull(handler.onMessage(view));
                    commits = action == Action.COMMIT;
                    stopped = action == Action.BREAK || action == Action.ABORT;
                    aborted = action == Action.ABORT;
                    if (aborted) {
                        cursor = c;
                        count -= step;
                        handed--;
                    }
                } else {
                    skip(c, index, length, type);
                    cursor = c + size;
                }
                if (commits || cursor - storedGate >= storeEvery) {
                    storeGate(cursor, count);
                    VarHandle.acquireFence(); // pairs with: evict
                    owned = owned();
                }
                if (type <= 0 && cursor - start >= capacity) {
                    break; // a hostile ring may hold nothing but padding
                }
                length = lengthAt((int) cursor & mask);
            }
        } finally {
            view.invalidate();
            if (cursor != storedGate) {
                storeGate(cursor, count);
            }
        }
        VarHandle.acquireFence(); // pairs with: evict
        return owned() ? handed : LOST;
    }

    /** Whether the handler ended the last controlled poll. */
    boolean stopped() {
        return stopped;
    }

    /** Whether the handler aborted a message in the last controlled poll. */
    boolean aborted() {
        return aborted;
    }

    /** Handles a record that is not a message: skips padding, reads an owner record, or throws. */
    private void skip(long position, int index, int length, int type) {
        if (type == Layout.TYPE_OWNER) {
            int payload = index + Layout.RECORD_PAYLOAD;
            message.from(Sender.after(message.sender(), data, payload, length - Layout.RECORD_HEADER_LENGTH));
        } else if (type != Layout.TYPE_PADDING) {
            throw corrupt(position, "a record of type " + type);
        }
    }

    private CorruptRingException corrupt(long position, String reason) {
        broken = true;
        return Recovery.corrupt(ring, position, reason);
    }

    /** Whether a poll has found the ring damaged; it is not read again. */
    boolean broken() {
        return broken;
    }

    /** The fence of join 3 (6.4). */
    static void joinFence() {
        VarHandle.fullFence(); // pairs with: recompute 1
    }
}
