// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * One call that is under way, or has ended; made by {@link Client#start(byte[])} and {@link Client#stream(byte[])}. Of
 * the thread of its client; it may outlive that. Its future may be used by any thread. spec/service.md 6.
 */
public final class Call {
    final ClientVerbs client;
    int sequence;
    /** Of its request. */
    long position;
    /** 0: none. */
    long deadline;
    boolean outstanding;
    boolean done;
    boolean repeat;
    boolean cancelDue;
    /** Its caller waits for it in the client's own verb: nobody else is told. */
    boolean ofCall;
    /** Of {@link Client#call(org.agrona.DirectBuffer, int, int, int, long, MessageHandler)}. */
    MessageHandler inPlace;
    /** Of a stream: what it began with, and items that were consumed since credit was sent last. */
    int credit;
    int consumed;
    Call before;
    Call behind;
    Call nextOfBucket;
    /** Is called for each item and for the end, in the client's verbs. */
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

    /** As new: of a call that nobody but its client has. */
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

    /** Whether somebody wants to be told. */
    boolean isHeard() {
        return listener != null || future != null;
    }

    /** Outside of a drain: what waits for it may start calls. */
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

    /** How it ended, if not by an answer. */
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
     * Whether it has ended.
     *
     * @return true once it has.
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
     * What ends with the call: with its answer, with null at the end of a stream, or with how it ended otherwise. It
     * ends in the thread in which its client polls or waits; what depends on it may start calls there, but a call that
     * waits is {@link TwoThreadsException}.
     *
     * @return always the same one.
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
     * Waits for the end.
     *
     * @return the answer, with bytes of its own; null at the end of a stream.
     * @throws FlyringException as {@link #result(Duration)} does.
     */
    public Message result() {
        return result(Publisher.FOREVER);
    }

    /**
     * Waits for the end.
     *
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the answer, with bytes of its own; null at the end of a stream.
     * @throws ServiceErrorException if the handler threw, failed, or did not answer.
     * @throws ExpiredException if the call's own time-out came first.
     * @throws ServerGoneException if the server died, closed, or was evicted.
     * @throws CancelledException if the call was cancelled; or the thread was interrupted: the call goes on then.
     * @throws ClosedException if its client was closed.
     * @throws SlotLostException if its client was evicted.
     * @throws CorruptRingException if the ring of replies is damaged.
     * @throws TimedOutException at the time-out: the call goes on.
     * @throws ChannelReplacedException if the channel was replaced: the call goes on.
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
     * @return the item, with bytes of its own; null at the end.
     * @throws FlyringException as {@link #result(Duration)} does, behind the last item that came.
     */
    public Message next() {
        return next(Publisher.FOREVER);
    }

    /**
     * Of a stream: its next item; waits for it.
     *
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the item, with bytes of its own; null at the end, or at the time-out: {@link #done()} tells which.
     * @throws FlyringException as {@link #result(Duration)} does, behind the last item that came.
     */
    public Message next(Duration timeout) {
        Message item = client.next(this, Waiting.nanos(timeout));
        if (item == null && done) {
            throwEnd();
        }
        return item;
    }

    /** Ends it as cancelled at once, and tells the server. Does nothing if it has ended. */
    public void cancel() {
        if (!done) {
            client.cancel(this);
        }
    }
}
