// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import org.agrona.DirectBuffer;

/** One request in a server's hand, valid until its handler returns, unless it is kept (spec/service.md 5). */
public final class Request {
    final Server server;
    final Lane lane;
    private PayloadBuffer buffer;
    long position;
    /** Messages before it in its ring. */
    long count;
    int sequence;
    int clientEpoch;
    long deadline;
    private int type;
    boolean repeat;
    boolean kept;
    /** Whether its final reply was given; under the server's lock. */
    boolean answered;
    volatile boolean cancelled;

    Request(Server server, Lane lane, Memory data) {
        this.server = server;
        this.lane = lane;
        this.buffer = new PayloadBuffer(data);
    }

    void set(long address, int length, int newType, long newPosition, long newCount) {
        buffer.move(address, length);
        type = newType;
        position = newPosition;
        count = newCount;
        repeat = false;
        kept = false;
        answered = false;
        cancelled = false;
    }

    void invalidate() {
        if (!kept) {
            buffer.invalidate();
        }
    }

    /** @return the payload, without the prefix. */
    public PayloadBuffer buffer() {
        return buffer;
    }

    /** @return the payload's length, bytes. */
    public int length() {
        return buffer.capacity();
    }

    /** @return a copy of the payload. */
    public byte[] toByteArray() {
        byte[] bytes = new byte[buffer.capacity()];
        buffer.getBytes(0, bytes);
        return bytes;
    }

    /** @return the type that its caller gave it. */
    public int type() {
        return type;
    }

    /** @return the number of its client, from 0. */
    public int client() {
        return lane.client();
    }

    /** @return whether its caller does not wait any more, or has gone. */
    public boolean cancelled() {
        return cancelled;
    }

    /** @return at least once: whether a handler was given it before. */
    public boolean repeat() {
        return repeat;
    }

    /** @return how long its caller still waits, not below 0; null: as long as it takes. */
    public Duration remaining() {
        return deadline <= 0 ? null : Duration.ofNanos(Math.max(0, deadline - server.now()));
    }

    /** Keeps it valid after its handler has returned: it is answered later, from any thread. A second time is fine. */
    public void keep() {
        if (!kept) {
            PayloadBuffer copy = new PayloadBuffer();
            copy.wrap(toByteArray());
            buffer = copy;
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

    /** Answers it with no bytes. */
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
