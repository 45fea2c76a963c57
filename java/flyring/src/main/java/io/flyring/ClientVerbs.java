// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import org.agrona.DirectBuffer;

/** Implements the verbs of a client and of its calls, and their waits (service.md 6, call, and 7). */
abstract class ClientVerbs extends ClientCore {
    /** How often a call looks before it pauses between looks, and before it reads the clock. */
    private static final int EAGER_LOOKS = 32;
    private static final int LOOKS = 232;
    private static final int MOST_CREDIT = 65535;

    /** A call object of {@link #callAndWait} that no user holds, to be used again. */
    private Call spare;

    ClientVerbs(Channel channel, int number, Seat seat, long epoch, ServiceWriter writer, RingReader reader,
        Memory trailer) {
        super(channel, number, seat, epoch, writer, reader, trailer);
    }

    final int longest() {
        return writer.maxLength - Layout.REQUEST_LENGTH;
    }

    private boolean isNested() {
        return callbackThread == Thread.currentThread();
    }

    private void check(int length, int type, long timeout) {
        if (busy && !isNested() || !owned() || corrupt != null || type < 1 || timeout < 0
            || length > longest()) {
            throw refusal(length, type, timeout);
        }
    }

    /** The error for a call that is refused, in the order of api.md, "Errors". */
    private FlyringException refusal(int length, int type, long timeout) {
        if (!isOpen() && !lost) {
            return unusable();
        }
        if (busy && !isNested()) {
            return twoThreads();
        }
        if (type < 1) {
            return new InvalidArgumentException("type", "The type " + type + " is not in 1 to 2147483647.");
        }
        if (timeout < 0) {
            return Waiting.negative(timeout);
        }
        MessageTooLargeException tooLarge = writer.tooLarge(Layout.REQUEST_LENGTH, length);
        if (tooLarge != null) {
            return tooLarge;
        }
        return owned() ? corrupt : unusable();
    }

    private TwoThreadsException twoThreads() {
        return new TwoThreadsException("Client " + number + " of " + channel.path() + " is in use by another thread,"
            + " or waits in a callback of one of its own calls. Give each thread its own client.");
    }

    /** Begins a verb; returns whether it runs in a callback of another verb. */
    private boolean enter() {
        final boolean nested = busy;
        if (!nested) {
            busy = true;
            waiting.enterVerb();
        }
        return nested;
    }

    private void leave(boolean nested) {
        if (!nested) {
            busy = false;
            waiting.leaveVerb();
        }
    }

    private void enterWaitingVerb() {
        if (isNested()) {
            throw twoThreads();
        }
        enter();
    }

    /** Ends a wait; the verb goes on. */
    private void endWait() {
        waiting.end();
        waiting.enterVerb();
    }

    /** Throws if the largest number of calls is outstanding: call 1. */
    private void admit() {
        if (calls.size() >= header.maxOutstanding) {
            step();
            if (calls.size() >= header.maxOutstanding) {
                throw new BusyException(calls.size(), calls.size() + " calls of client " + number + " are under way"
                    + " already, as many as the service allows. Wait for one to end.");
            }
        }
    }

    /** Finds the server and publishes the request: call 2 and 3. If this throws, the call was not made. */
    private void begin(Call call, DirectBuffer source, byte[] bytes, int offset, int length, int type, long timeout,
        boolean mayWait) {
        call.deadline = timeout == Waiting.FOREVER ? 0 : Waiting.deadline(now(), timeout);
        if (findServer() && publish(call, source, bytes, offset, length, type)) {
            return;
        }
        if (!mayWait) {
            throw twoThreads();
        }
        waiting.begin(timeout);
        try {
            while (true) {
                final boolean there = findServer();
                if (there && publish(call, source, bytes, offset, length, type)) {
                    return;
                }
                final boolean again = turn(there ? FOR_ROOM : FOR_SERVER);
                step();
                runPending();
                channel.checkReplaced();
                if (!again) {
                    countExpired();
                    throw expiredError(false);
                }
            }
        } finally {
            endWait();
        }
    }

