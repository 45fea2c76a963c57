// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;

/**
 * How many messages of a ring end at or before a position (spec 6.5 and 6.10), by what the ring's data and trailer say
 * together. Not thread-safe.
 */
final class MessageCount {
    private static final int GATE_TRIES = 10;

    private final Header header;
    private final Memory ring;
    private final int capacity;
    private final int alignment;
    private final boolean foreign;
    /** What was read last: a position, and the messages before it. */
    private long position;
    private long count;

    /** Data and trailer of a ring. */
    MessageCount(Memory ring, Header header) {
        this.header = header;
        this.ring = ring;
        this.capacity = header.capacity;
        this.alignment = header.alignment;
        this.foreign = header.foreign == Foreign.PUBLISHER;
    }

    private long word(int at) {
        return ring.getLongAcquire(capacity + at); // pairs with: publish 7 and 8
    }

    /** Published and its count; false while the publisher is between the stores, or died there. */
    private boolean consistent() {
        for (int i = 0; i < Layout.LOSSY_TRIES; i++) {
            long done = word(Layout.TRAILER_MESSAGES_DONE);
            position = word(Layout.TRAILER_PUBLISHED);
            count = word(Layout.TRAILER_MESSAGES_BEGUN);
            if (done == count) {
                return count >= 0;
            }
            Thread.onSpinWait();
        }
        return false;
    }

    private boolean lapped(long at) {
        VarHandle.acquireFence(); // pairs with: publish 3
        return word(Layout.TRAILER_CLAIMED) > at + capacity - Layout.RECORD_HEADER_LENGTH;
    }

    /** The smallest boundary at or above a position; false: none. */
    private boolean boundaryFrom(long from) {
        boolean found = false;
        for (int eighth = 0; eighth < Layout.BOUNDARIES; eighth++) {
            int at = Layout.TRAILER_BOUNDARY + eighth * Layout.TRAILER_BOUNDARY_STRIDE;
            long boundary = word(at);
            long messages = word(at + Layout.TRAILER_BOUNDARY_COUNT);
            VarHandle.acquireFence(); // pairs with: publish 8
            if (boundary >= from && word(at) == boundary && (!found || boundary < position)
                && Recovery.isPosition(boundary, alignment) && !lapped(boundary)) {
                found = true;
                position = boundary;
                count = messages;
            }
        }
        return found;
    }

    /** The count of a position; {@link Layout#COUNT_UNKNOWN} if it cannot be known. */
    long of(long from) {
        if (foreign || !boundaryFrom(from) && !consistent() || position - from > capacity) {
            return Layout.COUNT_UNKNOWN; // Agrona counts nothing
        }
        long messages = count;
        long at = from;
        while (at < position) {
            int index = (int) at & capacity - 1;
            int length = ring.getIntAcquire(index); // pairs with: publish 6
            int type = ring.getInt(index + Layout.RECORD_TYPE);
            long size = (long) length + alignment - 1 & -alignment;
            if (length < Layout.RECORD_HEADER_LENGTH || index + size > capacity
                || type < Layout.TYPE_OWNER || type == 0) {
                return Layout.COUNT_UNKNOWN;
            }
            messages -= type > 0 ? 1 : 0;
            at += size;
        }
        return at == position && messages >= 0 ? messages : Layout.COUNT_UNKNOWN;
    }

    /** Messages between a slot's gate and published, as somebody else sees them; -1: not known; 0: it does not gate. */
    long unread(int slot) {
        for (int i = 0; i < GATE_TRIES; i++) {
            long gate = word(header.gateAt(slot));
            if (gate < 0) {
                return 0;
            }
            long before = Recovery.isPosition(gate, alignment) ? of(gate) : Layout.COUNT_UNKNOWN;
            boolean known = consistent();
            VarHandle.acquireFence(); // pairs with: the gate's owner
            if (word(header.gateAt(slot)) == gate) {
                return before < 0 || !known ? Layout.COUNT_UNKNOWN : Math.max(0, count - before);
            }
        }
        return Layout.COUNT_UNKNOWN;
    }

    /** 6.4, 4: published and its count, for a reader that joins; the count is -1 if it is not known. */
    long join(int publishedAt) {
        if (!foreign && consistent()) {
            return position;
        }
        position = word(publishedAt);
        count = Layout.COUNT_UNKNOWN;
        return position;
    }

    /** The count that belongs to what {@link #join} has returned. */
    long count() {
        return count;
    }
}
