// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Receives the messages of a controlled poll. */
@FunctionalInterface
public interface ControlledMessageHandler {
    /**
     * Handles one message in place: the message and its buffer are valid until this method returns. If this method
     * throws, the message counts as consumed.
     *
     * @param message the message; each subscriber uses its objects again for further messages.
     * @return whether the message is consumed and whether the poll continues. With null the message is consumed, and
     *     the poll throws {@link InvalidArgumentException}.
     */
    Action onMessage(Message message);
}
