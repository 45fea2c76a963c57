// SPDX-License-Identifier: Apache-2.0
package io.flyring.sbe;

import io.flyring.Message;

/**
 * Receives the messages of one template.
 *
 * @param <D> the message's decoder.
 */
@FunctionalInterface
public interface TypedHandler<D> {
    /**
     * Handles one message in place.
     *
     * @param decoder the decoder, wrapped over the message. After this method returns, every access through the
     *     decoder, and through its decoders of composites and groups, is out of bounds. Do not use a buffer that was
     *     wrapped over a part of the message, as by {@code wrapData}, after that either.
     * @param message the message, for its ring, sender and position; valid until this method returns.
     */
    void onMessage(D decoder, Message message);
}
