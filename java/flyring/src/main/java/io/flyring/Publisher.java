// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import io.flyring.sbe.MessageHeader;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Objects;
import org.agrona.DirectBuffer;
import org.agrona.sbe.MessageEncoderFlyweight;

/**
 * The one writer of one ring; made by {@link Channel#publisher(String)}. Publishing does not allocate or lock, and
 * makes no system call unless a reader must be woken or back-pressure lasts 1 ms or more. The garbage collector closes
 * a publisher that is unreachable, with a warning. Not thread-safe. Concurrent use is detected on a best-effort basis
 * and throws {@link TwoThreadsException}. Spec channel.md 5.2, 6.1 to 6.3; for typed messages messages.md 3.
 *
 * <p>Every method that publishes throws {@link ClosedException} after close, {@link SlotLostException} if the slot has
 * another owner, {@link MessageTooLargeException} for a message longer than {@link #maxMessageLength()},
 * {@link InvalidArgumentException} for a type below 1. It throws {@link ViewAliveException} while a claim is open, and
 * {@link ChannelReplacedException} when it looks for room and another channel has this one's name. In all these cases
 * nothing was published.
 */
public final class Publisher extends RingWriter implements AutoCloseable {
    /** The result of a method that published nothing because a subscriber has not read far enough: back-pressure. */
    public static final long BACK_PRESSURED = Layout.BACK_PRESSURED;

    /** A time-out that never expires. */
    public static final Duration FOREVER = Duration.ofNanos(Long.MAX_VALUE);

    private static final int DEFAULT_TYPE = 1;
    private static final long GONE = -1;
    private static final int NO_SLOT = -1;

    private final Channel channel;
    private final String name;
    private final int slot;
    private final Seat seat;
    private final Memory control;
    private final int epochAt;
    /** The address of the slot's epoch, if the ring can be written by address; else 0. */
    private final long epochAddress;
    private final Claim claim;
    /** The type of raw bytes: 1, or on a channel with a schema a type that no message of a schema has. */
    private final int defaultType;

    /** The epoch that the slot must have; {@link #GONE} once this object is closed or has lost its slot. */
    private long expectedEpoch;
    private boolean lost;
    private final Wait waiting;
    /** The subscriber slot that a flush waits for; {@link #NO_SLOT} if the wait is for room. */
    private int awaitedSlot = NO_SLOT;
    /** The length of a claim that stays open during a flush; else {@link Window#CLOSED}. */
    private int hiddenClaim = Window.CLOSED;

    /** What a wait checks. */
    private final class Wait extends RoomWait {
        Wait() {
            super(channel, slot);
        }

        @Override
        boolean isReady() {
            return epochNow() != expectedEpoch
                || (awaitedSlot >= 0 ? !isBehind(awaitedSlot) : gatesAllow(room.needed()));
        }

        @Override
        void lookAlone() {
            channel.checkReplaced();
            synchronized (seat.lock()) { // keeps the seat open meanwhile
                if (payload.state() == Window.CLOSED && epochNow() == expectedEpoch) {
                    room.make(Publisher.this, room.needed()); // retires dead subscribers
                }
            }
        }

        @Override
        void lookSoon() {
            synchronized (seat.lock()) {
                room.lookSoon();
            }
        }

        @Override
        long gate(int of) {
            return Publisher.this.gate(of);
        }

        @Override
        long published() {
            return end;
        }

        @Override
        boolean flushes() {
            return awaitedSlot >= 0;
        }

        @Override
        Lock lock() {
            return seat.lock();
        }

        @Override
        BusyException busy() {
            return room.busy(Publisher.this, flushes());
        }

        @Override
        void setBusy(boolean busy) {
            if (busy) {
                payload.busy();
            } else {
                room.waited();
                payload.invalidate();
            }
        }
    }

    Publisher(Channel channel, String name, int slot, Seat seat, Memory ring, Waker waker, long epoch, long count,
        int maxLag) {
        super(channel, ring, new Room(channel, slot, seat.lock(), maxLag > 0), waker, epoch, Slots.name(name), count,
            maxLag);
        this.channel = channel;
        this.name = name;
        this.slot = slot;
        this.seat = seat;
        this.control = channel.control();
        this.epochAt = channel.header().publisherSlot(slot) + Layout.PUBLISHER_SLOT_EPOCH;
        this.epochAddress = ringAt != 0 ? control.readableAt() + epochAt : 0;
        this.expectedEpoch = epoch;
        this.claim = new Claim(this, payload);
        this.defaultType = channel.header().schemaLength > 0 ? Layout.TYPE_RAW : DEFAULT_TYPE;
        this.waiting = new Wait();
    }

    /**
     * Publishes a copy of the bytes as a message of type 1, or of type 65536 on a channel with a schema.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @return the ring's new end position in bytes, or {@link #BACK_PRESSURED}.
     */
    public long offer(DirectBuffer source, int offset, int length) {
        return offer(source, offset, length, defaultType);
    }

