// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Locale;

/** What a channel is for, and what happens to messages that have no reader yet (channel.md 4.2, {@code kind}). */
public enum Kind {
    /**
     * One subscriber with a slot that is kept from creation: messages wait for it, and a restarted subscriber resumes.
     */
    INBOX(Layout.KIND_INBOX),
    /** Any number of subscribers, up to the number of slots; each receives what is published after it has joined. */
    BROADCAST(Layout.KIND_BROADCAST),
    /** Each message is a job for one of the attached workers (queue.md). */
    QUEUE(Layout.KIND_QUEUE),
    /** Clients call one server, which answers (service.md). */
    SERVICE(Layout.KIND_SERVICE);

    final int code;

    Kind(int code) {
        this.code = code;
    }

    /** The kind with that code; null if there is none. */
    static Kind of(int code) {
        for (Kind kind : values()) {
            if (kind.code == code) {
                return kind;
            }
        }
        return null;
    }

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
