// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import io.flyring.sbe.MessageHeader;
import java.lang.ref.Cleaner;
import java.nio.ByteBuffer;
import org.agrona.DirectBuffer;
import org.agrona.sbe.MessageEncoderFlyweight;

/**
 * The one writer of a journal; made by {@link Journal#writer(String, java.time.Duration)}. It holds the writer's slot
 * until it is closed, and never waits for a reader. An append does not allocate or lock, and makes no system call
 * unless a segment begins, a reader must be woken, or the journal's sync policy asks for it. The garbage collector
 * closes a writer that is unreachable. Not thread-safe. Concurrent use is detected on a best-effort basis and throws
 * {@link TwoThreadsException}. Spec journal.md 3.1, 3.2, 5.
 *
 * <p>Every method that appends throws {@link ClosedException} after close, {@link SlotLostException} if the slot has
 * another owner, {@link MessageTooLargeException} for a message longer than {@link #maxMessageLength()},
 * {@link InvalidArgumentException} for a type below 1, {@link ViewAliveException} while a claim is open, and
 * {@link NoSpaceException} if there is no room for the next segment. In all these cases nothing was appended. After a
 * sync that failed it throws {@link IoException}: this writer has ended, and what was appended since the last sync may
 * not be durable. An {@link Error} in the middle of a call, such as a {@link StackOverflowError}, ends this writer,
 * too: it throws {@link ClosedException} from then on. Close it, and take another one.
 */
public final class JournalWriter implements AutoCloseable {
    private static final int DEFAULT_TYPE = 1;

    private final Journal journal;
    private final JournalAppender appender;
    private final Hold hold;
    private final JournalClaim claim;
    private final String name;
    private final JournalRecovery recovery;
    private final int defaultType;
    private final Cleaner.Cleanable cleaner;

    /** What a writer holds; outlives it, so that one that became unreachable can be closed. */
    static final class Hold implements Runnable {
        private final JournalSeat seat;
        private final JournalAppender appender;
        /** Null without one. */
        private JournalHelper helper;
        private boolean closed;

        Hold(JournalSeat seat, JournalAppender appender) {
            this.seat = seat;
            this.appender = appender;
        }

        /** Starts a helper, which ends with this object. */
        void help(JournalHelper with) {
            with.start();
            helper = with;
        }

        /** Gives the slot back. After an Error in its middle, the next call goes on: each step may be done twice. */
        @Override
        public synchronized void run() {
            if (closed) {
                return;
            }
            if (helper != null) {
                helper.stop();
            }
            appender.end(null);
            seat.closed();
            try {
                appender.file.data().wakeAll();
                appender.leave();
            } finally {
                seat.close(); // last, when nothing can be stored any more
            }
            closed = true;
        }
    }

    JournalWriter(Journal journal, JournalAppender appender, Hold hold, String name, JournalRecovery recovery) {
        this.journal = journal;
        this.appender = appender;
        this.hold = hold;
        this.name = name;
        this.recovery = recovery;
        this.claim = new JournalClaim(appender);
        this.defaultType = defaultType(appender.file);
        this.cleaner = Memory.whenForgotten(this, hold);
    }

    /** The type of raw bytes: 1, or in a journal with a schema a type that no message of a schema has. */
    static int defaultType(JournalFile file) {
        return file.header.schemaLength > 0 ? Layout.TYPE_RAW : DEFAULT_TYPE;
    }

    /**
     * Appends a copy of the bytes as a message of type 1, or of type 65536 in a journal with a schema.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @return the position where its record begins.
     */
    public long append(DirectBuffer source, int offset, int length) {
        return appender.append(source, offset, length, defaultType, false, 0);
    }

    /**
     * Appends a copy of the bytes.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @return the position where its record begins.
     */
    public long append(DirectBuffer source, int offset, int length, int type) {
        return appender.append(source, offset, length, type, false, 0);
    }

