// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Where a lossy subscriber goes on in a ring whose publisher has overtaken it (spec 6.10). */
public enum WhenLapped {
    /** At the oldest message that leaves it a quarter of the ring. */
    OLDEST,
    /** With what is published next. */
    NEWEST
}
