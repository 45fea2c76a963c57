// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * One message. During a poll the payload lies in the ring (with a {@link LossySubscriber}, in a private copy), and the
 * message is valid until its handler returns. After that an access may find another message or be out of bounds. A
 * message that {@link Subscriber#take() take} returns owns its bytes and stays valid. The messages of a {@link Journal}
 * are of this class, too.
 */
public final class Message {
    private final PayloadBuffer buffer;
    private int type;
    private final int ring;
    private long position;
    private Sender sender;
    private long time;
    private long number = -1;

    private Message(int ring, PayloadBuffer buffer, Sender sender) {
        this.ring = ring;
        this.buffer = buffer;
        this.sender = sender;
    }

    /** A message in place in a ring, or in a private copy. */
    Message(int ring, Memory data) {
        this(ring, new PayloadBuffer(data), Sender.unknown(ring));
    }

    /** A message seen through a buffer that the caller moves from message to message. */
    Message(int ring, PayloadBuffer buffer) {
        this(ring, buffer, null);
    }

    /** Sets type, position and sender of the message that the buffer shows now. */
    void say(int newType, long newPosition, Sender newSender) {
        type = newType;
        position = newPosition;
        sender = newSender;
    }

    /** Sets the sender of the messages that this object shows from now on. */
    void from(Sender publisher) {
        sender = publisher;
    }

    /** Moves the view to other memory than it was made for. */
    void over(Memory memory) {
        buffer.window(memory, 0, Window.CLOSED);
    }

    void set(long address, int length, int messageType, long messagePosition) {
        buffer.move(address, length);
        type = messageType;
        position = messagePosition;
    }

    /** Sets what a message of a journal has besides. */
    void ofJournal(long newTime, long newNumber) {
        time = newTime;
        number = newNumber;
    }

    void invalidate() {
        buffer.invalidate();
    }

    /** A copy without the payload's first {@code skipped} bytes. */
    Message copy(int skipped) {
        byte[] rest = new byte[buffer.capacity() - skipped];
        buffer.getBytes(skipped, rest);
        PayloadBuffer bytes = new PayloadBuffer();
        bytes.wrap(rest);
        Message copy = new Message(ring, bytes, sender);
        copy.type = type;
        copy.position = position;
        return copy;
    }

    Message copy() {
        PayloadBuffer bytes = new PayloadBuffer();
        bytes.wrap(toByteArray());
        Message copy = new Message(ring, bytes, sender);
        copy.type = type;
        copy.position = position;
        copy.time = time;
        copy.number = number;
        return copy;
    }

    /**
     * The payload, from index 0 to {@link #length()}. In place it is read-only: a write throws
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
     * @return the type that the publisher gave, at least 1.
     */
    public int type() {
        return type;
    }

    /**
     * The ring that the message came through, which is also its publisher's slot.
     *
     * @return the ring's index, from 0.
     */
    public int ring() {
        return ring;
    }

    /**
     * The publisher of the message.
     *
     * @return ring, name and epoch; stays valid after the handler returns.
     */
    public Sender sender() {
        return sender;
    }

    /**
     * The message's position in its ring.
     *
     * @return the position of the record's first byte, in bytes since the ring's creation.
     */
    public long position() {
        return position;
    }

    /**
     * Of a message of a {@link Journal}: when it was appended, or the time that its writer gave.
     *
     * @return ns since 1970; 0 for a message of a channel.
     */
    public long time() {
        return time;
    }

    /**
     * Of a message of a {@link Journal}: how many messages lie before it.
     *
     * @return the number, from 0; -1 for a message of a channel.
     */
    public long number() {
        return number;
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
