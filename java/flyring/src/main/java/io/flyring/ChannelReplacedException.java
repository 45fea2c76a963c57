// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.UUID;

/**
 * Another channel has this one's name now: an open by name gets that one. What raised this works as before,
 * and raises it again when it looks again. Code {@code replaced}.
 */
public final class ChannelReplacedException extends FlyringException {
    private static final long serialVersionUID = 1L;

    /** The channel's file. */
    private final String path;

    /** Id of the channel that stands there now. */
    private final UUID channelId;

    ChannelReplacedException(String path, UUID channelId, String message) {
        super("replaced", message);
        this.path = path;
        this.channelId = channelId;
    }

    /**
     * The channel's file.
     *
     * @return the channel's file.
     */
    public String path() {
        return path;
    }

    /**
     * Id of the channel that stands there now.
     *
     * @return id of the channel that stands there now.
     */
    public UUID channelId() {
        return channelId;
    }
}
