// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/** No file of that name exists. Code {@code no-such-channel}. */
public final class NoSuchChannelException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The file that was looked for. */
    private final String path;

    NoSuchChannelException(String path, String message) {
        super("no-such-channel", message);
        this.path = path;
    }

    /**
     * The file that was looked for.
     *
     * @return the path.
     */
    public String path() {
        return path;
    }
}
