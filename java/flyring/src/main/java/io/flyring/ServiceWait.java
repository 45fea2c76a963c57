// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The wait of a client or the server of a service (service.md 6, Waiting). */
abstract class ServiceWait extends Waiting {
    static final long DATA_CAP_NANOS = 100_000_000;
    static final long FIRST_ROOM_CAP_NANOS = 4_000_000;
    private static final long ROOM_CAP_NANOS = 20_000_000;
    private static final long FIRST_NANOS = 1_000_000_000;

    private final Channel channel;
    private final int first;
    private final int end;

    /** Creates the wait for messages of the rings from {@code first} up to, but not including, {@code end}. */
    ServiceWait(Channel channel, int first, int end, String what) {
        super(channel.slots().data(), true, mask(first, end), what);
        this.channel = channel;
        this.first = first;
        this.end = end;
    }

    private static int mask(int first, int end) {
        int mask = 0;
        for (int ring = first; ring < end; ring++) {
            mask |= WaitingWords.bit(ring);
        }
        return mask;
    }

    /** The cap while something waits for room. */
    static long roomCap(long waited) {
        return waited < FIRST_NANOS ? FIRST_ROOM_CAP_NANOS : ROOM_CAP_NANOS;
    }

    @Override
    boolean othersWake() {
        for (int ring = first; ring < end; ring++) {
            if (!channel.slots().publisherWakes(ring)) {
                return false;
            }
        }
        return true;
    }

    @Override
    final void lookSoon() {
        // not needed: the next poll looks anyway
    }
}
