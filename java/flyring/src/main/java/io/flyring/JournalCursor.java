// SPDX-License-Identifier: Apache-2.0
package io.flyring;

/**
 * Reads a journal from a place on (journal.md 3.3). Behind the last check it reads in place, as records are committed:
 * the tail. All else it reads cold: span by span, into memory of this process, and hands out a span only when its check
 * is right. {@link #next} finds a message, {@link #consume} goes behind it; neither allocates but where a segment
 * begins.
 */
final class JournalCursor implements AutoCloseable {
    private static final int TRIES = 1000;
    /**
     * Of so many looks that find nothing, only the last one loads {@code published}: a load takes its cache line from
     * the writer.
     */
    private static final int LOOKS_TO_PUBLISHED = 1024;

    final JournalFile file;
    /** The message that {@link #next} has found. */
    final Message message = new Message(0, Memory.EMPTY);
    private final boolean durable;
    private final boolean skips;
    private final long segmentSize;
    private final JournalWalk walk;
    private final JournalSeek seek;

    /** Where this reader reads next, and how many messages lie before it. */
    private long cursor;
    private long number;
    /** The end of the last check or cut that was passed; a multiple of Z: a segment that is still to be entered. */
    private long spanStart;
    /** The messages before spanStart. */
    private long spanNumber;
    private long lost;
    private long cuts;
    /** Where a reader that skips damage found the journal's end without a right check. */
    private long stuck;

    /** The records that are in reach: memory, the position of its index 0, and the position behind the last one. */
    private Memory run = Memory.EMPTY;
    private long runBase;
    private long runEnd = -1;
    /** The check that has proven the run. */
    private long runCheck;
    /** Whether the run is a mapped segment, whose writer may be at work. */
    private boolean tail;
    /** The last segment that was mapped. It stays so while a reader that follows reads a span of it cold. */
    private JournalSegment mapped;
    /** The bytes of the message that next has found. */
    private long size;
    /** How many looks at the tail may find nothing from now on; the last of them loads {@code published}. */
    private int looksLeft = LOOKS_TO_PUBLISHED;

    JournalCursor(JournalFile file, boolean durable, boolean skips) {
        this.file = file;
        this.durable = durable;
        this.skips = skips;
        this.segmentSize = file.segmentSize;
        this.walk = new JournalWalk(file);
        this.seek = new JournalSeek(file, durable);
    }

    long position() {
        return cursor;
    }

    long number() {
        return number;
    }

    long lost() {
        return lost;
    }

    long cuts() {
        return cuts;
    }

    void lost(long value) {
        lost = value;
    }

    /** Up to where reading is allowed, in this boot. */
    private long limit() {
        if (!durable) {
            final long published = file.published();
            return JournalFile.isPosition(published) ? published : 0;
        }
        return file.synced() + JournalRecord.CHECK;
    }

    /** Up to where there must be records: in another boot, {@code published} does not count. */
    private long known() {
        return file.isOfBoot() ? limit() : file.synced() + JournalRecord.CHECK;
    }

    /** Whether a poll would find something: for waits. */
    boolean isReady() {
        if (tail && cursor < runEnd) {
            return run.getIntAcquire((int) (cursor - runBase)) != 0 || isPassed(); // pairs with: append 5
        }
        return cursor < runEnd || file.isOfBoot() && limit() > Math.max(cursor, stuck);
    }

    /** Makes the next look that finds nothing load {@code published}: after a sleep, the journal may be recovered. */
    void lookAtPublished() {
        looksLeft = 1;
    }

    /** At a cursor at which nothing is: whether this look loads {@code published}, and finds it behind the cursor. */
    private boolean isPassed() {
        if (--looksLeft > 0) {
            return false;
        }
        final boolean passed = file.published() > cursor;
        looksLeft = passed ? 1 : LOOKS_TO_PUBLISHED; // after a wait the poll must see it, too
        return passed;
    }

    /** Whether everything that was published was read. */
    boolean drained() {
        return file.published() == cursor;
    }

    // ---- where to begin ----

