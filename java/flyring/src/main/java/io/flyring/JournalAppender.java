// SPDX-License-Identifier: Apache-2.0
package io.flyring;

import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import org.agrona.DirectBuffer;

/**
 * Appends records, in the steps of journal.md 3.1 and 3.2. Its owner holds the writer's slot. An append does not
 * allocate or lock, and makes no system call but in a new segment, for a sync, or to wake a reader. The CRC of a span
 * is computed in pieces, while the bytes are in the cache.
 */
final class JournalAppender {
    static final int MAX_AHEAD = 16;
    private static final long GONE = -1;
    private static final int PIECE = 4096;
    /** In ns: longer than any interval, but so short that the difference of two times does not overflow. */
    private static final long LONG_AGO = Long.MAX_VALUE / 2;
    private static final long UNSIGNED = 0xffff_ffffL;
    private static final int EPOCH_AT = Layout.JOURNAL_CONTROL_SLOT + Layout.PUBLISHER_SLOT_EPOCH;
    private static final long HEADER_AND_ROUNDING = JournalRecord.HEADER + JournalFile.ALIGNMENT - 1;

    final JournalFile file;
    final JournalHandover handover = new JournalHandover();
    /** The payload of the open claim; its state is busy while a record is written in another way. */
    final PayloadBuffer payload = new PayloadBuffer(Memory.EMPTY);
    /** The longest payload. */
    final int maxLength;
    private final JournalDurability durability;
    private final Memory control;
    /** The address of the control section, if it can be written by address; else 0. */
    private final long controlAt;
    private final Waker data;
    /** The address of the word that tells of sleepers, for reads by address: see {@link Waker#watchedAt}. */
    private final long watchedAt;
    private final Waker work;
    private final JournalClock clock;
    private final int mask;
    private final long segmentSize;
    private final JournalCrc crc = new JournalCrc();
    private final JournalRecord record = new JournalRecord();

    /** The segment that the last record lies in; null if there is none, as behind a whole one after a resume. */
    private JournalSegment segment;
    private Memory memory = Memory.EMPTY;
    private long segmentEnd;
    /** The end of what was published (t). */
    private long end;
    private long count;
    private long largestTime;
    /** The end of the last check, and up to where the CRC of what follows is computed. */
    private long spanStart;
    private long crcEnd;
    /** {@code claimed}, as this writer stored it. */
    private long claimed;
    /** A record that ends at or below this position needs no step before 4; 0 disables the fast path. */
    private long fastEnd;
    /** When the end reaches this position, a piece of the CRC or a check is due. */
    private long nextDue;
    /**
     * When the last check was made, by {@link System#nanoTime}; before this owner's first check, when the last sync
     * ended. An interval of syncs counts from here.
     */
    private long checkedAt;
    /** The epoch that the slot must have; {@link #GONE} once this object is closed or has lost its slot. */
    private long expectedEpoch = GONE;
    /** How many segments were not ready when they were needed. */
    private long unprepared;
    /** What ended this writer; null if nothing did. */
    private FlyringException failure;
    /**
     * An error in the middle of a verb, such as a StackOverflowError or a failed access to a page; null if there was
     * none. What it has cut off may be half done, so it ends this object, as a kill would: the next owner mends it.
     * It is stored where it is caught, and with no call, which could overflow the stack again.
     */
    private Error cutOff;
    /** The last error that came before anything was changed. */
    private Error harmless;

    JournalAppender(JournalFile file) {
        this.file = file;
        this.control = file.control;
        this.controlAt = control.writableAt();
        this.segmentSize = file.segmentSize;
        this.mask = (int) (segmentSize - 1);
        this.maxLength = (int) (segmentSize / Layout.MAX_MESSAGE_DIVISOR) - JournalRecord.HEADER;
        this.data = new Waker(file.data(), file.wakes);
        this.watchedAt = data.watchedAt();
        this.work = new Waker(file.work(), file.wakes);
        this.durability = new JournalDurability(file);
        this.clock = new JournalClock(file.identity);
    }

    // ---- where a new owner begins ----

    /** Sets where the journal ends: a resume (3.4) or a recovery (7) has found it. The CRC is that from the check. */
    void startAt(JournalSegment newSegment, JournalTail tail) {
        segment = newSegment;
        memory = newSegment == null ? Memory.EMPTY : newSegment.map();
        segmentEnd = newSegment == null ? tail.end() : newSegment.base + segmentSize;
        payload.window(memory, 0, Window.CLOSED);
        end = tail.end();
        count = tail.count();
        largestTime = tail.time();
        spanStart = tail.spanStart();
        crcEnd = spanStart;
        claimed = end;
        failure = null;
        crc.reset();
        addUnchecked(tail);
        setShortcuts();
    }

