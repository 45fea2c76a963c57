// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;

/**
 * Computes how many messages of a ring end at or before a position, from the ring's data and trailer (channel.md 6.5
 * and 6.10). Not thread-safe.
 */
final class MessageCount {
    private static final int GATE_TRIES = 10;

    private final Header header;
    private final Memory ring;
    private final int capacity;
    private final int alignment;
    private final boolean foreign;
    /** The position that was read last; {@code count} is the number of messages before it. */
    private long position;
    private long count;

    /** Creates it for the data and trailer of a ring. */
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

    /** Reads published and its count; false if the publisher is between the stores, or died there (6.10). */
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

    /** Reads the smallest boundary at or above a position, and its count; false if there is none. */
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

    /** The count of a position (6.5); {@link Layout#COUNT_UNKNOWN} if it is not known. */
    long of(long from) {
        if (foreign || !boundaryFrom(from) && !consistent() || position - from > capacity) {
            return Layout.COUNT_UNKNOWN; // Agrona does not count messages
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

    /** Messages between a slot's gate and published, read by a process that does not own the slot; -1 if not known. */
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

    /** Returns published, and reads its count (-1 if not known), for a reader that joins (6.4, 4). */
    long join(int publishedAt) {
        if (!foreign && consistent()) {
            return position;
        }
        position = word(publishedAt);
        count = Layout.COUNT_UNKNOWN;
        return position;
    }

    /** The count of the position that {@link #join} returned. */
    long count() {
        return count;
    }
}
