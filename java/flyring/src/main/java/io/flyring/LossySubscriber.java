// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/**
 * A reader of chosen rings that owns no slot, causes no back-pressure, and counts the messages that it lost; made by
 * {@link Channel#lossySubscriber(Start, int...)}. It receives everything as long as it is less than one lap behind each
 * publisher. When a publisher has lapped it, it continues at the oldest message that leaves it a quarter of the ring,
 * or at the newest position ({@link WhenLapped}). Polling does not lock or make system calls, and allocates only when
 * the buffer for private copies grows. Messages of one publisher arrive in the order of publication; there is no order
 * between publishers. Not thread-safe. Concurrent use is detected on a best-effort basis and throws
 * {@link TwoThreadsException}. Spec channel.md 6.10.
 */
public final class LossySubscriber implements AutoCloseable {
    private final Channel channel;
    private final LossyReader[] readers;
    private final List<Memory> mapped;
    private final Wait waiting;
    private boolean closed;
    /** Whether all is given back. */
    private boolean ended;
    private boolean busy;
    /** Whether the handler ended the last controlled poll. */
    private boolean stopped;
    private int next;
    /** Index of the reader with the message that is peeked at; -1 if there is none. */
    private int peeked = -1;
    /** Consecutive polls that found nothing. */
    private int idlePolls;
    private Message taken;
    private final MessageHandler taker = message -> taken = message.copy();

    /** What a wait checks. */
    private final class Wait extends DataWait {
        Wait(int[] rings) {
            super(channel, rings);
        }

        @Override
        boolean isReady() {
            for (LossyReader reader : readers) {
                if (closed || reader.isReady()) {
                    return true;
                }
            }
            return false;
        }

        @Override
        void setBusy(boolean now) {
            busy = now;
        }

        @Override
        void lookSoon() {
            idlePolls = Layout.POLLS_TO_LOOK;
        }
    }

    LossySubscriber(Channel channel, LossyReader[] readers, List<Memory> mapped) {
        this.mapped = mapped;
        this.channel = channel;
        this.readers = readers;
        this.waiting = new Wait(rings());
    }

    /**
     * Hands out up to 256 messages.
     *
     * @param handler receives the messages, one after another.
     * @return the number of messages handed out, 0 to 256.
     * @see #poll(MessageHandler, int)
     */
    public int poll(MessageHandler handler) {
        return poll(handler, Layout.DEFAULT_POLL_LIMIT);
    }

    /**
     * Hands out messages, each as a private copy of a whole message, starting with the ring after the one that was
     * served last. If the handler throws, its message counts as consumed, and the exception reaches the caller.
     *
     * @param handler receives the messages, one after another.
     * @param limit the largest number of messages.
     * @return the number of messages handed out, 0 to {@code limit}.
     * @throws ClosedException after close.
     * @throws CorruptRingException if a ring breaks the rules. That ring is not read again; the other rings go on.
     * @throws ChannelReplacedException if another channel has taken this one's name. Every 4096th consecutive poll that
     *     finds nothing checks this. The subscriber keeps working.
     * @throws TwoThreadsException if another thread, or a handler of this subscriber, is polling.
     */
    public int poll(MessageHandler handler, int limit) {
        checkUsable();
        if (limit <= 0) {
            return 0;
        }
        busy = true;
        int at = next;
        int handed = 0;
        try {
            for (int i = 0; i < readers.length && handed < limit; i++) {
                LossyReader reader = readers[at];
                at = at + 1 == readers.length ? 0 : at + 1;
                int more = reader.poll(handler, limit - handed);
                if (more > 0) {
                    next = at;
                    handed += more;
                }
            }
        } finally {
            busy = false;
        }
        return found(handed, handed > 0);
    }

    /**
     * Hands out messages, and waits while there is nothing: it spins for a short time, then sleeps until a publisher
     * wakes it. A virtual thread that sleeps here pins its carrier thread.
     *
     * @param handler receives the messages, one after another.
     * @param limit the largest number of messages.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the number of messages handed out, 0 to {@code limit}; 0 if nothing came in time.
     * @throws InvalidArgumentException if the time-out is below 0.
     * @throws CancelledException if the thread is interrupted; detected within 100 ms. The thread stays interrupted.
     * @throws ClosedException if another thread closes the subscriber or the channel; detected within 100 ms.
     * @throws ChannelReplacedException if the channel is replaced; detected within 100 ms, or within a second if
     *     something other than Flyring replaced the file. The subscriber keeps working.
     * @throws FlyringException as {@link #poll(MessageHandler, int)} does.
     */
    public int poll(MessageHandler handler, int limit, Duration timeout) {
        return poll(handler, limit, Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param handler receives the messages, one after another.
     * @param limit the largest number of messages.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the number of messages handed out, 0 to {@code limit}; 0 if nothing came in time.
     * @throws FlyringException as {@link #poll(MessageHandler, int, Duration)} does.
     */
    public int poll(MessageHandler handler, int limit, long timeout) {
        if (timeout < 0) {
            throw negative(timeout);
        }
        int handed = poll(handler, limit);
        if (handed > 0 || timeout == 0 || limit <= 0) {
            return handed;
        }
        waiting.begin(timeout);
        try {
            while (handed == 0 && waiting.untilReady()) {
                handed = poll(handler, limit);
            }
        } finally {
            waiting.end();
        }
        return handed;
    }

    /**
     * Hands out up to 256 messages to a handler that returns an {@link Action}.
     *
     * @param handler receives the messages, one after another.
     * @return the number of messages consumed, 0 to 256.
     * @see #controlledPoll(ControlledMessageHandler, int)
     */
    public int controlledPoll(ControlledMessageHandler handler) {
        return controlledPoll(handler, Layout.DEFAULT_POLL_LIMIT);
    }

    /**
     * Hands out messages as {@link #poll(MessageHandler, int)} does, to a handler. The {@link Action} that it returns
     * says whether the message is consumed and whether the poll continues. {@link Action#COMMIT} means
     * {@link Action#CONTINUE} here. After {@link Action#ABORT} the next poll begins with the same message, if it is
     * still in the ring.
     *
     * @param handler receives the messages, one after another.
     * @param limit the largest number of messages.
     * @return the number of messages consumed, 0 to {@code limit}; an aborted message does not count.
     * @throws InvalidArgumentException if the handler returns null.
     * @throws FlyringException as {@link #poll(MessageHandler, int)} does.
     */
    public int controlledPoll(ControlledMessageHandler handler, int limit) {
        checkUsable();
        busy = true;
        int at = next;
        int handed = 0;
        stopped = false;
        try {
            for (int i = 0; i < readers.length && handed < limit && !stopped; i++) {
                LossyReader reader = readers[at];
                int more = reader.controlledPoll(handler, limit - handed);
                stopped = reader.stopped();
                handed += more;
                int following = at + 1 == readers.length ? 0 : at + 1;
                if (more > 0 || stopped) {
                    next = reader.aborted() ? at : following;
                }
                at = following;
            }
        } finally {
            busy = false;
        }
        return found(handed, handed > 0 || stopped);
    }

    /**
     * Hands out messages to a handler that returns an {@link Action}, and waits while there is nothing, as
     * {@link #poll(MessageHandler, int, Duration)} does.
     *
     * @param handler receives the messages, one after another.
     * @param limit the largest number of messages.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the number of messages consumed, 0 to {@code limit}; 0 if nothing came in time or the first message was
     *     aborted.
     * @throws FlyringException as {@link #poll(MessageHandler, int, Duration)} and
     *     {@link #controlledPoll(ControlledMessageHandler, int)} do.
     */
    public int controlledPoll(ControlledMessageHandler handler, int limit, Duration timeout) {
        return controlledPoll(handler, limit, Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param handler receives the messages, one after another.
     * @param limit the largest number of messages.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the number of messages consumed, 0 to {@code limit}; 0 if nothing came in time or the first message was
     *     aborted.
     * @throws FlyringException as {@link #controlledPoll(ControlledMessageHandler, int, Duration)} does.
     */
    public int controlledPoll(ControlledMessageHandler handler, int limit, long timeout) {
        if (timeout < 0) {
            throw negative(timeout);
        }
        int handed = controlledPoll(handler, limit);
        if (handed > 0 || stopped || timeout == 0 || limit <= 0) {
            return handed;
        }
        waiting.begin(timeout);
        try {
            while (handed == 0 && !stopped && waiting.untilReady()) {
                handed = controlledPoll(handler, limit);
            }
        } finally {
            waiting.end();
        }
        return handed;
    }

    private FlyringException negative(long timeout) {
        return closed ? closed() : busy ? Refusal.subscriberInUse() : Waiting.negative(timeout);
    }

    private int found(int handed, boolean something) {
        if (something) {
            idlePolls = 0;
        } else {
            nothingThere();
        }
        return handed;
    }

    private void nothingThere() {
        if (++idlePolls >= Layout.POLLS_TO_LOOK) {
            idlePolls = 0;
            channel.checkReplaced();
        }
    }

    /** Throws if the call must be refused; drops the message that was peeked at. */
    private void checkUsable() {
        checkOpen();
        if (busy) {
            throw Refusal.subscriberInUse();
        }
        forgetPeeked();
    }

    private void checkOpen() {
        if (closed) {
            throw closed();
        }
    }

    private static ClosedException closed() {
        return new ClosedException("The lossy subscriber is closed. Make a new one.");
    }

    private void forgetPeeked() {
        if (peeked >= 0) {
            readers[peeked].invalidate();
            peeked = -1;
        }
    }

    /**
     * Takes one message.
     *
     * @return a message that owns its bytes, or null if there is none.
     * @throws FlyringException as {@link #poll(MessageHandler, int)} does.
     */
    public Message take() {
        if (poll(taker, 1) == 0) {
            return null;
        }
        Message message = taken;
        taken = null;
        return message;
    }

    /**
     * Takes one message, and waits while there is none, as {@link #poll(MessageHandler, int, Duration)} does.
     *
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return a message that owns its bytes; null if none came in time.
     * @throws FlyringException as {@link #poll(MessageHandler, int, Duration)} does.
     */
    public Message take(Duration timeout) {
        return take(Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return a message that owns its bytes; null if none came in time.
     * @throws FlyringException as {@link #poll(MessageHandler, int, Duration)} does.
     */
    public Message take(long timeout) {
        if (poll(taker, 1, timeout) == 0) {
            return null;
        }
        Message message = taken;
        taken = null;
        return message;
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
     * Shows the next message in place, for experts. The publisher may overwrite the message while it is read. So what
     * was read, including type and sender, counts only if {@link #valid()} returns true afterwards. Only
     * {@link #valid()} consumes the message.
     *
     * @return the message, valid until the next call of any method that polls, peeks or closes; null if there is none.
     * @throws FlyringException as {@link #poll(MessageHandler, int)} does.
     */
    public Message peek() {
        checkUsable();
        int at = next;
        for (int i = 0; i < readers.length; i++) {
            Message message = readers[at].peek();
            if (message != null) {
                peeked = at;
                idlePolls = 0;
                return message;
            }
            at = at + 1 == readers.length ? 0 : at + 1;
        }
        nothingThere();
        return null;
    }

    /**
     * Whether the message from {@link #peek()} was whole until now. If so, the message is consumed. If not, discard
     * what was read: the loss is counted, and the subscriber continues as {@link WhenLapped} says.
     *
     * @return true if what was read of the message is valid.
     * @throws InvalidArgumentException if no message was peeked at since the last call of a method that consumes one.
     * @throws FlyringException as {@link #poll(MessageHandler, int)} does.
     */
    public boolean valid() {
        int at = peeked;
        checkUsable();
        if (at < 0) {
            throw new InvalidArgumentException("valid", "No message was peeked at. Peek first.");
        }
        next = at + 1 == readers.length ? 0 : at + 1;
        return readers[at].valid();
    }

    /**
     * The number of messages that were overwritten before this subscriber read them.
     *
     * @param ring index of a ring that this subscriber reads.
     * @return the exact number since the start.
     * @throws InvalidArgumentException if this subscriber does not read the ring.
     */
    public long lostMessages(int ring) {
        return reader(ring).lostMessages();
    }

    /**
     * The number of bytes of the ring that were overwritten before this subscriber read them, including headers and
     * padding.
     *
     * @param ring index of a ring that this subscriber reads.
     * @return the exact number since the start.
     * @throws InvalidArgumentException if this subscriber does not read the ring.
     */
    public long lostBytes(int ring) {
        return reader(ring).lostBytes();
    }

    /**
     * This subscriber's position in a ring.
     *
     * @param ring index of a ring that this subscriber reads.
     * @return the position in bytes.
     * @throws InvalidArgumentException if this subscriber does not read the ring.
     */
    public long position(int ring) {
        return reader(ring).cursor();
    }

    /**
     * Whether a ring's publisher has closed and this subscriber has consumed everything it published. Becomes false
     * again when the ring gets a new publisher.
     *
     * @param ring index of a ring that this subscriber reads.
     * @return true if no more messages come, unless the ring gets a new publisher.
     * @throws InvalidArgumentException if this subscriber does not read the ring.
     * @throws ClosedException after close.
     */
    public boolean ended(int ring) {
        checkOpen();
        LossyReader reader = reader(ring);
        return channel.slots().closed(ring) && reader.drained();
    }

    private LossyReader reader(int ring) {
        for (LossyReader reader : readers) {
            if (reader.ring == ring) {
                return reader;
            }
        }
        throw Refusal.notChosen(ring, rings());
    }

    /**
     * The rings that this subscriber reads.
     *
     * @return the indices of the rings, ascending.
     */
    public int[] rings() {
        return Arrays.stream(readers).mapToInt(reader -> reader.ring).toArray();
    }

    Waiting waiting() {
        return waiting;
    }

    void checkClosable() {
        if (busy && !closed) {
            throw new ViewAliveException("This subscriber is polling, in its handler or in another thread. Close it"
                + " after the poll.");
        }
    }

    /**
     * Closes the subscriber. A thread that waits for a message gets {@link ClosedException}. A second close does
     * nothing.
     *
     * @throws ViewAliveException if called from a handler of this subscriber, or while another thread polls.
     */
    @Override
    public void close() {
        boolean waited = waiting.takeOver();
        try {
            if (!waited) {
                checkClosable();
            }
            end();
        } finally {
            channel.tellSleepers(waited);
            if (waited) {
                waiting.goOn();
            }
        }
    }

    /** Makes the object unusable. */
    void end() {
        forgetPeeked();
        if (!ended) {
            closed = true;
            mapped.forEach(channel.file()::release);
            channel.release(this);
            ended = true; // last: after an Error before this, the next close goes on
        }
    }
}
