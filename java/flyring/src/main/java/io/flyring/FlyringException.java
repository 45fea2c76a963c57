// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Base of every error that Flyring raises. The text says what was wrong, where, and what to do; {@link #code()} is
 * stable and the same in every language (spec/api.md, "Errors").
 */
public abstract class FlyringException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** The stable code of the error. */
    private final String code;

    FlyringException(String code, String message) {
        super(message);
        this.code = code;
    }

    /**
     * The code of the error, for example {@code no-such-channel}.
     *
     * @return the code as spec/api.md lists it.
     */
    public final String code() {
        return code;
    }
}