    /**
     * Appends a copy of the bytes with the caller's time.
     *
     * @param source the buffer that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @param time ns since 1970.
     * @return the position where its record begins.
     */
    public long append(DirectBuffer source, int offset, int length, int type, long time) {
        return appender.append(source, offset, length, type, true, time);
    }

    /**
     * Appends a copy of an array as a message of type 1, or of type 65536 in a journal with a schema.
     *
     * @param message the message.
     * @return the position where its record begins.
     */
    public long append(byte[] message) {
        return appender.append(message, 0, message.length, defaultType, false, 0);
    }

    /**
     * Appends a copy of a range of an array.
     *
     * @param source the array that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @return the position where its record begins.
     */
    public long append(byte[] source, int offset, int length, int type) {
        checkRange(source, offset, length, type);
        return appender.append(source, offset, length, type, false, 0);
    }

    /**
     * Appends a copy of a range of an array with the caller's time.
     *
     * @param source the array that holds the message.
     * @param offset index of the message's first byte in the source.
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @param time ns since 1970.
     * @return the position where its record begins.
     */
    public long append(byte[] source, int offset, int length, int type, long time) {
        checkRange(source, offset, length, type);
        return appender.append(source, offset, length, type, true, time);
    }

    private void checkRange(byte[] source, int offset, int length, int type) {
        if ((offset | length) < 0 || length > source.length - offset) {
            appender.check(Math.min(length, 0), type); // an error that has precedence
            throw new IndexOutOfBoundsException("The bytes " + offset + " to " + ((long) offset + length)
                + " do not lie in an array of " + source.length + ".");
        }
    }

    /**
     * Appends a copy of the buffer's remaining bytes; the buffer's position does not change.
     *
     * @param message the message, from position to limit.
     * @param type the message's type, at least 1.
     * @return the position where its record begins.
     */
    public long append(ByteBuffer message, int type) {
        return appender.append(message, type);
    }

    /**
     * Appends copies of several buffers, each as one message of type 1, or of type 65536 in a journal with a schema.
     *
     * @param messages the messages; each is its buffer's whole capacity.
     * @return how many messages were appended: all.
     */
    public int appendMany(DirectBuffer... messages) {
        return appender.appendMany(messages, 0, messages.length, defaultType, false, 0);
    }

    /**
     * Appends copies of several buffers, each as one message. Reads the clock once, and wakes readers once. Checks all
     * lengths first, so {@link MessageTooLargeException} means that nothing was appended. After another error, for
     * example {@link NoSpaceException}, the messages before it are appended; {@link #number()} tells how many.
     *
     * @param messages the messages; each is its buffer's whole capacity.
     * @param from index of the first message to append.
     * @param number how many messages to append.
     * @param type the messages' type, at least 1.
     * @return how many messages were appended: all.
     */
    public int appendMany(DirectBuffer[] messages, int from, int number, int type) {
        return appender.appendMany(messages, from, number, type, false, 0);
    }

    /**
     * Does the same with the caller's time, which all of the messages get.
     *
     * @param messages the messages; each is its buffer's whole capacity.
     * @param from index of the first message to append.
     * @param number how many messages to append.
     * @param type the messages' type, at least 1.
     * @param time ns since 1970.
     * @return how many messages were appended: all.
     */
    public int appendMany(DirectBuffer[] messages, int from, int number, int type, long time) {
        return appender.appendMany(messages, from, number, type, true, time);
    }

    /**
     * Claims space for a message of the default type, to be filled in place.
     *
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @return the writer's one claim, valid until its commit or abort.
     */
    public JournalClaim claim(int length) {
        return claim(length, defaultType);
    }

    /**
     * Claims space for a message, to be filled in place. Until the claim is committed or aborted, nothing else can be
     * appended.
     *
     * @param length length of the message in bytes, 0 to {@link #maxMessageLength()}.
     * @param type the message's type, at least 1.
     * @return the writer's one claim, valid until its commit or abort.
     */
    public JournalClaim claim(int length, int type) {
        appender.claim(length, type);
        return claim;
    }