    /** Adds what lies behind the last check to the CRC: padding by its first 8 bytes alone. */
    private void addUnchecked(JournalTail tail) {
        try (JournalBytes bytes = new JournalBytes(file)) {
            while (crcEnd < end) {
                int at = bytes.load(crcEnd, crcEnd, JournalFile.ALIGNMENT, end);
                final int length = at < 0 ? 0 : bytes.memory().getInt(at);
                if (length <= 0) {
                    throw file.corrupt(crcEnd, "no record where one was a moment ago");
                }
                final boolean padding = bytes.memory().getInt(at + Layout.RECORD_TYPE) == Layout.TYPE_PADDING;
                final long size = JournalRecord.size(length);
                if (!padding) {
                    at = bytes.load(crcEnd, crcEnd, (int) size, end);
                }
                if (at < 0) {
                    throw file.corrupt(crcEnd, "the record cannot be read");
                }
                crc.add(bytes.memory(), at, padding ? Layout.RECORD_HEADER_LENGTH : (int) size);
                crcEnd += size;
            }
        } finally {
            crc.forget();
        }
    }

    /** From now on this object appends, as the slot's owner of an epoch. */
    void own(long epoch) {
        if (claimed != end) { // by a push before this one; nothing was written there
            claimed = end;
            control.putLongRelease(Layout.JOURNAL_CONTROL_CLAIMED, end);
        }
        checkedAt = System.nanoTime() - Math.min(file.sinceSync(), LONG_AGO);
        expectedEpoch = epoch;
        setShortcuts();
    }

    /** Makes further appends impossible; {@code why} is null for a close. */
    void end(FlyringException why) {
        expectedEpoch = GONE;
        fastEnd = 0;
        payload.invalidate();
        if (why != null) {
            failure = why;
        }
    }

    /** Lets go of the segment. After an Error in its middle, the next call goes on. */
    void leave() {
        memory = Memory.EMPTY;
        payload.window(memory, 0, Window.CLOSED);
        crc.forget();
        if (segment != null) {
            segment.close();
            segment = null;
        }
    }

    // ---- append ----

    /** The bytes that a payload of this length takes (n); for a negative length more than any segment holds. */
    private static long size(int length) {
        return (length & UNSIGNED) + HEADER_AND_ROUNDING & -JournalFile.ALIGNMENT;
    }

    private long endAfter(int length) {
        return end + size(length);
    }

    /** Whether the hot path's checks hold: type, no claim, and the epoch (channel.md 5.4). */
    private boolean usable(int type) {
        return type >= 1 && payload.state() == Window.CLOSED && control.getLongOpaque(EPOCH_AT) == expectedEpoch;
    }

    /** Appends a copy of the bytes; returns where the record begins. */
    long append(DirectBuffer source, int offset, int length, int type, boolean timed, long time) {
        try {
            source.boundsCheck(offset, length);
        } catch (IndexOutOfBoundsException e) {
            check(Math.min(length, 0), type); // an error that has precedence
            throw e;
        }
        reserve(length, type);
        final long position = end;
        try {
            payload.busy();
            Copy.from(source, offset, memory, ((int) end & mask) + JournalRecord.HEADER, length);
            publish(length, type, timed ? time : clock.now());
            return position;
        } catch (Error e) {
            expectedEpoch = GONE;
            cutOff = e;
            throw e;
        } catch (Exception e) {
            undo(length);
            throw e;
        }
    }

    /** Appends a copy of a range of an array, whose bounds the caller has checked. */
    long append(byte[] source, int offset, int length, int type, boolean timed, long time) {
        reserve(length, type);
        final long position = end;
        try {
            payload.busy();
            memory.putBytes(((int) end & mask) + JournalRecord.HEADER, source, offset, length);
            publish(length, type, timed ? time : clock.now());
            return position;
        } catch (Error e) {
            expectedEpoch = GONE;
            cutOff = e;
            throw e;
        } catch (Exception e) {
            undo(length);
            throw e;
        }
    }

