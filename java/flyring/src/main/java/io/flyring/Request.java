// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Iterator;
import org.agrona.DirectBuffer;
import org.agrona.sbe.MessageEncoderFlyweight;

/**
 * One request in a server's hand, valid until its handler returns, unless it is kept (spec/service.md 5). Of the poll's
 * thread until it is kept; then what changes is under the server's lock.
 */
public final class Request {
    final ServerCore server;
    final Lane lane;
    private PayloadBuffer buffer;
    /** Over that buffer, made when it is asked for first. */
    private Message message;
    private Sender sender;
    private int type;
    long position;
    /** Messages before it in its ring. */
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
    /** Of a stream: how many items its caller takes still. */
    int credit;
    /** Of one that has begun. */
    Iterator<byte[]> items;
    int itemType;
    /** The next one, which was made ahead; null: it is still to be made, or there is none. */
    byte[] item;
    boolean exhausted;
    /** The next item is being made, without the lock. */
    boolean pulling;

    Request(ServerCore server, Lane lane, Memory data) {
        this.server = server;
        this.lane = lane;
        this.buffer = new PayloadBuffer(data);
    }

    /** It is in hand from now on. */
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

    /** What its handler sees. */
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
     * @return a buffer over exactly the payload; read-only until it is kept.
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
     * The same as a message, for what decodes messages.
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
     * @return what its caller gave, at least 1.
     */
    public int type() {
        return type;
    }

    /**
     * Who asks.
     *
     * @return the number of the client, from 0.
     */
    public int client() {
        return lane.client();
    }

    /**
     * Whether its caller does not wait any more, or has gone.
     *
     * @return true if an answer is of no use.
     */
    public boolean cancelled() {
        return cancelled;
    }

    /**
     * At least once: whether a handler was given it before.
     *
     * @return true if one was.
     */
    public boolean repeat() {
        return repeat;
    }

    /**
     * How long its caller still waits: pass it on to further calls.
     *
     * @return not below 0; null: as long as it takes.
     */
    public Duration remaining() {
        return deadline <= 0 ? null : Duration.ofNanos(Math.max(0, deadline - server.now()));
    }

    /**
     * Who asks, as a message has it.
     *
     * @return ring, name and epoch; stays valid.
     */
    public Sender sender() {
        return sender;
    }

    /**
     * Whether its caller takes a stream.
     *
     * @return true if it is answered by {@link #stream}.
     */
    public boolean isStream() {
        return isStream;
    }

    /**
     * Keeps it valid after its handler has returned: it is answered later, from any thread. A second time is fine. A
     * request that is kept and never answered holds one of its client's calls for as long as the server lives.
     *
     * @throws InvalidArgumentException if it was answered before.
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
     * Answers it, from any thread.
     *
     * @param answer the bytes.
     * @throws FlyringException as {@link #reply(DirectBuffer, int, int, int)} does.
     */
    public void reply(byte[] answer) {
        server.reply(this, null, answer, 0, answer.length, server.defaultType());
    }

    /**
     * Answers it, from any thread.
     *
     * @param source where the answer lies.
     * @param offset where it begins there.
     * @param length how long it is.
     * @param answerType 1 or more.
     * @throws InvalidArgumentException if it was answered before, or the type is below 1.
     * @throws MessageTooLargeException if the answer is too long; nothing was sent.
     * @throws SlotLostException if the server was evicted.
     * @throws ClosedException if the server was closed.
     */
    public void reply(DirectBuffer source, int offset, int length, int answerType) {
        source.boundsCheck(offset, length);
        server.reply(this, source, null, offset, length, answerType);
    }

    /**
     * The same for a message in an encoder of sbe-tool's, which wrapAndApplyHeader was called on (spec/messages.md).
     *
     * @param answer the encoder, with the message header in front of its block.
     * @throws FlyringException as {@link #reply(DirectBuffer, int, int, int)} does.
     */
    public void reply(MessageEncoderFlyweight answer) {
        reply(answer.buffer(), Encoded.offset(answer), Encoded.length(answer), Encoded.type(answer));
    }

    /**
     * Answers a stream, from any thread. The server's polls take an item each time the caller has credit and the ring
     * has room, one item ahead, and end the stream behind the last one. If the sequence throws, the call ends with
     * {@link ServiceErrorException}.
     *
     * @param sequence the items.
     * @throws InvalidArgumentException if its caller takes no stream, or it was answered before.
     * @throws FlyringException as {@link #reply(DirectBuffer, int, int, int)} does.
     */
    public void stream(Iterator<byte[]> sequence) {
        stream(sequence, server.defaultType());
    }

    /**
     * The same with a type.
     *
     * @param sequence the items.
     * @param streamType of each item, 1 or more.
     * @throws FlyringException as {@link #stream(Iterator)} does.
     */
    public void stream(Iterator<byte[]> sequence, int streamType) {
        server.stream(this, sequence, streamType);
    }

    /**
     * Answers it with no bytes.
     *
     * @throws FlyringException as {@link #reply(DirectBuffer, int, int, int)} does.
     */
    public void reply() {
        server.reply(this, null, null, 0, 0, server.defaultType());
    }

    /**
     * Its call ends with {@link ServiceErrorException}.
     *
     * @param text why; 1024 bytes at most are sent.
     * @throws FlyringException as {@link #reply(DirectBuffer, int, int, int)} does.
     */
    public void fail(String text) {
        server.fail(this, text);
    }

    /** UTF-8, at most so many bytes, whole characters. */
    static byte[] text(String text, int most) {
        byte[] bytes = String.valueOf(text).getBytes(StandardCharsets.UTF_8);
        int end = Math.min(bytes.length, Math.min(most, Layout.REPLY_MAX_TEXT));
        while (end > 0 && end < bytes.length && (bytes[end] & 0xc0) == 0x80) {
            end--;
        }
        return Arrays.copyOf(bytes, end);
    }
}
