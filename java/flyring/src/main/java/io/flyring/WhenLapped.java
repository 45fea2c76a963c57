// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Where a lossy subscriber continues in a ring after the publisher has overtaken it (channel.md 6.10). */
public enum WhenLapped {
    /** At the oldest message that is at least a quarter of the ring away from being overwritten. */
    OLDEST,
    /** At what is published next. */
    NEWEST
}