    /** Appends a copy of a buffer's remaining bytes. */
    long append(ByteBuffer source, int type) {
        final int length = source.remaining();
        reserve(length, type);
        final long position = end;
        try {
            payload.busy();
            memory.putBytes(((int) end & mask) + JournalRecord.HEADER, source, source.position(), length);
            publish(length, type, clock.now());
            return position;
        } catch (Error e) {
            expectedEpoch = GONE;
            cutOff = e;
            throw e;
        } catch (Exception e) {
            undo(length);
            throw e;
        }
    }

    /** Checks the call, makes room for the record, and announces it (steps 1 to 3). */
    private void reserve(int length, int type) {
        if (endAfter(length) > fastEnd || !usable(type)) {
            reserveSlowly(length, type);
        }
    }

    private void reserveSlowly(int length, int type) {
        check(length, type);
        payload.busy();
        try {
            makeRoom(size(length));
            announce(endAfter(length));
        } catch (Error e) {
            if (e != harmless) {
                expectedEpoch = GONE;
                cutOff = e;
            }
            throw e;
        } finally {
            payload.invalidate();
        }
    }

    /** Steps 1 and 2, for {@code n} bytes: padding, the next segment and its check. */
    private void makeRoom(long n) {
        final long offset = end & mask;
        if (offset != 0 && offset + n > segmentSize - JournalRecord.CHECK) { // append 1
            final JournalSegment next = nextSegment(end - offset + segmentSize); // before anything changes
            publishPadding((int) (segmentSize - offset), segmentSize - offset);
            enter(next);
        }
        beginSegment();
    }

    /** Step 2: a segment begins with a check. */
    private void beginSegment() {
        if ((end & mask) == 0) {
            if (segment == null || segment.base != end) {
                enter(nextSegment(end));
            }
            makeCheck();
            wakeHelper();
        }
    }

    /** The segment that begins at a position, mapped and ready: durable, with its name, before its first record. */
    private JournalSegment nextSegment(long base) {
        try {
            final JournalSegment next = readySegment(base);
            boolean done = false;
            try {
                next.map(); // if that fails, nothing is changed
                done = true;
                return next;
            } finally {
                if (!done) {
                    next.close();
                }
            }
        } catch (OutOfMemoryError e) {
            harmless = e;
            throw e;
        }
    }

    private JournalSegment readySegment(long base) {
        final JournalSegment prepared = handover.take(base);
        if (prepared != null) {
            if (file.hasSegment(base)) {
                return prepared;
            }
            handover.leave(prepared); // it was removed by hand
        }
        if (file.ready() >= base + segmentSize) {
            final JournalSegment segmentThere = JournalSegment.open(file, base, false);
            if (segmentThere != null) {
                return segmentThere;
            }
        }
        unprepared++;
        return JournalSegment.prepare(file, base, null);
    }

    private void enter(JournalSegment next) {
        final JournalSegment last = segment;
        memory = next.map();
        segment = next;
        segmentEnd = next.base + segmentSize;
        payload.window(memory, 0, payload.state());
        crc.forget();
        if (last != null) {
            handover.leave(last);
        }
    }

    /** Step 3: stores {@code claimed} before any byte behind it changes. The position lies in this segment. */
    private void announce(long to) {
        if (to > claimed) {
            announceExactly(Math.min(to + Layout.JOURNAL_ANNOUNCE_AHEAD, segmentEnd - JournalRecord.CHECK));
        }
        setShortcuts();
    }

    private void announceExactly(long to) {
        if (to > claimed) {
            claimed = to;
            control.putLongOpaque(Layout.JOURNAL_CONTROL_CLAIMED, to);
            VarHandle.releaseFence(); // append 3: before any byte changes
        }
    }

    private void setShortcuts() {
        fastEnd = expectedEpoch == GONE || (end & mask) == 0 ? 0
            : Math.min(claimed, segmentEnd - JournalRecord.CHECK);
        nextDue = Math.min(crcEnd + PIECE, spanStart + Layout.JOURNAL_CHECK_EVERY);
    }

    /** Completes the reserved record, whose payload is written: time, type, commit, and what follows (steps 4 to 9). */
    private void publish(int length, int type, long time) {
        final int index = (int) end & mask;
        final Memory to = memory;
        final long at = to.writableAt();
        if (at != 0) {
            final long record = Raw.base(at + index);
            Raw.putLong(record + Layout.JOURNAL_RECORD_TIME, time); // append 4
            Raw.putInt(record + Layout.RECORD_TYPE, type);
            Reference.reachabilityFence(to);
        } else {
            to.putLong(index + Layout.JOURNAL_RECORD_TIME, time); // append 4
            to.putInt(index + Layout.RECORD_TYPE, type);
        }
        commit(index, length + JournalRecord.HEADER, endAfter(length), 1);
        if (time > largestTime) {
            largestTime = time;
        }
        payload.invalidate();
        finish();
    }

