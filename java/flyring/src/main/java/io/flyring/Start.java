// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Where a {@link LossySubscriber} starts in each of its rings. Spec channel.md 6.10. */
public enum Start {
    /** At what is published next. */
    NOW,
    /** At the oldest message that is still in the ring, found with a precision of an eighth of the capacity. */
    OLDEST
}
