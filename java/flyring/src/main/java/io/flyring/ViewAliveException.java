// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The operation would invalidate memory that is still in use. Code {@code view-alive}. */
public final class ViewAliveException extends FlyringException {
    private static final long serialVersionUID = 1L;

    ViewAliveException(String message) {
        super("view-alive", message);
    }
}