    /** Goes to a start. Messages between it and the oldest one count as lost where the start is a number. */
    void begin(JournalStart start) {
        dropRun();
        switch (start.what) {
            case NEWEST -> arrive(seek.newest());
            case POSITION -> goTo(start.value, -1, true);
            case NUMBER -> {
                arrive(seek.number(start.value));
                lost += Math.max(0, number - start.value);
            }
            case TIME -> arrive(seek.time(start.value));
            default -> toTrimmed(-1);
        }
    }

    /**
     * Goes to where reading goes on from a position.
     *
     * @param before how many messages lie before it, if that is known; else -1.
     * @param strict whether a position within a record is an error of the caller's.
     */
    void goTo(long position, long before, boolean strict) {
        dropRun();
        if (!JournalFile.isPosition(position)) {
            throw JournalStart.invalid("The position " + position + " is none: positions are multiples of 64.");
        }
        for (int i = 0; i < TRIES; i++) {
            if (position < file.trimmed()) {
                toTrimmed(before);
                return;
            }
            final long published = file.published();
            final JournalSeek.Place place = seek.position(position, strict);
            if (place != null) {
                arrive(place);
                return;
            }
            if (i > 0 && file.published() == published && position >= file.trimmed()) {
                break; // no writer, trim or recovery is at work
            }
            Pause.nanos(1000);
        }
        if (!strict && position > file.published()) { // behind it lies only what was committed
            throw file.corrupt(position, "the gate lies where no record is");
        }
        passDamage(position, before, "no walk leads there");
    }

    /** Goes behind the next check that is right, if this reader skips what is damaged; else it is DamagedException. */
    private void passDamage(long position, long before, String reason) {
        final long known = known();
        final JournalSeek.Place right = seek.rightCheck(position, known);
        final long gone = right == null || before < 0 ? -1 : Math.max(0, right.number() - before);
        if (right == null || !skips) {
            throw new DamagedException(position, right == null ? Math.max(position, known)
                : right.position() - JournalRecord.CHECK, gone, reason, file.path);
        }
        lost += Math.max(0, gone);
        arrive(right);
    }

    private void arrive(JournalSeek.Place place) {
        cursor = place.position();
        number = place.number();
        spanStart = place.spanStart();
        spanNumber = place.spanNumber();
        cuts += place.cuts();
    }

    /** Goes on at the oldest segment. What lay before it and was not read is lost. */
    private void toTrimmed(long before) {
        for (int i = 0; i < TRIES; i++) {
            final long trimmed = file.trimmed();
            if (JournalSegment.readFirst(file, trimmed, walk.record)) {
                if (!isFirst(trimmed)) {
                    passDamage(trimmed, before, "a segment begins with no right check");
                    return;
                }
                if (before >= 0) {
                    lost += Math.max(0, walk.record.count() - before);
                }
                atSegment(trimmed, walk.record.count());
                return;
            }
            if (trimmed == file.trimmed()) {
                file.checkLinked();
                passDamage(trimmed, before, "the segment is missing");
                return;
            }
        }
        throw new DamagedException(cursor, Math.max(cursor, limit()), -1, "segments are removed again and again",
            file.path);
    }

    private boolean isFirst(long base) {
        return walk.record.isCheck(base) || walk.record.isCut(base, segmentSize);
    }

    /** Sets the cursor to the beginning of a segment, whose first record follows. */
    private void atSegment(long base, long count) {
        dropRun();
        cursor = base;
        spanStart = base;
        number = count;
        spanNumber = count;
    }

    // ---- messages ----

    /** Finds the next message, which {@link #message} shows then; false if there is none now. */
    boolean next() {
        while (true) {
            if (cursor < runEnd) {
                final int index = (int) (cursor - runBase);
                final int length = run.getIntAcquire(index); // pairs with: append 5
                if (length == 0) {
                    if (!tail || !isHole(index)) {
                        return false;
                    }
                    continue;
                }
                final int type = run.getInt(index + Layout.RECORD_TYPE);
                if (!JournalRecord.isSound(length, type, cursor & segmentSize - 1, segmentSize)) {
                    throw file.corrupt(cursor, "a record of type " + type + " and " + length + " bytes");
                }
                if (type > 0) {
                    size = JournalRecord.size(length);
                    message.set(run.address() + index + JournalRecord.HEADER, length - JournalRecord.HEADER, type,
                        cursor);
                    message.ofJournal(run.getLong(index + Layout.JOURNAL_RECORD_TIME), number);
                    return true;
                }
                skip(index, length, type);
            } else if (!advance()) {
                return false;
            }
        }
    }

