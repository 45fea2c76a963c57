// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** What becomes of a message, and of the poll that handed it out; the result of a {@link ControlledMessageHandler}. */
public enum Action {
    /** The message is consumed; the poll goes on. */
    CONTINUE,
    /** The message is consumed, and publishers learn of it now; the poll goes on. */
    COMMIT,
    /** The message is consumed; the poll ends. */
    BREAK,
    /** The message is not consumed; the poll ends, and the next one begins with it. */
    ABORT
}
