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
     * Handles one request. If this method throws, the call ends with {@link io.flyring.ServiceErrorException}, and the
     * poll goes on.
     *
     * @param decoder wrapped over the request; valid until this method returns, even if the request is kept.
     * @param request the request, to answer it.
     * @throws Exception any exception: it ends the call.
     */
    void onRequest(D decoder, Request request) throws Exception;
}
