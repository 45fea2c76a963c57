// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The file or its folder may not be used. Code {@code access-denied}. */
public final class AccessDeniedException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The file or folder. */
    private final String path;

    /** Why it may not. */
    private final String reason;

    AccessDeniedException(String path, String reason, String message) {
        super("access-denied", message);
        this.path = path;
        this.reason = reason;
    }

    /**
     * The file or folder.
     *
     * @return the file or folder.
     */
    public String path() {
        return path;
    }

    /**
     * Why it may not.
     *
     * @return why it may not.
     */
    public String reason() {
        return reason;
    }
}
