// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The file was made by a newer Flyring, or needs a feature that this one lacks. Code {@code version-too-new}. */
public final class VersionTooNewException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** {@code major} or {@code required_features}. */
    private final String field;

    /** What the file says. */
    private final long found;

    /** What this version understands. */
    private final long supported;

    VersionTooNewException(String field, long found, long supported, String message) {
        super("version-too-new", message);
        this.field = field;
        this.found = found;
        this.supported = supported;
    }

    /**
     * The header field that is too new.
     *
     * @return {@code major} or {@code required_features}.
     */
    public String field() {
        return field;
    }

    /**
     * The field's value in the file.
     *
     * @return the value.
     */
    public long found() {
        return found;
    }

    /**
     * The value that this version supports.
     *
     * @return the value.
     */
    public long supported() {
        return supported;
    }
}
