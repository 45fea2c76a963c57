// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import org.agrona.DirectBuffer;
import org.agrona.sbe.MessageEncoderFlyweight;

/**
 * Calls the server of a service; made by {@link Channel#client(String)}. Not thread-safe: give each thread its own
 * client. The garbage collector closes a client that is unreachable, with a warning. A virtual thread that sleeps here
 * pins its carrier thread. Spec service.md.
 */
public final class Client extends ClientVerbs implements AutoCloseable {
    private static final int DEFAULT_CREDIT = 64;

    private final String name;
    private final int defaultType;

    Client(Channel channel, String name, int number, Seat seat, long epoch, ServiceWriter writer, RingReader reader,
        Memory trailer) {
        super(channel, number, seat, epoch, writer, reader, trailer);
        this.name = name;
        this.defaultType = header.schemaLength > 0 ? Layout.TYPE_RAW : 1;
    }

    /**
     * Calls the server and waits for its answer, without a time limit.
     *
     * @param request the request's bytes.
     * @return the answer, which owns its bytes.
     * @throws FlyringException as {@link #call(byte[], int, Duration)} does.
     */
    public Message call(byte[] request) {
        return callAndWait(null, request, 0, request.length, defaultType, Waiting.FOREVER, null);
    }

    /**
     * Calls the server. Waits for a server to be there, for room in the ring, and for the answer.
     *
     * @param request the request's bytes.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait, which sets the request's deadline; {@link Publisher#FOREVER} for no
     *     limit.
     * @return the answer, which owns its bytes.
     * @throws ServiceErrorException if the handler threw, failed, or did not answer.
     * @throws ExpiredException if the time-out came before the answer.
     * @throws ServerGoneException if the server died, closed, or was evicted; detected within 100 ms.
     * @throws BusyException if the largest number of outstanding calls is under way; the call was not made.
     * @throws MessageTooLargeException if the request is longer than {@link #maxMessageLength()}; the call was not
     *     made.
     * @throws InvalidArgumentException if the type or the time-out is not valid; the call was not made.
     * @throws ChannelReplacedException if the channel was replaced. This ends the wait.
     * @throws CancelledException if the thread is interrupted. The thread stays interrupted.
     * @throws ClosedException if the client or the channel is closed, also by another thread during the wait.
     * @throws SlotLostException if the client was evicted.
     * @throws CorruptRingException if the content of the ring of replies violates the specification.
     * @throws TwoThreadsException if another thread uses the client, or a callback of one of its calls waits in it.
     */
    public Message call(byte[] request, int type, Duration timeout) {
        return callAndWait(null, request, 0, request.length, type, Waiting.nanos(timeout), null);
    }

    /**
     * Does the same for bytes in a buffer.
     *
     * @param source the buffer that holds the request.
     * @param offset index of the request's first byte in the buffer.
     * @param length length of the request in bytes.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait, which sets the request's deadline.
     * @return the answer, which owns its bytes.
     * @throws FlyringException as {@link #call(byte[], int, Duration)} does.
     */
    public Message call(DirectBuffer source, int offset, int length, int type, Duration timeout) {
        source.boundsCheck(offset, length);
        return callAndWait(source, null, offset, length, type, Waiting.nanos(timeout), null);
    }

    /**
     * Does the same without an allocation: hands out the answer in place.
     *
     * @param source the buffer that holds the request.
     * @param offset index of the request's first byte in the buffer.
     * @param length length of the request in bytes.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait, in nanoseconds, which sets the request's deadline;
     *     {@link Long#MAX_VALUE} for no limit.
     * @param answer receives the answer, which is valid until the handler returns. The handler must not use this
     *     client. What it throws reaches the caller.
     * @throws FlyringException as {@link #call(byte[], int, Duration)} does.
     */
    public void call(DirectBuffer source, int offset, int length, int type, long timeout, MessageHandler answer) {
        source.boundsCheck(offset, length);
        if (answer == null) {
            throw new InvalidArgumentException("answer", "There is no handler for the answer. Give one.");
        }
        callAndWait(source, null, offset, length, type, timeout, answer);
    }

