// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The wait of a subscriber for a message (channel.md 6.16). */
abstract class DataWait extends Waiting {
    private static final long CAP_NANOS = 100_000_000;
    private static final int NAPS = 9; // a full round comes once a second

    private final Channel channel;
    private final int[] rings;

    DataWait(Channel channel, int[] rings) {
        super(channel.slots().data(), !channel.readOnly(), mask(rings), "a message");
        this.channel = channel;
        this.rings = rings;
    }

    private static int mask(int[] rings) {
        int mask = 0;
        for (int ring : rings) {
            mask |= WaitingWords.bit(ring);
        }
        return mask;
    }

    @Override
    final boolean othersWake() {
        for (int ring : rings) {
            if (!channel.slots().publisherWakes(ring)) {
                return false;
            }
        }
        return true;
    }

    @Override
    final long cap(long waited) {
        return CAP_NANOS;
    }

    @Override
    final int naps() {
        return NAPS;
    }

    @Override
    final void look() {
        channel.checkReplaced();
    }
}
