// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Gets the requests of a {@link Server}'s poll. */
@FunctionalInterface
public interface RequestHandler {
    /**
     * One request. If it throws, the call ends with {@link ServiceErrorException}, and the poll goes on.
     *
     * @param request valid until this returns, unless it is kept.
     * @throws Exception whatever it likes.
     */
    void onRequest(Request request) throws Exception;
}
