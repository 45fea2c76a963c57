// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import org.agrona.DirectBuffer;
import org.agrona.sbe.MessageEncoderFlyweight;

/**
 * Calls the server of a service; made by {@link Channel#client(String)}. Not thread-safe: each thread has its own. One
 * that nothing refers to any more is closed by the garbage collector, with a warning. A virtual thread that sleeps here
 * keeps its carrier thread. spec/service.md.
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
     * Calls the server, and waits for its answer.
     *
     * @param request the bytes.
     * @return the answer, with bytes of its own.
     * @throws FlyringException as {@link #call(byte[], int, Duration)} does.
     */
    public Message call(byte[] request) {
        return callAndWait(null, request, 0, request.length, defaultType, Waiting.FOREVER, null);
    }

    /**
     * Calls the server, and waits for it to come, for room, and for its answer.
     *
     * @param request the bytes.
     * @param type 1 or more.
     * @param timeout how long to wait at most: the request's deadline; {@link Publisher#FOREVER}: none.
     * @return the answer, with bytes of its own.
     * @throws ServiceErrorException if the handler threw, failed, or did not answer.
     * @throws ExpiredException if the time-out came first.
     * @throws ServerGoneException if the server died, closed, or was evicted, within 100 ms.
     * @throws BusyException if as many calls as may be are under way; the call was not made.
     * @throws MessageTooLargeException if the request is too long; the call was not made.
     * @throws InvalidArgumentException if the type or the time-out is not valid; the call was not made.
     * @throws ChannelReplacedException if the channel was replaced: that ends the wait.
     * @throws CancelledException if the thread is interrupted. The thread stays interrupted.
     * @throws ClosedException if another thread closed the client or the channel.
     * @throws SlotLostException if the client was evicted.
     * @throws CorruptRingException if the ring of replies is damaged.
     * @throws TwoThreadsException if another thread, or one of this client's futures, is at work in it.
     */
    public Message call(byte[] request, int type, Duration timeout) {
        return callAndWait(null, request, 0, request.length, type, Waiting.nanos(timeout), null);
    }

    /**
     * The same for bytes in a buffer.
     *
     * @param source where the request lies.
     * @param offset where it begins there.
     * @param length how long it is.
     * @param type 1 or more.
     * @param timeout how long to wait at most: the request's deadline.
     * @return the answer, with bytes of its own.
     * @throws FlyringException as {@link #call(byte[], int, Duration)} does.
     */
    public Message call(DirectBuffer source, int offset, int length, int type, Duration timeout) {
        source.boundsCheck(offset, length);
        return callAndWait(source, null, offset, length, type, Waiting.nanos(timeout), null);
    }

    /**
     * The same without an allocation: the answer is handed out in place.
     *
     * @param source where the request lies.
     * @param offset where it begins there.
     * @param length how long it is.
     * @param type 1 or more.
     * @param timeout how long to wait at most, nanoseconds: the request's deadline; {@link Long#MAX_VALUE}: none.
     * @param answer gets the answer, valid until it returns; it does not use this client. What it throws comes out of
     *     this.
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
     * The same for a message in an encoder of sbe-tool's, which wrapAndApplyHeader was called on (spec/messages.md).
     *
     * @param request the encoder, with the message header in front of its block.
     * @param timeout how long to wait at most: the request's deadline.
     * @return the answer, with bytes of its own.
     * @throws FlyringException as {@link #call(byte[], int, Duration)} does.
     */
    public Message call(MessageEncoderFlyweight request, Duration timeout) {
        final int offset = Encoded.offset(request);
        return call(request.buffer(), offset, Encoded.length(request), Encoded.type(request), timeout);
    }

    /**
     * Calls the server, and does not wait for its answer.
     *
     * @param request the bytes.
     * @return the call, under way.
     * @throws FlyringException as {@link #start(byte[], int, Duration)} does.
     */
    public Call start(byte[] request) {
        return startCall(null, request, 0, request.length, defaultType, 0, Waiting.FOREVER);
    }

    /**
     * Calls the server, and does not wait for its answer; waits for a server to come and for room.
     *
     * @param request the bytes.
     * @param type 1 or more.
     * @param timeout how long its answer may take: the request's deadline.
     * @return the call, under way.
     * @throws ExpiredException if neither a server nor room came in time; nothing was published.
     * @throws FlyringException as {@link #call(byte[], int, Duration)} does for a call that was not made.
     */
    public Call start(byte[] request, int type, Duration timeout) {
        return startCall(null, request, 0, request.length, type, 0, Waiting.nanos(timeout));
    }

    /**
     * The same for bytes in a buffer.
     *
     * @param source where the request lies.
     * @param offset where it begins there.
     * @param length how long it is.
     * @param type 1 or more.
     * @param timeout how long its answer may take: the request's deadline.
     * @return the call, under way.
     * @throws FlyringException as {@link #start(byte[], int, Duration)} does.
     */
    public Call start(DirectBuffer source, int offset, int length, int type, Duration timeout) {
        source.boundsCheck(offset, length);
        return startCall(source, null, offset, length, type, 0, Waiting.nanos(timeout));
    }

    /**
     * The same for a message in an encoder of sbe-tool's, which wrapAndApplyHeader was called on (spec/messages.md).
     *
     * @param request the encoder, with the message header in front of its block.
     * @param timeout how long its answer may take: the request's deadline.
     * @return the call, under way.
     * @throws FlyringException as {@link #start(byte[], int, Duration)} does.
     */
    public Call start(MessageEncoderFlyweight request, Duration timeout) {
        return start(request.buffer(), Encoded.offset(request), Encoded.length(request), Encoded.type(request),
            timeout);
    }

    /**
     * Calls the server for a stream of items; 64 of them may lie between the server and who reads them.
     *
     * @param request the bytes.
     * @return the call, under way: {@link Call#next()} has its items.
     * @throws FlyringException as {@link #stream(byte[], int, int, Duration)} does.
     */
    public Call stream(byte[] request) {
        return stream(request, defaultType, DEFAULT_CREDIT, Publisher.FOREVER);
    }

    /**
     * Calls the server for a stream of items (service.md 7).
     *
     * @param request the bytes.
     * @param type 1 or more.
     * @param credit how many items may lie between the server and who reads them, 1 to 65535.
     * @param timeout how long it may take to its end: the request's deadline.
     * @return the call, under way: {@link Call#next()} has its items.
     * @throws InvalidArgumentException if the credit is not valid, or the service answers at least once.
     * @throws FlyringException as {@link #start(byte[], int, Duration)} does.
     */
    public Call stream(byte[] request, int type, int credit, Duration timeout) {
        return startCall(null, request, 0, request.length, type, credit == 0 ? -1 : credit, Waiting.nanos(timeout));
    }

    /**
     * The same for a message in an encoder of sbe-tool's, which wrapAndApplyHeader was called on (spec/messages.md).
     *
     * @param request the encoder, with the message header in front of its block.
     * @param credit how many items may lie between the server and who reads them, 1 to 65535.
     * @param timeout how long it may take to its end: the request's deadline.
     * @return the call, under way: {@link Call#next()} has its items.
     * @throws FlyringException as {@link #stream(byte[], int, int, Duration)} does.
     */
    public Call stream(MessageEncoderFlyweight request, int credit, Duration timeout) {
        return startCall(request.buffer(), null, Encoded.offset(request), Encoded.length(request),
            Encoded.type(request), credit == 0 ? -1 : credit, Waiting.nanos(timeout));
    }

    /**
     * Takes replies, ends calls, completes futures, notices that the server has gone. Does not wait.
     *
     * @return how many calls ended, or got an item.
     * @throws FlyringException as {@link #poll(Duration)} does.
     */
    public int poll() {
        return pollCalls(0);
    }

    /**
     * The same; waits while nothing happens.
     *
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return how many calls ended, or got an item; 0: none in time.
     * @throws ClosedException after close.
     * @throws SlotLostException if the client was evicted.
     * @throws CorruptRingException if the ring of replies is damaged.
     * @throws ChannelReplacedException if the channel was replaced: that ends the wait; calls go on.
     * @throws CancelledException if the thread is interrupted. The thread stays interrupted.
     * @throws TwoThreadsException if another thread, or one of this client's futures, is at work in it.
     * @throws InvalidArgumentException if the time-out is below 0.
     */
    public int poll(Duration timeout) {
        return pollCalls(Waiting.nanos(timeout));
    }

    /**
     * Calls under way.
     *
     * @return their number; those that expired or were cancelled count until the server has answered them.
     */
    public int outstanding() {
        return calls.size();
    }

    /**
     * Replies that nobody waited for any more.
     *
     * @return how many came since the start.
     */
    public long late() {
        return late;
    }

    /**
     * The server that lives; tests a lock.
     *
     * @return its name and epoch, or null if none lives.
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
     * @param time the time to spin; 0 looks once.
     * @throws InvalidArgumentException if it is below 0.
     */
    public void setSpin(Duration time) {
        waiting.spinFor(time);
    }

    /**
     * Which of the clients it is.
     *
     * @return its number, from 0.
     */
    public int number() {
        return number;
    }

    /**
     * Its subscriber slot.
     *
     * @return the slot, from 1.
     */
    public int slot() {
        return 1 + number;
    }

    /**
     * Its name.
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
     * The largest request.
     *
     * @return bytes.
     */
    public int maxMessageLength() {
        return longest();
    }

    /**
     * Gives the place back. Calls under way end as {@link ClosedException}; what was published is run all the same. A
     * thread that waits in this client gets that, too. Closing twice is fine.
     *
     * @throws ViewAliveException from inside what one of its calls has completed, or while another thread works.
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