    /** Makes a call and waits for its answer; returns null if {@code inPlace} received the answer. */
    final Message callAndWait(DirectBuffer source, byte[] bytes, int offset, int length, int type, long timeout,
        MessageHandler inPlace) {
        check(length, type, timeout);
        enterWaitingVerb();
        Call call = null;
        try {
            admit();
            call = spare != null ? spare : new Call(this, 0);
            spare = null;
            call.reset();
            call.ofCall = true;
            call.inPlace = inPlace;
            begin(call, source, bytes, offset, length, type, timeout, true);
            final int looks = waiting.spins() ? LOOKS : 1;
            for (int i = 0; i < looks && !call.done; i++) {
                if (reader.isReady()) {
                    drain();
                } else if (i >= EAGER_LOOKS) {
                    Thread.onSpinWait();
                }
            }
            if (!call.done) {
                untilDone(call, timeout);
            }
            runPending();
            call.throwEnd();
            return call.answer();
        } finally {
            if (call != null && call.outstanding) {
                call.inPlace = null; // the caller no longer waits for it
            } else if (call != null) {
                call.end(null, null);
                spare = call;
            }
            leave(false);
        }
    }

    private void untilDone(Call call, long timeout) {
        waiting.begin(timeout);
        try {
            while (true) {
                final boolean again = turn(FOR_REPLY);
                step();
                runPending();
                if (call.done) {
                    return;
                }
                if (!again && call.ofCall && call.deadline != 0) {
                    expire(call); // the deadline has passed by the clock of the wait
                    return;
                }
                askGone = true;
                step();
                runPending();
                if (call.done) {
                    return;
                }
                channel.checkReplaced();
                if (!again) {
                    throw timedOut();
                }
            }
        } finally {
            endWait();
        }
    }

    private static TimedOutException timedOut() {
        return new TimedOutException("the end of a call", "The call has not ended in time. It goes on.");
    }

    final Call startCall(DirectBuffer source, byte[] bytes, int offset, int length, int type, int credit,
        long timeout) {
        check(length, type, timeout);
        if (credit < 0 || credit > MOST_CREDIT || credit > 0 && atLeastOnce) {
            throw new InvalidArgumentException("credit", atLeastOnce ? "A service of at-least-once delivery has no"
                + " streams." : "The credit is " + credit + "; it must be 1 to 65535.");
        }
        final boolean nested = enter();
        try {
            admit();
            Call call = new Call(this, credit);
            begin(call, source, bytes, offset, length, type, timeout, !nested);
            return call;
        } finally {
            leave(nested);
        }
    }

    final int pollCalls(long timeout) {
        check(0, 1, timeout);
        enterWaitingVerb();
        try {
            happened = 0;
            step();
            if (happened == 0 && timeout != 0) {
                untilSomethingHappens(timeout);
            }
            final int found = happened;
            runPending();
            sendDue();
            return found;
        } finally {
            leave(false);
        }
    }

    private void untilSomethingHappens(long timeout) {
        waiting.begin(timeout);
        try {
            boolean again = true;
            while (happened == 0 && again) {
                again = turn(FOR_REPLY);
                step();
                if (happened == 0) {
                    askGone = true;
                    step();
                }
                if (happened == 0) {
                    channel.checkReplaced();
                }
            }
        } finally {
            endWait();
        }
    }

    /** Waits until a call has ended. */
    final void await(Call call, long timeout) {
        check(0, 1, timeout);
        enterWaitingVerb();
        try {
            step();
            if (!call.done) {
                untilDone(call, timeout);
            }
            runPending();
            sendDue();
        } finally {
            leave(false);
        }
    }

    /** The next item of a stream; null at the end of the stream or at the time-out. */
    final Message next(Call call, long timeout) {
        if (timeout < 0) {
            throw Waiting.negative(timeout);
        }
        Message item = call.takeItem();
        if (item != null) {
            if (call.creditDue() && !busy && owned() && corrupt == null) {
                enter();
                try {
                    sendDue();
                } finally {
                    leave(false);
                }
            }
            return item;
        }
        if (call.done || isNested()) {
            return null;
        }
        check(0, 1, timeout);
        enterWaitingVerb();
        try {
            step();
            sendDue();
            if (!call.hasItem() && !call.done && timeout != 0) {
                untilItem(call, timeout);
            }
            item = call.takeItem();
            runPending();
            sendDue();
            return item;
        } finally {
            leave(false);
        }
    }

    private void untilItem(Call call, long timeout) {
        waiting.begin(timeout);
        try {
            boolean again = true;
            while (!call.hasItem() && !call.done && again) {
                again = turn(FOR_REPLY);
                step();
                runPending();
                if (!call.hasItem() && !call.done) {
                    askGone = true;
                    step();
                    sendDue();
                }
                if (!call.hasItem() && !call.done) {
                    channel.checkReplaced();
                }
            }
        } finally {
            endWait();
        }
    }

    final void cancel(Call call) {
        check(0, 1, 0);
        final boolean nested = enter();
        try {
            cancelNow(call);
            if (!nested) {
                runPending();
            }
        } finally {
            leave(nested);
        }
    }
}
