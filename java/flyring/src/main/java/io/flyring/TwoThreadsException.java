// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** Two threads used an object at once, or a handler used the object that called it. Code {@code two-threads}. */
public final class TwoThreadsException extends FlyringException {
    private static final long serialVersionUID = 1L;

    TwoThreadsException(String message) {
        super("two-threads", message);
    }
}
