// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** What a {@link ControlledMessageHandler} returns: whether its message is consumed, and whether the poll continues. */
public enum Action {
    /** The message is consumed; the poll goes on. */
    CONTINUE,
    /** The message is consumed, and its gate is stored at once, so that publishers see it; the poll goes on. */
    COMMIT,
    /** The message is consumed; the poll ends. */
    BREAK,
    /** The message is not consumed; the poll ends, and the next one begins with it. */
    ABORT
}
