// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** The file does not start with Flyring's magic number. Code {@code not-a-channel}. */
public final class NotAChannelException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The file. */
    private final String path;

    NotAChannelException(String path, String message) {
        super("not-a-channel", message);
        this.path = path;
    }

    /**
     * The file.
     *
     * @return the path.
     */
    public String path() {
        return path;
    }
}