    /** Commits a record, or a batch, by its first length, and publishes the new end (steps 5 and 6). */
    private void commit(int index, int length, long newEnd, int messages) {
        final long newCount = count + messages;
        final Memory to = memory;
        final long at = to.writableAt();
        if (at != 0 && controlAt != 0) {
            Raw.putIntRelease(Raw.base(at + index), length); // append 5: it happens here; pairs with: tail
            final long words = Raw.base(controlAt);
            Raw.putLongRelease(words + Layout.JOURNAL_CONTROL_PUBLISHED, newEnd); // append 6; pairs with: read
            Raw.putLongOpaque(words + Layout.JOURNAL_CONTROL_MESSAGES, newCount);
            Reference.reachabilityFence(to);
            Reference.reachabilityFence(control);
        } else {
            to.putIntRelease(index, length); // append 5 and 6, as above
            control.putLongRelease(Layout.JOURNAL_CONTROL_PUBLISHED, newEnd);
            control.putLongOpaque(Layout.JOURNAL_CONTROL_MESSAGES, newCount);
        }
        count = newCount;
        end = newEnd;
    }

    /** Does what follows a commit: a check that is due, the wake-up of readers, and a sync (steps 7 to 9). */
    private void finish() {
        final long every = syncEvery();
        if (end >= nextDue || every > 0) {
            doDue(every);
        }
        wakeAndSync(every);
    }

    /** Wakes the readers, then syncs if each append does (steps 8 and 9): readers do not wait for the disk. */
    private void wakeAndSync(long every) {
        final boolean awaited = Raw.AVAILABLE ? (Raw.getIntOpaque(Raw.base(watchedAt)) & 1) != 0 : data.isAwaited(1);
        Reference.reachabilityFence(data);
        if (awaited) {
            data.wakeNow(1);
        }
        if (every == Layout.JOURNAL_SYNC_EACH) {
            sync();
        }
    }

    private long syncEvery() {
        return control.getLongOpaque(Layout.JOURNAL_CONTROL_SYNC_EVERY);
    }

    private void wakeHelper() {
        if (work.isAwaited(1)) {
            work.wakeNow(1);
        }
    }

    /** Makes a check that is due (step 7), or adds a piece to the CRC. Without an interval of syncs seldom called. */
    private void doDue(long every) {
        if (end - spanStart >= Layout.JOURNAL_CHECK_EVERY) {
            makeCheck();
        } else if (every > 0 && System.nanoTime() - checkedAt >= every) {
            makeCheck();
            wakeHelper();
        } else if (end - crcEnd >= PIECE) {
            addCrc();
        }
        setShortcuts();
    }

    private void addCrc() {
        if (crcEnd < end) {
            crc.add(memory, (int) crcEnd & mask, (int) (end - crcEnd));
            crcEnd = end;
        }
    }

    /** A check at the end (3.2). The segment is this one, and has room for it. */
    private void makeCheck() {
        addCrc();
        record.check(end, count, largestTime, crc.value());
        announceExactly(end + JournalRecord.CHECK);
        final int index = (int) end & mask;
        memory.putBytes(index + Layout.JOURNAL_CHECK_TYPE, record.memory, Layout.JOURNAL_CHECK_TYPE,
            JournalRecord.CHECK - Layout.JOURNAL_CHECK_TYPE);
        final long at = end;
        commit(index, JournalRecord.CHECK, at + JournalRecord.CHECK, 0);
        control.putLongRelease(Layout.JOURNAL_CONTROL_CHECKED, at); // pairs with: sync 2
        spanStart = end;
        crcEnd = end;
        crc.reset();
        checkedAt = System.nanoTime();
    }

    /** Publishes padding of a length: readers skip it, and of its bytes only the first 8 count. */
    private void publishPadding(int length, long size) {
        addCrc();
        announceExactly(end + size);
        final int index = (int) end & mask;
        memory.putInt(index + Layout.RECORD_TYPE, Layout.TYPE_PADDING);
        crcEnd = end + size;
        commit(index, length, end + size, 0);
        crc.add(memory, index, Layout.RECORD_HEADER_LENGTH);
    }

    // ---- batches ----

