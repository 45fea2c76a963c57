// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Locale;

/** Which end of a channel belongs to a stock Agrona process instead of a Flyring process (channel.md 6.15). */
public enum Foreign {
    /** Neither: both ends are Flyring's. */
    NONE(0),
    /** Agrona's {@code OneToOneRingBuffer} writes the channel's only ring. */
    PUBLISHER(Layout.FEATURE_FOREIGN_PUBLISHER),
    /** Agrona's {@code OneToOneRingBuffer} reads the channel's only ring, as subscriber slot 0. */
    SUBSCRIBER(Layout.FEATURE_FOREIGN_SUBSCRIBER);

    /** The bit in the header's {@code required_features}. */
    final int feature;

    Foreign(int feature) {
        this.feature = feature;
    }

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