    /**
     * Does the same for an SBE message in an sbe-tool encoder after {@code wrapAndApplyHeader} (spec/messages.md).
     *
     * @param request the encoder; the message header lies in front of its block.
     * @param timeout the longest time to wait, which sets the request's deadline.
     * @return the answer, which owns its bytes.
     * @throws FlyringException as {@link #call(byte[], int, Duration)} does.
     */
    public Message call(MessageEncoderFlyweight request, Duration timeout) {
        final int offset = Encoded.offset(request);
        return call(request.buffer(), offset, Encoded.length(request), Encoded.type(request), timeout);
    }

    /**
     * Starts a call without a deadline; does not wait for the answer.
     *
     * @param request the request's bytes.
     * @return the call, which is under way.
     * @throws FlyringException as {@link #start(byte[], int, Duration)} does.
     */
    public Call start(byte[] request) {
        return startCall(null, request, 0, request.length, defaultType, 0, Waiting.FOREVER);
    }

    /**
     * Starts a call; does not wait for the answer, only for a server to be there and for room in the ring.
     *
     * @param request the request's bytes.
     * @param type the message's type, at least 1.
     * @param timeout how long the answer may take, which sets the request's deadline.
     * @return the call, which is under way.
     * @throws ExpiredException if a server or room did not come in time; nothing was published.
     * @throws FlyringException as {@link #call(byte[], int, Duration)} does for a call that was not made.
     */
    public Call start(byte[] request, int type, Duration timeout) {
        return startCall(null, request, 0, request.length, type, 0, Waiting.nanos(timeout));
    }

    /**
     * Does the same for bytes in a buffer.
     *
     * @param source the buffer that holds the request.
     * @param offset index of the request's first byte in the buffer.
     * @param length length of the request in bytes.
     * @param type the message's type, at least 1.
     * @param timeout how long the answer may take, which sets the request's deadline.
     * @return the call, which is under way.
     * @throws FlyringException as {@link #start(byte[], int, Duration)} does.
     */
    public Call start(DirectBuffer source, int offset, int length, int type, Duration timeout) {
        source.boundsCheck(offset, length);
        return startCall(source, null, offset, length, type, 0, Waiting.nanos(timeout));
    }

    /**
     * Does the same for an SBE message in an sbe-tool encoder after {@code wrapAndApplyHeader} (spec/messages.md).
     *
     * @param request the encoder; the message header lies in front of its block.
     * @param timeout how long the answer may take, which sets the request's deadline.
     * @return the call, which is under way.
     * @throws FlyringException as {@link #start(byte[], int, Duration)} does.
     */
    public Call start(MessageEncoderFlyweight request, Duration timeout) {
        return start(request.buffer(), Encoded.offset(request), Encoded.length(request), Encoded.type(request),
            timeout);
    }

    /**
     * Starts a call that is answered by a stream of items, with a credit of 64 items and no deadline.
     *
     * @param request the request's bytes.
     * @return the call, which is under way; {@link Call#next()} returns its items.
     * @throws FlyringException as {@link #stream(byte[], int, int, Duration)} does.
     */
    public Call stream(byte[] request) {
        return stream(request, defaultType, DEFAULT_CREDIT, Publisher.FOREVER);
    }

    /**
     * Starts a call that is answered by a stream of items (service.md 7).
     *
     * @param request the request's bytes.
     * @param type the message's type, at least 1.
     * @param credit the largest number of items that are sent and not consumed yet, 1 to 65535.
     * @param timeout how long the whole stream may take, which sets the request's deadline.
     * @return the call, which is under way; {@link Call#next()} returns its items.
     * @throws InvalidArgumentException if the credit is not valid, or the service has at-least-once delivery.
     * @throws FlyringException as {@link #start(byte[], int, Duration)} does.
     */
    public Call stream(byte[] request, int type, int credit, Duration timeout) {
        return startCall(null, request, 0, request.length, type, credit == 0 ? -1 : credit, Waiting.nanos(timeout));
    }

