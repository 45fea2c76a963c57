// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Receives the requests of a {@link Server}'s poll. */
@FunctionalInterface
public interface RequestHandler {
    /**
     * Handles one request. If this method throws an exception, the call ends with {@link ServiceErrorException}, and
     * the poll goes on.
     *
     * @param request the request, valid until this method returns unless it is kept.
     * @throws Exception any exception.
     */
    void onRequest(Request request) throws Exception;
}
