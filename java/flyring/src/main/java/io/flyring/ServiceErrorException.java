// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The handler of a call threw, failed, or did not answer. Code {@code service-error}. */
public final class ServiceErrorException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The server's error text. */
    private final String text;

    ServiceErrorException(String text) {
        super("service-error", "The server could not answer: " + text + ".");
        this.text = text;
    }

    /**
     * The server's error text.
     *
     * @return the text.
     */
    public String text() {
        return text;
    }
}
