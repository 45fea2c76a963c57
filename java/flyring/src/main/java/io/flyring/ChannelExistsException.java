// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** A file exists already where a channel was to be created. Code {@code exists}. */
public final class ChannelExistsException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The file that exists. */
    private final String path;

    ChannelExistsException(String path, String message) {
        super("exists", message);
        this.path = path;
    }

    /**
     * The file that exists.
     *
     * @return the path.
     */
    public String path() {
        return path;
    }
}
