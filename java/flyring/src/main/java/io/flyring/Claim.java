// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Space in a ring, to be filled in place and then committed or aborted; made by {@link Publisher#claim(int, int)}. Each
 * publisher has one claim object and uses it again for each claim. Do not keep the object or its buffer after commit or
 * abort: every access to the buffer is out of bounds then. A try-with-resources statement aborts a claim that is not
 * committed.
 */
public final class Claim implements AutoCloseable {
    private final Publisher publisher;
    private final PayloadBuffer buffer;

    Claim(Publisher publisher, PayloadBuffer buffer) {
        this.publisher = publisher;
        this.buffer = buffer;
    }

    /**
     * The space for the message; its content is undefined until it is written.
     *
     * @return a buffer over exactly the claimed bytes, valid until commit or abort.
     */
    public PayloadBuffer buffer() {
        return buffer;
    }

    /**
     * The length of the message.
     *
     * @return the claimed bytes; 0 once the claim is no longer open.
     */
    public int length() {
        return buffer.capacity();
    }

    /**
     * Publishes the message.
     *
     * @return the ring's new end position in bytes.
     * @throws SlotLostException if the slot has another owner; nothing was published.
     * @throws ClosedException if the claim is no longer open, or the publisher was closed.
     */
    public long commit() {
        return publisher.commitClaim();
    }

    /**
     * Gives the space up by turning it into padding; subscribers skip it.
     *
     * @return the ring's new end position in bytes.
     * @throws SlotLostException if the slot has another owner.
     * @throws ClosedException if the claim is no longer open, or the publisher was closed.
     */
    public long abort() {
        return publisher.abortClaim();
    }

    /** Aborts the claim if it is still open. */
    @Override
    public void close() {
        if (publisher.claimed()) {
            abort();
        }
    }
}
