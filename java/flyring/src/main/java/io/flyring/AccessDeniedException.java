// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The process may not use the file or its folder. Code {@code access-denied}. */
public final class AccessDeniedException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The file or folder. */
    private final String path;

    /** Why access is denied. */
    private final String reason;

    AccessDeniedException(String path, String reason, String message) {
        super("access-denied", message);
        this.path = path;
        this.reason = reason;
    }

    /**
     * The file or folder.
     *
     * @return the path.
     */
    public String path() {
        return path;
    }

    /**
     * Why access is denied.
     *
     * @return the reason.
     */
    public String reason() {
        return reason;
    }
}
