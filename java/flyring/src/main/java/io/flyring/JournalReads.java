// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.ref.Cleaner;
import java.time.Duration;

/** What readers and consumers of a journal have in common: polls and waits (journal.md 3.3, channel.md 6.9, 6.16). */
abstract class JournalReads implements AutoCloseable {
    private static final long CAP_NANOS = 100_000_000;
    private static final int NAPS = 9; // a full round comes once a second

    final JournalFile file;
    final JournalCursor cursor;
    /** Keeps the journal, and so the mapped control file, reachable. */
    private Journal journal;
    private final Wait waiting;
    private final Hold hold;
    private final Cleaner.Cleanable cleaner;
    private volatile boolean closed;
    private boolean busy;
    /** Whether the handler ended the last controlled poll. */
    private boolean stopped;
    private Message taken;
    private final MessageHandler taker = message -> taken = message.copy();

    /** What this object holds; outlives it, so that one that became unreachable can be closed. */
    private static final class Hold implements Runnable {
        private final JournalCursor cursor;
        /** Null for a reader. */
        private final JournalSeat seat;
        private volatile boolean closed;

        Hold(JournalCursor cursor, JournalSeat seat) {
            this.cursor = cursor;
            this.seat = seat;
        }

        /** Gives all back. After an Error in its middle, the next call goes on: each step may be done twice. */
        @Override
        public synchronized void run() {
            if (closed) {
                return;
            }
            try {
                cursor.close();
            } finally {
                if (seat != null) {
                    seat.close();
                }
            }
            closed = true;
        }
    }

    /** What a wait checks. */
    private final class Wait extends Waiting {
        Wait() {
            super(file.data(), !file.file.readOnly(), 1, "a message");
        }

        @Override
        boolean isReady() {
            return closed || !isOwned() || cursor.isReady();
        }

        @Override
        boolean othersWake() {
            return JournalSeat.ownerWakes(file, Layout.JOURNAL_CONTROL_SLOT);
        }

        @Override
        long cap(long waited) {
            return CAP_NANOS;
        }

        @Override
        int naps() {
            return NAPS;
        }

        @Override
        void look() {
            cursor.lookAtPublished(); // a journal is not replaced, but it may have been recovered
        }

        @Override
        void lookSoon() {
            // a poll finds by itself what ends a wait
        }

        @Override
        void setBusy(boolean now) {
            busy = now;
        }
    }

    /**
     * A reader, or with a slot a consumer.
     *
     * @param seat null for a reader.
     */
    JournalReads(JournalFile file, JournalCursor cursor, JournalSeat seat) {
        this.file = file;
        this.cursor = cursor;
        this.waiting = new Wait();
        this.hold = new Hold(cursor, seat);
        this.cleaner = Memory.whenForgotten(this, hold);
    }

    void madeBy(Journal maker) {
        journal = maker;
    }

    /** Whether a consumer still has its slot. */
    abstract boolean isOwned();

    /** After a message, and at the end of each poll: a consumer stores its gate. */
    abstract void passed(boolean atOnce);

    abstract FlyringException slotLost();

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
     * Hands out messages, in the order in which they were appended. A message and its buffer are valid until the
     * handler returns. If the handler throws, its message counts as consumed, and the exception reaches the caller.
     *
     * @param handler receives the messages, one after another.
     * @param limit the largest number of messages.
     * @return the number of messages handed out, 0 to {@code limit}.
     * @throws ClosedException after close.
     * @throws TwoThreadsException if another thread, or a handler of this object, is polling.
     * @throws SlotLostException if a consumer's slot has another owner.
     * @throws DamagedException if messages are lost, unless they are to be skipped.
     * @throws CorruptJournalException if the journal breaks the rules.
     */
    public int poll(MessageHandler handler, int limit) {
        checkUsable();
        if (limit <= 0) {
            return 0;
        }
        busy = true;
        int handed = 0;
        try {
            while (handed < limit && next(handed)) {
                cursor.consume();
                handed++;
                handler.onMessage(cursor.message);
                passed(false);
            }
        } finally {
            busy = false; // with no call, which could overflow the stack
            finish();
        }
        return handed;
    }

    private void finish() {
        cursor.message.invalidate();
        passed(true);
    }

    /** Finds the next message. An error waits for the next poll if this one has handed out something. */
    private boolean next(int handed) {
        try {
            return cursor.next();
        } catch (FlyringException e) {
            if (handed == 0) {
                throw e;
            }
            return false;
        }
    }

