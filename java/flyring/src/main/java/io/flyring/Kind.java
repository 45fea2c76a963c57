// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.Locale;

/** What becomes of messages that nobody has subscribed to yet (spec/channel.md, header field {@code kind}). */
public enum Kind {
    /** Subscriber slot 0 is kept from creation: messages wait for its first owner, and a restarted one resumes. */
    INBOX(Layout.KIND_INBOX),
    /** Nothing is kept for anybody who has not joined. */
    BROADCAST(Layout.KIND_BROADCAST);

    final int code;

    Kind(int code) {
        this.code = code;
    }

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
