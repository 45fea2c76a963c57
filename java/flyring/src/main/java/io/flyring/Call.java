// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * One call that is under way, or has ended; made by {@link Client#start(byte[])} and {@link Client#stream(byte[])}. Not
 * thread-safe: use it in the client's thread. Any thread may use its future. A call stays valid after its client is
 * closed. Spec service.md 6.
 */
public final class Call {
    final ClientVerbs client;
    int sequence;
    /** The position of its request in the client's ring. */
    long position;
    /** The deadline in ns of CLOCK_MONOTONIC; 0 if there is none. */
    long deadline;
    boolean outstanding;
    boolean done;
    boolean repeat;
    boolean cancelDue;
    /** Whether the client's own verb waits for it: then no listener or future is told. */
    boolean ofCall;
    /**
     * Receives the answer in place, for
     * {@link Client#call(org.agrona.DirectBuffer, int, int, int, long, MessageHandler)}; else null.
     */
    MessageHandler inPlace;
    /** Of a stream: the credit of its request, and how many items were consumed since credit was last sent. */
    int credit;
    int consumed;
    Call before;
    Call behind;
    Call nextOfBucket;
    /** Called for each item and for the end, inside the client's verbs. */
    Consumer<Call> listener;
    private final ArrayDeque<Message> items;
    private volatile CompletableFuture<Message> future;
    private Message answer;
    private Throwable error;

    Call(ClientVerbs client, int credit) {
        this.client = client;
        this.credit = credit;
        this.items = credit > 0 ? new ArrayDeque<>() : null;
    }

    /** Resets a call that only its client holds, so that the client can use it again. */
    void reset() {
        done = false;
        repeat = false;
        cancelDue = false;
        inPlace = null;
        deadline = 0;
        answer = null;
        error = null;
    }

    void end(Message message, Throwable failure) {
        answer = message;
        error = failure;
        done = true;
    }

    /** Whether a listener or a future is to be told. */
    boolean isHeard() {
        return listener != null || future != null;
    }

    /** Tells listener and future. Runs outside of a drain, because they may start calls. */
    void tell() {
        if (listener != null) {
            listener.accept(this);
        }
        CompletableFuture<Message> waits = future;
        if (done && waits != null) {
            complete(waits);
        }
    }

    private void complete(CompletableFuture<Message> waits) {
        if (error != null) {
            waits.completeExceptionally(error);
        } else {
            waits.complete(answer);
        }
    }

    boolean hasItem() {
        return items != null && !items.isEmpty();
    }

    int items() {
        return items == null ? 0 : items.size();
    }

    void addItem(Message item) {
        items.add(item);
    }

    Message takeItem() {
        Message item = items == null ? null : items.poll();
        if (item != null) {
            consumed++;
        }
        return item;
    }

    /** Whether credit is due: half of the call's credit was consumed. */
    boolean creditDue() {
        return credit > 0 && !done && consumed != 0 && 2 * consumed >= credit;
    }

    /** Throws the error that ended the call, if there is one. */
    void throwEnd() {
        if (error instanceof FlyringException failure) {
            throw failure;
        }
        if (error instanceof Error failure) {
            throw failure;
        }
    }

    Message answer() {
        return answer;
    }

    /**
     * Whether the call has ended.
     *
     * @return true once the call has ended.
     */
    public boolean done() {
        return done;
    }

    /**
     * Of an answer: whether a handler was given the request more than once.
     *
     * @return true if it was.
     */
    public boolean repeat() {
        return repeat;
    }

    /**
     * A future for the call's end: the answer, null at the end of a stream, or the exception that ended the call. The
     * thread in which the client polls or waits completes it. Dependent actions may start calls there; one that waits
     * gets {@link TwoThreadsException}.
     *
     * @return the call's one future.
     */
    public CompletableFuture<Message> future() {
        CompletableFuture<Message> made = future;
        if (made == null) {
            made = new CompletableFuture<>();
            future = made;
            if (done) {
                complete(made);
            }
        }
        return made;
    }

    /**
     * Waits for the call's end.
     *
     * @return the answer, which owns its bytes; null at the end of a stream.
     * @throws FlyringException as {@link #result(Duration)} does.
     */
    public Message result() {
        return result(Publisher.FOREVER);
    }

    /**
     * Waits for the call's end.
     *
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the answer, which owns its bytes; null at the end of a stream.
     * @throws ServiceErrorException if the handler threw, failed, or did not answer.
     * @throws ExpiredException if the call's own time-out came first.
     * @throws ServerGoneException if the server died, closed, or was evicted.
     * @throws CancelledException if the call was cancelled, or if the thread was interrupted; in the latter case the
     *     call goes on.
     * @throws ClosedException if its client was closed.
     * @throws SlotLostException if its client was evicted.
     * @throws CorruptRingException if the ring of replies is damaged.
     * @throws TimedOutException at the time-out; the call goes on.
     * @throws ChannelReplacedException if the channel was replaced; the call goes on.
     */
    public Message result(Duration timeout) {
        if (!done) {
            client.await(this, Waiting.nanos(timeout));
        }
        throwEnd();
        return answer;
    }

    /**
     * Of a stream: waits for its next item.
     *
     * @return the item, which owns its bytes; null at the end of the stream.
     * @throws FlyringException as {@link #result(Duration)} does, after the last item that arrived.
     */
    public Message next() {
        return next(Publisher.FOREVER);
    }

    /**
     * Of a stream: waits for its next item, up to a time-out.
     *
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the item, which owns its bytes; null at the end of the stream or at the time-out, which {@link #done()}
     *     tells apart.
     * @throws FlyringException as {@link #result(Duration)} does, after the last item that arrived.
     */
    public Message next(Duration timeout) {
        Message item = client.next(this, Waiting.nanos(timeout));
        if (item == null && done) {
            throwEnd();
        }
        return item;
    }

    /** Ends the call as cancelled at once, and tells the server. Does nothing if the call has ended. */
    public void cancel() {
        if (!done) {
            client.cancel(this);
        }
    }
}
