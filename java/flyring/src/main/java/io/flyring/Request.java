// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Iterator;
import org.agrona.DirectBuffer;
import org.agrona.sbe.MessageEncoderFlyweight;

/**
 * One request in a server's hand, valid until its handler returns or, after {@link #keep()}, until it is answered.
 * Before keep, only the polling thread may use it; after keep, any thread. Close a kept request that will not be
 * answered. Spec service.md 5.
 */
public final class Request implements AutoCloseable {
    final ServerCore server;
    final Lane lane;
    private PayloadBuffer buffer;
    /** Over that buffer, made when it is asked for first. */
    private Message message;
    private Sender sender;
    private int type;
    long position;
    /** How many messages precede it in its ring. */
    long count;
    int sequence;
    int clientEpoch;
    long deadline;
    boolean repeat;
    volatile boolean kept;
    boolean inHand;
    boolean inHandler;
    /** Whether its final reply was given. */
    boolean answered;
    volatile boolean cancelled;
    Request before;
    Request behind;
    private boolean isStream;
    /** Of a stream: how many more items its caller takes. */
    int credit;
    /** The items of a stream that has begun; else null. */
    Iterator<byte[]> items;
    int itemType;
    /** The next item, made ahead; null if it is not made yet, or there is none. */
    byte[] item;
    boolean exhausted;
    /** Whether the next item is being made, which happens without the lock. */
    boolean pulling;

    Request(ServerCore server, Lane lane, Memory data) {
        this.server = server;
        this.lane = lane;
        this.buffer = new PayloadBuffer(data);
    }

    /** Sets the fields of a new request, which is in hand from now on. */
    void begin(int newSequence, int newEpoch, long newDeadline, int newCredit, long newPosition, long newCount,
        boolean isRepeat) {
        sequence = newSequence;
        clientEpoch = newEpoch;
        deadline = newDeadline;
        credit = newCredit;
        isStream = newCredit > 0;
        position = newPosition;
        count = newCount;
        repeat = isRepeat;
        inHand = true;
        answered = false;
        cancelled = false;
        behind = null;
        item = null;
        exhausted = false;
        pulling = false;
    }

    /** Shows the payload to the handler. */
    void show(long address, int length, int newType) {
        buffer.move(address, length);
        type = newType;
        sender = lane.sender();
    }

    void invalidate() {
        if (!kept) {
            buffer.invalidate();
        }
    }

    /**
     * The payload.
     *
     * @return a buffer over exactly the payload; read-only until the request is kept.
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
     * A copy of the payload.
     *
     * @return a new array.
     */
    public byte[] toByteArray() {
        byte[] bytes = new byte[buffer.capacity()];
        buffer.getBytes(0, bytes);
        return bytes;
    }

    /**
     * The request as a message, for code that decodes messages.
     *
     * @return the request without its prefix; valid as long as this is, and as long as it is not kept.
     */
    public Message message() {
        if (message == null) {
            message = new Message(lane.client(), buffer);
        }
        message.say(type, position, sender);
        return message;
    }

    /**
     * The request's type.
     *
     * @return the type that the caller gave, at least 1.
     */
    public int type() {
        return type;
    }

    /**
     * The client that made the request.
     *
     * @return the client's number, from 0.
     */
    public int client() {
        return lane.client();
    }

    /**
     * Whether the caller no longer waits, or has gone.
     *
     * @return true if an answer is of no use.
     */
    public boolean cancelled() {
        return cancelled;
    }

    /**
     * With at-least-once delivery: whether a handler was given the request before.
     *
     * @return true if one was.
     */
    public boolean repeat() {
        return repeat;
    }

    /**
     * How long the caller still waits. Pass it on as the time-out of further calls.
     *
     * @return the remaining time, 0 or more; null if there is no deadline.
     */
    public Duration remaining() {
        return deadline <= 0 ? null : Duration.ofNanos(Math.max(0, deadline - server.now()));
    }

    /**
     * The client's publisher.
     *
     * @return ring, name and epoch; stays valid after the handler returns.
     */
    public Sender sender() {
        return sender;
    }

    /**
     * Whether the caller takes a stream.
     *
     * @return true if {@link #stream} may answer it.
     */
    public boolean isStream() {
        return isStream;
    }

