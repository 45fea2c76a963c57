// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** What can be done with a channel of one kind alone. */
interface FuzzKind {
    /** Does one thing; {@code full}: no slot was free before. */
    void step(boolean full);

    /** Before the channel is closed. */
    void end();
}
