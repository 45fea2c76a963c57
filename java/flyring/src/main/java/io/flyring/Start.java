// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Where a {@link LossySubscriber} begins in each of its rings. Spec 6.10. */
public enum Start {
    /** With what is published next. */
    NOW,
    /** With the oldest message that is still there; it is found to an eighth of the capacity. */
    OLDEST
}