    /**
     * Keeps the request valid after its handler has returned, to be answered later from any thread. A second call does
     * nothing. A kept request that is neither answered nor closed uses one of its client's outstanding calls until the
     * server closes.
     *
     * @throws InvalidArgumentException if the request was answered before.
     */
    public void keep() {
        if (!kept) {
            server.keep(this);
            PayloadBuffer copy = new PayloadBuffer();
            copy.wrap(toByteArray());
            buffer = copy;
            message = null;
            kept = true;
        }
    }

    /**
     * Answers the request. May be called from any thread if the request is kept.
     *
     * @param answer the answer's bytes.
     * @throws FlyringException as {@link #reply(DirectBuffer, int, int, int)} does.
     */
    public void reply(byte[] answer) {
        server.reply(this, null, answer, 0, answer.length, server.defaultType());
    }

    /**
     * Answers the request. May be called from any thread if the request is kept.
     *
     * @param source the buffer that holds the answer.
     * @param offset index of the answer's first byte in the buffer.
     * @param length length of the answer in bytes.
     * @param answerType the answer's type, at least 1.
     * @throws InvalidArgumentException if the request was answered before, or the type is below 1.
     * @throws MessageTooLargeException if the answer is too long; nothing was sent.
     * @throws SlotLostException if the server was evicted.
     * @throws ClosedException if the server was closed.
     */
    public void reply(DirectBuffer source, int offset, int length, int answerType) {
        source.boundsCheck(offset, length);
        server.reply(this, source, null, offset, length, answerType);
    }

    /**
     * Does the same for an SBE message in an sbe-tool encoder after {@code wrapAndApplyHeader} (spec/messages.md).
     *
     * @param answer the encoder; the message header lies in front of its block.
     * @throws FlyringException as {@link #reply(DirectBuffer, int, int, int)} does.
     */
    public void reply(MessageEncoderFlyweight answer) {
        reply(answer.buffer(), Encoded.offset(answer), Encoded.length(answer), Encoded.type(answer));
    }

    /**
     * Answers with a stream. May be called from any thread if the request is kept. The server's polls send an item
     * whenever the caller has credit and the ring has room; they take items one ahead, and end the stream after the
     * last one. If the sequence throws, the call ends with {@link ServiceErrorException}.
     *
     * @param sequence the items.
     * @throws InvalidArgumentException if the caller does not take a stream, or the request was answered before.
     * @throws FlyringException as {@link #reply(DirectBuffer, int, int, int)} does.
     */
    public void stream(Iterator<byte[]> sequence) {
        stream(sequence, server.defaultType());
    }

    /**
     * Does the same with a type for the items.
     *
     * @param sequence the items.
     * @param streamType the type of each item, at least 1.
     * @throws FlyringException as {@link #stream(Iterator)} does.
     */
    public void stream(Iterator<byte[]> sequence, int streamType) {
        server.stream(this, sequence, streamType);
    }

    /**
     * Answers the request with an empty payload.
     *
     * @throws FlyringException as {@link #reply(DirectBuffer, int, int, int)} does.
     */
    public void reply() {
        server.reply(this, null, null, 0, 0, server.defaultType());
    }

    /**
     * Ends the call with {@link ServiceErrorException}.
     *
     * @param text the reason; at most 1024 bytes of UTF-8 are sent.
     * @throws FlyringException as {@link #reply(DirectBuffer, int, int, int)} does.
     */
    public void fail(String text) {
        server.fail(this, text);
    }

    /**
     * Drops a kept request. If it was not answered, its call ends with {@link ServiceErrorException} and the text
     * {@code no answer}. Does nothing if the request was answered or is not kept, or the server has gone. May be called
     * from any thread, never throws.
     */
    @Override
    public void close() {
        if (kept) {
            server.drop(this);
        }
    }

    /** The text in UTF-8, cut after the last whole character within {@code most} bytes. */
    static byte[] text(String text, int most) {
        byte[] bytes = String.valueOf(text).getBytes(StandardCharsets.UTF_8);
        int end = Math.min(bytes.length, Math.min(most, Layout.REPLY_MAX_TEXT));
        while (end > 0 && end < bytes.length && (bytes[end] & 0xc0) == 0x80) {
            end--;
        }
        return Arrays.copyOf(bytes, end);
    }
}
