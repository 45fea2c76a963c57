// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * The base class of all Flyring exceptions. The text says what was wrong, where, and what to do; {@link #code()} is
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
     * @return the code, as listed in spec/api.md.
     */
    public final String code() {
        return code;
    }
}
