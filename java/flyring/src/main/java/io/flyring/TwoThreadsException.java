// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** An object was used by two threads at once, or by its own handler. Code {@code two-threads}. */
public final class TwoThreadsException extends FlyringException {
    private static final long serialVersionUID = 1L;

    TwoThreadsException(String message) {
        super("two-threads", message);
    }
}
