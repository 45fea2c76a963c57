// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The file system cannot carry a channel. Code {@code file-system}. */
public final class UnsuitableFileSystemException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The file or folder. */
    private final String path;

    /** Why it cannot. */
    private final String reason;

    UnsuitableFileSystemException(String path, String reason, String message) {
        super("file-system", message);
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
     * Why it cannot.
     *
     * @return why it cannot.
     */
    public String reason() {
        return reason;
    }
}