    /** Goes behind the message that next has found. */
    void consume() {
        cursor += size;
        number++;
    }

    /** Goes back in front of it. */
    void putBack() {
        cursor -= size;
        number--;
    }

    /** Passes a record that is no message. */
    private void skip(int index, int length, int type) {
        if (type == Layout.TYPE_PADDING) {
            cursor += JournalRecord.size(length);
            return;
        }
        final JournalRecord record = walk.record.read(run, index);
        if (type == Layout.JOURNAL_TYPE_CUT) {
            followCut(record);
            return;
        }
        if (!record.isCheck(cursor)) {
            throw file.corrupt(cursor, "a check that is not right");
        }
        if (record.count() != number) {
            throw file.corrupt(cursor, "a check counts " + record.count() + " messages, this reader " + number);
        }
        passCheck();
    }

    /** Behind a check: the next span is read cold if its check is written already. */
    private void passCheck() {
        final long at = cursor;
        cursor += JournalRecord.CHECK;
        spanStart = cursor;
        spanNumber = number;
        if (file.checked() > at) {
            leaveTail();
        }
    }

    private void followCut(JournalRecord record) {
        if (!record.isCut(cursor, segmentSize)) {
            throw file.corrupt(cursor, "a cut that is not right");
        }
        if (record.count() != number) {
            throw file.corrupt(cursor, "a cut counts " + record.count() + " messages, this reader " + number);
        }
        cuts++;
        atSegment(record.next(), number);
    }

    /** At a length of 0 in the tail: whether reading goes on, because more was published behind it. */
    private boolean isHole(int index) {
        if (!isPassed()) {
            return false;
        }
        looksLeft = LOOKS_TO_PUBLISHED;
        return run.getIntAcquire(index) != 0 // pairs with: append 5
            || goAround("nothing where a record should be");
    }

    // ---- runs ----

    private void dropRun() {
        leaveTail();
        unmap();
        walk.bytes.forget();
    }

    private void leaveTail() {
        message.invalidate();
        run = Memory.EMPTY;
        runEnd = -1;
        tail = false;
        message.over(Memory.EMPTY);
    }

    private void unmap() {
        if (mapped != null) {
            mapped.close();
            mapped = null;
        }
    }

    /** Brings the next records in reach; false if there are none now. */
    private boolean advance() {
        if (!tail && runEnd >= 0) { // a span was read to its end
            leaveTail();
            cursor = runCheck + JournalRecord.CHECK;
            spanStart = cursor;
            spanNumber = number;
        }
        if (tail) { // at a segment's end
            if (file.published() <= cursor) {
                return false;
            }
            spanStart = cursor;
            spanNumber = number;
            leaveTail();
        }
        final boolean ours = file.isOfBoot();
        final long limit = ours || durable ? limit() : Layout.MAX_POSITION;
        if (durable && limit <= cursor) {
            return false;
        }
        final long known = ours ? limit : file.synced();
        return (spanStart & segmentSize - 1) == 0 ? enterSegment(limit, known) : cold(limit, known);
    }

    /** Enters a segment at its first record, which counts by its own crc: the span before it was read. */
    private boolean enterSegment(long limit, long known) {
        if (limit <= spanStart) {
            return false;
        }
        if (spanStart > known && !isFirstThere()) { // of what lies behind, only a recovery can tell
            return false;
        }
        if (!JournalSegment.readFirst(file, spanStart, walk.record)) {
            return goAround("a segment is missing");
        }
        if (walk.record.isCut(spanStart, segmentSize)) {
            followCut(walk.record);
            return true;
        }
        if (!walk.record.isCheck(spanStart) || walk.record.count() != number) {
            return goAround("a segment begins with no right check");
        }
        cursor = Math.max(cursor, spanStart + JournalRecord.CHECK);
        spanStart += JournalRecord.CHECK;
        return true;
    }

