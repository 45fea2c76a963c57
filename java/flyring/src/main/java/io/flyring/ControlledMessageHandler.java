// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Gets the messages of a controlled poll. */
@FunctionalInterface
public interface ControlledMessageHandler {
    /**
     * One message, in place: it is valid until this method returns, and so is its buffer. A message whose handler
     * throws counts as consumed.
     *
     * @param message the message; one object per subscriber, used again for each.
     * @return what becomes of it and of the poll; null is {@link InvalidArgumentException}, and the message consumed.
     */
    Action onMessage(Message message);
}
