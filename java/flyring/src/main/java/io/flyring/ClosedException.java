// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The object was closed. Code {@code closed}. */
public final class ClosedException extends FlyringException {
    private static final long serialVersionUID = 1L;

    ClosedException(String message) {
        super("closed", message);
    }
}