    /**
     * Hands out messages, and waits while there is nothing: it spins for a short time, then sleeps until the writer
     * wakes it.
     *
     * @param handler receives the messages, one after another.
     * @param limit the largest number of messages.
     * @param timeout the longest time to wait; {@link Publisher#FOREVER} for no limit.
     * @return the number of messages handed out, 0 to {@code limit}; 0 if nothing came in time.
     * @throws InvalidArgumentException if the time-out is below 0.
     * @throws CancelledException if the thread is interrupted; detected within 100 ms. The thread stays interrupted.
     * @throws ClosedException if another thread closes this object or the journal; detected within 100 ms.
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
        checkTimeout(timeout);
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
     * Hands out messages to a handler. The {@link Action} that it returns says whether the message is consumed and
     * whether the poll continues. After {@link Action#ABORT} the next poll begins with the same message.
     *
     * @param handler receives the messages, one after another.
     * @param limit the largest number of messages.
     * @return the number of messages consumed, 0 to {@code limit}; an aborted message does not count.
     * @throws InvalidArgumentException if the handler returns null.
     * @throws FlyringException as {@link #poll(MessageHandler, int)} does.
     */
    public int controlledPoll(ControlledMessageHandler handler, int limit) {
        checkUsable();
        stopped = false;
        busy = true;
        int handed = 0;
        try {
            while (handed < limit && !stopped && next(handed)) {
                cursor.consume();
                handed++;
                final Action action = Refusal.ofNull(handler.onMessage(cursor.message));
                stopped = action == Action.BREAK || action == Action.ABORT;
                if (action == Action.ABORT) {
                    cursor.putBack();
                    handed--;
                }
                passed(action == Action.COMMIT);
            }
        } finally {
            busy = false; // with no call, which could overflow the stack
            finish();
        }
        return handed;
    }

    /**
     * Hands out messages to a handler that returns an {@link Action}, and waits while there is nothing.
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
        final long nanos = Waiting.nanos(timeout);
        checkTimeout(nanos);
        int handed = controlledPoll(handler, limit);
        if (handed > 0 || stopped || nanos == 0 || limit <= 0) {
            return handed;
        }
        waiting.begin(nanos);
        try {
            while (handed == 0 && !stopped && waiting.untilReady()) {
                handed = controlledPoll(handler, limit);
            }
        } finally {
            waiting.end();
        }
        return handed;
    }

    /**
     * Takes one message.
     *
     * @return a message that owns its bytes, or null if there is none.
     * @throws FlyringException as {@link #poll(MessageHandler, int)} does.
     */
    public Message take() {
        return take(0);
    }

    /**
     * Takes one message, and waits while there is none.
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
        final Message message = taken;
        taken = null;
        return message;
    }

    /** Copies the next message without consuming it; null if there is none. */
    final Message copyNext() {
        checkUsable();
        busy = true;
        try {
            return cursor.next() ? cursor.message.copy() : null;
        } finally {
            busy = false; // with no call, which could overflow the stack
            finish();
        }
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
     * Where this object reads next.
     *
     * @return the position, which {@link JournalStart#position} takes.
     */
    public long position() {
        return cursor.position();
    }

    /**
     * How many messages lie before the position.
     *
     * @return the number of the next message.
     */
    public long number() {
        return cursor.number();
    }

    /**
     * How many messages were trimmed before they were read, or were skipped because they are damaged.
     *
     * @return the number.
     */
    public long lost() {
        return cursor.lost();
    }

    /**
     * How many places this object passed where a loss of power, or a sync that failed, took the end.
     *
     * @return the number.
     */
    public long cuts() {
        return cursor.cuts();
    }

    /**
     * Whether the writer has closed and everything was read. Becomes false again when the journal gets a new writer.
     *
     * @return true if no more messages come, unless there is a new writer.
     * @throws ClosedException after close.
     */
    public boolean ended() {
        checkUsable();
        return file.control.getIntAcquire(Layout.JOURNAL_CONTROL_SLOT + Layout.PUBLISHER_SLOT_CLOSED) != 0
            && cursor.drained(); // pairs with: the writer's close
    }

    final void checkUsable() {
        if (closed) {
            throw new ClosedException("This " + this + " is closed. Make a new one.");
        }
        if (busy) {
            throw new TwoThreadsException("This " + this + " is in use by another thread, or by its own handler. Give"
                + " each thread its own.");
        }
        if (!isOwned()) {
            throw slotLost();
        }
    }

    private void checkTimeout(long timeout) {
        if (timeout < 0) {
            checkUsable();
            throw Waiting.negative(timeout);
        }
    }

    Waiting waiting() {
        return waiting;
    }

    /**
     * Closes this object. A thread that waits for a message gets {@link ClosedException}. A second close does nothing.
     *
     * @throws ViewAliveException if called from a handler of this object, or while another thread polls.
     */
    @Override
    public void close() {
        final boolean waited = waiting.takeOver();
        try {
            if (!waited && busy && !closed) {
                throw new ViewAliveException("This " + this + " is polling, in its handler or in another thread. Close"
                    + " it after the poll.");
            }
            if (!hold.closed) {
                closed = true;
                passed(true);
                hold.run();
                cleaner.clean(); // after that: an Error leaves it, so that one that is forgotten gives its slot back
                journal.left(this);
            }
        } finally {
            if (waited) {
                file.data().wakeSleepers(WaitingWords.ALL_RINGS);
                waiting.goOn();
            }
        }
    }
}
