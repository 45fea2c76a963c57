// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;

/** One subscriber's way through one ring: cursor, gate, and the records between them (spec 6.4, 6.5, 6.9). */
final class RingReader {
    final int ring;
    private final Memory data;
    private final Memory trailer;
    private final int gateAt;
    private final int capacity;
    private final int mask;
    private final long alignMask;
    private final int storeEvery;
    private final Message message = new Message();
    private long cursor;
    /** What this reader last stored in its gate. */
    private long stored;
    private boolean broken;

    RingReader(Header header, int ring, int slot, Memory data, Memory trailer) {
        this.ring = ring;
        this.data = data;
        this.trailer = trailer;
        this.gateAt = Header.gate(slot);
        this.capacity = header.capacity;
        this.mask = capacity - 1;
        this.alignMask = header.alignment - 1;
        this.storeEvery = capacity / Layout.GATE_STORE_DIVISOR;
    }

    /** Join 2. */
    void announce() {
        storeGate(checked(published(), "published"));
    }

    /** Join 4, after the fence. */
    void join() {
        cursor = checked(published(), "published");
        storeGate(cursor);
    }

    private long published() {
        return trailer.getLongAcquire(Layout.TRAILER_PUBLISHED); // pairs with: publish 7
    }

    private long checked(long position, String word) {
        if (!Recovery.isPosition(position, (int) alignMask + 1)) {
            throw Recovery.corrupt(ring, position, word + " is no position");
        }
        return position;
    }

    /** 6.5: goes on where the gate is. */
    void resume() {
        long gate = checked(gate(), "the gate");
        long published = checked(published(), "published");
        if (gate > published || gate < published - capacity) {
            throw Recovery.corrupt(ring, gate, "the gate is not within a lap of published, " + published);
        }
        cursor = gate;
        stored = gate;
    }

    long gate() {
        return trailer.getLongAcquire(gateAt); // pairs with: this slot's last owner, retire, evict
    }

    void storeGate(long position) {
        stored = position;
        trailer.putLongRelease(gateAt, position); // pairs with: recompute 2
    }

    /** Takes back a gate that was stored after an evict (5.4). */
    void undoGate() {
        if (stored >= 0 && gate() == stored) {
            storeGate(Layout.NOT_GATING);
        }
    }

    void prefault() {
        data.prefault();
    }

    long cursor() {
        return cursor;
    }

    /** Hands out up to {@code limit} messages; returns how many. */
    int poll(MessageHandler handler, int limit) {
        final Memory memory = data;
        final Message view = message;
        final long start = cursor;
        long c = start;
        int index = (int) c & mask;
        int length = memory.getIntAcquire(index); // pairs with: publish 6
        if (length <= 0 || broken) {
            return 0;
        }
        int handed = 0;
        try {
            while (length > 0) {
                long size = length + alignMask & ~alignMask;
                if (length < Layout.RECORD_HEADER_LENGTH || index + size > capacity) {
                    throw corrupt(c, "a record of " + length + " bytes");
                }
                int type = memory.getInt(index + Layout.RECORD_TYPE);
                if (type <= 0 && type != Layout.TYPE_PADDING && type != Layout.TYPE_OWNER) {
                    throw corrupt(c, "a record of type " + type);
                }
                cursor = c + size;
                if (type > 0) {
                    handed++;
                    view.set(memory, index + Layout.RECORD_PAYLOAD, length - Layout.RECORD_HEADER_LENGTH, type, ring,
                        c);
                    handler.onMessage(view);
                }
                c += size;
                if (c - stored >= storeEvery) {
                    storeGate(c);
                }
                if (handed == limit || type <= 0 && c - start >= capacity) {
                    break; // a hostile ring may hold nothing but padding
                }
                index = (int) c & mask;
                length = memory.getIntAcquire(index); // pairs with: publish 6
            }
        } finally {
            view.invalidate();
            if (cursor != stored) {
                storeGate(cursor);
            }
        }
        return handed;
    }

    private CorruptRingException corrupt(long position, String reason) {
        broken = true;
        return Recovery.corrupt(ring, position, reason);
    }

    /** Whether a poll has found it damaged; it is not looked at again. */
    boolean broken() {
        return broken;
    }

    /** The fence between join 2 and join 4. */
    static void joinFence() {
        VarHandle.fullFence(); // pairs with: recompute 1
    }
}
