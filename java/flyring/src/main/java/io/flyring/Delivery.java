// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Whether the requests of a server that died go to the next server (service.md 8). */
public enum Delivery {
    /** A handler receives each request at most once; when the server dies, its calls end. */
    AT_MOST_ONCE(Layout.DELIVERY_AT_MOST_ONCE),
    /** The next server answers; a request that a handler received before is marked as a repeat. */
    AT_LEAST_ONCE(Layout.DELIVERY_AT_LEAST_ONCE);

    final int code;

    Delivery(int code) {
        this.code = code;
    }

    @Override
    public String toString() {
        return this == AT_MOST_ONCE ? "at-most-once" : "at-least-once";
    }
}
