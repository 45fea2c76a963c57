// SPDX-License-Identifier: Apache-2.0
package io.flyring.sbe;

import io.flyring.Message;

/**
 * Gets the messages of one template.
 *
 * @param <D> the message's decoder.
 */
@FunctionalInterface
public interface TypedHandler<D> {
    /**
     * One message, in place.
     *
     * @param decoder wrapped over the message; after this method returns every access through it, and through the
     *     decoders of composites and groups that it gave, is out of bounds. (A buffer that was wrapped over a part of
     *     the message, as by a decoder's {@code wrapData}, must not be used any longer either.)
     * @param message the message, for its ring, sender and position; valid until this method returns.
     */
    void onMessage(D decoder, Message message);
}
