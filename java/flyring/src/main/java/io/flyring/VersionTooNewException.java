// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The file was made by a newer Flyring, or needs a feature that this one has not. Code {@code version-too-new}. */
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
     * {@code major} or {@code required_features}.
     *
     * @return {@code major} or {@code required_features}.
     */
    public String field() {
        return field;
    }

    /**
     * What the file says.
     *
     * @return what the file says.
     */
    public long found() {
        return found;
    }

    /**
     * What this version understands.
     *
     * @return what this version understands.
     */
    public long supported() {
        return supported;
    }
}
