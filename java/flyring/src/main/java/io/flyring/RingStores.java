// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;

/** What a {@link Publisher} stores seldom, or only where it has no address of its ring (spec 6.2). */
final class RingStores {
    private RingStores() {
    }

    /** Publish 6 and 7. */
    static void publish(Memory ring, int capacity, int index, int length, long end, long total) {
        ring.putIntRelease(index, length); // pairs with: poll 1
        ring.putLongOpaque(capacity + Layout.TRAILER_MESSAGES_BEGUN, total); // pairs with: consistent count
        ring.putLongRelease(capacity + Layout.TRAILER_PUBLISHED, end); // pairs with: join 2, 4; consistent count
        ring.putLongRelease(capacity + Layout.TRAILER_MESSAGES_DONE, total); // pairs with: consistent count
    }

    /** Publish 8: the first record boundary of an eighth. */
    static void boundary(Memory ring, int capacity, int eighthShift, long end, long total) {
        int at = capacity + Layout.TRAILER_BOUNDARY
            + ((int) (end >> eighthShift) & Layout.BOUNDARIES - 1) * Layout.TRAILER_BOUNDARY_STRIDE;
        ring.putLongOpaque(at, Layout.NOT_GATING);
        VarHandle.releaseFence(); // pairs with: start at what is still there
        ring.putLongOpaque(at + Layout.TRAILER_BOUNDARY_COUNT, total);
        ring.putLongRelease(at, end); // pairs with: start at what is still there
    }

    /** The places of lengths from {@code first} to {@code end}, which is in the same lap or begins the next one. */
    static void clear(Memory ring, int mask, int unit, long first, long end) {
        for (long at = first; at <= end; at += unit) {
            ring.putIntOpaque((int) at & mask, 0); // before publish 6 of the record in front
        }
    }

    /** The same by address; the caller keeps the memory reachable. */
    static void clear(long ringAt, int mask, int unit, long first, long end) {
        long at = Raw.base(ringAt + (first & mask));
        long left = end - first;
        final boolean lapEnds = (end & mask) == 0;
        if (lapEnds) {
            left -= unit;
        }
        for (; left >= 7L * unit; left -= 8L * unit) {
            Raw.putIntOpaque(at, 0); // before publish 6 of the record in front; and so are all of these
            Raw.putIntOpaque(at + unit, 0);
            Raw.putIntOpaque(at + 2L * unit, 0);
            Raw.putIntOpaque(at + 3L * unit, 0);
            Raw.putIntOpaque(at + 4L * unit, 0);
            Raw.putIntOpaque(at + 5L * unit, 0);
            Raw.putIntOpaque(at + 6L * unit, 0);
            Raw.putIntOpaque(at + 7L * unit, 0);
            at += 8L * unit;
        }
        for (; left >= 0; left -= unit) {
            Raw.putIntOpaque(at, 0);
            at += unit;
        }
        if (lapEnds) { // the next lap's begin
            Raw.putIntOpaque(ringAt, 0);
        }
    }
}
