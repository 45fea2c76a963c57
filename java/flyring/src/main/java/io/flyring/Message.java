// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * One message. During a poll it lies in the ring and is valid until its handler returns, after which accesses may find
 * another message or be out of bounds; what {@link Subscriber#take()} returns owns its bytes and stays valid.
 */
public final class Message {
    private final PayloadBuffer buffer = new PayloadBuffer();
    private int type;
    private int ring;
    private long position;

    Message() {
    }

    void set(Memory memory, int index, int length, int messageType, int messageRing, long messagePosition) {
        buffer.window(memory, index, length);
        type = messageType;
        ring = messageRing;
        position = messagePosition;
    }

    void invalidate() {
        buffer.invalidate();
    }

    Message copy() {
        Message copy = new Message();
        byte[] bytes = toByteArray();
        copy.buffer.wrap(bytes);
        copy.type = type;
        copy.ring = ring;
        copy.position = position;
        return copy;
    }

    /**
     * The payload, from index 0 to {@link #length()}. In place it is read-only: a write raises
     * {@link java.nio.ReadOnlyBufferException}.
     *
     * @return a buffer over exactly the payload.
     */
    public PayloadBuffer buffer() {
        return buffer;
    }

    /**
     * Length of the payload.
     *
     * @return bytes.
     */
    public int length() {
        return buffer.capacity();
    }

    /**
     * The message's type.
     *
     * @return what the publisher gave, at least 1.
     */
    public int type() {
        return type;
    }

    /**
     * The ring that the message came through, which is also its publisher's slot.
     *
     * @return index from 0.
     */
    public int ring() {
        return ring;
    }

    /**
     * Where the message lies in its ring.
     *
     * @return position of the record's first byte.
     */
    public long position() {
        return position;
    }

    /**
     * A copy of the payload.
     *
     * @return a new array.
     */
    public byte[] toByteArray() {
        byte[] bytes = new byte[buffer.capacity()];
        buffer.getBytes(0, bytes);
        return bytes;
    }
}
