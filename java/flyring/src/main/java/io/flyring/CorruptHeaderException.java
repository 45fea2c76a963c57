// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** A field of the header violates the specification. Code {@code corrupt-header}. */
public final class CorruptHeaderException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The first field that is wrong. */
    private final String field;

    CorruptHeaderException(String field, String message) {
        super("corrupt-header", message);
        this.field = field;
    }

    /**
     * The first field that is wrong.
     *
     * @return the field's name.
     */
    public String field() {
        return field;
    }
}
