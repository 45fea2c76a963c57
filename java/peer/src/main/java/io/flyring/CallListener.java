// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.function.Consumer;

/**
 * Tells the peer of each item and of the end of a call, in their order among all calls of a client. In Flyring's
 * package, since nothing public does: users have futures.
 */
public final class CallListener {
    private CallListener() {
    }

    /**
     * Listens to a call.
     *
     * @param call one that has just been started.
     * @param listener is called in the verbs of its client.
     */
    public static void add(Call call, Consumer<Call> listener) {
        call.listener = listener;
    }
}
