// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The file system cannot carry a channel. Code {@code file-system}. */
public final class UnsuitableFileSystemException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The file or folder. */
    private final String path;

    /** Why the file system is not suitable. */
    private final String reason;

    UnsuitableFileSystemException(String path, String reason, String message) {
        super("file-system", message);
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
     * Why the file system is not suitable.
     *
     * @return the reason.
     */
    public String reason() {
        return reason;
    }
}
