// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** What becomes of a service's requests whose server dies (spec/service.md 8). */
public enum Delivery {
    /** A handler is given each request at most once; a call ends with its server. */
    AT_MOST_ONCE(Layout.DELIVERY_AT_MOST_ONCE),
    /** The next server answers; a request that a handler was given before says so. */
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
