// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Receives the messages of a poll. */
@FunctionalInterface
public interface MessageHandler {
    /**
     * Handles one message in place: the message and its buffer are valid until this method returns. If this method
     * throws, the message counts as consumed.
     *
     * @param message the message; each subscriber uses its objects again for further messages.
     */
    void onMessage(Message message);
}