    /**
     * Publishes a copy of the bytes.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @return the ring's new end position in bytes, or {@link #BACK_PRESSURED}.
     */
    public long offer(DirectBuffer source, int offset, int length, int type) {
        try {
            source.boundsCheck(offset, length);
        } catch (IndexOutOfBoundsException e) {
            throw outside(e, length, type);
        }
        if (!reserve(length, type)) {
            return BACK_PRESSURED;
        }
        try {
            payload.busy();
            Copy.from(source, offset, ring, ((int) end & mask) + Layout.RECORD_PAYLOAD, length);
            return publish(length, type);
        } catch (Throwable e) {
            expectedEpoch = GONE; // first, and without a call: this may be a StackOverflowError
            failure = e;
            failed(length);
            throw e;
        }
    }

    /**
     * Publishes a copy of an array as a message of type 1, or of type 65536 on a channel with a schema.
     *
     * @param message the message.
     * @return the ring's new end position in bytes, or {@link #BACK_PRESSURED}.
     */
    public long offer(byte[] message) {
        return offer(message, 0, message.length, defaultType);
    }

    /**
     * Publishes a copy of a range of an array.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @return the ring's new end position in bytes, or {@link #BACK_PRESSURED}.
     */
    public long offer(byte[] source, int offset, int length, int type) {
        if ((offset | length) < 0 || length > source.length - offset) {
            throw outside(new IndexOutOfBoundsException("The bytes " + offset + " to " + ((long) offset + length)
                + " do not lie in an array of " + source.length + "."), length, type);
        }
        if (!reserve(length, type)) {
            return BACK_PRESSURED;
        }
        try {
            payload.busy();
            ring.putBytes(((int) end & mask) + Layout.RECORD_PAYLOAD, source, offset, length);
            return publish(length, type);
        } catch (Throwable e) {
            expectedEpoch = GONE;
            failure = e;
            failed(length);
            throw e;
        }
    }

    /**
     * Publishes a copy of the buffer's remaining bytes; the buffer's position does not change.
     *
     * @param message the message, from position to limit.
     * @param type the message's type, at least 1.
     * @return the ring's new end position in bytes, or {@link #BACK_PRESSURED}.
     */
    public long offer(ByteBuffer message, int type) {
        int length = message.remaining();
        if (!reserve(length, type)) {
            return BACK_PRESSURED;
        }
        try {
            payload.busy();
            ring.putBytes(((int) end & mask) + Layout.RECORD_PAYLOAD, message, message.position(), length);
            return publish(length, type);
        } catch (Throwable e) {
            expectedEpoch = GONE;
            failure = e;
            failed(length);
            throw e;
        }
    }

    /**
     * Publishes a copy of the bytes as a message of type 1, or of type 65536 on a channel with a schema; waits for room
     * without a time limit.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @return the ring's new end position in bytes.
     * @throws FlyringException as {@link #send(DirectBuffer, int, int, int, Duration)} does.
     */
    public long send(DirectBuffer source, int offset, int length) {
        return send(source, offset, length, defaultType, Waiting.FOREVER);
    }

