// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.UUID;

/**
 * Another channel has taken this one's name, so opening the name gets the other channel. The object that threw this
 * keeps working, and throws it again at its next check. Code {@code replaced}.
 */
public final class ChannelReplacedException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The channel's file. */
    private final String path;

    /** The id of the channel that has the name now. */
    private final UUID channelId;

    ChannelReplacedException(String path, UUID channelId, String message) {
        super("replaced", message);
        this.path = path;
        this.channelId = channelId;
    }

    /**
     * The channel's file.
     *
     * @return the path.
     */
    public String path() {
        return path;
    }

    /**
     * The id of the channel that has the name now.
     *
     * @return the id.
     */
    public UUID channelId() {
        return channelId;
    }
}