    /**
     * Claims space for an SBE message without groups and data, writes the message header and wraps the encoder over the
     * block.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @return the writer's one claim, valid until its commit or abort; the encoder is valid as long.
     */
    public JournalClaim claim(MessageEncoderFlyweight encoder) {
        return claim(encoder, 0);
    }

    /**
     * Claims space for an SBE message, writes the message header and wraps the encoder over the block. The block is not
     * cleared: write every field. The record's type is the template id.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, including their own headers; more than they need is allowed.
     * @return the writer's one claim, valid until its commit or abort; the encoder is valid as long.
     * @throws InvalidArgumentException if the length is negative, or the template id is 0, which is not a valid type.
     */
    public JournalClaim claim(MessageEncoderFlyweight encoder, int variableLength) {
        return claim(encoder, variableLength, null);
    }

    /**
     * Does the same for a schema that has its own message header.
     *
     * @param encoder the message's encoder, generated with {@code sbe.java.generate.interfaces=true}.
     * @param variableLength bytes for groups and data, including their own headers; more than they need is allowed.
     * @param header the schema's message header; null for the usual one.
     * @return the writer's one claim, valid until its commit or abort; the encoder is valid as long.
     */
    public JournalClaim claim(MessageEncoderFlyweight encoder, int variableLength, MessageHeader header) {
        final int length = TypedClaim.length(encoder, variableLength, header);
        final JournalClaim open = claim(length, encoder.sbeTemplateId());
        boolean encoded = false;
        try {
            TypedClaim.encode(encoder, header, open.buffer());
            encoded = true;
            return open;
        } finally {
            if (!encoded) {
                open.abort();
            }
        }
    }

    /**
     * Makes durable what was appended: it is there after a loss of power once this returns.
     *
     * @throws IoException if the sync failed: this writer has ended. Also if a segment was removed by hand: this
     *     writer goes on.
     */
    public void sync() {
        appender.check(0, DEFAULT_TYPE);
        appender.sync();
    }

    /**
     * The longest message.
     *
     * @return bytes.
     */
    public int maxMessageLength() {
        return appender.maxLength;
    }

    /**
     * Where the next record begins, unless a segment ends before it.
     *
     * @return the position.
     */
    public long position() {
        return appender.end();
    }

    /**
     * How many messages were ever appended to the journal.
     *
     * @return the number of the next message.
     */
    public long number() {
        return appender.count();
    }

    /**
     * How many segments this writer had to make itself, because none was ready when it needed one: each took it
     * milliseconds. More segments ahead make them fewer.
     *
     * @return the number.
     */
    public long unprepared() {
        return appender.unprepared();
    }

    /**
     * The writer's name.
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
        return hold.seat.epoch();
    }

    /**
     * What was found when this writer took the slot: a loss of power, or a sync that failed, may have cost messages.
     *
     * @return what the recovery found; null if none was needed.
     */
    public JournalRecovery recovery() {
        return recovery;
    }

    /** Gives the slot back without a check or a sync, whatever this writer is in the middle of. */
    void abandon() {
        hold.run();
        cleaner.clean(); // after that: an Error leaves it, so that a writer that is forgotten gives its slot back
        journal.left(this);
    }

    /**
     * Syncs, and gives the slot back. A second close does nothing.
     *
     * @throws IoException if the sync failed; the writer is closed all the same.
     */
    @Override
    public void close() {
        close(true);
    }

    /**
     * Gives the slot back; an open claim is aborted.
     *
     * @param sync whether to make durable what was appended.
     * @throws TwoThreadsException if another thread appends.
     * @throws IoException if the sync failed; the writer is closed all the same.
     */
    public void close(boolean sync) {
        if (appender.isBusy()) {
            throw new TwoThreadsException("This writer is in use by another thread, or in its own append. Close it"
                + " after that.");
        }
        try {
            if (appender.isUsable()) {
                claim.close();
                if (sync) {
                    appender.sync();
                }
            }
        } finally {
            abandon();
        }
    }
}
