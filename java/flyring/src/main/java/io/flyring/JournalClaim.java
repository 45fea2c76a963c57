// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Space in a journal, to be filled in place and then committed or aborted; made by
 * {@link JournalWriter#claim(int, int)}. Each writer has one claim object and uses it again. Do not keep the object or
 * its buffer after commit or abort: every access to the buffer is out of bounds then. A try-with-resources statement
 * aborts a claim that is not committed.
 */
public final class JournalClaim implements AutoCloseable {
    private final JournalAppender appender;

    JournalClaim(JournalAppender appender) {
        this.appender = appender;
    }

    /**
     * The space for the message; its content is undefined until it is written.
     *
     * @return a buffer over exactly the claimed bytes, valid until commit or abort.
     */
    public PayloadBuffer buffer() {
        return appender.payload;
    }

    /**
     * The length of the message.
     *
     * @return the claimed bytes; 0 once the claim is no longer open.
     */
    public int length() {
        return appender.payload.capacity();
    }

    /**
     * Appends the message. Its time is that of this call.
     *
     * @return the position where its record begins.
     * @throws SlotLostException if the slot has another owner; nothing was appended.
     * @throws ClosedException if the claim is no longer open, or the writer was closed.
     */
    public long commit() {
        return appender.finishClaim(true);
    }

    /**
     * Gives the space up by turning it into padding; readers skip it.
     *
     * @return the position of the padding.
     * @throws SlotLostException if the slot has another owner.
     * @throws ClosedException if the claim is no longer open, or the writer was closed.
     */
    public long abort() {
        return appender.finishClaim(false);
    }

    /** Aborts the claim if it is still open. */
    @Override
    public void close() {
        if (appender.claimed()) {
            abort();
        }
    }
}