    /** Appends copies of several buffers, each as one message, with one time; returns how many: all. */
    int appendMany(DirectBuffer[] messages, int from, int number, int type, boolean timed, long time) {
        check(0, type);
        java.util.Objects.checkFromIndexSize(from, number, messages.length);
        for (int i = from; i < from + number; i++) {
            checkLength(messages[i].capacity());
        }
        final long at = timed || number == 0 ? time : clock.now();
        int taken = 0;
        try {
            while (taken < number) {
                taken += appendPart(messages, from + taken, number - taken, type, at);
            }
        } catch (Throwable e) {
            if (e instanceof Error && e != harmless) {
                expectedEpoch = GONE;
                cutOff = (Error) e;
            } else if (taken > 0 && isUsable()) {
                settle(e);
            }
            throw e;
        }
        if (taken > 0) {
            wakeAndSync(syncEvery());
        }
        return taken;
    }

    /** Makes durable what a batch has appended before it failed, if each append is to be. */
    private void settle(Throwable failure) {
        try {
            wakeAndSync(syncEvery());
        } catch (FlyringException e) {
            failure.addSuppressed(e);
        }
    }

    /** As many messages as fit before the segment's last check and into a quarter of it (channel.md 6.3). */
    private int appendPart(DirectBuffer[] messages, int from, int number, int type, long time) {
        final int first = (int) size(messages[from].capacity());
        check(messages[from].capacity(), type);
        payload.busy();
        int total = first;
        int taken = 1;
        try {
            makeRoom(first);
            final long most = Math.min(segmentSize / Layout.MAX_MESSAGE_DIVISOR,
                segmentEnd - JournalRecord.CHECK - end);
            while (taken < number && total + size(messages[from + taken].capacity()) <= most) {
                total += (int) size(messages[from + taken].capacity());
                taken++;
            }
            announce(end + total);
        } catch (Throwable e) {
            payload.invalidate();
            throw e;
        }
        final int index = (int) end & mask;
        int length;
        try {
            int at = index + first;
            for (int i = 1; i < taken; i++) {
                length = put(messages[from + i], at, index + total - at, type, time);
                memory.putInt(at, length + JournalRecord.HEADER);
                at += (int) size(length);
            }
            length = put(messages[from], index, first, type, time);
            if (at != index + total || size(length) != first) {
                throw changed();
            }
        } catch (Exception e) {
            undo(total - JournalRecord.HEADER);
            throw e;
        }
        commit(index, length + JournalRecord.HEADER, end + total, taken); // last: so all of them are whole
        largestTime = Math.max(largestTime, time);
        payload.invalidate();
        doDue(syncEvery());
        return taken;
    }

    /** Writes all but the length of a record; returns the payload's length. */
    private int put(DirectBuffer message, int at, int room, int type, long time) {
        final int length = message.capacity(); // read once
        if (size(length) > room) {
            throw changed();
        }
        memory.putLong(at + Layout.JOURNAL_RECORD_TIME, time);
        memory.putInt(at + Layout.RECORD_TYPE, type);
        Copy.from(message, 0, memory, at + JournalRecord.HEADER, length);
        return length;
    }

    private static InvalidArgumentException changed() {
        return new InvalidArgumentException("messages", "A message of the batch has another length than before. Do not"
            + " change messages while they are appended.");
    }

    // ---- claims ----

    /** Claims space for a message at the end. */
    void claim(int length, int type) {
        reserve(length, type);
        final int index = (int) end & mask;
        memory.putInt(index + Layout.RECORD_TYPE, type);
        payload.move(memory.address() + index + JournalRecord.HEADER, length);
    }

    boolean claimed() {
        return payload.state() >= 0;
    }

    /** Appends the open claim, or makes it padding; returns where the record begins. */
    long finishClaim(boolean commits) {
        final int length = payload.state();
        if (length < 0 || control.getLongOpaque(EPOCH_AT) != expectedEpoch) {
            throw cannotFinish(length);
        }
        final long position = end;
        try {
            if (commits) {
                publish(length, memory.getInt(((int) end & mask) + Layout.RECORD_TYPE), clock.now());
            } else {
                payload.busy();
                publishPadding(length + JournalRecord.HEADER, size(length));
                payload.invalidate();
                doDue(Layout.JOURNAL_SYNC_NEVER); // it wakes no reader, and no sync is due by it
            }
            return position;
        } catch (Error e) {
            expectedEpoch = GONE;
            cutOff = e;
            throw e;
        }
    }

