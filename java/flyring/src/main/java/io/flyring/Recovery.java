// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Recovers a ring for its next owner (channel.md 6.8), with the checks of channel.md 9. */
final class Recovery {
    private Recovery() {
    }

    static CorruptRingException corrupt(int ring, long position, String reason) {
        return new CorruptRingException(ring, position, reason, "Ring " + ring + " is damaged at position " + position
            + ": " + reason + ". Some process wrote what it must not; create the channel again.");
    }

    static boolean isPosition(long position, int alignment) {
        return position >= 0 && position < Layout.MAX_POSITION && (position & alignment - 1) == 0;
    }

    /** Makes the checks of 6.8, 1 and 3; stores nothing. */
    static void check(Memory memory, int ring, Header header) {
        int capacity = header.capacity;
        int mask = capacity - 1;
        long p = memory.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED); // pairs with: publish 7
        long q = memory.getLongOpaque(capacity + Layout.TRAILER_CLAIMED);
        checkEnds(ring, p, q, header);
        for (long r = p; r < q;) {
            int length = memory.getIntAcquire((int) r & mask); // pairs with: publish 6
            if (length <= 0) {
                return;
            }
            if (length < Layout.RECORD_HEADER_LENGTH || length > q - r) {
                throw corrupt(ring, r, "a record of " + length + " bytes in an unfinished claim up to " + q);
            }
            r += (long) length + header.alignment - 1 & -header.alignment;
        }
    }

    private static void checkEnds(int ring, long p, long q, Header header) {
        int capacity = header.capacity;
        if (!isPosition(p, header.alignment) || !isPosition(q, header.alignment) || q < p
            || (p & capacity - 1) + (q - p) > capacity
            || q - p > capacity / Layout.MAX_MESSAGE_DIVISOR + header.window()) {
            throw corrupt(ring, p, "published is " + p + " and claimed is " + q);
        }
    }

    /** Recovers the ring, under its slot's lock and the control lock; returns the count of messages ever published. */
    static long recover(Memory memory, int ring, Header header) {
        int capacity = header.capacity;
        int mask = capacity - 1;
        long p = memory.getLongAcquire(capacity + Layout.TRAILER_PUBLISHED); // pairs with: publish 7
        long q = memory.getLongOpaque(capacity + Layout.TRAILER_CLAIMED);
        checkEnds(ring, p, q, header);
        long count = memory.getLongAcquire(capacity + Layout.TRAILER_MESSAGES_DONE); // pairs with: publish 7
        if (p == q || memory.getIntAcquire((int) p & mask) <= 0) { // pairs with: publish 6
            count = memory.getLongOpaque(capacity + Layout.TRAILER_MESSAGES_BEGUN);
            memory.putLongRelease(capacity + Layout.TRAILER_MESSAGES_DONE, count); // before the length at p changes
        }
        long r = p;
        while (r < q) {
            int at = (int) r & mask;
            int length = memory.getIntAcquire(at); // pairs with: publish 6
            if (length <= 0) {
                memory.putIntOpaque((int) q & mask, 0);
                memory.putInt(at + Layout.RECORD_TYPE, Layout.TYPE_PADDING);
                memory.putIntRelease(at, (int) (q - r)); // pairs with: poll 1
                break;
            }
            if (length < Layout.RECORD_HEADER_LENGTH || length > q - r) {
                throw corrupt(ring, r, "a record of " + length + " bytes in an unfinished claim up to " + q);
            }
            count += memory.getInt(at + Layout.RECORD_TYPE) > 0 ? 1 : 0;
            r += (long) length + header.alignment - 1 & -header.alignment;
        }
        memory.putLongOpaque(capacity + Layout.TRAILER_MESSAGES_BEGUN, count);
        memory.putLongRelease(capacity + Layout.TRAILER_PUBLISHED, q); // pairs with: join 2, 4
        memory.putLongRelease(capacity + Layout.TRAILER_MESSAGES_DONE, count); // pairs with: consistent count
        return count;
    }
}
