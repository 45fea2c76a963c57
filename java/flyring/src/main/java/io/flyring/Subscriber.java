// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.Arrays;

/**
 * A reliable reader of chosen rings; made by {@link Channel#subscriber(int...)}. Publishers wait for it, so it misses
 * no message unless it is evicted. Polling does not allocate or lock, and makes no system call unless a publisher must
 * be woken. Messages of one publisher arrive in the order of publication; there is no order between publishers. The
 * garbage collector closes a subscriber that is unreachable, with a warning. Not thread-safe. Concurrent use is
 * detected on a best-effort basis and throws {@link TwoThreadsException}. Spec channel.md 5.3, 6.4 to 6.9.
 */
public final class Subscriber implements AutoCloseable {
    private static final long GONE = -1;
    private static final RingReader[] NOTHING = new RingReader[0];

    private final Channel channel;
    private final String name;
    private final int slot;
    private final Seat seat;
    private final RingReader[] readers;
    private final Memory control;
    private final int epochAt;
    private final long epoch;
    private final boolean kept;
    private final Wait waiting;

    /** The readers that a poll visits: none once this object is closed. */
    private RingReader[] polled;
    /** The epoch that the slot must have; {@link #GONE} once this object is closed or has lost its slot. */
    private long expectedEpoch;
    private boolean busy;
    private boolean lost;
    /** Whether the handler ended the last controlled poll. */
    private boolean stopped;
    private int next;
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
            if (control.getLongOpaque(epochAt) != expectedEpoch) {
                return true;
            }
            for (RingReader reader : polled) {
                if (reader.isReady()) {
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

    Subscriber(Channel channel, String name, int slot, Seat seat, RingReader[] readers, long epoch, boolean kept) {
        this.channel = channel;
        this.name = name;
        this.slot = slot;
        this.seat = seat;
        this.readers = readers;
        this.polled = readers;
        this.control = channel.control();
        this.epochAt = channel.header().subscriberSlot(slot) + Layout.SUBSCRIBER_SLOT_EPOCH;
        this.epoch = epoch;
        this.expectedEpoch = epoch;
        this.kept = kept;
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
     * Hands out messages in place, starting with the ring after the one that was served last. If the handler throws,
     * its message counts as consumed, and the exception reaches the caller.
     *
     * @param handler receives the messages, one after another.
     * @param limit the largest number of messages.
     * @return the number of messages handed out, 0 to {@code limit}.
     * @throws ClosedException after close.
     * @throws SlotLostException if the slot was taken away. The messages that this poll handed out may have been
     *     overwritten while the handler read them.
     * @throws CorruptRingException if a ring breaks the rules. That ring is not read again; the other rings go on.
     * @throws ChannelReplacedException if another channel has taken this one's name. Every 4096th consecutive poll that
     *     finds nothing checks this. The subscriber keeps working.
     * @throws TwoThreadsException if another thread, or a handler of this subscriber, is polling.
     */
    public int poll(MessageHandler handler, int limit) {
        if (control.getLongOpaque(epochAt) != expectedEpoch || busy) {
            throw refusal();
        }
        if (limit <= 0) {
            return 0;
        }
        busy = true;
        final RingReader[] rings = polled;
        int at = next;
        int handed = 0;
        try {
            for (int i = 0; i < rings.length; i++) {
                RingReader reader = rings[at];
                at = at + 1 == rings.length ? 0 : at + 1;
                int more = poll(reader, handler, limit - handed);
                if (more > 0) {
                    next = at;
                    handed += more;
                    if (handed == limit) {
                        break;
                    }
                } else if (more < 0) {
                    throw gone();
                }
            }
        } finally {
            busy = false;
        }
        if (handed == 0) {
            return nothingThere();
        }
        idlePolls = 0;
        return handed;
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
     * says whether the message is consumed and whether the poll continues. After {@link Action#ABORT} the next poll
     * begins with the same message.
     *
     * @param handler receives the messages, one after another.
     * @param limit the largest number of messages.
     * @return the number of messages consumed, 0 to {@code limit}; an aborted message does not count.
     * @throws InvalidArgumentException if the handler returns null.
     * @throws FlyringException as {@link #poll(MessageHandler, int)} does.
     */
    public int controlledPoll(ControlledMessageHandler handler, int limit) {
        if (control.getLongOpaque(epochAt) != expectedEpoch || busy) {
            throw refusal();
        }
        busy = true;
        final RingReader[] rings = polled;
        int at = next;
        int handed = 0;
        stopped = false;
        try {
            for (int i = 0; i < rings.length && handed < limit && !stopped; i++) {
                RingReader reader = rings[at];
                int more = controlledPoll(reader, handler, limit - handed);
                if (more < 0) {
                    throw gone();
                }
                stopped = reader.stopped();
                handed += more;
                int following = at + 1 == rings.length ? 0 : at + 1;
                if (more > 0 || stopped) {
                    next = reader.aborted() ? at : following;
                }
                at = following;
            }
        } finally {
            busy = false;
        }
        if (handed == 0 && !stopped) {
            return nothingThere();
        }
        idlePolls = 0;
        return handed;
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

    private int controlledPoll(RingReader reader, ControlledMessageHandler handler, int limit) {
        try {
            return reader.controlledPoll(handler, limit);
        } catch (CorruptRingException e) {
            throw errorOf(reader, e);
        }
    }

    private int nothingThere() {
        if (++idlePolls >= Layout.POLLS_TO_LOOK) {
            if (expectedEpoch == GONE) { // also if a hostile file holds this epoch
                idlePolls = Layout.POLLS_TO_LOOK;
                throw gone();
            }
            idlePolls = 0;
            channel.checkReplaced();
        }
        return 0;
    }

    private FlyringException negative(long timeout) {
        return busy || expectedEpoch == GONE ? refusal() : Waiting.negative(timeout);
    }

    private FlyringException refusal() {
        return busy && (expectedEpoch != GONE || lost) ? Refusal.subscriberInUse() : gone();
    }

    private int poll(RingReader reader, MessageHandler handler, int limit) {
        try {
            return reader.poll(handler, limit);
        } catch (CorruptRingException e) {
            throw errorOf(reader, e);
        }
    }

    private FlyringException errorOf(RingReader reader, CorruptRingException error) {
        VarHandle.acquireFence(); // pairs with: evict (6.11)
        if (reader.broken() && control.getLongOpaque(epochAt) != expectedEpoch) {
            return gone(); // an evicted reader may see a later lap
        }
        if (reader.broken() && !kept) {
            reader.stopGating();
        }
        return error;
    }

    /**
     * Takes one message out of the rings.
     *
     * @return a message that owns its bytes, or null if there is none.
     * @throws ClosedException after close.
     * @throws SlotLostException if the slot was taken away.
     * @throws CorruptRingException if a ring's content violates the specification.
     * @throws ChannelReplacedException as {@link #poll(MessageHandler, int)} does.
     * @throws TwoThreadsException if another thread, or a handler of this subscriber, is polling.
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

    private FlyringException gone() {
        if (expectedEpoch == GONE && !lost) {
            return new ClosedException("The subscriber in slot " + slot + " is closed. Make a new one.");
        }
        lose();
        return new SlotLostException(slot, "Subscriber slot " + slot + " was taken away from this subscriber."
            + " Close it and make a new one.");
    }

    /** Marks the slot as lost. If this owner still holds the slot's lock, takes back its gates (channel.md 5.4). */
    private void lose() {
        if (!lost) {
            lost = true;
            expectedEpoch = GONE;
            seat.close();
        }
    }

    /** Throws if the slot is closed or lost: for methods that read the file. */
    private void checkOwned() {
        if (control.getLongOpaque(epochAt) != expectedEpoch) {
            throw gone();
        }
    }

    /**
     * This subscriber's position in a ring.
     *
     * @param ring index of a ring that this subscriber reads.
     * @return the position in bytes up to which messages were handed out.
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
     * @throws SlotLostException if the slot was taken away.
     */
    public boolean ended(int ring) {
        if (expectedEpoch == GONE) {
            throw gone();
        }
        RingReader reader = reader(ring);
        checkOwned();
        return channel.slots().closed(ring) && reader.drained();
    }

    private RingReader reader(int ring) {
        for (RingReader reader : readers) {
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

    /**
     * The subscriber slot.
     *
     * @return the slot's index, from 0.
     */
    public int slot() {
        return slot;
    }

    /**
     * The subscriber's name.
     *
     * @return the name, empty if it has none.
     */
    public String name() {
        return name;
    }

    /**
     * Whether the slot is kept: after a close or a death, publishers wait for the slot's next owner.
     *
     * @return true if the slot is kept.
     */
    public boolean kept() {
        return kept;
    }

    /**
     * The slot's epoch under this owner: each new owner gets the next number.
     *
     * @return the epoch, from 1.
     */
    public long epoch() {
        return epoch;
    }

    Waiting waiting() {
        return waiting;
    }

    void checkClosable() {
        if (busy && expectedEpoch != GONE) {
            throw new ViewAliveException("This subscriber is polling, in its handler or in another thread. Close it"
                + " after the poll.");
        }
    }

    /** Makes the object unusable. */
    void end() {
        expectedEpoch = GONE;
        lost = false;
        polled = NOTHING;
        idlePolls = Layout.POLLS_TO_LOOK;
        for (RingReader reader : readers) {
            reader.end();
        }
    }

    /**
     * Gives the slot back. A kept slot keeps its position, and publishers wait for its next owner. Any other slot no
     * longer holds publishers back. A thread that waits for a message gets {@link ClosedException}. A second close does
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
            seat.close();
        } finally {
            channel.tellSleepers(waited);
            if (waited) {
                waiting.goOn();
            }
        }
    }

    /**
     * Closes the subscriber and gives up its kept slot for good: publishers no longer wait for the slot, and any
     * subscriber may take it.
     *
     * @throws ViewAliveException if called from a handler of this subscriber.
     * @throws ClosedException after close.
     * @throws SlotLostException if the slot was taken away.
     * @throws InvalidArgumentException if the channel is an inbox, because its slot is always kept; nothing was closed.
     */
    public void forget() {
        if (expectedEpoch == GONE) {
            throw gone();
        }
        checkClosable();
        if (busy) {
            throw Refusal.subscriberInUse();
        }
        channel.slots().checkNotForeign("forget");
        if (channel.kind() == Kind.INBOX) {
            throw new InvalidArgumentException("kind", "The slot of an inbox is always kept, so it cannot be forgotten."
                + " Close the subscriber, or evict the slot.");
        }
        checkOwned();
        channel.underControlLock(() -> { // a close of another thread does not drop this lock
            checkOwned(); // until this ends, no other process takes the slot
            channel.joining().forget(slot);
            return null;
        });
        close();
    }
}
