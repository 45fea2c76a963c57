// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.function.Consumer;

/**
 * Tells the peer of each item and of the end of a call, in their order among all calls of a client. Lies in Flyring's
 * package to reach a package-private field; users have futures.
 */
public final class CallListener {
    private CallListener() {
    }

    /**
     * Listens to a call.
     *
     * @param call a call that has just been started.
     * @param listener called inside the verbs of the call's client.
     */
    public static void add(Call call, Consumer<Call> listener) {
        call.listener = listener;
    }
}