    private boolean isFirstThere() {
        return JournalSegment.readFirst(file, spanStart, walk.record) && isFirst(spanStart)
            && walk.record.count() == number;
    }

    /**
     * Reads the span that begins at spanStart.
     *
     * @param limit up to where there are records.
     * @param known up to where there must be some.
     */
    private boolean cold(long limit, long known) {
        final JournalWalk.Found found = walk.next(spanStart, limit);
        switch (found) {
            case RIGHT -> {
                if (walk.record.count() != spanNumber + walk.messages()) {
                    return goAround("a check counts other messages than there are");
                }
                show();
                return true;
            }
            case CUT -> {
                if (walk.record.count() != number) {
                    return goAround("a cut counts other messages than there are");
                }
                cuts++;
                atSegment(walk.record.next(), number);
                return true;
            }
            default -> {
                walk.bytes.drop(); // what is not proven may change
                if (found == JournalWalk.Found.NOTHING && walk.stopped() >= known) {
                    return !durable && file.isOfBoot() && beginTail();
                }
                if (!file.isOfBoot() && spanStart > known) {
                    return false; // of what lies behind, only a recovery can tell
                }
                return goAround(found == JournalWalk.Found.MISSING ? "a segment is missing"
                    : found == JournalWalk.Found.NOTHING ? "nothing where a record should be"
                    : "the check of a span is not right");
            }
        }
    }

    /** Shows the span that the walk has proven. */
    private void show() {
        final long base = file.segmentOf(spanStart);
        if (mapped != null && mapped.base != base) {
            unmap(); // trim may have removed it
        }
        tail = false;
        runBase = walk.bytes.from();
        runCheck = walk.check();
        runEnd = Math.min(runCheck, base + segmentSize);
        run = walk.bytes.memory();
        message.over(walk.bytes.shown());
    }

    /** Maps the segment at the cursor: the last records have no check yet. */
    private boolean beginTail() {
        final long base = file.segmentOf(cursor);
        if (mapped == null || mapped.base != base) {
            unmap();
            mapped = JournalSegment.open(file, base, true);
            if (mapped == null) {
                return file.published() > cursor && goAround("a segment is missing");
            }
        }
        run = mapped.map(); // if that fails, the cursor still lies in the span that begins at spanStart
        tail = true;
        runBase = base;
        runEnd = base + segmentSize;
        message.over(run);
        return true;
    }

    // ---- what is not there ----

    /**
     * Reading cannot go on at the cursor: trim, or a recovery, may have passed it. Else it is damaged. Returns true if
     * reading goes on elsewhere.
     */
    private boolean goAround(String reason) {
        dropRun(); // also files that are open: they may have been replaced
        final long trimmed = file.trimmed(); // loaded after the segment was not found
        // A cursor at trimmed lies behind the span that ended there: it is gone, and no message of it is missing.
        if (cursor < trimmed || cursor == trimmed && spanStart < trimmed) {
            toTrimmed(number);
            return true;
        }
        file.checkLinked();
        final JournalSeek.Place behind = seek.cutBefore(cursor);
        if (behind != null) {
            arrive(behind);
            return true;
        }
        final long known = known();
        JournalSeek.Place right = seek.rightCheck(Math.max(spanStart, file.segmentOf(cursor)), known);
        while (right != null && right.position() <= cursor) { // it proves only what lies before the cursor
            right = seek.rightCheck(right.position(), known);
        }
        if (!skips) {
            throw right == null ? new DamagedException(cursor, known, -1, reason, file.path)
                : new DamagedException(cursor, right.position() - JournalRecord.CHECK,
                Math.max(0, right.number() - number), reason, file.path);
        }
        if (right == null) {
            stuck = known; // a check that is right may follow
            return false;
        }
        lost += Math.max(0, right.number() - number);
        arrive(right);
        return true;
    }

    @Override
    public void close() {
        dropRun();
        runEnd = -1;
    }
}
