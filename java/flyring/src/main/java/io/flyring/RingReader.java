// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.util.List;

/** One subscriber's way through one ring: cursor, gate, and the records between them (spec 6.4, 6.5, 6.9). */
final class RingReader {
    /** What {@link #poll} returns if the slot is somebody else's by now. */
    static final int LOST = -1;
    private static final long NOBODY = -1;

    final int ring;
    private final Memory data;
    /** Where the ring's data lies, if it can be read by address; else 0. */
    private final long dataAt;
    private final Memory trailer;
    private final int gateAt;
    /** Where the gate lies, if it can be written by address; else 0. */
    private final long gateAddress;
    /** The word that says how far was published: a foreign publisher moves claimed only (6.15). */
    private final int publishedAt;
    private final int capacity;
    private final int mask;
    private final long alignMask;
    private final int storeEvery;
    private final long payloadsAt;
    private final Message message;
    private final Memory control;
    private final int epochAt;
    /** Where the slot's epoch lies, if it can be read by address; else 0. */
    private final long epochAddress;
    /** Who wakes publishers; this ring's bit; and where those who sleep say so, if it can be read by address. */
    private final Waker waker;
    private final int wakerBit;
    private final long watchedAt;
    /** What the slot's epoch must be; {@link #NOBODY} once the subscriber is closed. */
    private long epoch;
    private long cursor;
    /** Messages before the cursor; {@link Layout#COUNT_UNKNOWN} if that is not known. */
    private long count;
    /** What a message adds to the count: 1, or 0 if it is not known. */
    private int step;
    /** What this reader last stored in its gate. */
    private long storedGate;
    private boolean broken;
    /** Of the last controlled poll: whether its handler ended it, and did not consume its last message. */
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

    /** The slot has its new owner. */
    void owner(long newEpoch) {
        epoch = newEpoch;
    }

    /** From now on a poll that still runs, in whatever thread, ends. */
    void end() {
        epoch = NOBODY;
    }

    /** An object like the one that handlers get, to show other parts of the ring. */
    Message anotherView() {
        return new Message(ring, data);
    }

    /** What this reader alone looks and stores through. */
    List<Memory> mappings() {
        return List.of(data, trailer);
    }

    /** Whether the slot is still its owner's. */
    private boolean owned() {
        if (epochAddress != 0) {
            long now = Raw.getLongOpaque(Raw.base(epochAddress));
            Reference.reachabilityFence(control);
            return now == epoch;
        }
        return control.getLongOpaque(epochAt) == epoch;
    }

    /** 5.3, 3: all that may refuse, before the first store. */
    void check(boolean resumes) {
        long published = checked(published(), "published");
        if (resumes) {
            long gate = checked(gate(), "the gate");
            // A reader may have consumed a record whose publisher has not stored published yet, or died before it did.
            if (gate < published - capacity || gate > trailer.getLongOpaque(Layout.TRAILER_CLAIMED)) {
                throw Recovery.corrupt(ring, gate, "the gate is not within a lap of published, " + published);
            }
        }
    }

    /** 6.4, 2: keeps what is published from now on, before the fence. */
    void gateAtPublished() {
        trailer.putLongRelease(gateAt, checked(published(), "published")); // pairs with: recompute 2
    }

    /** 6.4, 4: reads from what is published now, after the fence; returns what was lost since the last owner (5). */
    long join(MessageCount whole) {
        cursor = checked(whole.join(publishedAt), "published");
        count = whole.count();
        step = count < 0 ? 0 : 1;
        storedGate = cursor;
        trailer.putLongRelease(gateAt, cursor); // pairs with: recompute 2
        long before = trailer.getLongOpaque(gateAt + Layout.GATE_COUNT);
        return count < 0 || before < 0 ? 0 : Math.max(0, count - before);
    }

    /** 6.4, 6. */
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

    /** 6.5: goes on where the gate is. */
    void resume(MessageCount whole) {
        cursor = gate();
        storedGate = cursor;
        count = whole.of(cursor);
        step = count < 0 ? 0 : 1;
    }

    long gate() {
        return trailer.getLongAcquire(gateAt); // pairs with: this slot's last owner, retire, evict
    }

    /** The gate of a ring that is damaged: it holds nobody back. Wakes who waits for room, as 6.9, 6 does. */
    void stopGating() {
        storedGate = Layout.NOT_GATING;
        trailer.putLongRelease(gateAt, Layout.NOT_GATING); // pairs with: recompute 2
        if (waker.isAwaited(wakerBit)) {
            waker.wakeNow(wakerBit);
        }
    }

    /** 6.9, 4 and 6: the count, then the gate; then who waits for room. */
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

    /** 6.14, once the cursor is set. */
    void learnSender(Slots slots) {
        message.from(slots.sender(ring, cursor, message.sender()));
    }

    /** The second half of 6.14's ended: whether everything that was published was consumed. */
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
     * Hands out what is there, from the cursor on. All in one method, because HotSpot inlines none of more than 325
     * bytecodes, however often it is called. A waiting reader finds nothing a hundred times for each message that
     * comes, and is compiled for that; this method is compiled by itself, with the handler in it.
     *
     * @return how many, or {@link #LOST} if the slot was taken away: what they held may have been overwritten.
     */
    private int handOut(MessageHandler handler, int limit, int firstLength) {
        final Message view = message;
        if (limit == 1) { // as request and reply want it: fifty instructions fewer than with the loop's variables
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
                // As long as records keep their size, that of the last one is taken: then the processor can fetch the
                // next records before it has this one's length, which is often still in the publisher's cache.
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
        VarHandle.acquireFence(); // pairs with: evict, whose epoch comes before the gates that protected what was read
        return owned() ? handed : LOST;
    }

    /**
     * The same as {@link #poll(MessageHandler, int)}, with a handler that says how to go on; {@link #stopped()} tells
     * afterwards whether it ended the poll.
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

    /** Whether the last controlled poll was ended by its handler. */
    boolean stopped() {
        return stopped;
    }

    /** Whether the last controlled poll ended in front of a message that its handler did not want. */
    boolean aborted() {
        return aborted;
    }

    /** What is no message: padding, an owner record, or damage. */
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

    /** Whether a poll has found it damaged; it is not looked at again. */
    boolean broken() {
        return broken;
    }

    /** 6.4, 3. */
    static void joinFence() {
        VarHandle.fullFence(); // pairs with: recompute 1
    }
}