    /**
     * Publishes a copy of the bytes; waits for room. It spins for a short time, then sleeps until a subscriber wakes
     * it. A virtual thread that sleeps here pins its carrier thread.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait; {@link #FOREVER} for no limit.
     * @return the ring's new end position in bytes.
     * @throws BackPressuredException if there was no room in time.
     * @throws InvalidArgumentException if the time-out is below 0.
     * @throws CancelledException if the thread is interrupted; detected within 100 ms. The thread stays interrupted.
     * @throws ClosedException if another thread closes the publisher or the channel; detected within 100 ms.
     * @throws ChannelReplacedException if the channel is replaced; detected within 100 ms. The publisher keeps working.
     */
    public long send(DirectBuffer source, int offset, int length, int type, Duration timeout) {
        return send(source, offset, length, type, Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the ring's new end position in bytes.
     * @throws FlyringException as {@link #send(DirectBuffer, int, int, int, Duration)} does.
     */
    public long send(DirectBuffer source, int offset, int length, int type, long timeout) {
        if (timeout < 0) {
            throw negative(timeout, length, type);
        }
        long position = offer(source, offset, length, type);
        if (position == BACK_PRESSURED) {
            waiting.begin(timeout);
            try {
                while (position == BACK_PRESSURED && waiting.turn()) {
                    position = offer(source, offset, length, type);
                }
            } finally {
                waiting.end();
            }
        }
        return sent(position);
    }

    /**
     * Publishes a copy of an array as a message of type 1, or of type 65536 on a channel with a schema; waits for room
     * without a time limit.
     *
     * @param message the message.
     * @return the ring's new end position in bytes.
     * @throws FlyringException as {@link #send(DirectBuffer, int, int, int, Duration)} does.
     */
    public long send(byte[] message) {
        return send(message, 0, message.length, defaultType, Waiting.FOREVER);
    }

    /**
     * Publishes a copy of an array as a message of type 1, or of type 65536 on a channel with a schema; waits for room.
     *
     * @param message the message.
     * @param timeout the longest time to wait; {@link #FOREVER} for no limit.
     * @return the ring's new end position in bytes.
     * @throws FlyringException as {@link #send(DirectBuffer, int, int, int, Duration)} does.
     */
    public long send(byte[] message, Duration timeout) {
        return send(message, 0, message.length, defaultType, Waiting.nanos(timeout));
    }

    /**
     * Publishes a copy of a range of an array; waits for room.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait; {@link #FOREVER} for no limit.
     * @return the ring's new end position in bytes.
     * @throws FlyringException as {@link #send(DirectBuffer, int, int, int, Duration)} does.
     */
    public long send(byte[] source, int offset, int length, int type, Duration timeout) {
        return send(source, offset, length, type, Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the ring's new end position in bytes.
     * @throws FlyringException as {@link #send(DirectBuffer, int, int, int, Duration)} does.
     */
    public long send(byte[] source, int offset, int length, int type, long timeout) {
        if (timeout < 0) {
            throw negative(timeout, length, type);
        }
        long position = offer(source, offset, length, type);
        if (position == BACK_PRESSURED) {
            waiting.begin(timeout);
            try {
                while (position == BACK_PRESSURED && waiting.turn()) {
                    position = offer(source, offset, length, type);
                }
            } finally {
                waiting.end();
            }
        }
        return sent(position);
    }

    /**
     * Publishes a copy of the buffer's remaining bytes; waits for room. The buffer's position does not change.
     *
     * @param message the message, from position to limit.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait; {@link #FOREVER} for no limit.
     * @return the ring's new end position in bytes.
     * @throws FlyringException as {@link #send(DirectBuffer, int, int, int, Duration)} does.
     */
    public long send(ByteBuffer message, int type, Duration timeout) {
        return send(message, type, Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param message the message, from position to limit.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the ring's new end position in bytes.
     * @throws FlyringException as {@link #send(DirectBuffer, int, int, int, Duration)} does.
     */
    public long send(ByteBuffer message, int type, long timeout) {
        if (timeout < 0) {
            throw negative(timeout, message.remaining(), type);
        }
        long position = offer(message, type);
        if (position == BACK_PRESSURED) {
            waiting.begin(timeout);
            try {
                while (position == BACK_PRESSURED && waiting.turn()) {
                    position = offer(message, type);
                }
            } finally {
                waiting.end();
            }
        }
        return sent(position);
    }

    private long sent(long position) {
        if (position == BACK_PRESSURED) {
            throw backPressured();
        }
        return position;
    }

    private FlyringException negative(long timeout, int length, int type) {
        return expectedEpoch == GONE && !lost || payload.state() != Window.CLOSED ? refusal(length, type)
            : Waiting.negative(timeout);
    }

    /**
     * Publishes copies of several buffers, each as one message of type 1, or of type 65536 on a channel with a schema.
     *
     * @param messages the messages; each is its buffer's whole capacity.
     * @return how many messages were published, in order from the first: all, or fewer under back-pressure.
     */
    public int offerBatch(DirectBuffer... messages) {
        return offerBatch(messages, 0, messages.length, defaultType);
    }

    /**
     * Publishes copies of several buffers, each as one message. Checks all lengths first, so
     * {@link MessageTooLargeException} means that nothing was published. Spec channel.md 6.3.
     *
     * @param messages the messages; each is its buffer's whole capacity.
     * @param from index of the first message to publish.
     * @param number how many messages to publish.
     * @param type the messages' type, at least 1.
     * @return how many messages were published, in order from the first: all, or fewer under back-pressure.
     */
    public int offerBatch(DirectBuffer[] messages, int from, int number, int type) {
        return offerParts(messages, from, number, type, false);
    }

    /**
     * Does what {@link #offerBatch} does.
     *
     * @param tells whether to throw for a replaced channel even after some messages were published; if false, the next
     *     call throws.
     */
    private int offerParts(DirectBuffer[] messages, int from, int number, int type, boolean tells) {
        check(0, type);
        Objects.checkFromIndexSize(from, number, messages.length);
        for (int i = from; i < from + number; i++) {
            checkLength(messages[i].capacity());
        }
        int taken = 0;
        try {
            while (taken < number) {
                int part = offerPart(messages, from + taken, number - taken, type);
                if (part == 0) {
                    break;
                }
                taken += part;
            }
        } catch (ChannelReplacedException e) {
            if (taken == 0 || tells) { // else return the number: the next call throws (6.13)
                throw e;
            }
        } finally {
            if (taken > 0 && isAwaited()) {
                waker.wakeNow(wakerBit);
            }
        }
        return taken;
    }

    private int offerPart(DirectBuffer[] messages, int from, int number, int type) {
        final int length = messages[from].capacity(); // read once: the checked length must be the length in use
        if (!(endAfter(length) <= fastEnd && usable(type)) && !reserveSlowly(length, type, true)) {
            return 0;
        }
        int first = (int) size(length);
        try {
            payload.busy();
            return publishBatch(messages, from, number, type, first);
        } catch (RuntimeException e) {
            payload.invalidate(); // nothing was announced, or the announced space is padding by now
            throw e;
        } catch (Error e) {
            expectedEpoch = GONE;
            failure = e;
            failed(-1);
            throw e;
        }
    }

    /**
     * Publishes copies of several buffers, each as one message of type 1, or of type 65536 on a channel with a schema.
     * Waits for room as often as necessary, without a time limit.
     *
     * @param messages the messages; each is its buffer's whole capacity.
     * @return how many messages were published: all.
     * @throws FlyringException as {@link #sendBatch(DirectBuffer[], int, int, int, Duration)} does.
     */
    public int sendBatch(DirectBuffer... messages) {
        return sendBatch(messages, 0, messages.length, defaultType, Waiting.FOREVER);
    }

    /**
     * Publishes copies of several buffers, each as one message; waits for room as often as necessary. Checks all
     * lengths first, as {@link #offerBatch(DirectBuffer[], int, int, int)} does.
     *
     * @param messages the messages; each is its buffer's whole capacity.
     * @param from index of the first message to publish.
     * @param number how many messages to publish.
     * @param type the messages' type, at least 1.
     * @param timeout the longest time to wait; {@link #FOREVER} for no limit.
     * @return how many messages were published, in order from the first: all, unless the time-out came first.
     * @throws FlyringException as {@link #send(DirectBuffer, int, int, int, Duration)} does, except at the time-out.
     *     What was published before the exception stays published; {@link #position()} is its end.
     */
    public int sendBatch(DirectBuffer[] messages, int from, int number, int type, Duration timeout) {
        return sendBatch(messages, from, number, type, Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param messages the messages; each is its buffer's whole capacity.
     * @param from index of the first message to publish.
     * @param number how many messages to publish.
     * @param type the messages' type, at least 1.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return how many messages were published, in order from the first: all, unless the time-out came first.
     * @throws FlyringException as {@link #sendBatch(DirectBuffer[], int, int, int, Duration)} does.
     */
    public int sendBatch(DirectBuffer[] messages, int from, int number, int type, long timeout) {
        if (timeout < 0) {
            throw negative(timeout, 0, type);
        }
        int taken = offerParts(messages, from, number, type, true);
        if (taken < number) {
            waiting.begin(timeout);
            try {
                while (taken < number && waiting.turn()) {
                    taken += offerParts(messages, from + taken, number - taken, type, true);
                }
            } finally {
                waiting.end();
            }
        }
        return taken;
    }

    /**
     * Waits without a time limit until every subscriber that has an owner has read what was published.
     *
     * @throws FlyringException as {@link #flush(Duration)} does.
     */
    public void flush() {
        flush(Waiting.FOREVER);
    }

    /**
     * Waits until every subscriber that has an owner has read what was published, that is, has moved its gate that far.
     * A claim may be open meanwhile.
     *
     * @param timeout the longest time to wait; {@link #FOREVER} for no limit.
     * @throws TimedOutException if a subscriber has not read all of it in time.
     * @throws FlyringException as {@link #send(DirectBuffer, int, int, int, Duration)} does.
     */
    public void flush(Duration timeout) {
        flush(Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @throws FlyringException as {@link #flush(Duration)} does.
     */
    public void flush(long timeout) {
        checkOwned();
        if (timeout < 0) {
            throw Waiting.negative(timeout);
        }
        hiddenClaim = payload.state();
        awaitedSlot = 0; // not NO_SLOT: the wait is a flush; the loop sets the slot
        try {
            waiting.begin(timeout);
            for (awaitedSlot = room.behind(this); awaitedSlot >= 0; awaitedSlot = room.behind(this)) {
                if (!waiting.turn()) {
                    throw new TimedOutException("subscriber slot " + awaitedSlot, "The subscriber in slot "
                        + awaitedSlot + " has not read ring " + slot + " up to " + end + " in time. Wait longer, or"
                        + " find out why it does not read.");
                }
                checkOwned();
            }
        } finally {
            awaitedSlot = NO_SLOT;
            waiting.end();
            showClaim();
        }
    }

    /** Opens the claim again that a flush has hidden. */
    private void showClaim() {
        if (hiddenClaim >= 0 && expectedEpoch != GONE) {
            payload.move(payload.address(), hiddenClaim);
        }
        hiddenClaim = Window.CLOSED;
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
     * Claims space in the ring for a message of the default type, to be filled in place; waits for room without a time
     * limit.
     *
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @return the publisher's one claim, valid until its commit or abort.
     * @throws FlyringException as {@link #claim(int, int, Duration)} does.
     */
    public Claim claim(int length) {
        return claim(length, defaultType);
    }

    /**
     * Claims space in the ring for a message, to be filled in place; waits for room without a time limit. Until the
     * claim is committed or aborted, nothing else can be published.
     *
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @return the publisher's one claim, valid until its commit or abort.
     * @throws FlyringException as {@link #claim(int, int, Duration)} does.
     */
    public Claim claim(int length, int type) {
        final Claim open = tryClaim(length, type);
        return open != null ? open : claimWaiting(length, type, Waiting.FOREVER);
    }

    /**
     * Claims space in the ring for a message, to be filled in place; waits for room. It spins for a short time, then
     * sleeps until a subscriber wakes it. A virtual thread that sleeps here pins its carrier thread.
     *
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait; {@link #FOREVER} for no limit.
     * @return the publisher's one claim, valid until its commit or abort.
     * @throws BackPressuredException if there was no room in time.
     * @throws FlyringException as {@link #send(DirectBuffer, int, int, int, Duration)} does.
     */
    public Claim claim(int length, int type, Duration timeout) {
        return claim(length, type, Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the publisher's one claim, valid until its commit or abort.
     * @throws FlyringException as {@link #claim(int, int, Duration)} does.
     */
    public Claim claim(int length, int type, long timeout) {
        if (timeout < 0) {
            throw negative(timeout, length, type);
        }
        final Claim open = tryClaim(length, type);
        return open != null ? open : claimWaiting(length, type, timeout);
    }

    private Claim claimWaiting(int length, int type, long timeout) {
        waiting.begin(timeout);
        try {
            while (waiting.turn()) {
                final Claim open = tryClaim(length, type);
                if (open != null) {
                    return open;
                }
            }
        } finally {
            waiting.end();
        }
        throw backPressured();
    }

    /**
     * The same as {@link #claim(int)}, but it never waits.
     *
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @return the publisher's one claim, valid until its commit or abort; null if there is no room.
     */
    public Claim tryClaim(int length) {
        return claimQuickly(length, defaultType);
    }

    /**
     * The same as {@link #claim(int, int)}, but it never waits.
     *
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @return the publisher's one claim, valid until its commit or abort; null if there is no room.
     */
    public Claim tryClaim(int length, int type) {
        return type < 1 ? claimSlowly(length, type) : claimQuickly(length, type);
    }

    private Claim claimQuickly(int length, int type) {
        final Claim open = claim;
        final PayloadBuffer buffer = open.buffer(); // through the claim: the compiler drops the caller's null check
        if (endAfter(length) > fastEnd || buffer.state() != Window.CLOSED
            || Raw.getLongOpaque(Raw.base(epochAddress)) != expectedEpoch) {
            return claimSlowly(length, type);
        }
        final long record = ringAt + ((int) end & mask);
        Raw.putInt(Raw.base(record) + Layout.RECORD_TYPE, type);
        Reference.reachabilityFence(ring);
        buffer.move(record + Layout.RECORD_PAYLOAD, length);
        return open;
    }

    /**
     * Claims where the fast path fails. A separate method: after a call the fast path would load all its fields again.
     */
    private Claim claimSlowly(int length, int type) {
        if (!reserveMore(length, type)) {
            return null;
        }
        setType(type);
        payload.move(payloadsAt + ((int) end & mask), length);
        return claim;
    }

    private BackPressuredException backPressured() {
        Holder holder = room.holder(this);
        return new BackPressuredException(holder, "There is no room in ring " + slot + ": "
            + (holder == null ? "the subscriber that held it back has gone meanwhile" : "it is held back by " + holder)
            + (channel.header().isQueue() ? ". Slot 0 stands for jobs that no worker has taken. Wait longer, or start"
            + " more workers." : ". Wait longer, or find out why that one does not read."));
    }

    /**
     * Claims space for an SBE message without groups and data, writes the message header and wraps the encoder over the
     * block; waits for room without a time limit.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @return the publisher's one claim, valid until its commit or abort; the encoder is valid as long.
     * @throws FlyringException as {@link #claim(MessageEncoderFlyweight, int)} does.
     * @see #claim(MessageEncoderFlyweight, int)
     */
    public Claim claim(MessageEncoderFlyweight encoder) {
        return claim(encoder, 0);
    }

    /**
     * Claims space for an SBE message, writes the message header and wraps the encoder over the block; waits for room
     * without a time limit. The block is not cleared: write every field. The record's type is the template id. The
     * header is the usual one of four little-endian uint16; for another one see
     * {@link #claim(MessageEncoderFlyweight, int, MessageHeader)}.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, including their own headers; more than they need is allowed.
     * @return the publisher's one claim, valid until its commit or abort; the encoder is valid as long.
     * @throws InvalidArgumentException if the length is negative, or the template id is 0, which is not a valid type.
     * @throws FlyringException as {@link Publisher#claim(int, int)} does.
     */
    public Claim claim(MessageEncoderFlyweight encoder, int variableLength) {
        final Claim open = TypedClaim.of(this, encoder, variableLength, null);
        return open != null ? open : claimWaiting(encoder, variableLength, null, Waiting.FOREVER);
    }

    /**
     * Does the same with a time-out.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, including their own headers; more than they need is allowed.
     * @param timeout the longest time to wait; {@link #FOREVER} for no limit.
     * @return the publisher's one claim, valid until its commit or abort; the encoder is valid as long.
     * @throws BackPressuredException if there was no room in time.
     * @throws FlyringException as {@link #claim(MessageEncoderFlyweight, int)} does.
     */
    public Claim claim(MessageEncoderFlyweight encoder, int variableLength, Duration timeout) {
        return claimInTime(encoder, variableLength, null, Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, including their own headers; more than they need is allowed.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the publisher's one claim, valid until its commit or abort; the encoder is valid as long.
     * @throws FlyringException as {@link #claim(MessageEncoderFlyweight, int, Duration)} does.
     */
    public Claim claim(MessageEncoderFlyweight encoder, int variableLength, long timeout) {
        return claimInTime(encoder, variableLength, null, timeout);
    }

    /**
     * Claims space for a message of a schema that has its own message header; waits for room without a time limit.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, including their own headers; more than they need is allowed.
     * @param header the schema's message header.
     * @return the publisher's one claim, valid until its commit or abort; the encoder is valid as long.
     * @throws InvalidArgumentException if the length is negative, or the template id is 0, which is not a valid type.
     * @throws FlyringException as {@link Publisher#claim(int, int)} does.
     */
    public Claim claim(MessageEncoderFlyweight encoder, int variableLength, MessageHeader header) {
        final Claim open = tryClaim(encoder, variableLength, header);
        return open != null ? open : claimWaiting(encoder, variableLength, header, Waiting.FOREVER);
    }

    /**
     * Does the same with a time-out.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, including their own headers; more than they need is allowed.
     * @param header the schema's message header.
     * @param timeout the longest time to wait; {@link #FOREVER} for no limit.
     * @return the publisher's one claim, valid until its commit or abort; the encoder is valid as long.
     * @throws BackPressuredException if there was no room in time.
     * @throws FlyringException as {@link #claim(MessageEncoderFlyweight, int, MessageHeader)} does.
     */
    public Claim claim(MessageEncoderFlyweight encoder, int variableLength, MessageHeader header, Duration timeout) {
        return claimInTime(encoder, variableLength, Objects.requireNonNull(header, "header"), Waiting.nanos(timeout));
    }

    /**
     * Does the same with the time-out in nanoseconds; allocates no {@link Duration}.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, including their own headers; more than they need is allowed.
     * @param header the schema's message header.
     * @param timeout the longest time to wait, in nanoseconds; {@link Long#MAX_VALUE} for no limit.
     * @return the publisher's one claim, valid until its commit or abort; the encoder is valid as long.
     * @throws FlyringException as {@link #claim(MessageEncoderFlyweight, int, MessageHeader, Duration)} does.
     */
    public Claim claim(MessageEncoderFlyweight encoder, int variableLength, MessageHeader header, long timeout) {
        return claimInTime(encoder, variableLength, Objects.requireNonNull(header, "header"), timeout);
    }

    private Claim claimInTime(MessageEncoderFlyweight encoder, int variableLength, MessageHeader header,
        long timeout) {
        if (timeout < 0) {
            throw negative(timeout, 0, DEFAULT_TYPE);
        }
        final Claim open = TypedClaim.of(this, encoder, variableLength, header);
        return open != null ? open : claimWaiting(encoder, variableLength, header, timeout);
    }

    private Claim claimWaiting(MessageEncoderFlyweight encoder, int variableLength, MessageHeader header,
        long timeout) {
        waiting.begin(timeout);
        try {
            while (waiting.turn()) {
                final Claim open = TypedClaim.of(this, encoder, variableLength, header);
                if (open != null) {
                    return open;
                }
            }
        } finally {
            waiting.end();
        }
        throw backPressured();
    }

    /**
     * The same as {@link #claim(MessageEncoderFlyweight)}, but it never waits.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @return the publisher's one claim, valid until its commit or abort as the encoder is; null if there is no room.
     */
    public Claim tryClaim(MessageEncoderFlyweight encoder) {
        return TypedClaim.of(this, encoder, 0, null);
    }

    /**
     * The same as {@link #claim(MessageEncoderFlyweight, int)}, but it never waits.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, including their own headers; more than they need is allowed.
     * @return the publisher's one claim, valid until its commit or abort as the encoder is; null if there is no room.
     */
    public Claim tryClaim(MessageEncoderFlyweight encoder, int variableLength) {
        return TypedClaim.of(this, encoder, variableLength, null);
    }

    /**
     * The same as {@link #claim(MessageEncoderFlyweight, int, MessageHeader)}, but it never waits.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, including their own headers; more than they need is allowed.
     * @param header the schema's message header.
     * @return the publisher's one claim, valid until its commit or abort as the encoder is; null if there is no room.
     */
    public Claim tryClaim(MessageEncoderFlyweight encoder, int variableLength, MessageHeader header) {
        return TypedClaim.of(this, encoder, variableLength, Objects.requireNonNull(header, "header"));
    }

    /**
     * A hint to call at the start of a handler that will answer through this publisher. Fetches the cache line where
     * the next message will begin: a waiting reader shares that line, so the first store to it would miss the cache.
     * Readers see no change. Does nothing while a claim is open, after close, or where it cannot help. Spec channel.md
     * 6.1.
     */
    public void prefetch() {
        if (end < fastEnd && usable(DEFAULT_TYPE)) {
            setType(DEFAULT_TYPE);
        }
    }

    boolean claimed() {
        return payload.state() >= 0 && failure == null;
    }

    /** Publishes the open claim; returns the new end position. */
    long commitClaim() {
        final PayloadBuffer buffer = payload;
        final int length = buffer.state();
        final long trailer = trailerAt;
        if (length < 0 || trailer == 0 || Raw.getLongOpaque(Raw.base(epochAddress)) != expectedEpoch) {
            return finish(length, false);
        }
        try {
            final long next = endAfter(length);
            commitAndAdvance(buffer.address() - Layout.RECORD_PAYLOAD, trailer, length + Layout.RECORD_HEADER_LENGTH,
                next, count + 1);
            buffer.invalidate(); // before the rare call, as in publishReserved
            if (next >= nextDue) {
                doDue(size(length));
            }
            if (isAwaited()) {
                waker.wakeNow(wakerBit);
            }
            return next;
        } catch (Throwable e) {
            expectedEpoch = GONE;
            failure = e;
            failed(length);
            throw e;
        }
    }

    /** Makes the open claim padding; returns the new end position. */
    long abortClaim() {
        return finish(payload.state(), true);
    }

    private long finish(int length, boolean aborts) {
        if (length < 0 || epochNow() != expectedEpoch) {
            throw cannotFinish();
        }
        try {
            return aborts ? publish(length, Layout.TYPE_PADDING) : publishReserved(length, 1);
        } catch (Throwable e) {
            expectedEpoch = GONE;
            failure = e;
            failed(length);
            throw e;
        }
    }

    /**
     * Cleans up after something was thrown in the middle of a publication. After an exception of the source, which
     * comes before the record's length is stored, publishes padding in its place. Anything else ends this object and
     * gives its slot back; the slot's next owner recovers the ring (channel.md 6.8).
     *
     * @param length length of the message in bytes, if an exception of its source is possible; else -1.
     */
    private void failed(int length) {
        payload.invalidate();
        if (failure instanceof Exception) {
            try {
                publish(length, Layout.TYPE_PADDING);
                failure = null;
                expectedEpoch = epoch;
                return;
            } catch (Throwable e) {
                failure.addSuppressed(e);
            }
        }
        stop();
        seat.fail();
        try {
            seat.abandon();
        } catch (Throwable e) { // close will try again
            failure.addSuppressed(e);
        }
    }

    private FlyringException cannotFinish() {
        if (expectedEpoch == GONE && !lost) {
            return gone();
        }
        if (busy()) {
            return twoThreads();
        }
        if (claimed()) {
            payload.invalidate();
            return gone();
        }
        return expectedEpoch == GONE ? gone()
            : new ClosedException("This claim was committed or aborted already. Claim again.");
    }

    private long epochNow() {
        if (epochAddress != 0) {
            long now = Raw.getLongOpaque(Raw.base(epochAddress));
            Reference.reachabilityFence(control);
            return now;
        }
        return control.getLongOpaque(epochAt);
    }

    /**
     * Makes the checks, then steps 1 to 4 of publish (channel.md 6.1): whether the record can be written at the end
     * now.
     */
    private boolean reserve(int length, int type) {
        final long next = endAfter(length);
        return next <= fastEnd && usable(type) || reserveMore(length, type);
    }

    private boolean reserveMore(int length, int type) {
        final long next = endAfter(length);
        return fitsLong(next) && usable(type) && announceLong(next) || reserveSlowly(length, type, false);
    }

    private boolean reserveSlowly(int length, int type, boolean batch) {
        check(length, type);
        try {
            return reserve(length, batch);
        } catch (Error e) {
            expectedEpoch = GONE;
            failure = e;
            failed(-1);
            throw e;
        }
    }

    /** Makes the checks of the hot path, where the epoch can be read by address. */
    private boolean usable(int type) {
        return type >= 1 && payload.state() == Window.CLOSED
            && Raw.getLongOpaque(Raw.base(epochAddress)) == expectedEpoch;
    }

    /**
     * Publishes the reserved record: type of step 5, then steps 6 to 10 (channel.md 6.1). Returns the ring's new end.
     */
    private long publish(int length, int type) {
        setType(type);
        return publishReserved(length, type > 0 ? 1 : 0);
    }

    /**
     * Publishes the reserved record; its type is set already. Steps 6 to 10 (channel.md 6.1). Padding wakes no reader.
     */
    private long publishReserved(int length, int messages) {
        final long next = endAfter(length);
        commitAndAdvance(length + Layout.RECORD_HEADER_LENGTH, next, count + messages);
        payload.invalidate(); // before the rare call: else HotSpot would spill what is needed after the call each time
        if (next >= nextDue) {
            doDue(size(length));
        }
        if (messages > 0 && isAwaited()) {
            waker.wakeNow(wakerBit);
        }
        return next;
    }

    /** Throws if the call must be refused. */
    private void check(int length, int type) {
        if (epochNow() != expectedEpoch || expectedEpoch == GONE || payload.state() != Window.CLOSED || type < 1
            || length < 0 || length > maxLength) {
            throw refusal(length, type);
        }
    }

    private FlyringException refusal(int length, int type) {
        if (expectedEpoch == GONE && !lost) {
            return gone();
        }
        if (payload.state() != Window.CLOSED) {
            return busy() ? twoThreads() : new ViewAliveException("A claim of this publisher is still open. Commit or"
                + " abort it first.");
        }
        return type < 1 ? new InvalidArgumentException("type", "The type " + type + " is not in 1 to 2147483647.")
            : length < 0 || length > maxLength ? badLength(length) : gone();
    }

    /**
     * The error for a message outside of its source. Throws an error that has precedence over it (api.md, "Errors").
     */
    private IndexOutOfBoundsException outside(IndexOutOfBoundsException error, int length, int type) {
        check(Math.min(length, 0), type);
        return error;
    }

    private void checkLength(int length) {
        if (length < 0 || length > maxLength) {
            throw badLength(length);
        }
    }

    private FlyringException badLength(int length) {
        if (length < 0) {
            return new InvalidArgumentException("length", "The length " + length + " is negative.");
        }
        return new MessageTooLargeException(length, maxLength, "A message of " + length + " bytes is longer than the "
            + maxLength + " that a ring of " + capacity
            + " bytes allows. Split it, or create the channel with a larger capacity.");
    }

    private static FlyringException twoThreads() {
        return new TwoThreadsException("This publisher is in use by another thread. Give each thread its own.");
    }

    private FlyringException gone() {
        if (failure != null) {
            ClosedException error = new ClosedException("The publisher of ring " + slot + " was ended by an error in"
                + " the middle of a publication: " + failure + ". Its slot's next owner mends the ring. Make a new"
                + " one.");
            error.initCause(failure);
            return error;
        }
        if (expectedEpoch == GONE && !lost) {
            return new ClosedException("The publisher of ring " + slot + " is closed. Make a new one.");
        }
        lost = true;
        expectedEpoch = GONE;
        stop();
        return new SlotLostException(slot, "Publisher slot " + slot
            + " has another owner now. Close this publisher and make a new one.");
    }

    /**
     * Which subscriber holds this publisher back: the one with the smallest position. Makes system calls.
     *
     * @return the holder, or null if no reliable subscriber reads this ring.
     * @throws ClosedException after close.
     */
    public Holder heldBy() {
        checkIdle();
        return room.holder(this);
    }

    private void checkIdle() {
        if (expectedEpoch == GONE) {
            throw gone();
        }
        if (busy()) {
            throw twoThreads();
        }
    }

    private void checkOwned() {
        checkIdle();
        if (epochNow() != expectedEpoch) {
            throw gone();
        }
    }

    /**
     * How many subscribers read this ring. Each of them gets every message that is published from now on. Makes system
     * calls, so do not call it on a hot path. Waits while another process takes a slot.
     *
     * @return the number of subscribers that gate this ring and have a live owner; 1 for a foreign subscriber; of a
     *     queue, the number of live workers.
     * @throws ClosedException after close.
     * @throws IoException if a process that takes a slot is stopped: after 5 s, with {@code EAGAIN}.
     */
    public int readers() {
        checkIdle();
        int readers;
        try {
            readers = room.readers(this);
        } catch (IoException e) {
            checkIdle(); // another thread may have closed it
            throw e;
        }
        checkIdle();
        return readers;
    }

    /**
     * The end of what was published.
     *
     * @return the position in the ring, in bytes since the ring's creation.
     */
    public long position() {
        return end;
    }

    /**
     * The ring's index, which is also the index of the publisher slot.
     *
     * @return the index, from 0.
     */
    public int ring() {
        return slot;
    }

    /**
     * The publisher's name.
     *
     * @return the name, empty if it has none.
     */
    public String name() {
        return name;
    }

    /**
     * The slot's epoch under this owner: each new owner gets the next number.
     *
     * @return the epoch, from 1.
     */
    public long epoch() {
        return epoch;
    }

    /**
     * The length of the largest message.
     *
     * @return payload bytes: a quarter of the capacity less 8; of a queue less 24.
     */
    public int maxMessageLength() {
        return maxLength;
    }

    Waiting waiting() {
        return waiting;
    }

    boolean busy() {
        return payload.state() == Window.BUSY;
    }

    /**
     * Aborts an open claim, marks the ring as closed and gives the slot back. The slot keeps the name, so the next
     * publisher of that name gets the same ring. A thread that waits for room gets {@link ClosedException}. A second
     * close does nothing.
     *
     * @throws TwoThreadsException if another thread is publishing.
     */
    @Override
    public void close() {
        boolean waited = waiting.takeOver();
        try {
            if (!waited) {
                checkClosable();
            }
            end();
            if (failure != null) {
                seat.abandon();
            } else {
                seat.close();
            }
        } finally {
            channel.tellSleepers(waited);
            if (waited) {
                waiting.goOn();
            }
        }
    }

    void checkClosable() {
        if (busy() && failure == null) {
            throw twoThreads();
        }
    }

    /** Aborts an open claim and makes the object unusable. */
    void end() {
        showClaim();
        if (expectedEpoch != GONE && control.getLongOpaque(epochAt) == expectedEpoch && claimed()) {
            try {
                abortClaim();
            } catch (FlyringException slotIsLost) {
                payload.invalidate();
            }
        }
        payload.invalidate();
        lost = false;
        expectedEpoch = GONE;
        stop();
    }
}
