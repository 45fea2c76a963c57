// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Tells one object whether its channel was replaced (spec 6.13): at once, and then at most once a second. */
final class Successor {
    private static final long PAUSE_NANOS = 1_000_000_000L;

    private final Channel channel;
    private boolean told;
    private long toldAt;

    Successor(Channel channel) {
        this.channel = channel;
    }

    /** Throws {@link ChannelReplacedException} if another channel has the name now. */
    void check() {
        if (!told || System.nanoTime() - toldAt >= PAUSE_NANOS) {
            try {
                channel.checkReplaced();
            } catch (ChannelReplacedException e) {
                told = true;
                toldAt = System.nanoTime();
                throw e;
            }
        }
    }
}
