// SPDX-License-Identifier: Apache-2.0
package io.flyring.sbe;

import io.flyring.Request;

/**
 * Gets the requests of one template.
 *
 * @param <D> the message's decoder.
 */
@FunctionalInterface
public interface TypedRequestHandler<D> {
    /**
     * One request. If it throws, the call ends with {@link io.flyring.ServiceErrorException}, and the poll goes on.
     *
     * @param decoder wrapped over the request; valid until this method returns, as in {@link TypedHandler}, also of a
     *     request that is kept.
     * @param request what is answered.
     * @throws Exception whatever it likes.
     */
    void onRequest(D decoder, Request request) throws Exception;
}