    private FlyringException cannotFinish(int length) {
        payload.invalidate();
        if (length < 0 && expectedEpoch != GONE) {
            return new ClosedException("This claim was committed or aborted already. Claim again.");
        }
        return gone();
    }

    /** After an exception of the source: padding in place of the record. One of a sync comes after the record. */
    private void undo(int length) {
        if (payload.state() != Window.BUSY) {
            return;
        }
        try {
            publishPadding(length + JournalRecord.HEADER, size(length));
            doDue(Layout.JOURNAL_SYNC_NEVER);
        } catch (Error e) {
            expectedEpoch = GONE;
            cutOff = e;
            throw e;
        } finally {
            payload.invalidate();
        }
    }

    // ---- sync ----

    /** Makes durable what was appended (5): a check, if there is anything since the last one, then the sync. */
    void sync() {
        try {
            if (end > spanStart) {
                beginSegment();
                if (end > spanStart) {
                    makeCheck();
                }
                setShortcuts();
            }
            durability.sync(segment);
        } catch (IoException e) {
            if (file.failed()) {
                end(e);
            }
            throw e;
        } catch (Error e) {
            if (e != harmless) {
                expectedEpoch = GONE;
                cutOff = e;
            }
            throw e;
        }
    }

    /** Writes all bytes from the last durable check on once more, as they are, and syncs (5). */
    void writeAgain() {
        new JournalRewrite(file).write(file.synced(), end);
        beginSegment();
        makeCheck();
        setShortcuts();
        durability.syncAgain(segment);
        file.failed(0); // only now
    }

    // ---- errors ----

    /** Throws if the call must be refused. */
    void check(int length, int type) {
        if (control.getLongOpaque(EPOCH_AT) != expectedEpoch || expectedEpoch == GONE
            || payload.state() != Window.CLOSED || type < 1 || length < 0 || length > maxLength) {
            throw refusal(length, type);
        }
    }

    private void checkLength(int length) {
        if (length < 0 || length > maxLength) {
            throw badLength(length);
        }
    }

    private FlyringException refusal(int length, int type) {
        if (expectedEpoch == GONE) {
            return gone();
        }
        if (payload.state() != Window.CLOSED) {
            return payload.state() == Window.BUSY
                ? new TwoThreadsException("This writer is in use by another thread, or in its own append. Give each"
                + " thread its turn.")
                : new ViewAliveException("A claim of this writer is still open. Commit or abort it first.");
        }
        return type < 1 ? new InvalidArgumentException("type", "The type " + type + " is not in 1 to 2147483647.")
            : length < 0 || length > maxLength ? badLength(length) : gone();
    }

    private FlyringException badLength(int length) {
        return length < 0 ? new InvalidArgumentException("length", "The length " + length + " is negative.")
            : tooLarge(length, maxLength, file);
    }

    static MessageTooLargeException tooLarge(int length, int most, JournalFile file) {
        return new MessageTooLargeException(length, most, "A message of " + length + " bytes is too large for "
            + file.path + ": its segments allow " + most + ". Create the journal with larger segments.");
    }

    /** The error of a writer that is closed, has failed, or has lost its slot. */
    private FlyringException gone() {
        if (expectedEpoch != GONE) {
            end(file.failed() ? file.failure() : new SlotLostException(0, "The writer's slot of " + file.path
                + " was taken by another process. Close this writer and take the slot again."));
        }
        if (failure == null && cutOff != null) {
            failure = new ClosedException("The writer of " + file.path + " was cut off by " + cutOff
                + ". Close it, and take another one.");
        }
        return failure != null ? failure
            : new ClosedException("The writer of " + file.path + " is closed. Take another one.");
    }

    /** Whether a thread is in the middle of a verb, as far as this thread can tell. */
    boolean isBusy() {
        return payload.state() == Window.BUSY && expectedEpoch != GONE;
    }

    /** Whether this object still appends. */
    boolean isUsable() {
        return expectedEpoch != GONE && control.getLongOpaque(EPOCH_AT) == expectedEpoch;
    }

    /** Whether the state of this object is still that of the file, whose slot was given back meanwhile. */
    boolean isCurrent(long epoch) {
        return expectedEpoch == epoch && control.getLongOpaque(EPOCH_AT) == epoch && file.published() == end
            && !file.failed() && segment != null && payload.state() == Window.CLOSED;
    }

    long end() {
        return end;
    }

    long count() {
        return count;
    }

    long unprepared() {
        return unprepared;
    }
}