    /**
     * Does the same for an SBE message in an sbe-tool encoder after {@code wrapAndApplyHeader} (spec/messages.md).
     *
     * @param request the encoder; the message header lies in front of its block.
     * @param credit the largest number of items that are sent and not consumed yet, 1 to 65535.
     * @param timeout how long the whole stream may take, which sets the request's deadline.
     * @return the call, which is under way; {@link Call#next()} returns its items.
     * @throws FlyringException as {@link #stream(byte[], int, int, Duration)} does.
     */
    public Call stream(MessageEncoderFlyweight request, int credit, Duration timeout) {
        return startCall(request.buffer(), null, Encoded.offset(request), Encoded.length(request),
            Encoded.type(request), credit == 0 ? -1 : credit, Waiting.nanos(timeout));
    }

    /**
     * Takes replies, ends calls, completes futures, and detects that the server has gone. Does not wait.
     *
     * @return the number of calls that ended plus the number of items that arrived.
     * @throws FlyringException as {@link #poll(Duration)} does.
     */
    public int poll() {
        return pollCalls(0);
    }

    /**
     * Does the same; waits while nothing happens.
     *
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the number of calls that ended plus the number of items that arrived; 0 if nothing happened in time.
     * @throws ClosedException after close.
     * @throws SlotLostException if the client was evicted.
     * @throws CorruptRingException if the content of the ring of replies violates the specification.
     * @throws ChannelReplacedException if the channel was replaced. This ends the wait, not the calls.
     * @throws CancelledException if the thread is interrupted. The thread stays interrupted.
     * @throws TwoThreadsException if another thread uses the client, or a callback of one of its calls waits in it.
     * @throws InvalidArgumentException if the time-out is below 0.
     */
    public int poll(Duration timeout) {
        return pollCalls(Waiting.nanos(timeout));
    }

    /**
     * The number of calls under way.
     *
     * @return their number; calls that expired or were cancelled count until the server has answered them.
     */
    public int outstanding() {
        return calls.size();
    }

    /**
     * The number of replies that arrived after their call had ended.
     *
     * @return the number since the start.
     */
    public long late() {
        return late;
    }

    /**
     * The live server. Tests a file lock, so do not call it on a hot path.
     *
     * @return the server's name and epoch, or null if no server lives.
     * @throws ClosedException after close.
     */
    public ServerInfo server() {
        if (!isOpen()) {
            throw unusable();
        }
        return liveServer();
    }

    /**
     * Sets how long a wait spins before it sleeps. The default, 20 microseconds, is about the cost of a wake-up.
     *
     * @param time the time to spin; 0 sleeps at once.
     * @throws InvalidArgumentException if it is below 0.
     */
    public void setSpin(Duration time) {
        waiting.spinFor(time);
    }

    /**
     * The client's number.
     *
     * @return the number, from 0.
     */
    public int number() {
        return number;
    }

    /**
     * The client's subscriber slot.
     *
     * @return the slot, from 1.
     */
    public int slot() {
        return 1 + number;
    }

    /**
     * The client's name.
     *
     * @return the name, empty if it has none.
     */
    public String name() {
        return name;
    }

    /**
     * The epoch of this client's place: each new owner gets the next number.
     *
     * @return the epoch, from 1.
     */
    public long epoch() {
        return epoch;
    }

    /**
     * The length of the largest request.
     *
     * @return payload bytes.
     */
    public int maxMessageLength() {
        return longest();
    }

    /**
     * Gives the place back. Calls under way end with {@link ClosedException}, but the server still runs what was
     * published. A thread that waits in this client gets {@link ClosedException}, too. A second close does nothing.
     *
     * @throws ViewAliveException if called from a callback of one of its calls, or while another thread uses it.
     */
    @Override
    public void close() {
        boolean waited = waiting.takeOver();
        try {
            if (!waited) {
                checkClosable();
            }
            end();
            seat.close();
        } finally {
            channel.tellSleepers(waited);
            if (waited) {
                waiting.goOn();
            }
        }
        runPending();
    }
}
