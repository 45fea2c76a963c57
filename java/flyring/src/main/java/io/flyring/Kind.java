// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Locale;

/** What becomes of messages that nobody has subscribed to yet (spec/channel.md, header field {@code kind}). */
public enum Kind {
    /** Subscriber slot 0 is kept from creation: messages wait for its first owner, and a restarted one resumes. */
    INBOX(Layout.KIND_INBOX),
    /** Nothing is kept for anybody who has not joined. */
    BROADCAST(Layout.KIND_BROADCAST),
    /** Each message is a job, handed to one of the workers that are attached (spec/queue.md). */
    QUEUE(Layout.KIND_QUEUE),
    /** Question and answer: clients call one server (spec/service.md). */
    SERVICE(Layout.KIND_SERVICE);

    final int code;

    Kind(int code) {
        this.code = code;
    }

    /** Null: there is none of that code. */
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
