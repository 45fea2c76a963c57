// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** An argument is outside its valid range. Code {@code invalid-argument}. */
public final class InvalidArgumentException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** Name of the argument. */
    private final String argument;

    /**
     * Creates the exception.
     *
     * @param argument name of the argument.
     * @param message what is wrong with it.
     */
    public InvalidArgumentException(String argument, String message) {
        super("invalid-argument", message);
        this.argument = argument;
    }

    /**
     * The name of the argument.
     *
     * @return the name.
     */
    public String argument() {
        return argument;
    }
}
