// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.util.concurrent.CompletableFuture;

/** One call that is under way, or has ended; of the thread of its {@link Client} (spec/service.md 6). */
public final class Call {
    private final Client client;
    private final CompletableFuture<Message> future = new CompletableFuture<>();
    int sequence;
    long position;
    long deadline;
    private boolean done;
    boolean repeat;
    boolean cancelUnsent;
    private Message answer;
    private FlyringException error;

    Call(Client client) {
        this.client = client;
    }

    void end(Message message, FlyringException failure) {
        if (!done) {
            done = true;
            answer = message;
            error = failure;
            if (failure == null) {
                future.complete(message);
            } else {
                future.completeExceptionally(failure);
            }
        }
    }

    /** @return whether it has ended. */
    public boolean done() {
        return done;
    }

    /** @return whether the answer is of a request that a handler was given more than once. */
    public boolean repeat() {
        return repeat;
    }

    /** @return what ends with the call, in the thread in which its client polls or waits. */
    public CompletableFuture<Message> future() {
        return future;
    }

    /**
     * Waits for the end.
     *
     * @return the answer.
     * @throws FlyringException how it ended otherwise.
     */
    public Message result() {
        client.await(this);
        if (error != null) {
            throw error;
        }
        return answer;
    }

    /** Ends it as cancelled at once, and tells the server. Does nothing if it has ended. */
    public void cancel() {
        if (!done) {
            cancelUnsent = true;
            end(null, new CancelledException("an answer", "The call was cancelled. Its handler may run all the same."));
            client.sendCancels();
        }
    }
}
