// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.function.Consumer;

/** Tells the peer of each item and of the end of a call, in their order. In Flyring's package: nothing public does. */
public final class CallEvents {
    private CallEvents() {
    }

    /**
     * Sets who is told, in the verbs of the call's client.
     *
     * @param call one that was just started.
     * @param heard gets the call.
     */
    public static void of(Call call, Consumer<Call> heard) {
        call.listener = heard;
    }

    /**
     * Whether a call is one for a stream.
     *
     * @param call any.
     * @return true if it has items.
     */
    public static boolean isStream(Call call) {
        return call.credit > 0;
    }
}
